// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Builds the index block of a table. For each data block it has the block's
// handle and a separator: a key at or after the block's last key, and before
// the next block's first key.
//
// Separators are user keys, unless a user key has versions in two blocks. Then
// only internal keys can tell the blocks apart. This is known only after the
// last key, so entries are kept until then.
//
// The index can be cut into partitions, each of which is an index block of its
// own. A further block then names them: for each it has the last separator and
// the handle. A partitioned filter that is cut at the same entries has such a
// block, too.
//
// Thread-safety: owned by one thread at a time.
// Cost: a copy of each separator in memory until Finish.

#include <cstdint>
#include <string>
#include <vector>

#include "table/block/format.h"
#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

class IndexBuilder {
 public:
  // `comparator` must outlive it.
  explicit IndexBuilder(const InternalKeyComparator* comparator)
      : comparator_(comparator) {}
  IndexBuilder(const IndexBuilder&) = delete;
  IndexBuilder& operator=(const IndexBuilder&) = delete;

  // Adds a block that is followed by another. Both keys are internal keys.
  void Add(const Slice& last_key, const Slice& next_first_key,
           const BlockHandle& handle);
  // Adds the table's last block.
  void AddLast(const Slice& last_key, const BlockHandle& handle);

  // Returns whether separators are user keys.
  bool keys_are_user_keys() const { return keys_are_user_keys_; }

  // Replaces *body by the body of the index block, with all entries.
  void Finish(std::string* body) const;

  // ---- Partitions ----

  // Ends a partition with the entry that was added last.
  void Cut() { partition_ends_.push_back(entries_.size()); }
  // Returns about the bytes of the entries since the last cut.
  size_t OpenBytes() const;
  size_t partition_count() const { return partition_ends_.size(); }
  // For these: no separator is added any more, and the last is cut off.
  // Replaces *body by the body of partition i.
  void FinishPartition(size_t i, std::string* body) const;
  // Replaces *body by the body of a block that names what these handles are of,
  // one for each partition.
  void FinishNames(const std::vector<BlockHandle>& handles,
                   std::string* body) const;

 private:
  struct Entry {
    size_t key_end;  // In keys_; it begins at the end of the one before.
    BlockHandle handle;
  };

  size_t KeyBegin(size_t i) const {
    return i == 0 ? 0 : entries_[i - 1].key_end;
  }
  // Returns the separator of entry i as it is written.
  Slice Separator(size_t i) const;
  // Replaces *body by a block of entries [begin, end).
  void FinishEntries(size_t begin, size_t end, std::string* body) const;

  const InternalKeyComparator* const comparator_;
  std::string keys_;  // Internal keys.
  std::vector<Entry> entries_;
  std::vector<size_t> partition_ends_;  // Numbers of entries.
  bool keys_are_user_keys_ = true;
  std::string separator_;
};

}  // namespace varve
