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

  // Replaces *body by the body of the index block.
  void Finish(std::string* body) const;

 private:
  struct Entry {
    size_t key_end;  // In keys_; it begins at the end of the one before.
    BlockHandle handle;
  };

  const InternalKeyComparator* const comparator_;
  std::string keys_;  // Internal keys.
  std::vector<Entry> entries_;
  bool keys_are_user_keys_ = true;
  std::string separator_;
};

}  // namespace varve
