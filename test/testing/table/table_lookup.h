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

// Moves as Seek does, after `abandoned` steps of another seek.
inline void SeekInSteps(const Slice& internal_key, int abandoned,
                        InternalIterator* iterator) {
  const std::string other =
      MakeInternalKey("key", SeekTrailer(kMaxSequenceNumber));
  for (int step = 0; step < abandoned; ++step) {
    iterator->PrepareSeek(other, step);
  }
  for (int step = 0; step < InternalIterator::kSeekSteps; ++step) {
    iterator->PrepareSeek(internal_key, step);
  }
  iterator->FinishSeek(internal_key);
}

}  // namespace varve::test
