// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// Counted by threads without a record.
constinit std::atomic<uint64_t> without_record[kPathCounters] = {};

}  // namespace

void CountPath(PathCounter path, uint64_t times) {
  ThreadRecord* const record = current_thread_record;
  if (record != nullptr) {
    CountPath(record, path, times);
    return;
  }
  // relaxed: a count.
  without_record[static_cast<int>(path)].fetch_add(times,
                                                   std::memory_order_relaxed);
}

uint64_t PathCount(PathCounter path) {
  const int i = static_cast<int>(path);
  // relaxed, here and below: counts.
  uint64_t sum = without_record[i].load(std::memory_order_relaxed);
  ForEachThreadRecord([i, &sum](const ThreadRecord* record) {
    sum += record->path_counters[i].load(std::memory_order_relaxed);
  });
  return sum;
}

}  // namespace varve
