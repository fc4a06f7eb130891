// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/read_counts.h"

namespace varve {

void ReadCounts::TickLanes(StatisticsImpl* statistics) const {
  constexpr struct {
    uint64_t unit;
    Ticker ticker;
  } kLanes[] = {{kCacheHit, Ticker::kBlockCacheHit},
                {kFilterUseful, Ticker::kBloomFilterUseful},
                {kFilterPositive, Ticker::kBloomFilterFullPositive},
                {kFilterTruePositive, Ticker::kBloomFilterFullTruePositive}};
  for (const auto& [unit, ticker] : kLanes) {
    const uint64_t count = Lane(unit);
    if (count != 0) statistics->TickCounted(ticker, count);
  }
}

void ReadCounts::AddTo(PerfContext* perf) const {
  perf->block_cache_hit_count += Lane(kCacheHit);
  perf->bloom_sst_hit_count += Lane(kFilterPositive);
  perf->bloom_sst_miss_count += Lane(kFilterUseful);
}

}  // namespace varve
