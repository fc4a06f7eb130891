// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Column families of an open database.
#include "compat/rocksdb/db/families.h"

#include <algorithm>

#include "compat/rocksdb/db/error_texts.h"
#include "compat/rocksdb/db/live_files.h"
#include "compat/rocksdb/options/log.h"
#include "compat/shared/settings.h"

namespace varve::rocksdb_c {

Status Describe(const char* const* names,
                const rocksdb_options_t* const* options, int count,
                const std::string& path,
                std::vector<ColumnFamilyDescriptor>* families) {
  for (int i = 0; i < count; ++i) {
    ColumnFamilyOptions converted;
    Status status = Convert(*options[i], path, &converted);
    if (!status.ok()) return status;
    families->emplace_back(names[i], converted);
  }
  return Status::OK();
}

rocksdb_column_family_handle_t* NewFamily(rocksdb_t* db,
                                          ColumnFamilyHandle* rep) {
  db = db->main;
  auto* const family = new rocksdb_column_family_handle_t;
  family->db = db;
  family->id = rep->GetID();
  family->name = rep->GetName();
  family->rep.reset(rep);
  const std::scoped_lock lock(db->mutex);
  if (family->id == 0) {
    db->default_family = family->rep;
  } else {
    db->families.push_back(family->rep);
  }
  return family;
}

std::vector<std::shared_ptr<ColumnFamilyHandle>> AllFamilies(rocksdb_t* db) {
  std::vector<std::shared_ptr<ColumnFamilyHandle>> all(1);
  const std::scoped_lock lock(db->main->mutex);
  const auto& others = db->main->families;
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

Status FlushAll(const FlushOptions& options, rocksdb_t* db) {
  const auto families = AllFamilies(db);
  std::vector<ColumnFamilyHandle*> handles;
  handles.reserve(families.size());
  for (const auto& family : families) handles.push_back(family.get());
  return db->db->Flush(options, handles);
}

namespace {

// Creates families with the same options, by create(options, &handles). Appends
// the handles of those that were created, also if there is an error.
template <typename Function>
Status CreateFamilies(rocksdb_t* db, const rocksdb_options_t& options,
                      Function create,
                      std::vector<rocksdb_column_family_handle_t*>* families) {
  ColumnFamilyOptions converted;
  Status status = Convert(options, db->path, &converted);
  if (status.ok()) status = compat::Settings::Get().Apply(&converted);
  if (!status.ok()) return status;
  std::vector<ColumnFamilyHandle*> created;
  status = FamilyError(create(converted, &created));
  for (ColumnFamilyHandle* rep : created) {
    families->push_back(NewFamily(db, rep));
    LogFamilyOptions(options, rep->GetName(), db->log.get());
  }
  return status;
}

// The same, with names.
Status CreateFamilies(rocksdb_t* db, const rocksdb_options_t& options,
                      const char* const* names, int count,
                      std::vector<rocksdb_column_family_handle_t*>* families) {
  return CreateFamilies(
      db, options,
      [&](const ColumnFamilyOptions& converted,
          std::vector<ColumnFamilyHandle*>* created) {
        return db->db->CreateColumnFamilies(
            converted, std::vector<std::string>(names, names + count), created);
      },
      families);
}

// Creates one family, by create(options, &handle). Returns null with *errptr
// set on an error.
template <typename Function>
rocksdb_column_family_handle_t* CreateOne(rocksdb_t* db,
                                          const rocksdb_options_t& options,
                                          Function create, char** errptr) {
  std::vector<rocksdb_column_family_handle_t*> created;
  const auto create_all = [&](const ColumnFamilyOptions& converted,
                              std::vector<ColumnFamilyHandle*>* handles) {
    ColumnFamilyHandle* handle = nullptr;
    Status status = create(converted, &handle);
    if (status.ok()) handles->push_back(handle);
    return status;
  };
  return Failed(errptr, CreateFamilies(db, options, create_all, &created))
             ? nullptr
             : created.front();
}

}  // namespace

}  // namespace varve::rocksdb_c

using varve::rocksdb_c::ArrayOf;
using varve::rocksdb_c::CopyBytes;
using varve::rocksdb_c::CreateFamilies;
using varve::rocksdb_c::CreateOne;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyError;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_column_family_handle_t* rocksdb_create_column_family(
    rocksdb_t* db, const rocksdb_options_t* column_family_options,
    const char* column_family_name, char** errptr) {
  if (!Usable(errptr, Open{db},
              Given{column_family_options, "column_family_options"},
              Given{column_family_name, "column_family_name"})) {
    return nullptr;
  }
  std::vector<rocksdb_column_family_handle_t*> created;
  if (Failed(errptr, CreateFamilies(db, *column_family_options,
                                    &column_family_name, 1, &created))) {
    return nullptr;
  }
  return created.front();
}

rocksdb_column_family_handle_t* rocksdb_create_column_family_with_ttl(
    rocksdb_t* db, const rocksdb_options_t* column_family_options,
    const char* column_family_name, int ttl, char** errptr) {
  if (!Usable(errptr, Open{db},
              Given{column_family_options, "column_family_options"},
              Given{column_family_name, "column_family_name"})) {
    return nullptr;
  }
  if (db->with_ttl == nullptr) {
    Failed(errptr, varve::Status::InvalidArgument(
                       "the database was not opened with a time to live"));
    return nullptr;
  }
  return CreateOne(
      db, *column_family_options,
      [&](const varve::ColumnFamilyOptions& converted,
          varve::ColumnFamilyHandle** handle) {
        return db->with_ttl->CreateColumnFamilyWithTtl(
            converted, column_family_name, handle, ttl);
      },
      errptr);
}

rocksdb_column_family_handle_t* rocksdb_create_column_family_with_import(
    rocksdb_t* db, rocksdb_options_t* column_family_options,
    const char* column_family_name,
    rocksdb_import_column_family_options_t* import_options,
    rocksdb_export_import_files_metadata_t* metadata, char** errptr) {
  if (!Usable(errptr, Open{db},
              Given{column_family_options, "column_family_options"},
              Given{column_family_name, "column_family_name"},
              Given{import_options, "import_options"},
              Given{metadata, "metadata"})) {
    return nullptr;
  }
  return CreateOne(
      db, *column_family_options,
      [&](const varve::ColumnFamilyOptions& converted,
          varve::ColumnFamilyHandle** handle) {
        return db->db->CreateColumnFamilyWithImport(
            converted, column_family_name,
            {.move_files = import_options->move_files != 0}, metadata->rep,
            handle);
      },
      errptr);
}

rocksdb_column_family_handle_t** rocksdb_create_column_families(
    rocksdb_t* db, const rocksdb_options_t* column_family_options,
    int num_column_families, const char* const* column_family_names,
    size_t* lencfs, char** errptr) {
  if (lencfs != nullptr) *lencfs = 0;
  if (!Usable(errptr, Open{db},
              Given{column_family_options, "column_family_options"},
              ArrayOf<const char*>{column_family_names, num_column_families,
                                   "column_family_names"},
              Given{lencfs, "lencfs"})) {
    return nullptr;
  }
  std::vector<rocksdb_column_family_handle_t*> created;
  Failed(errptr, CreateFamilies(db, *column_family_options, column_family_names,
                                num_column_families, &created));
  *lencfs = created.size();
  // Never null, also without entries.
  auto** const list = static_cast<rocksdb_column_family_handle_t**>(
      malloc((created.size() + 1) * sizeof(created[0])));
  std::copy(created.begin(), created.end(), list);
  return list;
}

void rocksdb_create_column_families_destroy(
    rocksdb_column_family_handle_t** list) {
  free(list);
}

void rocksdb_drop_column_family(rocksdb_t* db,
                                rocksdb_column_family_handle_t* handle,
                                char** errptr) {
  if (!Usable(errptr, Open{db}, FamilyOf{handle, db})) return;
  if (Failed(errptr,
             FamilyError(db->db->DropColumnFamily(handle->rep.get())))) {
    return;
  }
  const std::scoped_lock lock(db->main->mutex);
  std::erase(db->main->families, handle->rep);
}

rocksdb_column_family_handle_t* rocksdb_get_default_column_family_handle(
    rocksdb_t* db) {
  if (!Open{db}.ok()) return nullptr;
  auto* const family = new rocksdb_column_family_handle_t;
  family->db = db->main;
  family->rep = db->main->default_family;
  return family;
}

void rocksdb_column_family_handle_destroy(
    rocksdb_column_family_handle_t* handle) {
  delete handle;
}

uint32_t rocksdb_column_family_handle_get_id(
    rocksdb_column_family_handle_t* handle) {
  return handle != nullptr ? handle->id : 0;
}

char* rocksdb_column_family_handle_get_name(
    rocksdb_column_family_handle_t* handle, size_t* name_len) {
  if (name_len != nullptr) *name_len = 0;
  if (handle == nullptr || name_len == nullptr) return nullptr;
  *name_len = handle->name.size();
  return CopyBytes(handle->name);
}

}  // extern "C"
