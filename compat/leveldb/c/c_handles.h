// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The handles of LevelDB's C interface, and the bytes and errors that it
// returns.

#include <cstdlib>
#include <cstring>
#include <string>

#include "compat/leveldb/abi.h"

struct leveldb_cache_t;
struct leveldb_comparator_t;
struct leveldb_env_t;
struct leveldb_filterpolicy_t;
struct leveldb_iterator_t;
struct leveldb_logger_t;
struct leveldb_options_t;
struct leveldb_readoptions_t;
struct leveldb_snapshot_t;
struct leveldb_t;
struct leveldb_writebatch_t;
struct leveldb_writeoptions_t;

namespace varve::compat {

// ToObject(handle) and ToHandle(object) convert between a handle and the object
// that it is. Null gives null.
#define VARVE_LEVELDB_HANDLE(Handle, Object)            \
  inline Object* ToObject(Handle* handle) {             \
    return reinterpret_cast<Object*>(handle);           \
  }                                                     \
  inline const Object* ToObject(const Handle* handle) { \
    return reinterpret_cast<const Object*>(handle);     \
  }                                                     \
  inline Handle* ToHandle(Object* object) {             \
    return reinterpret_cast<Handle*>(object);           \
  }                                                     \
  inline const Handle* ToHandle(const Object* object) { \
    return reinterpret_cast<const Handle*>(object);     \
  }
VARVE_LEVELDB_HANDLE(leveldb_cache_t, leveldb::Cache)
VARVE_LEVELDB_HANDLE(leveldb_comparator_t, leveldb::Comparator)
VARVE_LEVELDB_HANDLE(leveldb_env_t, leveldb::Env)
VARVE_LEVELDB_HANDLE(leveldb_filterpolicy_t, leveldb::FilterPolicy)
VARVE_LEVELDB_HANDLE(leveldb_iterator_t, leveldb::Iterator)
VARVE_LEVELDB_HANDLE(leveldb_logger_t, leveldb::Logger)
VARVE_LEVELDB_HANDLE(leveldb_options_t, leveldb::Options)
VARVE_LEVELDB_HANDLE(leveldb_readoptions_t, leveldb::ReadOptions)
VARVE_LEVELDB_HANDLE(leveldb_snapshot_t, leveldb::Snapshot)
VARVE_LEVELDB_HANDLE(leveldb_t, leveldb::DB)
VARVE_LEVELDB_HANDLE(leveldb_writebatch_t, leveldb::WriteBatch)
VARVE_LEVELDB_HANDLE(leveldb_writeoptions_t, leveldb::WriteOptions)
#undef VARVE_LEVELDB_HANDLE

// Returns a copy from malloc, which the program frees. Not null if `size` is 0.
inline char* CopyBytes(const char* data, size_t size) {
  auto* copy = static_cast<char*>(malloc(size > 0 ? size : 1));
  if (size > 0 && copy != nullptr) memcpy(copy, data, size);
  return copy;
}
inline char* CopyText(const std::string& text) {
  return CopyBytes(text.c_str(), text.size() + 1);
}

// Replaces *errptr by the text of an error. Leaves it unchanged for success.
inline void SaveError(char** errptr, const leveldb::Status& status) {
  if (status.ok() || errptr == nullptr) return;
  free(*errptr);
  *errptr = CopyText(status.ToString());
}

}  // namespace varve::compat
