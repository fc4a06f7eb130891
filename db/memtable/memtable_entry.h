// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A memtable entry is a length-prefixed internal key, followed by a
// length-prefixed value. Its bytes never change after the insert. The address
// of its first byte identifies an entry.
//
// That address is a multiple of kEntryOwnerBytes. The kEntryOwnerBytes directly
// before it belong to the memtable. The structures that order entries neither
// write nor read them.

#include <cstddef>
#include <cstdint>

#include "util/bytes/coding.h"
#include "varve/slice.h"

namespace varve {

constexpr size_t kEntryOwnerBytes = 8;

// Returns the internal key of the entry.
inline Slice EntryKey(const char* entry) {
  uint32_t length = 0;
  const char* data = GetVarint32Ptr(entry, entry + kMaxVarint32Bytes, &length);
  return Slice(data, length);
}
// Returns the value of the entry whose EntryKey is `key`.
inline Slice EntryValue(const Slice& key) { return EntryKey(key.end()); }

}  // namespace varve
