// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/base.h"

#include <rocksdb/c.h>

#include <mutex>
#include <set>

#include "compat/rocksdb/generated.h"
#include "compat/rocksdb/options/log.h"

namespace varve::rocksdb_c {

void ReplaceError(char** errptr, const Status& status) {
  if (errptr == nullptr) return;
  free(*errptr);
  *errptr = CopyBytes(ToText(status));
}

void NoteMissing(const char* function, const char* feature) {
  // Never destroyed: a program can call functions while it ends.
  static auto* const mutex = new std::mutex;
  static auto* const noted = new std::set<std::string>;
  {
    const std::lock_guard lock(*mutex);
    if (noted->contains(function)) return;
  }
  // Without the lock, since the program's logger can call functions.
  const std::string line =
      std::string(function) + " does nothing: Varve has no " + feature;
  if (!LogToOpenDatabases(line)) return;
  const std::lock_guard lock(*mutex);
  noted->insert(function);
}

void RefuseArgument(char** errptr, const char* name, const char* problem) {
  ReplaceError(errptr,
               Status::InvalidArgument(std::string(name) + " " + problem));
}

void SetErrors(char** errors, size_t count, const char* feature) {
  if (errors == nullptr) return;
  const std::string text = ToText(Missing(feature));
  for (size_t i = 0; i < count; i++) errors[i] = CopyBytes(text);
}

}  // namespace varve::rocksdb_c

void rocksdb_free(void* ptr) { free(ptr); }
