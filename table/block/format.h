// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Structure of a table file: block handles, block trailers and the footer.

#include <cstdint>
#include <string>

#include "util/bytes/checksum.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Each block is followed by one byte of compression type and four bytes of
// checksum.
constexpr size_t kBlockTrailerSize = 5;

// Maximum sum of the sizes of a written data block's keys, unless it has one
// key only. Reading decodes the keys and rejects blocks that would take much
// more: long shared keys with distant restart points grow a hundredfold and
// more.
constexpr size_t kMaxWrittenKeyBytes = size_t{32} << 20;

// The location of a block in its file. The size excludes the trailer.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;

  void EncodeTo(std::string* out) const;
  // Decodes a handle and removes it from the front of the input. Returns false
  // if the bytes are not a handle.
  bool DecodeFrom(Slice* input);
  // Returns whether block and trailer are inside a file of `file_size` bytes.
  bool FitsIn(uint64_t file_size) const {
    return offset <= file_size && size <= file_size - offset &&
           kBlockTrailerSize <= file_size - offset - size;
  }
};

// Bounds the sum of sizes that are valid one by one, but that a crafted table
// of a few KiB can name any number of times.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t bytes) : left_bytes_(bytes) {}

  // Returns false, and takes nothing, if fewer bytes are left.
  bool Take(uint64_t bytes) {
    if (bytes > left_bytes_) return false;
    left_bytes_ -= bytes;
    return true;
  }
  // REQUIRES: the block is inside its file, and the budget began with the
  // file's size. Blocks do not overlap, so all blocks of a valid table fit.
  bool Take(const BlockHandle& handle) {
    return Take(handle.size + kBlockTrailerSize);
  }

 private:
  uint64_t left_bytes_;
};

constexpr uint64_t kBlockBasedTableMagic = 0x88E241B785F4CFF7;
constexpr uint64_t kLegacyTableMagic = 0xDB4775248B80FB57;
constexpr uint32_t kWrittenFormatVersion = 5;
constexpr uint32_t kNewestReadableFormatVersion = 7;
// Since this version, the metaindex has the index handle, the footer has a
// checksum, and all checksums depend on the table and on their place in it.
constexpr uint32_t kFirstVersionWithContext = 6;

// Returns the number that is added to the checksum of the block, or footer, at
// an offset. `base` is Footer::checksum_base.
constexpr uint32_t ChecksumContext(uint32_t base, uint64_t offset) {
  const auto place =
      static_cast<uint32_t>(offset) + static_cast<uint32_t>(offset >> 32);
  return base == 0 ? 0 : base ^ place;
}

// Returns whether the end of a file marks another format or version, which
// damage to a readable table cannot produce: both have a magic number beside
// the version. The tail has at least Footer::kSize bytes, if the file has as
// many. REQUIRES: Footer::DecodeFrom returned NotSupported.
bool IsForeignTable(const Slice& tail, uint64_t file_size);

// Searches the end of a file for the beginning of a footer of version 6 or
// later, whose rest may be damaged or cut off. Returns its checksum base, or 0
// if there is none.
uint32_t FindChecksumBase(const Slice& tail);

// The footer: the last bytes of a table.
struct Footer {
  static constexpr size_t kLegacySize = 48;
  static constexpr size_t kSize = 53;

  ChecksumType checksum = ChecksumType::kCrc32c;
  BlockHandle metaindex;
  // Empty, which no index is, unless has_index().
  BlockHandle index;
  uint32_t format_version = 0;  // 0 for the legacy footer.
  // Differs between tables. 0 before version 6.
  uint32_t checksum_base = 0;
  size_t size = 0;  // kSize or kLegacySize.

  // Returns false for tables of LevelDB's format without a metaindex, which
  // LevelDB reads (bedrock-leveldb writes them).
  bool has_metaindex() const {
    return format_version != 0 || metaindex.size != 0;
  }
  // Returns false if the metaindex names the index.
  bool has_index() const { return format_version < kFirstVersionWithContext; }

  // Appends the 53-byte form.
  void EncodeTo(std::string* out) const;
  // Decodes the footer. `tail` is the end of the file, at least kLegacySize
  // bytes if the file has as many. NotSupported names a foreign format or
  // version.
  Status DecodeFrom(const Slice& tail, const std::string& file_name,
                    uint64_t file_size);
};

// Names in the metaindex.
constexpr char kIndexBlockName[] = "rocksdb.index";
constexpr char kPropertiesBlockName[] = "rocksdb.properties";
constexpr char kOldPropertiesBlockName[] = "rocksdb.stats";
constexpr char kFullBloomBlockName[] = "fullfilter.rocksdb.BuiltinBloomFilter";
constexpr char kLevelDbBloomBlockName[] = "filter.leveldb.BuiltinBloomFilter2";
constexpr char kPartitionedBloomBlockName[] =
    "partitionedfilter.rocksdb.BuiltinBloomFilter";
// Prefix of the names of all partitioned filters.
constexpr char kPartitionedFilterPrefix[] = "partitionedfilter.";
constexpr char kCompressionDictionaryBlockName[] = "rocksdb.compression_dict";
constexpr char kRangeTombstoneBlockName[] = "rocksdb.range_del";
// Prefix of a custom FilterPolicy's filter, followed by the policy's name.
constexpr char kCustomFilterPrefix[] = "filter.varve.policy.";

}  // namespace varve
