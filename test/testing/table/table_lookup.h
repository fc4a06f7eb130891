// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A lookup in one table, inside a read-side critical section of its own, and a
// seek in steps.

#include <string>

#include "table/block/internal_iterator.h"
#include "table/reader/table.h"
#include "table/reader/table_core.h"
#include "util/bytes/hash.h"
#include "util/threads/epoch.h"

namespace varve::test {

// The value is a PinnableSlice or a std::string.
template <typename Value>
Status GetAt(const Table& table, const Slice& user_key, SequenceNumber sequence,
             LookupState* state, Value* value,
             const ReadOptions& options = ReadOptions()) {
  const EpochGuard section;
  ReadTarget target(value);
  LookupResult result;
  result.target = &target;
  const TableLookup lookup{user_key, PreviewXxh3(user_key), sequence};
  Status s = table.Get<false>(options, lookup, &result);
  *state = result.state;
  StatisticsImpl* const statistics = table.core().options.statistics;
  if (statistics != nullptr) ReadTotals(result.counts).Tick(statistics);
  return s;
}

// Finds the newest entry of the same user key at or after the internal key.
template <typename Value>
Status Get(const Table& table, const Slice& internal_key, LookupState* state,
           Value* value, const ReadOptions& options = ReadOptions()) {
  return GetAt(table, ExtractUserKey(internal_key),
               ExtractSequence(internal_key), state, value, options);
}

// Gives up a seek after so many steps.
inline void BeginSeek(const Slice& internal_key, int steps,
                      InternalIterator* iterator) {
  for (int step = 0; step < steps; ++step) {
    iterator->PrepareSeek(internal_key, step);
  }
}

// Moves as Seek does, if no step fails.
inline void SeekInSteps(const Slice& internal_key, InternalIterator* iterator) {
  for (int step = 0; step < InternalIterator::kSeekSteps; ++step) {
    if (!iterator->PrepareSeek(internal_key, step)) return;
  }
  iterator->FinishSeek(internal_key);
}

}  // namespace varve::test
