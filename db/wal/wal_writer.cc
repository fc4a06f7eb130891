// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_writer.h"

#include <algorithm>

#include "db/wal/wal_format.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve::wal {

namespace {

// A record of at least this size is flushed despite manual_flush. Most of it
// would be in the file anyway, and only its end in the buffer.
constexpr size_t kLargeRecordBytes = 64 << 10;

}  // namespace

// A position in a record that consists of several parts.
class Writer::Cursor {
 public:
  explicit Cursor(std::span<const Slice> parts) : parts_(parts) {}

  // Calls `function` with the next `size` bytes, piece by piece, until it
  // returns false.
  template <typename Function>
  void Take(size_t size, Function function) {
    while (size > 0) {
      const Slice& part = parts_.front();
      const size_t length = std::min(size, part.size() - offset_);
      if (length > 0 && !function(Slice(part.data() + offset_, length))) return;
      size -= length;
      offset_ += length;
      if (offset_ == part.size()) {
        parts_ = parts_.subspan(1);
        offset_ = 0;
      }
    }
  }

 private:
  std::span<const Slice> parts_;
  size_t offset_ = 0;  // In the first part.
};

Status Writer::AddRecord(std::span<const Slice> parts, bool may_use_reserve) {
  if (!failure_.ok()) [[unlikely]] {
    return failure_;
  }
  size_t size = 0;
  for (const Slice& part : parts) size += part.size();
  if (options_.allocate_bytes != 0) {
    Status status = AllocateFor(size, may_use_reserve);
    if (!status.ok()) [[unlikely]] {
      return status;
    }
  }
  Status status = AddFragments(parts, size);
  if (!status.ok()) [[unlikely]] {
    failure_ = status;
  }
  return status;
}

Status Writer::AddFragments(std::span<const Slice> parts, size_t size) {
  static constexpr char kZeroes[kHeaderSize] = {};
  size_t left = size;
  const bool flush = !options_.manual_flush || left >= kLargeRecordBytes;
  Cursor cursor(parts);
  bool first = true;
  Status status;
  do {
    const size_t rest = kBlockSize - block_offset_;
    if (rest < kHeaderSize) {
      status = file_->Append(Slice(kZeroes, rest));
      if (!status.ok()) return status;
      block_offset_ = 0;
    }
    const size_t space = kBlockSize - block_offset_ - kHeaderSize;
    const size_t piece = left < space ? left : space;
    const bool last = piece == left;
    const uint8_t type =
        first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle);
    status = AddFragment(type, &cursor, piece);
    if (!status.ok()) return status;
    left -= piece;
    first = false;
  } while (left > 0);
  return flush ? file_->Flush() : status;
}

Status Writer::AddFragment(uint8_t type, Cursor* cursor, size_t size) {
  char header[kHeaderSize];
  header[6] = static_cast<char>(type);
  uint32_t crc = Crc32c(header + 6, 1);
  Cursor(*cursor).Take(size, [&crc](const Slice& piece) {
    crc = Crc32cExtend(crc, piece.data(), piece.size());
    return true;
  });
  EncodeFixed32(header, MaskCrc(crc));
  header[4] = static_cast<char>(size & 0xFF);
  header[5] = static_cast<char>(size >> 8);
  Status status = file_->Append(Slice(header, kHeaderSize));
  if (!status.ok()) return status;
  cursor->Take(size, [&](const Slice& piece) {
    status = file_->Append(piece);
    return status.ok();
  });
  block_offset_ += kHeaderSize + size;
  return status;
}

Status Writer::AllocateFor(size_t record_size, bool may_use_reserve) {
  // Headers add less than a thousandth to a large record.
  uint64_t end =
      file_->Size() + record_size + record_size / 1024 + 2 * kHeaderSize;
  if (!may_use_reserve) end += options_.reserve_bytes;
  if (end <= allocated_bytes_) [[likely]] {
    return Status::OK();
  }
  return Allocate(end);
}

Status Writer::Allocate(uint64_t end) {
  const uint64_t needed = end - allocated_bytes_;
  uint64_t length = std::max(options_.allocate_bytes, needed);
  Status status = file_->Reserve(allocated_bytes_, length);
  if (status.IsNoSpace() && length > needed) {
    length = needed;
    status = file_->Reserve(allocated_bytes_, length);
  }
  if (status.ok()) allocated_bytes_ += length;
  return status;
}

}  // namespace varve::wal
