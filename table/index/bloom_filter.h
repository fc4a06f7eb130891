// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Filters of tables. Written is one kind: a Bloom filter that puts all bits of
// a key into one cache line, so that a question costs one memory access. Read
// are also those of older RocksDB tables and of LevelDB's.
//
// A filter may only say "no" for keys it was not built from. Whatever is not
// understood, or damaged, therefore answers "maybe".

#include <cstdint>
#include <string>
#include <vector>

#include "varve/filter_policy.h"
#include "varve/slice.h"

namespace varve {

// Collects the filter hashes (PreviewXxh3) of a table's user keys.
// Thread-safety: owned by one thread at a time.
class BloomFilterBuilder {
 public:
  // `bits_per_key` is clamped to [1, 100]; thousandths count.
  explicit BloomFilterBuilder(double bits_per_key);

  // Keys come in order, so a repeated key is seen as an equal neighbour; it
  // is counted once.
  void AddHash(uint64_t hash) {
    if (hashes_.empty() || hashes_.back() != hash) hashes_.push_back(hash);
  }
  size_t HashCount() const { return hashes_.size(); }

  // Replaces *body by the filter block; empty for no keys. Forgets the keys.
  void Finish(std::string* body);

 private:
  // Of the filter block.
  size_t FilterSize() const;

  const uint32_t millibits_per_key_;
  std::vector<uint64_t> hashes_;
};

// Answers from the body of a filter block.
// Thread-safety: immutable after Init.
class FilterReader {
 public:
  enum class Kind : uint8_t {
    kAlwaysMaybe,     // None, one that is not understood, or damaged.
    kMatchesNothing,  // Of a table without keys.
    kFastLocal,       // Bloom, since format version 5.
    kOldLocal,        // Bloom, before.
    kLevelDb,         // A filter for every 2 KiB of data blocks.
    kCustom,          // Of a FilterPolicy of the user's.
  };

  // Takes the filter stored under `metaindex_name`. `body` must outlive this;
  // `policy` may be null, must outlive it too, and is asked about filters that
  // carry its name.
  void Init(const Slice& metaindex_name, const Slice& body,
            const FilterPolicy* policy);

  Kind kind() const { return kind_; }
  // Whether MayMatch has something to look at.
  bool asks_whole_keys() const {
    return kind_ != Kind::kAlwaysMaybe && kind_ != Kind::kLevelDb;
  }

  // False if the table does not hold the user key, whose PreviewXxh3 is
  // `hash`. Always true for kLevelDb.
  bool MayMatch(uint64_t hash, const Slice& user_key) const {
    if (kind_ == Kind::kFastLocal) return FastLocalMayMatch(hash);
    if (kind_ == Kind::kAlwaysMaybe) return true;
    return OtherMayMatch(user_key);
  }
  // Starts loading the memory that MayMatch(hash) will look at.
  void Prefetch(uint64_t hash) const {
    if (kind_ == Kind::kFastLocal) __builtin_prefetch(Line(hash));
  }
  // For kLevelDb, false if the data block at that offset of the file does not
  // hold the user key; true for all others.
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
    // All bits, without a jump at the first that is clear: which one that is
    // nobody can guess, and the line is one miss anyway.
    uint32_t all = 1;
    for (uint32_t i = 0; i < probes_; ++i, x *= 0x9E3779B9) {
      const uint32_t bit = x >> 23;
      all &= static_cast<uint8_t>(line[bit >> 3]) >> (bit & 7);
    }
    return all != 0;
  }
  bool OtherMayMatch(const Slice& user_key) const;
  bool OldLocalMayMatch(const Slice& user_key) const;

  Kind kind_ = Kind::kAlwaysMaybe;
  Slice data_;               // The bits; for kCustom the whole body.
  uint32_t line_count_ = 0;  // Of the local kinds.
  uint32_t line_bytes_ = 0;  // Of kOldLocal.
  uint32_t probes_ = 0;
  // Of kLevelDb: where each filter begins in data_, and the base-2 logarithm
  // of the range of the file that it is for.
  Slice offsets_;
  uint32_t range_log2_ = 0;
  const FilterPolicy* policy_ = nullptr;
};

}  // namespace varve
