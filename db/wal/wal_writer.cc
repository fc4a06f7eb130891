// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "db/wal/wal_format.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve::wal {

namespace {

// A record of at least this size is flushed despite manual_flush. Most of it
// would be in the file anyway, and only its end in the buffer.
constexpr size_t kLargeRecordBytes = 64 << 10;

// The checksum covers the type and then the bytes.
constexpr uint32_t kTypeCrcs[] = {Crc32cOfByte(0), Crc32cOfByte(kFull),
                                  Crc32cOfByte(kFirst), Crc32cOfByte(kMiddle),
                                  Crc32cOfByte(kLast)};
static_assert(kFull == 1 && kFirst == 2 && kMiddle == 3 && kLast == 4);

// Fragments of a record that go to the file by one call. They hold 1 MiB.
constexpr size_t kFragmentsOfCall = 34;

// Writes the header of a fragment with `size` bytes.
[[gnu::always_inline]] inline void FillHeader(uint8_t type, size_t size,
                                              std::span<const Slice> pieces,
                                              char* header) {
  header[6] = static_cast<char>(type);
  uint32_t crc = kTypeCrcs[type];
  for (const Slice& piece : pieces) {
    crc = Crc32cExtend(crc, piece.data(), piece.size());
  }
  EncodeFixed32(header, MaskCrc(crc));
  header[4] = static_cast<char>(size & 0xFF);
  header[5] = static_cast<char>(size >> 8);
}

}  // namespace

// A position in a record that consists of several parts.
class Writer::Cursor {
 public:
  explicit Cursor(std::span<const Slice> parts) : parts_(parts) {}

  // Adds the next `size` bytes to the pieces.
  void Take(size_t size, std::vector<Slice>* pieces) {
    while (size > 0) {
      const Slice& part = parts_.front();
      const size_t length = std::min(size, part.size() - offset_);
      if (length > 0) pieces->emplace_back(part.data() + offset_, length);
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
  if (failed()) [[unlikely]] {
    return error_.status();
  }
  size_t size = 0;
  for (const Slice& part : parts) size += part.size();
  if (options_.allocate_bytes != 0) {
    Status status = AllocateFor(size, may_use_reserve);
    if (!status.ok()) [[unlikely]] {
      return status;
    }
  }
  const bool flush = !options_.manual_flush || size >= kLargeRecordBytes;
  Status status;
  if (size + kHeaderSize <= kBlockSize - block_offset_) [[likely]] {
    if (parts.size() == 1) [[likely]] {
      Slice pieces[] = {Slice(), parts.front()};
      status = AddWhole(pieces, size, flush);
    } else {
      pieces_.resize(1 + parts.size());
      std::copy(parts.begin(), parts.end(), pieces_.begin() + 1);
      status = AddWhole(pieces_, size, flush);
    }
  } else {
    status = AddFragments(parts, size, flush);
  }
  return Keep(std::move(status));
}

Status Writer::AddFragments(std::span<const Slice> parts, size_t size,
                            bool flush) {
  static constexpr char kZeroes[kHeaderSize] = {};
  std::array<std::array<char, kHeaderSize>, kFragmentsOfCall> headers;
  size_t fragments = 0;
  // After the fragments that are not written yet. Only what is written counts
  // as the log's size, also after an error.
  size_t block_offset = block_offset_;
  uint64_t file_size = size_;
  size_t left = size;
  Cursor cursor(parts);
  bool first = true;
  pieces_.clear();
  do {
    const size_t rest = kBlockSize - block_offset;
    if (rest < kHeaderSize) {
      if (rest > 0) pieces_.emplace_back(kZeroes, rest);
      file_size += rest;
      block_offset = 0;
    }
    const size_t space = kBlockSize - block_offset - kHeaderSize;
    const size_t piece = left < space ? left : space;
    const bool last = piece == left;
    const uint8_t type =
        first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle);
    const size_t at = pieces_.size();
    char* const header = headers[fragments++].data();
    pieces_.emplace_back(header, kHeaderSize);
    cursor.Take(piece, &pieces_);
    FillHeader(type, piece, std::span(pieces_).subspan(at + 1), header);
    block_offset += kHeaderSize + piece;
    file_size += kHeaderSize + piece;
    left -= piece;
    first = false;
    if (!last && fragments < kFragmentsOfCall) continue;
    Status status =
        file_->AppendParts(pieces_.data(), pieces_.size(), flush && last);
    if (!status.ok()) return status;
    block_offset_ = block_offset;
    size_ = file_size;
    fragments = 0;
    pieces_.clear();
  } while (left > 0);
  return Status::OK();
}

Status Writer::AddWhole(std::span<Slice> pieces, size_t size, bool flush) {
  char header[kHeaderSize];
  FillHeader(kFull, size, pieces.subspan(1), header);
  pieces[0] = Slice(header, kHeaderSize);
  Status status;
  if (!file_->TryStore(pieces.data(), pieces.size())) {
    status = file_->AppendParts(pieces.data(), pieces.size(), flush);
  }
  if (status.ok()) {
    block_offset_ += kHeaderSize + size;
    size_ += kHeaderSize + size;
  }
  return status;
}

Status Writer::AllocateFor(size_t record_size, bool may_use_reserve) {
  // Headers add less than a thousandth to a large record.
  uint64_t end = size_ + record_size + record_size / 1024 + 2 * kHeaderSize;
  if (!may_use_reserve) end += options_.reserve_bytes;
  if (end <= allocated_bytes_) [[likely]] {
    return Status::OK();
  }
  return Allocate(end, record_size);
}

Status Writer::Allocate(uint64_t end, size_t record_size) {
  const uint64_t needed = end - allocated_bytes_;
  const bool is_large = record_size >= WriterOptions::kLargeBytes &&
                        options_.large_allocate_bytes != 0;
  const uint64_t piece =
      is_large ? options_.large_allocate_bytes : options_.allocate_bytes;
  // In multiples, because files are mapped in pieces.
  uint64_t length = (needed + piece - 1) / piece * piece;
  Status status = file_->Reserve(allocated_bytes_, length);
  if (status.IsNoSpace() && length > needed) {
    length = needed;
    status = file_->Reserve(allocated_bytes_, length);
  }
  if (status.ok()) allocated_bytes_ += length;
  return status;
}

}  // namespace varve::wal
