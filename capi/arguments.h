// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checks the arguments of C functions: pointers that must not be null, and
// bytes with their length.

#include <cstddef>

#include "capi/handles.h"
#include "varve/slice.h"

namespace varve::capi {

// The maximum length of memory. A larger length is a negative number converted
// to size_t.
constexpr size_t kMaxLength = PTRDIFF_MAX;
// Maximum entries of an array. A larger number is a negative one converted to
// size_t.
template <typename T>
constexpr size_t kMaxEntries = kMaxLength / sizeof(T);

// A pointer that must not be null.
struct Given {
  const void* pointer;
  const char* name;

  bool ok() const { return pointer != nullptr; }
  const char* Problem() const { return "is NULL"; }
};

// Bytes with a length. The pointer may be null if the length is 0.
struct Bytes {
  const char* data;
  size_t size;
  const char* name;

  bool ok() const {
    if (data == nullptr) [[unlikely]]
      return size == 0;
    return size <= kMaxLength;
  }
  const char* Problem() const {
    return data == nullptr ? "is NULL and has a length"
                           : "has a length that is no length of memory";
  }
};

// Bytes of a key bound. A null pointer means the first or the last key.
struct Bound : Bytes {
  bool ok() const { return data == nullptr || size <= kMaxLength; }
};

// A handle of a column family of `db`. Also refuses handles that were left over
// by a closed database.
struct OwnFamily {
  const varve_column_family_handle_t* family;
  const varve_t* db;
  const char* name = "column_family";

  bool ok() const {
    return family != nullptr && (db == nullptr || family->db == db->db);
  }
  const char* Problem() const {
    return family == nullptr ? "is NULL"
                             : "is of another database, or of a closed one";
  }
};

// Returns InvalidArgument that names the argument.
Status BadArgument(const char* name, const char* problem);

// Returns InvalidArgument that names the first invalid argument, if any.
template <typename... Arguments>
Status Check(Arguments... arguments) {
  Status status;
  const auto look = [&status](const auto& argument) {
    if (status.ok() && !argument.ok()) {
      status = BadArgument(argument.name, argument.Problem());
    }
  };
  (look(arguments), ...);
  return status;
}

template <typename... Arguments>
[[gnu::cold, gnu::noinline]] void RefuseArguments(char** errptr,
                                                  Arguments... arguments) {
  ReplaceError(errptr, Check(arguments...));
}

// Returns whether all arguments are valid. Otherwise the error names the first
// invalid one.
template <typename... Arguments>
bool Usable(char** errptr, Arguments... arguments) {
  if ((arguments.ok() && ...)) [[likely]]
    return true;
  RefuseArguments(errptr, arguments...);
  return false;
}

// Bytes{...}.ok() for frequent calls. Replaces a null pointer without bytes.
// The caller compares the size with kMaxLength.
inline bool Replace(const char** data, size_t size) {
  if (*data != nullptr) [[likely]]
    return true;
  if (size != 0) return false;
  *data = "";
  return true;
}

// Returns the bytes as a Slice. `data` may be null if there are no bytes.
// REQUIRES: Bytes{...}.ok().
inline Slice ToSlice(const char* data, size_t size) {
  return size == 0 ? Slice() : Slice(data, size);
}

// Returns bytes for a WriteBatch. If they are invalid, the batch is rejected
// when it is written.
inline Slice ToUpdate(const char* data, size_t size) {
  return data != nullptr ? Slice(data, size)
                         : Slice("", size == 0 ? 0 : SIZE_MAX);
}

}  // namespace varve::capi
