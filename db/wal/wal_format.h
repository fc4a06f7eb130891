// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The framing that write-ahead logs and MANIFESTs share: a file is a run of
// blocks of 32 KiB; a record is one physical record, or several that are its
// fragments; a physical record never crosses a block. Its header: u32 masked
// CRC-32C of what follows the length, u16 length, u8 type; for recyclable
// types also u32, the low bits of the log's number. The rest of a block that
// cannot hold a header is zero.

#include <cstddef>
#include <cstdint>

namespace varve::wal {

constexpr size_t kBlockSize = 32768;
constexpr size_t kHeaderSize = 7;
constexpr size_t kRecyclableHeaderSize = 11;

// On disk: do not renumber.
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
