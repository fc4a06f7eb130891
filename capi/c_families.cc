// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of column families.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "capi/open_request.h"
#include "capi/requests.h"

using varve::ColumnFamilyDescriptor;
using varve::ColumnFamilyHandle;
using varve::DB;
using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::capi::Bound;
using varve::capi::Bytes;
using varve::capi::Check;
using varve::capi::CopyBytes;
using varve::capi::Given;
using varve::capi::OpenFamilies;
using varve::capi::OpenRequest;
using varve::capi::OwnFamily;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace {

// Returns a handle of a family of the database of `db`. A null `family` is the
// default one.
varve_column_family_handle_t* NewHandle(varve_t* db,
                                        ColumnFamilyHandle* family) {
  auto* const handle = new varve_column_family_handle_t(db->db, db);
  if (family != nullptr) {
    handle->id = family->GetID();
    handle->name = family->GetName();
    handle->rep.reset(family);
  }
  varve::capi::AddDependent(handle);
  return handle;
}

// Returns an array that varve_free and free release. Null only if memory is
// exhausted.
template <typename T>
T* NewArray(size_t count) {
  return static_cast<T*>(malloc((count > 0 ? count : 1) * sizeof(T)));
}

Status ToFamilies(const OpenRequest& request,
                  std::vector<ColumnFamilyDescriptor>* families) {
  Status status =
      Check(Given{request.options, "options"}, Given{request.name, "name"},
            Given{request.names, "column_family_names"},
            Given{request.family_options, "column_family_options"},
            Given{request.handles, "column_family_handles"});
  for (int i = 0; status.ok() && i < request.count; ++i) {
    status = Check(
        Given{request.names[i], "the name of a column family"},
        Given{request.family_options[i], "the options of a column family"});
    if (!status.ok()) break;
    families->emplace_back(request.names[i],
                           request.family_options[i]->ForUse());
  }
  return status;
}

// Makes an OpenFunction of DB::Open or DB::OpenForReadOnly.
varve::capi::OpenFunction Opening(
    Status (*open)(const varve::DBOptions&, const std::string&,
                   const std::vector<ColumnFamilyDescriptor>&,
                   std::vector<ColumnFamilyHandle*>*, std::unique_ptr<DB>*)) {
  return [open](const varve::DBOptions& options, const std::string& path,
                const std::vector<ColumnFamilyDescriptor>& families,
                std::vector<ColumnFamilyHandle*>* handles, varve_t* db) {
    return open(options, path, families, handles, &db->owned);
  };
}

}  // namespace

namespace varve::capi {

varve_t* OpenDefault(const varve_options_t* options, const char* name,
                     const OpenFunction& open, char** errptr) {
  const char* const family = kDefaultColumnFamilyName;
  varve_column_family_handle_t* handle = nullptr;
  varve_t* const db = OpenFamilies(
      {options, name, 1, &family, &options, &handle}, open, errptr);
  varve_column_family_handle_destroy(handle);
  return db;
}

varve_t* OpenFamilies(const OpenRequest& request, const OpenFunction& open,
                      char** errptr) {
  for (int i = 0; request.handles != nullptr && i < request.count; ++i) {
    request.handles[i] = nullptr;
  }
  std::vector<ColumnFamilyDescriptor> families;
  Status status = ToFamilies(request, &families);
  auto db = std::make_unique<varve_t>();
  std::vector<ColumnFamilyHandle*> opened;
  if (status.ok()) {
    status = open(request.options->ForUse(), request.name, families, &opened,
                  db.get());
  }
  if (SaveError(errptr, status)) return nullptr;
  db->db = db->owned.get();
  for (size_t i = 0; i < opened.size(); ++i) {
    request.handles[i] = NewHandle(db.get(), opened[i]);
  }
  return db.release();
}

}  // namespace varve::capi

extern "C" {

// ---- Families and handles ---------------------------------------------------

varve_t* varve_open_column_families(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr) {
  return OpenFamilies({options, name, num_column_families, column_family_names,
                       column_family_options, column_family_handles},
                      Opening(DB::Open), errptr);
}

varve_t* varve_open_for_read_only_column_families(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr) {
  return OpenFamilies({options, name, num_column_families, column_family_names,
                       column_family_options, column_family_handles},
                      Opening(DB::OpenForReadOnly), errptr);
}

varve_t* varve_open_as_secondary_column_families(
    const varve_options_t* options, const char* name,
    const char* secondary_path, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr) {
  if (!Usable(errptr, Given{secondary_path, "secondary_path"})) return nullptr;
  const std::string second = secondary_path;
  return OpenFamilies(
      {options, name, num_column_families, column_family_names,
       column_family_options, column_family_handles},
      [&second](const varve::DBOptions& db_options, const std::string& path,
                const std::vector<ColumnFamilyDescriptor>& families,
                std::vector<ColumnFamilyHandle*>* handles, varve_t* db) {
        return DB::OpenAsSecondary(db_options, path, second, families, handles,
                                   &db->owned);
      },
      errptr);
}

char** varve_list_column_families(const varve_options_t* options,
                                  const char* name, size_t* lencf,
                                  char** errptr) {
  if (lencf != nullptr) *lencf = 0;
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"},
              Given{lencf, "lencf"})) {
    return nullptr;
  }
  std::vector<std::string> names;
  // Uses no ForUse: the filter policy of the options may not exist any more.
  if (SaveError(errptr, DB::ListColumnFamilies(options->rep, name, &names))) {
    return nullptr;
  }
  char** const list = NewArray<char*>(names.size());
  if (list == nullptr) {
    SaveError(errptr, Status::Aborted("no memory for the names"));
    return nullptr;
  }
  for (size_t i = 0; i < names.size(); ++i) list[i] = CopyBytes(names[i]);
  *lencf = names.size();
  return list;
}

void varve_list_column_families_destroy(char** list, size_t len) {
  if (list == nullptr) return;
  for (size_t i = 0; i < len; ++i) free(list[i]);
  free(list);
}

varve_column_family_handle_t* varve_create_column_family(
    varve_t* db, const varve_options_t* column_family_options,
    const char* column_family_name, char** errptr) {
  if (!Usable(errptr, Given{db, "db"},
              Given{column_family_options, "column_family_options"},
              Given{column_family_name, "column_family_name"})) {
    return nullptr;
  }
  ColumnFamilyHandle* family = nullptr;
  const Status status = db->db->CreateColumnFamily(
      column_family_options->ForUse(), column_family_name, &family);
  return SaveError(errptr, status) ? nullptr : NewHandle(db, family);
}

varve_column_family_handle_t* varve_create_column_family_with_import(
    varve_t* db, const varve_options_t* column_family_options,
    const char* column_family_name, unsigned char move_files,
    const varve_export_import_files_metadata_t* metadata, char** errptr) {
  if (!Usable(errptr, Given{db, "db"},
              Given{column_family_options, "column_family_options"},
              Given{column_family_name, "column_family_name"},
              Given{metadata, "metadata"})) {
    return nullptr;
  }
  ColumnFamilyHandle* family = nullptr;
  const Status status = db->db->CreateColumnFamilyWithImport(
      column_family_options->ForUse(), column_family_name,
      {.move_files = move_files != 0}, metadata->rep, &family);
  return SaveError(errptr, status) ? nullptr : NewHandle(db, family);
}

varve_column_family_handle_t** varve_create_column_families(
    varve_t* db, const varve_options_t* column_family_options,
    int num_column_families, const char* const* column_family_names,
    size_t* lencfs, char** errptr) {
  if (lencfs != nullptr) *lencfs = 0;
  if (!Usable(errptr, Given{db, "db"},
              Given{column_family_options, "column_family_options"},
              Given{column_family_names, "column_family_names"},
              Given{lencfs, "lencfs"})) {
    return nullptr;
  }
  auto** const list = NewArray<varve_column_family_handle_t*>(
      static_cast<size_t>(std::max(num_column_families, 0)));
  if (list == nullptr) {
    SaveError(errptr, Status::Aborted("no memory for the handles"));
    return nullptr;
  }
  std::vector<std::string> names;
  Status unnamed;
  for (int i = 0; i < num_column_families && unnamed.ok(); ++i) {
    unnamed =
        Check(Given{column_family_names[i], "the name of a column family"});
    if (unnamed.ok()) names.emplace_back(column_family_names[i]);
  }
  std::vector<ColumnFamilyHandle*> families;
  const Status status = db->db->CreateColumnFamilies(
      column_family_options->ForUse(), names, &families);
  SaveError(errptr, status.ok() ? unnamed : status);
  for (ColumnFamilyHandle* const family : families) {
    list[*lencfs] = NewHandle(db, family);
    ++*lencfs;
  }
  return list;
}

void varve_create_column_families_destroy(varve_column_family_handle_t** list) {
  free(list);
}

void varve_drop_column_family(varve_t* db, varve_column_family_handle_t* handle,
                              char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, OwnFamily{handle, db, "handle"})) return;
  SaveError(errptr, db->db->DropColumnFamily(handle->rep.get()));
}

varve_column_family_handle_t* varve_get_default_column_family_handle(
    varve_t* db) {
  if (db == nullptr || db->db == varve::capi::ClosedDb()) return nullptr;
  return NewHandle(db, nullptr);
}

void varve_column_family_handle_destroy(varve_column_family_handle_t* handle) {
  if (handle == nullptr) return;
  varve::capi::RemoveDependent(handle);
  delete handle;
}

uint32_t varve_column_family_handle_get_id(
    varve_column_family_handle_t* handle) {
  return handle != nullptr ? handle->id : 0;
}

char* varve_column_family_handle_get_name(varve_column_family_handle_t* handle,
                                          size_t* name_len) {
  if (name_len != nullptr) *name_len = handle ? handle->name.size() : 0;
  return handle != nullptr ? CopyBytes(handle->name) : nullptr;
}

// ---- Writes -----------------------------------------------------------------

void varve_put_cf(varve_t* db, const varve_writeoptions_t* options,
                  varve_column_family_handle_t* column_family, const char* key,
                  size_t keylen, const char* val, size_t vallen,
                  char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"},
              Bytes{val, vallen, "val"})) {
    return;
  }
  SaveError(errptr, db->db->Put(options->rep, column_family->rep.get(),
                                ToSlice(key, keylen), ToSlice(val, vallen)));
}

void varve_delete_cf(varve_t* db, const varve_writeoptions_t* options,
                     varve_column_family_handle_t* column_family,
                     const char* key, size_t keylen, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"})) {
    return;
  }
  SaveError(errptr, db->db->Delete(options->rep, column_family->rep.get(),
                                   ToSlice(key, keylen)));
}

void varve_singledelete_cf(varve_t* db, const varve_writeoptions_t* options,
                           varve_column_family_handle_t* column_family,
                           const char* key, size_t keylen, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"})) {
    return;
  }
  SaveError(errptr, db->db->SingleDelete(options->rep, column_family->rep.get(),
                                         ToSlice(key, keylen)));
}

void varve_delete_range_cf(varve_t* db, const varve_writeoptions_t* options,
                           varve_column_family_handle_t* column_family,
                           const char* start_key, size_t start_key_len,
                           const char* end_key, size_t end_key_len,
                           char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db},
              Bytes{start_key, start_key_len, "start_key"},
              Bytes{end_key, end_key_len, "end_key"})) {
    return;
  }
  SaveError(errptr, db->db->DeleteRange(options->rep, column_family->rep.get(),
                                        ToSlice(start_key, start_key_len),
                                        ToSlice(end_key, end_key_len)));
}

// ---- Reads ------------------------------------------------------------------

char* varve_get_cf(varve_t* db, const varve_readoptions_t* options,
                   varve_column_family_handle_t* column_family, const char* key,
                   size_t keylen, size_t* vallen, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"},
              Given{vallen, "vallen"})) {
    if (vallen != nullptr) *vallen = 0;
    return nullptr;
  }
  PinnableSlice value;
  const Status status = db->db->Get(options->rep, column_family->rep.get(),
                                    ToSlice(key, keylen), &value);
  return varve::capi::TakeValue(status, value, vallen, errptr);
}

varve_pinnableslice_t* varve_get_pinned_cf(
    varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"})) {
    return nullptr;
  }
  auto value = std::make_unique<varve_pinnableslice_t>();
  const Status status = db->db->Get(options->rep, column_family->rep.get(),
                                    ToSlice(key, keylen), &value->rep);
  if (status.ok()) return value.release();
  if (!status.IsNotFound()) SaveError(errptr, status);
  return nullptr;
}

uint8_t varve_get_into_buffer_cf(varve_t* db,
                                 const varve_readoptions_t* options,
                                 varve_column_family_handle_t* column_family,
                                 const char* key, size_t keylen, char* buffer,
                                 size_t buffer_size, size_t* vallen,
                                 uint8_t* found, char** errptr) {
  const varve::capi::Target target = {buffer, buffer_size, vallen, found};
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"},
              Bytes{buffer, buffer_size, "buffer"}, Given{vallen, "vallen"},
              Given{found, "found"})) {
    target.SetNothing();
    return 0;
  }
  PinnableSlice value;
  const Status status = db->db->Get(options->rep, column_family->rep.get(),
                                    ToSlice(key, keylen), &value);
  return target.Store(status, value, errptr);
}

void varve_multi_get_cf(
    varve_t* db, const varve_readoptions_t* options,
    const varve_column_family_handle_t* const* column_families, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs) {
  const varve::capi::ManyReads reads = {
      Given{db, "db"}, options,     num_keys,          keys_list,
      keys_list_sizes, values_list, values_list_sizes, errs};
  std::vector<Slice> keys;
  if (!reads.Prepare(&keys)) return;
  std::vector<ColumnFamilyHandle*> families(num_keys);
  for (size_t i = 0; i < num_keys; ++i) {
    if (errs[i] != nullptr) continue;
    // A key without its family is looked up in the default one, and the result
    // is not used.
    if (Usable(&errs[i], Given{column_families, "column_families"}) &&
        Usable(&errs[i], OwnFamily{column_families[i], db})) {
      families[i] = column_families[i]->rep.get();
    }
  }
  std::vector<PinnableSlice> values(num_keys);
  std::vector<Status> statuses(num_keys);
  db->db->MultiGet(options->rep, num_keys, families.data(), keys.data(),
                   values.data(), statuses.data());
  reads.Finish(values, statuses);
}

// ---- Properties, flushes and compactions ------------------------------------

char* varve_property_value_cf(varve_t* db,
                              varve_column_family_handle_t* column_family,
                              const char* propname) {
  if (!Usable(nullptr, Given{db, "db"}, OwnFamily{column_family, db},
              Given{propname, "propname"})) {
    return nullptr;
  }
  std::string value;
  if (!db->db->GetProperty(column_family->rep.get(), propname, &value)) {
    return nullptr;
  }
  return CopyBytes(value);
}

int varve_property_int_cf(varve_t* db,
                          varve_column_family_handle_t* column_family,
                          const char* propname, uint64_t* out_val) {
  if (!Usable(nullptr, Given{db, "db"}, OwnFamily{column_family, db},
              Given{propname, "propname"}, Given{out_val, "out_val"})) {
    return -1;
  }
  return db->db->GetIntProperty(column_family->rep.get(), propname, out_val)
             ? 0
             : -1;
}

void varve_approximate_sizes_cf(
    varve_t* db, varve_column_family_handle_t* column_family, int num_ranges,
    const char* const* range_start_key, const size_t* range_start_key_len,
    const char* const* range_limit_key, const size_t* range_limit_key_len,
    uint64_t* sizes, char** errptr) {
  if (!Usable(errptr, Given{sizes, "sizes"})) return;
  for (int i = 0; i < num_ranges; ++i) sizes[i] = 0;
  if (!Usable(errptr, Given{db, "db"}, OwnFamily{column_family, db},
              Given{range_start_key, "range_start_key"},
              Given{range_start_key_len, "range_start_key_len"},
              Given{range_limit_key, "range_limit_key"},
              Given{range_limit_key_len, "range_limit_key_len"})) {
    return;
  }
  std::vector<varve::Range> ranges;
  for (int i = 0; i < num_ranges; ++i) {
    if (!Usable(errptr,
                Bytes{range_start_key[i], range_start_key_len[i], "start"},
                Bytes{range_limit_key[i], range_limit_key_len[i], "limit"})) {
      return;
    }
    ranges.push_back({ToSlice(range_start_key[i], range_start_key_len[i]),
                      ToSlice(range_limit_key[i], range_limit_key_len[i])});
  }
  SaveError(errptr,
            db->db->GetApproximateSizes(column_family->rep.get(), ranges.data(),
                                        ranges.size(), sizes));
}

void varve_compact_range_cf(varve_t* db,
                            varve_column_family_handle_t* column_family,
                            const char* start_key, size_t start_key_len,
                            const char* limit_key, size_t limit_key_len) {
  varve_compactoptions_t options;
  // There is no way to return the error; varve_compact_range_cf_opt has one.
  varve_compact_range_cf_opt(db, column_family, &options, start_key,
                             start_key_len, limit_key, limit_key_len, nullptr);
}

void varve_compact_range_cf_opt(varve_t* db,
                                varve_column_family_handle_t* column_family,
                                const varve_compactoptions_t* options,
                                const char* start_key, size_t start_key_len,
                                const char* limit_key, size_t limit_key_len,
                                char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, OwnFamily{column_family, db},
              Given{options, "options"},
              Bound{{start_key, start_key_len, "start_key"}},
              Bound{{limit_key, limit_key_len, "limit_key"}})) {
    return;
  }
  const Slice begin = ToSlice(start_key, start_key_len);
  const Slice end = ToSlice(limit_key, limit_key_len);
  SaveError(errptr,
            db->db->CompactRange(options->rep, column_family->rep.get(),
                                 start_key == nullptr ? nullptr : &begin,
                                 limit_key == nullptr ? nullptr : &end));
}

void varve_flush_cf(varve_t* db, const varve_flushoptions_t* options,
                    varve_column_family_handle_t* column_family,
                    char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db})) {
    return;
  }
  SaveError(errptr, db->db->Flush(options->rep, column_family->rep.get()));
}

void varve_flush_cfs(varve_t* db, const varve_flushoptions_t* options,
                     varve_column_family_handle_t** column_family,
                     int num_column_families, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Given{column_family, "column_family"})) {
    return;
  }
  std::vector<ColumnFamilyHandle*> families;
  for (int i = 0; i < num_column_families; ++i) {
    if (!Usable(errptr, OwnFamily{column_family[i], db})) return;
    families.push_back(column_family[i]->rep.get());
  }
  SaveError(errptr, db->db->Flush(options->rep, families));
}

void varve_set_options_cf(varve_t* db, varve_column_family_handle_t* handle,
                          int count, const char* const keys[],
                          const char* const values[], char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, OwnFamily{handle, db, "handle"})) return;
  std::map<std::string, std::string> changes;
  Status status = varve::capi::ToChanges(count, keys, values, &changes);
  if (status.ok()) status = db->db->SetOptions(handle->rep.get(), changes);
  SaveError(errptr, status);
}

}  // extern "C"
