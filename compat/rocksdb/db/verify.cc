// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The identity and the integrity of a database.

#include <string>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"

using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Ready;
using varve::rocksdb_c::Usable;

extern "C" {

char* rocksdb_get_db_identity(rocksdb_t* db, size_t* id_len) {
  if (id_len != nullptr) *id_len = 0;
  if (!Open{db}.ok() || id_len == nullptr) return nullptr;
  std::string identity;
  if (!varve::ReadFileToString(db->env, db->path + "/IDENTITY", &identity)
           .ok()) {
    return nullptr;
  }
  if (identity.ends_with('\n')) identity.pop_back();
  *id_len = identity.size();
  return varve::rocksdb_c::CopyBytes(identity);
}

void rocksdb_verify_checksum(rocksdb_t* db, char** errptr) {
  if (!Usable(errptr, Open{db})) return;
  Failed(errptr, db->db->VerifyChecksum());
}

void rocksdb_verify_checksum_with_options(rocksdb_t* db,
                                          const rocksdb_readoptions_t* options,
                                          char** errptr) {
  if (!Ready(errptr, db, options)) return;
  Failed(errptr, db->db->VerifyChecksum());
}

}  // extern "C"
