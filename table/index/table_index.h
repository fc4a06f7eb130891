// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The index of an open table. For each data block it has a separator, the
// block's handle, and a slot with the block's address while the block is in
// memory. The separator is at or after all keys of the block, and before the
// keys of the next block.
//
// The index keeps the block's body as it is in the file if each entry is there
// in full, as in the indexes that Varve and RocksDB write by default. Decode
// checks each entry once, and computes the prefixes. Other formats are copied
// to that form. A partitioned index, whose entries name further index blocks,
// is copied from all of its partitions, so lookups find one index in any table.
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
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "table/block/block.h"
#include "table/block/entry_scanner.h"
#include "table/block/format.h"
#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "util/bytes/coding.h"
#include "util/bytes/key_prefix.h"
#include "util/bytes/short_copy.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

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

  // Returns NotSupported if Decode cannot decode this kind of index.
  static Status CheckSupported(const PropertiesBlock& properties);

  // Reads the body of a partition, decompressed. It is valid until the next
  // call. An error names the file and the block.
  using ReadPartition =
      std::function<Status(const BlockHandle& handle, Slice* body)>;

  // Decodes an index block's body, in the format that the properties give, and
  // takes it over. All handles will be inside `file_size`. Corruption and
  // NotSupported do not name the file, which the caller adds. With
  // `binary_search` only Find is used (ablation block_index=binary_search).
  // Partitions are read in the order of their keys. A call that fails may be
  // repeated. REQUIRES: no call has succeeded; `read_partition` is set if
  // IsPartitioned(properties).
  Status Decode(BlockContents body, const PropertiesBlock& properties,
                uint64_t file_size, const InternalKeyComparator* comparator,
                bool binary_search, const ReadPartition& read_partition = {});

  // Returns whether the entries of the table's index name partitions.
  static bool IsPartitioned(const PropertiesBlock& properties) {
    return properties.index_type == kTwoLevelIndexType;
  }
  // Returns the form of a block that names partitions, of the index or of a
  // filter: the index's, but never with a first key.
  static PropertiesBlock FormOfPartitionNames(
      const PropertiesBlock& properties);
  // Replaces *handles by the handles of the entries of a block that names
  // partitions, or of a partition, in their order. Entries have no first keys.
  // All handles are inside `file_size`, and together not larger. Errors as from
  // Decode.
  static Status ListHandles(const Slice& body,
                            const PropertiesBlock& properties,
                            uint64_t file_size,
                            std::vector<BlockHandle>* handles);

  // Returns the number of data blocks.
  size_t size() const { return size_; }
  // Decodes the handle of block i, which takes about 30 instructions.
  BlockHandle handle(size_t i) const;
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

  // Finds the block, as Find does for any version of the user key. Returns
  // false if prefixes do not decide.
  bool FindByPrefixes(const Slice& user_key, size_t* block) const {
    Place place;
    return has_prefixes_ &&
           (!FindNode(user_key, &place, block) || FindInNode(place, block));
  }

  // Like Find, but uses prefixes where they decide.
  size_t Search(const Slice& internal_key) const {
    size_t block = 0;
    if (FindByPrefixes(ExtractUserKey(internal_key), &block)) return block;
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

  // Returns whether this index has the same separator at i as `other`.
  bool HasSeparatorOf(const TableIndex& other, size_t i) const {
    return Separator(i) == other.Separator(i);
  }
  // Returns whether the separators of this index, which is partition i of those
  // that `names` names, are after the partition before, and at most at its own
  // separator.
  bool IsPartOf(const TableIndex& names, size_t i) const;

  size_t ApproximateMemoryUsage() const {
    return node_count_ * sizeof(IndexNode) +
           (upper_level_.capacity() + top_level_.capacity()) *
               sizeof(upper_level_[0]) +
           body_.buffer.capacity() + arena_.capacity() +
           starts_.capacity() * sizeof(starts_[0]) + size_;
  }

 private:
  class Scanner;

  static constexpr size_t kTopFanout = 32;

  void MakeNodes(bool with_prefixes);
  int CompareSeparators(const Slice& a, const Slice& b) const {
    return user_keys_ ? comparator_->CompareUser(a, b)
                      : comparator_->Compare(a, b);
  }
  size_t LowerBoundNode(uint64_t prefix) const;
  uint64_t PrefixOf(const Slice& user_key) const {
    return KeyPrefix(user_key, common_.size());
  }
  // Checks the entries of a body that has each in full, and uses them where
  // they are. Returns false, and does nothing, if the body is not of this form.
  bool UseEntries(const Slice& body, const BlockTail& tail, uint64_t file_size);
  // Decodes entries of any form into arena_ and starts_.
  Status CopyEntries(const Slice& entries, const PropertiesBlock& properties,
                     uint64_t file_size);
  // Decodes the entries of all partitions into arena_ and starts_.
  Status CopyPartitions(const Slice& body, const BlockTail& tail,
                        const PropertiesBlock& properties, uint64_t file_size,
                        const ReadPartition& read_partition);
  // Copies the rest of one index block's entries, up to a size of arena_.
  Status CopyFrom(Scanner* entry, size_t max_arena_size);
  void UseCopies();
  void ShrinkCopies();
  // REQUIRES: i < size().
  Slice Separator(size_t i) const {
    // Decode checked it. After the entry's first byte there are the size, the
    // separator, and the handle.
    const char* p =
        entries_ + DecodeFixed32(offsets_ + i * sizeof(uint32_t)) + 1;
    uint32_t size = 0;
    p = GetVarint32Ptr(p, p + kMaxVarint32Bytes, &size);
    return Slice(p, size);
  }

  const InternalKeyComparator* comparator_ = nullptr;
  bool user_keys_ = false;  // Separators are user keys.
  size_t size_ = 0;
  // The entries and the offset of each, in body_ or in arena_ and starts_.
  const char* entries_ = nullptr;
  const char* offsets_ = nullptr;  // Four bytes each, not aligned.
  BlockContents body_;
  std::string arena_;
  std::vector<uint32_t> starts_;
  std::unique_ptr<IndexNode[]> nodes_;
  size_t node_count_ = 0;
  std::unique_ptr<uint8_t[]> last_misses_;
  bool has_prefixes_ = false;
  Slice common_;  // The common prefix of all separators.
  // The last prefix of each node. With a top level, UINT64_MAX follows up to a
  // multiple of kTopFanout.
  std::vector<uint64_t> upper_level_;
  // The last prefix of each kTopFanout entries of upper_level_. Empty if there
  // are at most that many nodes.
  std::vector<uint64_t> top_level_;
};

// Prefetches a node.
inline void PrefetchNode(const IndexNode& node) {
  static_assert(sizeof(node) == 4 * size_t{64});
  const char* p = reinterpret_cast<const char*>(&node);
  // Without a loop, which compilers keep.
  __builtin_prefetch(p);
  __builtin_prefetch(p + 64);
  __builtin_prefetch(p + 128);
  __builtin_prefetch(p + 192);
}

inline size_t TableIndex::LowerBoundNode(uint64_t prefix) const {
  if (top_level_.empty()) {
    return LowerBoundPrefix(upper_level_.data(), node_count_, prefix);
  }
  const size_t group =
      LowerBoundPrefix(top_level_.data(), top_level_.size(), prefix);
  if (group == top_level_.size()) return node_count_;
  static_assert(kTopFanout == 4 * size_t{8});
  const uint64_t* const upper = upper_level_.data() + group * kTopFanout;
  __builtin_prefetch(upper);
  __builtin_prefetch(upper + 8);
  __builtin_prefetch(upper + 16);
  __builtin_prefetch(upper + 24);
  // The group's last node is not before the key, so a node of it is found.
  return group * kTopFanout + LowerBoundPrefixOf<kTopFanout>(upper, prefix);
}

inline bool TableIndex::FindNode(const Slice& user_key, Place* place,
                                 size_t* block) const {
  if (!StartsWithShort(user_key, common_)) {
    *block = user_key.compare(common_) > 0 ? size_ : 0;
    return false;
  }
  place->prefix = PrefixOf(user_key);
  place->node = LowerBoundNode(place->prefix);
  if (place->node == node_count_) {
    *block = size_;
    return false;
  }
  PrefetchNode(nodes_[place->node]);
  return true;
}

inline bool TableIndex::FindInNode(const Place& place, size_t* block) const {
  const IndexNode& node = nodes_[place.node];
  const size_t i =
      LowerBoundPrefixOf<IndexNode::kFanout>(node.prefixes, place.prefix);
  *block = place.node * IndexNode::kFanout + i;
  // The node's last prefix is not before the key's, so i is in it.
  return node.prefixes[i] != place.prefix;
}

}  // namespace varve
