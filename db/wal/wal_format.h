// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The framing of write-ahead logs and MANIFESTs, in RocksDB's format. A file is
// a sequence of blocks of 32 KiB. A record is one physical record, or several
// that are its fragments. A physical record never crosses a block boundary. Its
// header has a u32 masked CRC-32C of the bytes after the length field, a u16
// length, and a u8 type. Recyclable types also have a u32, the low bits of the
// log's number. The rest of a block that cannot hold a header is zero.

#include <cstddef>
#include <cstdint>

namespace varve::wal {

constexpr size_t kBlockSize = 32768;
constexpr size_t kHeaderSize = 7;
constexpr size_t kRecyclableHeaderSize = 11;

// Stored on disk: must not be renumbered.
enum RecordType : uint8_t {
  kZero = 0,  // Preallocated space.
  kFull = 1,
  kFirst = 2,
  kMiddle = 3,
  kLast = 4,
  kRecyclableFull = 5,
  kRecyclableFirst = 6,
  kRecyclableMiddle = 7,
  kRecyclableLast = 8,
  kSetCompression = 9,
  kUserTimestampSize = 10,
  kRecyclableUserTimestampSize = 11,
  kPredecessorLog = 130,
  kRecyclablePredecessorLog = 131,
};

}  // namespace varve::wal
