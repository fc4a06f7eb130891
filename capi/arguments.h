// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Arguments of C functions, and whether they can be used at all: a pointer that
// must not be null, or bytes with their length.

#include <cstddef>

#include "capi/handles.h"
#include "varve/slice.h"

namespace varve::capi {

// More bytes than a program can have in one place. A length above is a negative
// number that was made a size_t.
constexpr size_t kMaxLength = PTRDIFF_MAX;

// A pointer that must not be null.
struct Given {
  const void* pointer;
  const char* name;

  bool ok() const { return pointer != nullptr; }
  const char* Problem() const { return "is NULL"; }
};

// Bytes. The pointer may be null if there are none.
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

// The same, where null stands for the first or the last key.
struct Bound : Bytes {
  bool ok() const { return data == nullptr || size <= kMaxLength; }
};

// InvalidArgument that names the argument.
Status BadArgument(const char* name, const char* problem);

template <typename... Arguments>
[[gnu::cold, gnu::noinline]] void RefuseArguments(char** errptr,
                                                  Arguments... arguments) {
  Status status;
  const auto look = [&status](const auto& argument) {
    if (status.ok() && !argument.ok()) {
      status = BadArgument(argument.name, argument.Problem());
    }
  };
  (look(arguments), ...);
  ReplaceError(errptr, status);
}

// Whether all can be used. Else the error names the first that cannot.
template <typename... Arguments>
bool Usable(char** errptr, Arguments... arguments) {
  if ((arguments.ok() && ...)) [[likely]]
    return true;
  RefuseArguments(errptr, arguments...);
  return false;
}

// Bytes{...}.ok() for the calls that are made most: a null pointer without
// bytes is replaced. The caller compares the size with kMaxLength.
inline bool Replace(const char** data, size_t size) {
  if (*data != nullptr) [[likely]]
    return true;
  if (size != 0) return false;
  *data = "";
  return true;
}

// `data` may be null if there are no bytes. REQUIRES: Bytes{...}.ok().
inline Slice ToSlice(const char* data, size_t size) {
  return size == 0 ? Slice() : Slice(data, size);
}

// Bytes for a WriteBatch, which refuses them when it is written if they cannot
// be used.
inline Slice ToUpdate(const char* data, size_t size) {
  return data != nullptr ? Slice(data, size)
                         : Slice("", size == 0 ? 0 : SIZE_MAX);
}

}  // namespace varve::capi
