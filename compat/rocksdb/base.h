// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Arguments, results and errors of RocksDB's C functions.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve::rocksdb_c {

// Returns the text that RocksDB gives such an error.
std::string ToText(const Status& status);

// Stores the error's text in *errptr, from malloc, and frees an earlier one. If
// `errptr` is null, the error is lost.
[[gnu::cold, gnu::noinline]] void ReplaceError(char** errptr,
                                               const Status& status);

// Returns whether the status is an error, and stores it in *errptr. Leaves
// *errptr unchanged for success.
inline bool Failed(char** errptr, const Status& status) {
  if (status.ok()) [[likely]]
    return false;
  ReplaceError(errptr, status);
  return true;
}

// Returns "Not implemented: Varve has no <feature>".
inline Status Missing(const char* feature) {
  return Status::NotSupported(std::string("Varve has no ") + feature);
}

// Says in the LOG of the open databases that a function without an error
// argument was called and does nothing. Once for each function. Thread-safety:
// thread-safe.
[[gnu::cold]] void NoteMissing(const char* function, const char* feature);

// Returns a copy from malloc, followed by a zero byte. Returns null only if
// memory is exhausted.
inline char* CopyBytes(const Slice& bytes) {
  auto* const copy = static_cast<char*>(malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

// A pointer that must not be null.
struct Given {
  const void* pointer;
  const char* name;

  bool ok() const { return pointer != nullptr; }
  const char* Problem() const { return "is NULL"; }
};

// Bytes with a length. The pointer may be null if the length is 0. A length
// over PTRDIFF_MAX is a negative number converted to size_t.
struct Bytes {
  const char* data;
  size_t size;
  const char* name;

  bool ok() const {
    if (data == nullptr) [[unlikely]]
      return size == 0;
    return size <= PTRDIFF_MAX;
  }
  const char* Problem() const {
    return data == nullptr ? "is NULL and has a length"
                           : "has a length that is no length of memory";
  }
  // REQUIRES: ok().
  Slice slice() const { return size == 0 ? Slice() : Slice(data, size); }
};

// Stores "Invalid argument: <name> <problem>" in *errptr.
[[gnu::cold, gnu::noinline]] void RefuseArgument(char** errptr,
                                                 const char* name,
                                                 const char* problem);

// Returns whether all arguments are valid. Otherwise the error names the first
// invalid one.
template <typename... Arguments>
bool Usable(char** errptr, const Arguments&... arguments) {
  if ((arguments.ok() && ...)) [[likely]]
    return true;
  const auto refuse = [errptr](const auto& argument) {
    if (argument.ok()) return false;
    RefuseArgument(errptr, argument.name, argument.Problem());
    return true;
  };
  static_cast<void>((refuse(arguments) || ...));
  return false;
}

}  // namespace varve::rocksdb_c
