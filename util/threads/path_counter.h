// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Counts the steps in which the variants of experimental/ablation.h
// differ, so that a measurement can verify which variant has run. The
// production variant's fast path is not counted. The other variants count on
// their slow steps, in the thread's record, so threads do not slow each other
// down.

#include <atomic>
#include <cstdint>

#include "util/threads/thread_record.h"

namespace varve {

enum class PathCounter : uint8_t {
  kBinarySearch,  // block_index=binary_search: a search of a table's index.
  kPrefixIndex,   // block_index=prefixes: an index opened that has them.
  kBlinkTree,     // memtable=blink_tree: a memtable that has one.
  kSkipList,      // memtable=skiplist: one, and each insert and search.
  kTailRead,      // table_open=one_read: a table opened by one or two reads.
  kUncachedOpen,  // table_open=uncached: a table opened.
  kKeptArena,     // arena=kept: a kept arena filled anew.
  kFreshArena,    // arena=fresh: an iterator or MultiGet in new memory.
  kFoldingOpen,   // key_case=ascii_first: a case-insensitive database opened.
  kUnicodeFold,  // key_case=unicode, or a non-ASCII key in other modes: a fold.
  kCachedName,   // catalog=name_cache: a name cached.
  kCatalogFold,  // catalog=folding: a name looked up.
  // waste=mended: a deletion dropped by a flush, or a compaction begun because
  // of dead entries.
  kWasteMended,
  kWasteIgnored,  // waste=ignored: a flush.
  kLargeBatch,    // A batch written while other writers went on.
};
inline constexpr int kPathCounters =
    static_cast<int>(PathCounter::kLargeBatch) + 1;
static_assert(kPathCounters <= ThreadRecord::kMaxPathCounters);

// Counts in a record of the calling thread.
inline void CountPath(ThreadRecord* record, PathCounter path,
                      uint64_t times = 1) {
  std::atomic<uint64_t>& count = record->path_counters[static_cast<int>(path)];
  // relaxed, both: this thread alone writes it, and the order is of no matter.
  count.store(count.load(std::memory_order_relaxed) + times,
              std::memory_order_relaxed);
}

// Counts for a caller without a record. Takes no mutex, and creates no record
// for a thread that has none.
[[gnu::noinline, gnu::cold]] void CountPath(PathCounter path,
                                            uint64_t times = 1);

// Returns the sum over all threads of the process, including those that have
// ended.
uint64_t PathCount(PathCounter path);

}  // namespace varve
