// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of databases and snapshots that LevelDB has too.

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"

using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::capi::Bound;
using varve::capi::Bytes;
using varve::capi::CopyBytes;
using varve::capi::Given;
using varve::capi::kMaxLength;
using varve::capi::RefuseArguments;
using varve::capi::Replace;
using varve::capi::ReplaceError;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace varve::capi {

void ReplaceError(char** errptr, const Status& status) {
  if (errptr == nullptr) return;
  free(*errptr);
  *errptr = CopyBytes(status.ToString());
}

Status BadArgument(const char* name, const char* problem) {
  return Status::InvalidArgument(std::string(name) + " " + problem);
}

}  // namespace varve::capi

extern "C" {

// ---- Databases --------------------------------------------------------------

varve_t* varve_open(const varve_options_t* options, const char* name,
                    char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"})) {
    return nullptr;
  }
  auto handle = std::make_unique<varve_t>();
  const Status status =
      varve::DB::Open(options->ForUse(), name, &handle->owned);
  if (SaveError(errptr, status)) return nullptr;
  handle->db = handle->owned.get();
  return handle.release();
}

void varve_close(varve_t* db) {
  if (db != nullptr) varve::capi::CloseHandle(db);
}

void varve_put(varve_t* db, const varve_writeoptions_t* options,
               const char* key, size_t keylen, const char* val, size_t vallen,
               char** errptr) {
  if (db == nullptr || options == nullptr || !Replace(&key, keylen) ||
      !Replace(&val, vallen) || (keylen | vallen) > kMaxLength) [[unlikely]] {
    RefuseArguments(errptr, Given{db, "db"}, Given{options, "options"},
                    Bytes{key, keylen, "key"}, Bytes{val, vallen, "val"});
    return;
  }
  SaveError(errptr,
            db->db->Put(options->rep, Slice(key, keylen), Slice(val, vallen)));
}

void varve_delete(varve_t* db, const varve_writeoptions_t* options,
                  const char* key, size_t keylen, char** errptr) {
  if (db == nullptr || options == nullptr || !Replace(&key, keylen) ||
      keylen > kMaxLength) [[unlikely]] {
    RefuseArguments(errptr, Given{db, "db"}, Given{options, "options"},
                    Bytes{key, keylen, "key"});
    return;
  }
  SaveError(errptr, db->db->Delete(options->rep, Slice(key, keylen)));
}

void varve_write(varve_t* db, const varve_writeoptions_t* options,
                 varve_writebatch_t* batch, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Given{batch, "batch"})) {
    return;
  }
  SaveError(errptr, db->db->Write(options->rep, &batch->rep));
}

char* varve_get(varve_t* db, const varve_readoptions_t* options,
                const char* key, size_t keylen, size_t* vallen, char** errptr) {
  if (db == nullptr || options == nullptr || !Replace(&key, keylen) ||
      keylen > kMaxLength || vallen == nullptr) [[unlikely]] {
    RefuseArguments(errptr, Given{db, "db"}, Given{options, "options"},
                    Bytes{key, keylen, "key"}, Given{vallen, "vallen"});
    if (vallen != nullptr) *vallen = 0;
    return nullptr;
  }
  PinnableSlice value;
  const Status status = db->db->Get(options->rep, Slice(key, keylen), &value);
  return varve::capi::TakeValue(status, value, vallen, errptr);
}

char* varve_property_value(varve_t* db, const char* propname) {
  if (!Usable(nullptr, Given{db, "db"}, Given{propname, "propname"})) {
    return nullptr;
  }
  std::string value;
  if (!db->db->GetProperty(propname, &value)) return nullptr;
  return CopyBytes(value);
}

void varve_approximate_sizes(varve_t* db, int num_ranges,
                             const char* const* range_start_key,
                             const size_t* range_start_key_len,
                             const char* const* range_limit_key,
                             const size_t* range_limit_key_len,
                             uint64_t* sizes) {
  if (sizes == nullptr) return;
  const bool usable = Usable(nullptr, Given{db, "db"},
                             Given{range_start_key, "range_start_key"},
                             Given{range_start_key_len, "range_start_key_len"},
                             Given{range_limit_key, "range_limit_key"},
                             Given{range_limit_key_len, "range_limit_key_len"});
  for (int i = 0; i < num_ranges; ++i) {
    sizes[i] = 0;
    if (!usable ||
        !Usable(nullptr,
                Bytes{range_start_key[i], range_start_key_len[i], "start"},
                Bytes{range_limit_key[i], range_limit_key_len[i], "limit"})) {
      continue;
    }
    const varve::Range range = {
        ToSlice(range_start_key[i], range_start_key_len[i]),
        ToSlice(range_limit_key[i], range_limit_key_len[i])};
    // There is no way to return the error.
    if (!db->db->GetApproximateSizes(&range, 1, &sizes[i]).ok()) sizes[i] = 0;
  }
}

void varve_compact_range(varve_t* db, const char* start_key,
                         size_t start_key_len, const char* limit_key,
                         size_t limit_key_len) {
  const varve_compactoptions_t* const options = varve_compactoptions_create();
  // There is no way to return the error; varve_compact_range_opt has one.
  varve_compact_range_opt(db, options, start_key, start_key_len, limit_key,
                          limit_key_len, nullptr);
  varve_compactoptions_destroy(const_cast<varve_compactoptions_t*>(options));
}

void varve_destroy_db(const varve_options_t* options, const char* name,
                      char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"})) return;
  // Uses no ForUse: the filter policy of the options may not exist any more.
  SaveError(errptr, varve::DestroyDB(name, options->rep));
}

void varve_repair_db(const varve_options_t* options, const char* name,
                     char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"})) return;
  SaveError(errptr, varve::RepairDB(name, options->ForUse()));
}

// ---- Snapshots --------------------------------------------------------------

const varve_snapshot_t* varve_create_snapshot(varve_t* db) {
  if (db == nullptr) return nullptr;
  const varve::Snapshot* const snapshot = db->db->GetSnapshot();
  if (snapshot == nullptr) return nullptr;
  return new varve_snapshot_t{snapshot, db->db, varve::capi::OwnerOf(db),
                              false};
}

void varve_release_snapshot(varve_t* /*db*/, const varve_snapshot_t* snapshot) {
  if (snapshot == nullptr || snapshot->borrowed) return;
  varve::capi::LetGo(snapshot->owner, [snapshot] {
    snapshot->db->ReleaseSnapshot(snapshot->rep);
    delete snapshot;
  });
}

}  // extern "C"
