// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Keys and values of updates as arguments: in one piece, or in parts.

#include <cstddef>
#include <cstdint>
#include <string>

#include "compat/rocksdb/base.h"

namespace varve::rocksdb_c {

// The parts of a key or value.
struct Parts {
  int count;
  const char* const* data;
  const size_t* sizes;
  const char* name;

  bool ok() const {
    if (count == 0) return true;
    if (count < 0 || data == nullptr || sizes == nullptr) return false;
    size_t size = 0;
    for (int i = 0; i < count; ++i) {
      if (!Bytes{data[i], sizes[i], name}.ok()) return false;
      if (sizes[i] > PTRDIFF_MAX - size) return false;
      size += sizes[i];
    }
    return true;
  }
  const char* Problem() const { return "is NULL or has a wrong length"; }
};

// Return the bytes of an argument. REQUIRES: ok().
inline Slice Whole(const Bytes& bytes) { return bytes.slice(); }
inline std::string Whole(const Parts& parts) {
  std::string joined;
  for (int i = 0; i < parts.count; ++i) {
    if (parts.sizes[i] != 0) joined.append(parts.data[i], parts.sizes[i]);
  }
  return joined;
}

}  // namespace varve::rocksdb_c
