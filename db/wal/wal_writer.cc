// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_writer.h"

#include <algorithm>

#include "db/wal/wal_format.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve::wal {

namespace {

// The most of it would be in the file, and its end in the buffer, for nothing.
constexpr size_t kLargeRecordBytes = 64 << 10;

}  // namespace

// A place in a record that lies in several parts.
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
  size_t offset_ = 0;  // In the first of parts_.
};

Status Writer::AddRecord(std::span<const Slice> parts) {
  if (!failure_.ok()) [[unlikely]] {
    return failure_;
  }
  Status status = AddFragments(parts);
  if (!status.ok()) [[unlikely]] {
    failure_ = status;
  }
  return status;
}

Status Writer::AddFragments(std::span<const Slice> parts) {
  static constexpr char kZeroes[kHeaderSize] = {};
  size_t left = 0;
  for (const Slice& part : parts) left += part.size();
  const bool flush = !options_.manual_flush || left >= kLargeRecordBytes;
  if (options_.allocate_bytes != 0) AllocateFor(left);
  Cursor cursor(parts);
  bool first = true;
  Status status;
  do {
    const size_t room = kBlockSize - block_offset_;
    if (room < kHeaderSize) {
      status = file_->Append(Slice(kZeroes, room));
      if (!status.ok()) return status;
      block_offset_ = 0;
    }
    const size_t space = kBlockSize - block_offset_ - kHeaderSize;
    const size_t size = left < space ? left : space;
    const bool last = size == left;
    const uint8_t type =
        first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle);
    status = AddFragment(type, &cursor, size);
    if (!status.ok()) return status;
    left -= size;
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

void Writer::AllocateFor(size_t record_size) {
  // Headers take less than a thousandth of a large record.
  const uint64_t end =
      file_->Size() + record_size + record_size / 1024 + 2 * kHeaderSize;
  if (end <= allocated_bytes_) return;
  const uint64_t length =
      std::max(options_.allocate_bytes, end - allocated_bytes_);
  file_->Allocate(allocated_bytes_, length);
  allocated_bytes_ += length;
}

}  // namespace varve::wal
