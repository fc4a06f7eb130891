// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The column families that a write updates: those of a batch, or of its only
// update. Thread-safety: owned by one thread, which is the leader of the write
// queue or holds the DB mutex during each call.

#include <cstddef>
#include <vector>

#include "db/family/family_set.h"
#include "db/options/db_mutex.h"
#include "db/write/write_batch_internal.h"
#include "db/write/write_queue.h"

namespace varve {

class TouchedFamilies {
 public:
  // `update` is the batch's only update, or null. All must outlive this object.
  TouchedFamilies(const FamilySet& families, const WriteBatch& batch,
                  const WriteQueue::SingleUpdate* update)
      : families_(families), batch_(batch), update_(update) {}

  const WriteBatch& batch() const { return batch_; }
  // Returns whether the write updates families beside the default one.
  bool HasOthers() const {
    return !WriteBatchInternal::Families(batch_).empty();
  }
  // For the leader. Returns whether all of the families are live.
  bool AreLive() const;
  // Calls visit(family) for each live family that the write updates. The
  // default family counts as updated by a batch that updates no other.
  template <typename Visit>
  void ForEach(Visit visit) const {
    if (update_ != nullptr) {
      if (!update_->family->is_dropped()) visit(update_->family);
      return;
    }
    const auto& families = WriteBatchInternal::Families(batch_);
    size_t bytes = 0;
    for (const auto& [id, family_bytes] : families) {
      bytes += family_bytes;
      ColumnFamily* const family = families_.Find(id);
      if (family != nullptr) visit(family);
    }
    if (families.empty() ||
        BatchReader::kHeaderSize + bytes < batch_.ApproximateSize()) {
      visit(families_.default_family());
    }
  }
  // Returns them all.
  std::vector<ColumnFamily*> All() const;
  // For the leader. Returns whether a pause is due for one of the families.
  bool PaceIsDue() const;
  // Returns the family whose state holds the write up most. A dropped family
  // holds up none: no flush or compaction of it would end the wait.
  ColumnFamily* MostPressedLocked() const VARVE_REQUIRES(kDbMutex);

 private:
  const FamilySet& families_;
  const WriteBatch& batch_;
  const WriteQueue::SingleUpdate* const update_;
};

// For the leader. Records that the group's families have updates that are in no
// log.
void MarkUnlogged(const FamilySet& families, const WriteQueue::Group& group);
// For the leader, before the numbers of its group become visible: takes the
// keys of the group's values out of the ranges that are known to have none.
void CutDeadRanges(const FamilySet& families, const WriteQueue::Group& group);

}  // namespace varve
