// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/format.h"

#include <cstring>

#include "util/bytes/coding.h"

namespace varve {

namespace {

constexpr uint64_t kPlainTableMagic = 0x8242229663BF9564;
constexpr uint64_t kLegacyPlainTableMagic = 0x4F3418EB7A8F13B8;
constexpr uint64_t kCuckooTableMagic = 0x926789D0C5F17873;

// Follows the checksum type, where older versions have the metaindex handle.
constexpr char kExtendedMagic[] = {0x3e, 0x00, 0x7a, 0x00};

constexpr size_t kMagicSize = 8;
constexpr size_t kVersionSize = 4;

Status DecodeHandles(Slice input, const std::string& file_name,
                     uint64_t file_size, Footer* footer) {
  if (!footer->metaindex.DecodeFrom(&input) ||
      !footer->index.DecodeFrom(&input)) {
    return Status::Corruption(file_name, "bad block handle in the footer");
  }
  // The blocks must be before the footer.
  const uint64_t limit = file_size - footer->size;
  if (!footer->metaindex.FitsIn(limit)) {
    return Status::Corruption(file_name,
                              "the footer's metaindex handle (offset " +
                                  std::to_string(footer->metaindex.offset) +
                                  ") points beyond the file's blocks");
  }
  if (!footer->index.FitsIn(limit)) {
    return Status::Corruption(file_name,
                              "the footer's index handle (offset " +
                                  std::to_string(footer->index.offset) +
                                  ") points beyond the file's blocks");
  }
  return Status();
}

// A larger version or checksum type is assumed to be damage.
constexpr uint32_t kMaxPlausibleNumber = 15;

}  // namespace

void BlockHandle::EncodeTo(std::string* out) const {
  PutVarint64(out, offset);
  PutVarint64(out, size);
}

bool BlockHandle::DecodeFrom(Slice* input) {
  const char* const limit = input->end();
  const char* p = GetVarint64Ptr(input->begin(), limit, &offset);
  if (p != nullptr) p = GetVarint64Ptr(p, limit, &size);
  if (p == nullptr) return false;
  *input = Slice(p, static_cast<size_t>(limit - p));
  return true;
}

bool IsForeignTable(const Slice& tail) {
  if (tail.size() < kMagicSize) return false;
  const uint64_t magic = DecodeFixed64(tail.end() - kMagicSize);
  if (magic == kPlainTableMagic || magic == kLegacyPlainTableMagic ||
      magic == kCuckooTableMagic) {
    return true;
  }
  // Format version 6 and later.
  return magic == kBlockBasedTableMagic && tail.size() >= Footer::kSize &&
         std::memcmp(tail.end() - Footer::kSize + 1, kExtendedMagic,
                     sizeof(kExtendedMagic)) == 0;
}

void Footer::EncodeTo(std::string* out) const {
  const size_t start = out->size();
  out->push_back(static_cast<char>(checksum));
  metaindex.EncodeTo(out);
  index.EncodeTo(out);
  out->resize(start + kSize - kMagicSize - kVersionSize);
  PutFixed32(out, kWrittenFormatVersion);
  PutFixed64(out, kBlockBasedTableMagic);
}

Status Footer::DecodeFrom(const Slice& tail, const std::string& file_name,
                          uint64_t file_size) {
  if (tail.size() < kLegacySize || file_size < tail.size()) {
    return Status::Corruption(
        file_name,
        "too short for a table: " + std::to_string(file_size) + " bytes");
  }
  const uint64_t magic = DecodeFixed64(tail.end() - kMagicSize);
  if (magic == kLegacyTableMagic) {
    checksum = ChecksumType::kCrc32c;
    format_version = 0;
    size = kLegacySize;
    return DecodeHandles(
        Slice(tail.end() - kLegacySize, kLegacySize - kMagicSize), file_name,
        file_size, this);
  }
  if (magic == kPlainTableMagic || magic == kLegacyPlainTableMagic) {
    return Status::NotSupported(file_name, "a plain table");
  }
  if (magic == kCuckooTableMagic) {
    return Status::NotSupported(file_name, "a cuckoo table");
  }
  if (magic != kBlockBasedTableMagic) {
    return Status::Corruption(file_name,
                              "not a table: bad magic number at offset " +
                                  std::to_string(file_size - kMagicSize));
  }

  format_version = DecodeFixed32(tail.end() - kMagicSize - kVersionSize);
  if (format_version > kMaxPlausibleNumber) {
    return Status::Corruption(file_name, "no table has format_version " +
                                             std::to_string(format_version));
  }
  if (format_version > kNewestReadableFormatVersion) {
    return Status::NotSupported(
        file_name, "format_version " + std::to_string(format_version));
  }
  if (format_version == 0) {
    return Status::Corruption(file_name,
                              "format_version 0 with the magic number of later "
                              "versions");
  }
  if (tail.size() < kSize) {
    return Status::Corruption(file_name, "the footer is cut off");
  }
  size = kSize;
  const auto checksum_byte = static_cast<uint8_t>(*(tail.end() - kSize));
  if (!IsChecksumType(checksum_byte)) {
    const std::string type = "checksum type " + std::to_string(checksum_byte);
    return checksum_byte > kMaxPlausibleNumber
               ? Status::Corruption(file_name, type)
               : Status::NotSupported(file_name, type);
  }
  checksum = static_cast<ChecksumType>(checksum_byte);
  return DecodeHandles(
      Slice(tail.end() - kSize + 1, kSize - 1 - kMagicSize - kVersionSize),
      file_name, file_size, this);
}

}  // namespace varve
