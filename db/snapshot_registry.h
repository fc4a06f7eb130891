// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "table/internal_key.h"
#include "varve/db.h"

namespace varve {

class SnapshotImpl final : public Snapshot {
 public:
  explicit SnapshotImpl(SequenceNumber sequence) : sequence_(sequence) {}
  uint64_t GetSequenceNumber() const override { return sequence_; }

 private:
  friend class SnapshotRegistry;

  const SequenceNumber sequence_;
  std::list<SnapshotImpl>::iterator position_;
};

// The snapshots that are out, oldest first.
// Thread-safety: guarded by the DB mutex.
class SnapshotRegistry {
 public:
  // REQUIRES: sequence is not below that of any snapshot taken before.
  const Snapshot* Take(SequenceNumber sequence) {
    snapshots_.emplace_back(sequence);
    SnapshotImpl& snapshot = snapshots_.back();
    snapshot.position_ = std::prev(snapshots_.end());
    return &snapshot;
  }
  void Release(const Snapshot* snapshot) {
    snapshots_.erase(static_cast<const SnapshotImpl*>(snapshot)->position_);
  }
  bool empty() const { return snapshots_.empty(); }
  size_t size() const { return snapshots_.size(); }
  // REQUIRES: !empty().
  SequenceNumber Oldest() const { return snapshots_.front().sequence_; }
  // Rising, each number once.
  std::vector<SequenceNumber> Sequences() const {
    std::vector<SequenceNumber> result;
    for (const SnapshotImpl& snapshot : snapshots_) {
      if (result.empty() || result.back() != snapshot.sequence_) {
        result.push_back(snapshot.sequence_);
      }
    }
    return result;
  }

 private:
  std::list<SnapshotImpl> snapshots_;
};

}  // namespace varve
