// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/format.h"

#include <algorithm>
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

// Places in a footer of version 6 and later. Zeros follow the metaindex's size.
constexpr size_t kExtendedMagicAt = 1;
constexpr size_t kFooterChecksumAt = 5;
constexpr size_t kChecksumBaseAt = 9;
constexpr size_t kMetaindexSizeAt = 13;
constexpr size_t kReservedAt = 33;
constexpr size_t kVersionAt = 41;

bool HasExtendedMagic(const char* footer) {
  return std::memcmp(footer + kExtendedMagicAt, kExtendedMagic,
                     sizeof(kExtendedMagic)) == 0;
}

// Returns the checksum that a footer of version 6 or later should have.
uint32_t FooterChecksum(ChecksumType type, const char* footer,
                        uint64_t offset) {
  char copy[Footer::kSize];
  std::memcpy(copy, footer, sizeof(copy));
  EncodeFixed32(copy + kFooterChecksumAt, 0);
  // The last byte has the place of a block's compression type.
  return BlockChecksum(type, copy, sizeof(copy) - 1) +
         ChecksumContext(DecodeFixed32(footer + kChecksumBaseAt), offset);
}

// Returns whether the footer has the checksum of a readable version, once its
// version and checksum type are set right: then these two are damaged.
bool WasReadable(const char* footer, uint64_t offset) {
  char copy[Footer::kSize];
  std::memcpy(copy, footer, sizeof(copy));
  const uint32_t stored = DecodeFixed32(footer + kFooterChecksumAt);
  for (uint32_t version = kFirstVersionWithContext;
       version <= kNewestReadableFormatVersion; ++version) {
    EncodeFixed32(copy + kVersionAt, version);
    for (const ChecksumType type :
         {ChecksumType::kCrc32c, ChecksumType::kXxHash32,
          ChecksumType::kXxHash64, ChecksumType::kXxh3}) {
      copy[0] = static_cast<char>(type);
      if (std::memcmp(copy, footer, sizeof(copy)) != 0 &&
          FooterChecksum(type, copy, offset) == stored) {
        return true;
      }
    }
  }
  return false;
}

// Decodes what follows the checksum type in version 6 and later.
Status DecodeWithContext(const char* bytes, const std::string& file_name,
                         uint64_t offset, Footer* footer) {
  const std::string place = " at offset " + std::to_string(offset);
  if (!HasExtendedMagic(bytes)) {
    return Status::Corruption(
        file_name, "the footer" + place + " is not one of format_version " +
                       std::to_string(footer->format_version));
  }
  footer->checksum_base = DecodeFixed32(bytes + kChecksumBaseAt);
  if (footer->checksum_base == 0) {
    return Status::Corruption(file_name,
                              "the footer" + place + " has no checksum base");
  }
  const uint32_t stored = DecodeFixed32(bytes + kFooterChecksumAt);
  const uint32_t computed = FooterChecksum(footer->checksum, bytes, offset);
  if (stored != computed) {
    return Status::Corruption(file_name,
                              "footer checksum mismatch" + place +
                                  ": stored = " + std::to_string(stored) +
                                  ", computed = " + std::to_string(computed));
  }
  if (DecodeFixed64(bytes + kReservedAt) != 0) {
    return Status::NotSupported(
        file_name, "the footer" + place + " has a feature of a newer RocksDB");
  }
  // The metaindex ends where the footer begins.
  const uint64_t size = DecodeFixed32(bytes + kMetaindexSizeAt);
  if (size + kBlockTrailerSize > offset) {
    return Status::Corruption(
        file_name, "the footer's metaindex size, " + std::to_string(size) +
                       " bytes, exceeds the file's blocks");
  }
  footer->metaindex = {offset - kBlockTrailerSize - size, size};
  footer->index = {};
  return Status();
}

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

bool IsForeignTable(const Slice& tail, uint64_t file_size) {
  if (tail.size() < kMagicSize) return false;
  const uint64_t magic = DecodeFixed64(tail.end() - kMagicSize);
  if (magic == kPlainTableMagic || magic == kLegacyPlainTableMagic ||
      magic == kCuckooTableMagic) {
    return true;
  }
  if (magic != kBlockBasedTableMagic || tail.size() < Footer::kSize) {
    return false;
  }
  const char* const footer = tail.end() - Footer::kSize;
  return HasExtendedMagic(footer) &&
         !WasReadable(footer, file_size - Footer::kSize);
}

uint32_t FindChecksumBase(const Slice& tail) {
  constexpr size_t kNeeded = kChecksumBaseAt + sizeof(uint32_t);
  // The last one is the most likely.
  for (size_t n = kNeeded; n <= std::min(tail.size(), Footer::kSize); ++n) {
    const char* const footer = tail.end() - n;
    if (HasExtendedMagic(footer)) {
      return DecodeFixed32(footer + kChecksumBaseAt);
    }
  }
  return 0;
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
    checksum_base = 0;
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
  checksum_base = 0;
  const auto checksum_byte = static_cast<uint8_t>(*(tail.end() - kSize));
  if (!IsChecksumType(checksum_byte)) {
    const std::string type = "checksum type " + std::to_string(checksum_byte);
    return checksum_byte > kMaxPlausibleNumber
               ? Status::Corruption(file_name, type)
               : Status::NotSupported(file_name, type);
  }
  checksum = static_cast<ChecksumType>(checksum_byte);
  if (!has_index()) {
    return DecodeWithContext(tail.end() - kSize, file_name, file_size - kSize,
                             this);
  }
  if (HasExtendedMagic(tail.end() - kSize)) {
    return Status::Corruption(file_name, "the footer at offset " +
                                             std::to_string(file_size - kSize) +
                                             " is not one of format_version " +
                                             std::to_string(format_version));
  }
  return DecodeHandles(
      Slice(tail.end() - kSize + 1, kSize - 1 - kMagicSize - kVersionSize),
      file_name, file_size, this);
}

}  // namespace varve
