// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <algorithm>
#include <cstdint>

#include "db/indexed_batch/batch_arena.h"
#include "db/indexed_batch/batch_entries.h"
#include "varve/slice.h"

namespace varve {

// The range deletions of a family in a batch, as a step function: the keys in
// order at which the newest deletion changes, and its floor from there on. The
// floor of a deletion is the number of the first update that is newer, and
// kNone is the floor where nothing is deleted.
//
// Thread-safety: owned by one thread at a time.
class RangeCover {
 public:
  static constexpr EntryId kNone = 0;

  bool empty() const { return steps_.empty(); }
  void Clear() { steps_.Truncate(0); }

  // Adds the range deletion `id`, which is newer than all others and not empty.
  // compare(a, b) orders keys.
  template <typename Compare>
  void Add(BatchEntries* entries, EntryId id, Compare compare);

  // Returns the floor of the newest deletion that covers the key.
  template <typename Compare>
  EntryId FloorOf(const BatchEntries& entries, const Slice& key,
                  Compare compare) const {
    const uint32_t after = After(entries, key, compare);
    return after == 0 ? kNone : steps_[after - 1].floor;
  }
  // The deleted keys around a covered key go from *begin, inclusive, to *end,
  // exclusive. The slices are valid until the batch changes.
  template <typename Compare>
  void FindStretch(const BatchEntries& entries, const Slice& key,
                   Compare compare, Slice* begin, Slice* end) const;

 private:
  struct Step {
    EntryId range;
    uint32_t is_end;  // The key is the range's end, otherwise its begin.
    EntryId floor;    // From the key on.
  };

  static Slice KeyOf(const BatchEntries& entries, const Step& step) {
    return step.is_end != 0 ? entries.ValueOf(step.range)
                            : entries.KeyOf(step.range);
  }
  // Returns the place of the first step after the key.
  template <typename Compare>
  uint32_t After(const BatchEntries& entries, const Slice& key,
                 Compare compare) const {
    return static_cast<uint32_t>(
        std::upper_bound(steps_.begin(), steps_.end(), key,
                         [&](const Slice& target, const Step& step) {
                           return compare(target, KeyOf(entries, step)) < 0;
                         }) -
        steps_.begin());
  }

  // The last one's floor is kNone.
  ArenaArray<Step> steps_;
};

template <typename Compare>
void RangeCover::Add(BatchEntries* entries, EntryId id, Compare compare) {
  const uint32_t last = After(*entries, entries->ValueOf(id), compare);
  const EntryId floor_at_end = last == 0 ? kNone : steps_[last - 1].floor;
  // The first step at or after the begin.
  uint32_t first = After(*entries, entries->KeyOf(id), compare);
  while (first != 0 &&
         compare(KeyOf(*entries, steps_[first - 1]), entries->KeyOf(id)) == 0) {
    --first;
  }
  const Step steps[] = {{.range = id, .is_end = 0, .floor = id + 1},
                        {.range = id, .is_end = 1, .floor = floor_at_end}};
  steps_.Replace(entries->arena(), first, last, steps, 2);
}

template <typename Compare>
void RangeCover::FindStretch(const BatchEntries& entries, const Slice& key,
                             Compare compare, Slice* begin, Slice* end) const {
  uint32_t to = After(entries, key, compare);
  uint32_t from = to - 1;
  while (steps_[to].floor != kNone) ++to;
  while (from != 0 && steps_[from - 1].floor != kNone) --from;
  *begin = KeyOf(entries, steps_[from]);
  *end = KeyOf(entries, steps_[to]);
}

}  // namespace varve
