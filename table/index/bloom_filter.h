// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Filters of tables. Varve writes one kind: a blocked Bloom filter, which puts
// all bits of a key into one cache line. A query thus costs one memory access.
// It also reads the filters of older RocksDB tables and of LevelDB.
//
// A filter may say "no" only for keys that it was not built from. Filters that
// are damaged or not understood therefore answer "maybe".

#include <cstdint>
#include <string>
#include <vector>

#include "util/bytes/coding.h"
#include "varve/filter_policy.h"
#include "varve/slice.h"

namespace varve {

class PartitionedFilter;
class SliceTransform;

// Collects the filter hashes (PreviewXxh3) of a table's user keys and builds
// the filter.
// Thread-safety: owned by one thread at a time.
class BloomFilterBuilder {
 public:
  // `bits_per_key` is clamped to [1, 100], with a precision of thousandths.
  explicit BloomFilterBuilder(double bits_per_key);

  // Adds a key. Keys are added in order, so a repeated key equals the one
  // before and is counted once.
  void AddHash(uint64_t hash) {
    if (hashes_.empty() || hashes_.back() != hash) hashes_.push_back(hash);
  }
  size_t HashCount() const { return hashes_.size(); }

  // Replaces *body by the filter block, empty if there are no keys. Removes the
  // keys from the builder.
  void Finish(std::string* body);

 private:
  // Returns the size of the filter block.
  size_t FilterSize() const;

  const uint32_t millibits_per_key_;
  std::vector<uint64_t> hashes_;
};

// Queries the body of a filter block.
// Thread-safety: immutable after Init.
class FilterReader {
 public:
  enum class Kind : uint8_t {
    kAlwaysMaybe,     // No filter, or one that is unknown or damaged.
    kMatchesNothing,  // The table has no keys.
    kFastLocal,       // Bloom, format version 5 and later.
    kOldLocal,        // Bloom, earlier format versions.
    kLevelDb,         // One filter for each 2 KiB of data blocks.
    kCustom,          // A FilterPolicy of the user.
    kPartitioned,     // Bloom, with a filter for each range of keys.
    kPrefixes,        // Of prefixes only; asked for a key's prefix.
  };

  // Attaches the filter stored under `metaindex_name`. `body` must outlive
  // this. `policy` may be null; otherwise it must outlive this, and answers for
  // filters that have its name.
  void Init(const Slice& metaindex_name, const Slice& body,
            const FilterPolicy* policy);
  // Attaches a partitioned filter, which must outlive this.
  void Init(const PartitionedFilter* partitions);
  // Attaches a filter that has only the prefixes of keys. Both must outlive
  // this.
  void Init(const SliceTransform* extractor, const FilterReader* prefixes);

  Kind kind() const { return kind_; }
  // Returns whether MayMatch can exclude keys.
  bool asks_whole_keys() const {
    return kind_ != Kind::kAlwaysMaybe && kind_ != Kind::kLevelDb;
  }

  // Returns false if the table does not contain the user key, whose PreviewXxh3
  // is `hash`. Always true for kLevelDb.
  bool MayMatch(uint64_t hash, const Slice& user_key) const {
    if (kind_ == Kind::kFastLocal) return FastLocalMayMatch(hash);
    if (kind_ == Kind::kAlwaysMaybe) return true;
    return OtherMayMatch(hash, user_key);
  }
  // For a filter that has the prefixes of keys: returns false if no key of the
  // table has the prefix, whose PreviewXxh3 is `hash`.
  bool PrefixMayMatch(uint64_t hash, const Slice& prefix) const;
  // Prefetches the memory that MayMatch(hash) will read.
  void Prefetch(uint64_t hash) const {
    if (kind_ == Kind::kFastLocal) __builtin_prefetch(Line(hash));
  }
  // For kLevelDb, returns false if the data block at that offset of the file
  // does not contain the user key. Returns true for all other kinds.
  bool MayMatchInBlock(const Slice& user_key, uint64_t block_offset) const;

 private:
  void InitFullFilter(const Slice& body);
  void InitOldLocal(const Slice& body, uint32_t probes);
  void InitLevelDb(const Slice& body);

  const char* Line(uint64_t hash) const {
    const uint64_t index = (hash & UINT32_MAX) * line_count_ >> 32;
    return data_.data() + index * 64;
  }
  bool FastLocalMayMatch(uint64_t hash) const {
    const char* line = Line(hash);
    auto x = static_cast<uint32_t>(hash >> 32);
    // Tests all bits without branching at the first clear one: its position is
    // unpredictable, and the line is a single cache miss anyway.
    uint32_t all = 1;
    // By words, because the processor masks the shift of a word itself. Two
    // bits a turn halve the cost of the loop.
    const auto test = [line, &x, &all] {
      const uint32_t word = DecodeFixed32(line + 4 * size_t{x >> 28});
      all &= word >> (x >> 23 & 31);
      x *= 0x9E3779B9;
    };
    for (uint32_t i = probes_ / 2; i > 0; --i) {
      test();
      test();
    }
    if ((probes_ & 1) != 0) test();
    return (all & 1) != 0;
  }
  bool OtherMayMatch(uint64_t hash, const Slice& user_key) const;
  bool OldLocalMayMatch(const Slice& user_key) const;

  Kind kind_ = Kind::kAlwaysMaybe;
  Slice data_;               // The bits; for kCustom, the whole body.
  uint32_t line_count_ = 0;  // For the local kinds.
  uint32_t line_bytes_ = 0;  // For kOldLocal.
  uint32_t probes_ = 0;
  // For kLevelDb: the offset of each filter in data_, and the base-2 logarithm
  // of the file range that a filter covers.
  Slice offsets_;
  uint32_t range_log2_ = 0;
  const FilterPolicy* policy_ = nullptr;
  const PartitionedFilter* partitions_ = nullptr;
  // For kPrefixes.
  const SliceTransform* extractor_ = nullptr;
  const FilterReader* prefixes_ = nullptr;
};

}  // namespace varve
