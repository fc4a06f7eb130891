// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The index of an open table: for each data block a separator, at or behind
// all of the block's keys and before those of the next block, and the block's
// handle. It is decoded once, when the table is opened, from any of the forms
// that files have.
//
// Thread-safety: immutable after Decode.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "table/format.h"
#include "table/internal_key.h"
#include "table/properties.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class TableIndex {
 public:
  TableIndex() = default;
  TableIndex(const TableIndex&) = delete;
  TableIndex& operator=(const TableIndex&) = delete;

  // Takes an index block's body apart, in the form that the properties give.
  // All handles will lie within `file_size`. Corruption and NotSupported
  // leave it to the caller to name the file. To be called once.
  Status Decode(const Slice& body, const TableProperties& properties,
                uint64_t file_size, const InternalKeyComparator* comparator);

  // The number of data blocks.
  size_t size() const { return handles_.size(); }
  const BlockHandle& handle(size_t i) const { return handles_[i]; }

  // The first block whose separator is at or behind the key, the only one
  // where the key or the first behind it can be; size() if there is none.
  size_t Find(const Slice& internal_key) const;

  // Whether keys behind block i can have this user key too.
  bool MayContinue(size_t i, const Slice& user_key) const {
    return comparator_->CompareUser(SeparatorUserKey(i), user_key) <= 0;
  }

  // How an internal key stands to the separator of block i: at most 0 for
  // the keys of blocks up to i, above 0 for those behind.
  int CompareToSeparator(const Slice& internal_key, size_t i) const;

  size_t ApproximateMemoryUsage() const {
    return arena_.capacity() + starts_.capacity() * sizeof(starts_[0]) +
           handles_.capacity() * sizeof(handles_[0]);
  }

 private:
  Status DecodeEntries(const Slice& entries, const TableProperties& properties,
                       uint64_t file_size);
  Slice Separator(size_t i) const {
    return Slice(arena_.data() + starts_[i], starts_[i + 1] - starts_[i]);
  }
  Slice SeparatorUserKey(size_t i) const {
    return user_keys_ ? Separator(i) : ExtractUserKey(Separator(i));
  }

  const InternalKeyComparator* comparator_ = nullptr;
  bool user_keys_ = false;        // Separators are so, not internal keys.
  std::string arena_;             // The separators, one behind the other.
  std::vector<uint32_t> starts_;  // One more than there are separators.
  std::vector<BlockHandle> handles_;
};

}  // namespace varve
