// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The index of an open table. For each data block it has a separator, the
// block's handle, and a slot with the block's address while the block is in
// memory. The separator is at or after all keys of the block, and before the
// keys of the next block. The index is decoded once, when the table is opened,
// from any of the formats that files have.
//
// In bytewise order it can be searched in two steps without touching a key.
// Nodes of 16 separators hold a prefix of each separator beside the slots. A
// prefix is a number made of eight bytes, those after the bytes that all
// separators have in common. A small array holds the last prefix of each node.
// In a large table even that array is mostly outside the processor's caches,
// and a binary search of it would miss at each step. A smaller array therefore
// holds the last of each 32 of its entries, so the search narrows to four
// lines, which are fetched together. Keys are compared only if their prefixes
// are equal.
//
// Thread-safety: immutable after Decode, except for slots and last misses,
// which belong to the block cache.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "table/block/format.h"
#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "util/bytes/key_prefix.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class Block;

using BlockSlot = std::atomic<Block*>;

struct alignas(64) IndexNode {
  static constexpr size_t kFanout = 16;

  uint64_t prefixes[kFanout];
  BlockSlot slots[kFanout];
};

class TableIndex {
 public:
  TableIndex() = default;
  TableIndex(const TableIndex&) = delete;
  TableIndex& operator=(const TableIndex&) = delete;

  // Decodes an index block's body, in the format that the properties give. All
  // handles will be inside `file_size`. Corruption and NotSupported do not name
  // the file, which the caller adds. With `binary_search` only Find is used
  // (ablation block_index=binary_search). REQUIRES: called once.
  Status Decode(const Slice& body, const TableProperties& properties,
                uint64_t file_size, const InternalKeyComparator* comparator,
                bool binary_search);

  // Returns the number of data blocks.
  size_t size() const { return handles_.size(); }
  const BlockHandle& handle(size_t i) const { return handles_[i]; }
  BlockSlot& slot(size_t i) const {
    return nodes_[i / IndexNode::kFanout].slots[i % IndexNode::kFanout];
  }

  // For the block cache; see BlockPlace.
  uint8_t* last_miss(size_t i) const { return &last_misses_[i]; }

  // Returns the first block whose separator is at or after the key, or size().
  // Only this block can contain the key or its successor.
  size_t Find(const Slice& internal_key) const;

  std::span<IndexNode> nodes() const { return {nodes_.get(), node_count_}; }

  // ---- The search by prefixes, in two steps ----

  bool has_prefixes() const { return has_prefixes_; }
  // The state of a search.
  struct Place {
    uint64_t prefix = 0;  // The key's prefix.
    size_t node = 0;
  };
  // Finds the node and prefetches it. Returns false if the result is known
  // without the node; *block is then the result.
  bool FindNode(const Slice& user_key, Place* place, size_t* block) const;
  // Finds the block, as Find does. Returns false if the prefixes are equal and
  // do not decide.
  bool FindInNode(const Place& place, size_t* block) const;

  // Like Find, but uses prefixes where they decide.
  size_t Search(const Slice& internal_key) const {
    Place place;
    size_t block = 0;
    if (has_prefixes_ &&
        (!FindNode(ExtractUserKey(internal_key), &place, &block) ||
         FindInNode(place, &block))) {
      return block;
    }
    return Find(internal_key);
  }

  // Returns whether blocks after block i can contain this user key too. If
  // separators are user keys, no user key is in two blocks.
  bool MayContinue(size_t i, const Slice& user_key) const {
    return !user_keys_ &&
           comparator_->CompareUser(SeparatorUserKey(i), user_key) <= 0;
  }

  // Compares an internal key with the separator of block i. The result is at
  // most 0 for the keys of blocks up to i, and above 0 for keys of later
  // blocks.
  int CompareToSeparator(const Slice& internal_key, size_t i) const;

  // Returns the separator of block i without its trailer.
  Slice SeparatorUserKey(size_t i) const {
    return user_keys_ ? Separator(i) : ExtractUserKey(Separator(i));
  }

  size_t ApproximateMemoryUsage() const {
    return node_count_ * sizeof(IndexNode) +
           (upper_level_.capacity() + top_level_.capacity()) *
               sizeof(upper_level_[0]) +
           arena_.capacity() + starts_.capacity() * sizeof(starts_[0]) +
           handles_.capacity() * (sizeof(handles_[0]) + 1);
  }

 private:
  static constexpr size_t kTopFanout = 32;

  void MakeNodes(bool with_prefixes);
  size_t LowerBoundNode(uint64_t prefix) const;
  uint64_t PrefixOf(const Slice& user_key) const {
    return KeyPrefix(user_key, common_size_);
  }
  Status DecodeEntries(const Slice& entries, const TableProperties& properties,
                       uint64_t file_size);
  Slice Separator(size_t i) const {
    return Slice(arena_.data() + starts_[i], starts_[i + 1] - starts_[i]);
  }

  const InternalKeyComparator* comparator_ = nullptr;
  bool user_keys_ = false;        // Separators are user keys.
  std::string arena_;             // The separators, concatenated.
  std::vector<uint32_t> starts_;  // One more than separators.
  std::vector<BlockHandle> handles_;
  std::unique_ptr<IndexNode[]> nodes_;
  size_t node_count_ = 0;
  std::unique_ptr<uint8_t[]> last_misses_;
  bool has_prefixes_ = false;
  size_t common_size_ = 0;             // Of all separators' common prefix.
  std::vector<uint64_t> upper_level_;  // The last prefix of each node.
  // The last prefix of each kTopFanout entries of upper_level_. Empty if
  // upper_level_ has at most that many.
  std::vector<uint64_t> top_level_;
};

// Prefetches a node.
inline void PrefetchNode(const IndexNode& node) {
  const char* p = reinterpret_cast<const char*>(&node);
  for (size_t i = 0; i < sizeof(node); i += 64) __builtin_prefetch(p + i);
}

inline size_t TableIndex::LowerBoundNode(uint64_t prefix) const {
  const size_t first =
      LowerBoundPrefix(top_level_.data(), top_level_.size(), prefix) *
      kTopFanout;
  if (first >= upper_level_.size()) return upper_level_.size();
  const size_t count = std::min(kTopFanout, upper_level_.size() - first);
  const uint64_t* const upper = upper_level_.data() + first;
  for (size_t i = 0; i < count; i += 8) __builtin_prefetch(upper + i);
  return first + LowerBoundPrefix(upper, count, prefix);
}

inline bool TableIndex::FindNode(const Slice& user_key, Place* place,
                                 size_t* block) const {
  if (common_size_ > 0) {
    const Slice common(arena_.data(), common_size_);
    const size_t size =
        user_key.size() < common_size_ ? user_key.size() : common_size_;
    const int r = memcmp(user_key.data(), common.data(), size);
    if (r != 0 || size < common_size_) {
      *block = r > 0 ? handles_.size() : 0;
      return false;
    }
  }
  place->prefix = PrefixOf(user_key);
  place->node = LowerBoundNode(place->prefix);
  if (place->node == upper_level_.size()) {
    *block = handles_.size();
    return false;
  }
  PrefetchNode(nodes_[place->node]);
  return true;
}

inline bool TableIndex::FindInNode(const Place& place, size_t* block) const {
  const IndexNode& node = nodes_[place.node];
  const size_t i =
      LowerBoundPrefix(node.prefixes, IndexNode::kFanout, place.prefix);
  *block = place.node * IndexNode::kFanout + i;
  // The node's last prefix is not before the key's, so i is in it.
  return node.prefixes[i] != place.prefix;
}

}  // namespace varve
