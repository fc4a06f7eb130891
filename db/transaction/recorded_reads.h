// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The ranges of keys over which the iterators of a serializable transaction
// have moved. Commit checks them, so that no key appears in them or changes.
// Thread-safety: owned by one thread at a time, with its iterators.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class ColumnFamilyHandle;
class RecordingIterator;

// A range of a column family's keys that must not change after `since`. No
// bound means that it is open on this side.
struct TrackedRange {
  uint32_t family;
  std::optional<std::string> begin;
  std::optional<std::string> end;
  bool end_is_inclusive;
  SequenceNumber since;
};

class RecordedReads {
 public:
  RecordedReads() = default;
  ~RecordedReads() { Clear(); }
  RecordedReads(const RecordedReads&) = delete;
  RecordedReads& operator=(const RecordedReads&) = delete;

  // Returns an iterator that moves as `iterator` does, and records its moves
  // until Clear. `options` are its options; they have a snapshot.
  std::unique_ptr<Iterator> Record(std::unique_ptr<Iterator> iterator,
                                   ColumnFamilyHandle* family,
                                   const ReadOptions& options);

  // Returns all ranges, including the ones over which existing iterators have
  // moved up to now.
  const std::vector<TrackedRange>& Ranges();
  // Removes all ranges. Existing iterators record no more.
  void Clear();

 private:
  friend class RecordingIterator;

  std::vector<TrackedRange> ranges_;
  RecordingIterator* iterators_ = nullptr;  // A list.
};

}  // namespace varve
