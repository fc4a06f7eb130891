// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Builds the index block of a table: for each data block a separator, a key
// that is not before the block's last and is before the next block's first,
// with the block's handle.
//
// Separators are user keys, unless a user key has versions in two blocks:
// only internal keys can then tell the blocks apart. Which it is, is known
// when the last key has come, so entries are kept until then.
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

  // Adds a block that another one follows. Both keys are internal keys.
  void Add(const Slice& last_key, const Slice& next_first_key,
           const BlockHandle& handle);
  // Adds the table's last block.
  void AddLast(const Slice& last_key, const BlockHandle& handle);

  // Whether separators are user keys.
  bool keys_are_user_keys() const { return keys_are_user_keys_; }

  // Replaces *body by the body of the index block.
  void Finish(std::string* body) const;

 private:
  struct Entry {
    size_t key_end;  // In keys_; it begins where the one before ends.
    BlockHandle handle;
  };

  const InternalKeyComparator* const comparator_;
  std::string keys_;  // Internal keys.
  std::vector<Entry> entries_;
  bool keys_are_user_keys_ = true;
  std::string separator_;
};

}  // namespace varve
