// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/table_output.h"
#include "table/block/range_tombstone_set.h"

namespace varve {

// Of the range deletions that go into a flush or a compaction, those that must
// come out again: of each key and stripe of sequence numbers (see
// CompactionIterator) the newest, unless there is nothing older left that it
// hides.
// Thread-safety: owned by one thread.
class RangeTombstoneSurvivors {
 public:
  // `tombstones` may be null, and must outlive this; `snapshots` rise;
  // `compaction` is null where all are kept.
  RangeTombstoneSurvivors(const RangeTombstoneSet* tombstones,
                          const std::vector<SequenceNumber>& snapshots,
                          const Compaction* compaction);
  RangeTombstoneSurvivors(const RangeTombstoneSurvivors&) = delete;
  RangeTombstoneSurvivors& operator=(const RangeTombstoneSurvivors&) = delete;

  bool empty() const { return list_.empty(); }

  // Whether any is left between the bounds, of which each may be missing.
  bool ReachInto(const std::optional<Slice>& lower,
                 const std::optional<Slice>& upper) const {
    return !Between(lower, upper).empty();
  }
  // Adds to a table, after its entries, what is left between the bounds.
  void AddTo(const std::optional<Slice>& lower,
             const std::optional<Slice>& upper, TableOutput* output) const;

 private:
  struct Piece {
    SequenceNumber sequence;
    size_t begin;  // Number of a bound.
  };

  void Collect(const std::vector<SequenceNumber>& snapshots,
               const Compaction* compaction);
  std::vector<RangeTombstone> Between(const std::optional<Slice>& lower,
                                      const std::optional<Slice>& upper) const;
  // The sequence numbers that survive in an interval.
  std::vector<SequenceNumber> In(size_t interval,
                                 const std::vector<SequenceNumber>& snapshots,
                                 const Compaction* compaction) const;

  const RangeTombstoneSet* const tombstones_;
  std::vector<RangeTombstone> list_;
};

}  // namespace varve
