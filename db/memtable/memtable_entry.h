// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A memtable entry is a length-prefixed internal key, followed by a
// length-prefixed value. Its bytes never change once a reader can know it. The
// address of its first byte identifies an entry, and so does its position in
// the arena (util/bytes/arena.h).
//
// A deletion's value is empty, and one more byte follows it, the *mark*. It is
// 1 if the next entry in order was an older version of the same user key when
// the deletion was inserted. Only other versions of that key can come between
// the two, and nothing is removed. So the mark stays true, and a reader that
// sees the deletion can pass the next entry without reading it. Values take
// memory in proportion, and reading one costs a cache miss.

#include <cstddef>
#include <cstdint>

#include "util/bytes/coding.h"
#include "varve/slice.h"

namespace varve {

// Returns a length-prefixed string of 128 bytes or more.
Slice LongEntryPart(const char* part);
// Returns the internal key of the entry.
inline Slice EntryKey(const char* entry) {
  const auto length = static_cast<unsigned char>(*entry);
  return length < 0x80 ? Slice(entry + 1, length) : LongEntryPart(entry);
}
// Returns the value of the entry whose EntryKey is `key`.
inline Slice EntryValue(const Slice& key) { return EntryKey(key.end()); }

constexpr size_t kDeletionMarkBytes = 1;
// Returns whether the next entry in order is known to be an older version of
// the deletion whose EntryKey is `key`.
inline bool DeletionHidesNext(const Slice& key) {
  return key.end()[0] == 0 && key.end()[1] != 0;
}

}  // namespace varve
