// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>
#include <vector>

#include "db/compaction/older_tables.h"
#include "db/compaction/table_output.h"
#include "table/block/range_tombstone_set.h"

namespace varve {

// The range deletions of a flush's or compaction's inputs that the outputs must
// keep. For each key and stripe of sequence numbers (see CompactionIterator)
// this is the newest one, unless it hides no older entry. Thread-safety: owned
// by one thread.
class SurvivingRangeTombstones {
 public:
  // `tombstones` may be null, and must outlive this object. `snapshots` are in
  // increasing order. Null `older_tables` keep all range deletions.
  SurvivingRangeTombstones(const RangeTombstoneSet* tombstones,
                           const std::vector<SequenceNumber>& snapshots,
                           const OlderTables* older_tables);
  SurvivingRangeTombstones(const SurvivingRangeTombstones&) = delete;
  SurvivingRangeTombstones& operator=(const SurvivingRangeTombstones&) = delete;

  bool empty() const { return list_.empty(); }

  // Returns true if any survives between the bounds, each of which is optional.
  bool ReachInto(const std::optional<Slice>& lower,
                 const std::optional<Slice>& upper) const {
    return !Between(lower, upper).empty();
  }
  // Adds the surviving range deletions between the bounds to a table, after its
  // entries. `hidden`: they are kept for snapshots only.
  void AddTo(const std::optional<Slice>& lower,
             const std::optional<Slice>& upper, bool hidden,
             TableOutput* output) const;

 private:
  struct Piece {
    SequenceNumber sequence;
    size_t begin;  // Number of a bound.
  };

  void Collect(const std::vector<SequenceNumber>& snapshots,
               const OlderTables* older_tables);
  std::vector<RangeTombstone> Between(const std::optional<Slice>& lower,
                                      const std::optional<Slice>& upper) const;
  // Returns the sequence numbers that survive in an interval.
  std::vector<SequenceNumber> In(size_t interval,
                                 const std::vector<SequenceNumber>& snapshots,
                                 const OlderTables* older_tables) const;

  const RangeTombstoneSet* const tombstones_;
  std::vector<RangeTombstone> list_;
};

}  // namespace varve
