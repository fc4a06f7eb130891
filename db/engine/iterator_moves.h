// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <utility>

#include "monitoring/measured_operation.h"
#include "monitoring/statistics.h"
#include "varve/perf_context.h"

namespace varve {

// Counts of an iterator's work on single entries, which it hands over from time
// to time. Thread-safety: owned by one thread.
struct IteratorMoves {
  uint64_t nexts = 0;
  uint64_t nexts_found = 0;
  uint64_t prevs = 0;
  uint64_t prevs_found = 0;
  uint64_t bytes = 0;
  uint64_t skips = 0;
  uint64_t deletions = 0;  // Among the skips, as far as examined.
  uint64_t reseeks = 0;

  // Adds the counts to the statistics, which may be null, and to the thread's
  // PerfContext.
  void Report(StatisticsImpl* statistics) const {
    if (PerfCounts()) [[unlikely]] {
      GetPerfContext()->iter_read_bytes += bytes;
      GetPerfContext()->internal_key_skipped_count += skips;
      GetPerfContext()->internal_delete_skipped_count += deletions;
    }
    const std::pair<Ticker, uint64_t> ticks[] = {
        {Ticker::kNumberDbNext, nexts},
        {Ticker::kNumberDbNextFound, nexts_found},
        {Ticker::kNumberDbPrev, prevs},
        {Ticker::kNumberDbPrevFound, prevs_found},
        {Ticker::kIterBytesRead, bytes},
        {Ticker::kNumberIterSkip, skips},
        {Ticker::kNumberReseeks, reseeks}};
    for (const auto& [ticker, count] : ticks) {
      if (count != 0) RecordTick(statistics, ticker, count);
    }
  }
};

}  // namespace varve
