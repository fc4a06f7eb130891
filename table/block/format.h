// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The frame of a table file: block handles, block trailers and the footer.
// See table/README.md for the layout.

#include <cstdint>
#include <string>

#include "util/bytes/checksum.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Behind each block: one byte compression type, four bytes checksum.
constexpr size_t kBlockTrailerSize = 5;

// What the keys of a data block that is written take in full, at most, unless
// it has one key only. Reading puts them together, and refuses blocks that
// would take much more: those that share long keys, at restart points far
// apart, grow a hundredfold and more.
constexpr size_t kMaxWrittenKeyBytes = size_t{32} << 20;

// Where a block lies in its file. Size is without the trailer.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;

  void EncodeTo(std::string* out) const;
  // Takes a handle off the front; false if the bytes are none.
  bool DecodeFrom(Slice* input);
  // Whether block and trailer lie within a file of so many bytes.
  bool FitsIn(uint64_t file_size) const {
    return offset <= file_size && size <= file_size - offset &&
           kBlockTrailerSize <= file_size - offset - size;
  }
};

// What things may take that each fit by themselves, but of which a crafted
// table of a few KiB can name any number.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t bytes) : left_bytes_(bytes) {}

  // False if there is not so much left.
  bool Take(uint64_t bytes) {
    if (bytes > left_bytes_) return false;
    left_bytes_ -= bytes;
    return true;
  }
  // REQUIRES: the block fits its file, whose size the budget began with. Blocks
  // lie apart, so all that an valid table names fit together.
  bool Take(const BlockHandle& handle) {
    return Take(handle.size + kBlockTrailerSize);
  }

 private:
  uint64_t left_bytes_;
};

constexpr uint64_t kBlockBasedTableMagic = 0x88E241B785F4CFF7;
constexpr uint64_t kLegacyTableMagic = 0xDB4775248B80FB57;
constexpr uint32_t kWrittenFormatVersion = 5;
constexpr uint32_t kNewestReadableFormatVersion = 5;

// Whether a file that ends so is of a kind or version that no damage makes of
// what can be read: both have a mark of their own beside the version. The tail
// has at least Footer::kSize bytes, where the file has as many.
bool IsForeignTable(const Slice& tail);

// The last bytes of a table.
struct Footer {
  static constexpr size_t kLegacySize = 48;
  static constexpr size_t kSize = 53;

  ChecksumType checksum = ChecksumType::kCrc32c;
  BlockHandle metaindex;
  BlockHandle index;
  uint32_t format_version = 0;  // 0 for the legacy footer.
  size_t size = 0;              // kSize or kLegacySize.

  // Appends the 53-byte form.
  void EncodeTo(std::string* out) const;
  // `tail` is the last bytes of the file, at least kLegacySize of them where
  // the file has as many. NotSupported names a foreign format or version.
  Status DecodeFrom(const Slice& tail, const std::string& file_name,
                    uint64_t file_size);
};

// Names of the metaindex.
constexpr char kPropertiesBlockName[] = "rocksdb.properties";
constexpr char kOldPropertiesBlockName[] = "rocksdb.stats";
constexpr char kFullBloomBlockName[] = "fullfilter.rocksdb.BuiltinBloomFilter";
constexpr char kLevelDbBloomBlockName[] = "filter.leveldb.BuiltinBloomFilter2";
constexpr char kPartitionedFilterPrefix[] = "partitionedfilter.";
constexpr char kCompressionDictionaryBlockName[] = "rocksdb.compression_dict";
constexpr char kRangeTombstoneBlockName[] = "rocksdb.range_del";
// A custom FilterPolicy's filter: this and the policy's name.
constexpr char kCustomFilterPrefix[] = "filter.varve.policy.";

}  // namespace varve
