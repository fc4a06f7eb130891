// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

// The merge operands of a key that a reader sees, and the value that they apply
// to. Copies of them, so that the merge operator can be called after the read
// has ended.
//
// A lookup passes it from the newest source of entries to the oldest, and each
// source adds its versions of the key. An iterator adds the versions itself.
// Thread-safety: owned by one thread.
class MergeOperands {
 public:
  // Makes it empty.
  void Clear();
  // Returns whether it has no operand.
  bool empty() const { return ends_.empty(); }
  // Returns the number of operands.
  size_t size() const { return ends_.size(); }

  // ---- From the newest version to the oldest ----

  // Says that a range deletion covers the key: versions with lower numbers are
  // deleted.
  void Cover(SequenceNumber sequence) {
    if (sequence > cover_) cover_ = sequence;
  }
  // Returns whether older sources can have a version that is needed.
  bool NeedsOlder() const { return !ended_ && cover_ == 0; }
  // Returns whether the next file of the same level can have one. Unlike an
  // older source, it may have versions that are newer than a range deletion in
  // this file.
  bool NeedsNextFile() const { return !ended_; }
  // Adds the next older version. Returns false if no older one is needed.
  bool Add(uint64_t trailer, const Slice& value);

  // ---- From the oldest version to the newest ----

  // Adds an operand that is newer than all others.
  void AddNewer(const Slice& operand);
  // Sets the value under the operands.
  void SetBase(const Slice& value);

  // Returns whether there is a value under the operands.
  bool has_base() const { return has_base_; }
  // Returns that value. It is valid until the next change.
  Slice base() const { return base_; }
  // Returns the operands, oldest first. They are valid until the next change.
  std::vector<Slice> OldestFirst() const;

 private:
  std::string bytes_;         // Of all operands.
  std::vector<size_t> ends_;  // Where each ends in bytes_.
  bool newest_first_ = true;
  bool ended_ = false;  // A value or a deletion was added.
  SequenceNumber cover_ = 0;
  bool has_base_ = false;
  std::string base_;
};

}  // namespace varve
