// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/base/experiment.h"

#include "db/memtable/baseline/skiplist_order.h"
#include "experimental/witness_text.h"
#include "monitoring/baseline/global_statistics_cells.h"
#include "monitoring/baseline/thread_statistics_cells.h"
#include "monitoring/statistics.h"
#include "table/cache/baseline/hash_block_cache.h"

namespace varve {

namespace {

std::shared_ptr<Cache> NewHashBlockCache(const CacheOptions& options) {
  return std::make_shared<HashBlockCache>(options);
}

template <typename CellSets>
std::shared_ptr<Statistics> NewStatistics(const StatisticsOptions& options) {
  return std::make_shared<StatisticsImpl>(options,
                                          std::make_unique<CellSets>());
}

}  // namespace

std::shared_ptr<const Experiment> NewExperiment(
    const AblationOptions& options) {
  auto experiment = std::make_shared<Experiment>();
  experiment->choices = options;
  experiment->witness_text = &WitnessText;
  experiment->text = options.ToString();
  if (options.block_cache == BlockCacheMode::kHash) {
    experiment->new_block_cache = &NewHashBlockCache;
  }
  if (options.statistics == StatisticsMode::kGlobal) {
    experiment->new_statistics = &NewStatistics<GlobalStatisticsCells>;
  } else if (options.statistics == StatisticsMode::kThread) {
    experiment->new_statistics = &NewStatistics<ThreadStatisticsCells>;
  }
  if (options.memtable == MemTableMode::kSkipList) {
    experiment->new_memtable_order = &NewSkipListOrder;
  }
  return experiment;
}

std::shared_ptr<Cache> NewBlockCache(BlockCacheMode mode,
                                     const CacheOptions& options) {
  return mode == BlockCacheMode::kHash ? NewHashBlockCache(options)
                                       : NewBlockCache(options);
}

std::shared_ptr<Statistics> CreateDBStatistics(
    StatisticsMode mode, const StatisticsOptions& options) {
  switch (mode) {
    case StatisticsMode::kPerCpu:
      break;
    case StatisticsMode::kGlobal:
      return NewStatistics<GlobalStatisticsCells>(options);
    case StatisticsMode::kThread:
      return NewStatistics<ThreadStatisticsCells>(options);
  }
  return CreateDBStatistics(options);
}

}  // namespace varve
