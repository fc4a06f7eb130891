// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/read_counts.h"

#include <utility>

namespace varve {

void ReadTotals::Tick(StatisticsImpl* statistics) const {
  const std::pair<Ticker, uint64_t> ticks[] = {
      {Ticker::kBlockCacheHit, cache_hit},
      {Ticker::kBloomFilterUseful, filter_useful},
      {Ticker::kBloomFilterFullPositive, filter_positive},
      {Ticker::kBloomFilterFullTruePositive, filter_true_positive}};
  for (const auto& [ticker, count] : ticks) {
    if (count != 0) statistics->TickCounted(ticker, count);
  }
}

void ReadTotals::AddTo(PerfContext* perf) const {
  perf->block_cache_hit_count += cache_hit;
  perf->bloom_sst_hit_count += filter_positive;
  perf->bloom_sst_miss_count += filter_useful;
}

}  // namespace varve
