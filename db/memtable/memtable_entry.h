// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An entry of a memtable: bytes that never change once they are inserted, a
// length-prefixed internal key and behind it a length-prefixed value. Entries
// are named by the address of their first byte.
//
// The kEntryOwnerBytes right before that address, a multiple of as many, are
// the memtable's own: the structures that order entries neither set nor read
// them.

#include <cstddef>
#include <cstdint>

#include "util/bytes/coding.h"
#include "varve/slice.h"

namespace varve {

constexpr size_t kEntryOwnerBytes = 8;

inline Slice EntryKey(const char* entry) {
  uint32_t length = 0;
  const char* data = GetVarint32Ptr(entry, entry + kMaxVarint32Bytes, &length);
  return Slice(data, length);
}
// `key` is EntryKey of the entry.
inline Slice EntryValue(const Slice& key) { return EntryKey(key.end()); }

}  // namespace varve
