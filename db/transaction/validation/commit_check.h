// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

// The keys and ranges of keys that a commit must find unchanged: no other write
// may have changed them after a sequence number. DBImpl::WriteChecked compares
// them with the database. Keys are as the engine stores them: folded in a
// case-insensitive database. The slices' bytes belong to the caller, until the
// next Clear.
//
// After Clear it keeps its memory, so that a reused check allocates nothing.
// Thread-safety: owned by one thread.
class CommitCheck {
 public:
  struct Key {
    Slice key;
    uint64_t hash;  // PreviewXxh3.
    SequenceNumber since;
  };
  struct Range {
    Slice begin;
    Slice end;
    bool has_begin;
    bool has_end;
    bool end_is_inclusive;
    SequenceNumber since;
  };
  struct Family {
    uint32_t id = 0;
    std::vector<Key> keys;
    std::vector<Range> ranges;
  };

  CommitCheck() = default;
  CommitCheck(const CommitCheck&) = delete;
  CommitCheck& operator=(const CommitCheck&) = delete;

  // Makes it empty.
  void Clear();
  bool empty() const { return used_ == 0; }
  // Adds a key that must not have changed after `since`. A snapshot at or
  // before that number must exist until the commit ends.
  void AddKey(uint32_t family_id, const Slice& key, SequenceNumber since);
  // Adds a range, [*begin, *end] with `end_is_inclusive`, else [*begin, *end).
  // A null bound is open. No key may have been changed or added in it.
  void AddRange(uint32_t family_id, const Slice* begin, const Slice* end,
                bool end_is_inclusive, SequenceNumber since);

  // Returns the families that have keys or ranges.
  std::span<const Family> families() const { return {families_.data(), used_}; }
  // Returns the family's keys and ranges, or null if there are none.
  const Family* Find(uint32_t family_id) const;

 private:
  Family* Of(uint32_t family_id);

  std::vector<Family> families_;  // The first used_ are valid.
  size_t used_ = 0;
};

}  // namespace varve
