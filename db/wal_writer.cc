// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal_writer.h"

#include "db/wal_format.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace varve::wal {

Status Writer::AddRecord(const Slice& record) {
  static constexpr char kZeroes[kHeaderSize] = {};
  const char* data = record.data();
  size_t left = record.size();
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
    status = AddFragment(type, data, size);
    if (!status.ok()) return status;
    data += size;
    left -= size;
    first = false;
  } while (left > 0);
  return file_->Flush();
}

Status Writer::AddFragment(uint8_t type, const char* data, size_t size) {
  char header[kHeaderSize];
  header[6] = static_cast<char>(type);
  uint32_t crc = Crc32c(header + 6, 1);
  crc = Crc32cExtend(crc, data, size);
  EncodeFixed32(header, MaskCrc(crc));
  header[4] = static_cast<char>(size & 0xFF);
  header[5] = static_cast<char>(size >> 8);
  Status status = file_->Append(Slice(header, kHeaderSize));
  if (status.ok()) status = file_->Append(Slice(data, size));
  block_offset_ += kHeaderSize + size;
  return status;
}

}  // namespace varve::wal
