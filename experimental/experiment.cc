// Varve: a key-value storage engine. MIT licence, see LICENSE.

#include "db/memtable/baseline/skiplist_order.h"
#include "experimental/ablation_experiment.h"
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

// Null: the production form.
decltype(Experiment::new_block_cache) FactoryOf(BlockCacheMode mode) {
  return mode == BlockCacheMode::kHash ? &NewHashBlockCache : nullptr;
}

decltype(Experiment::new_statistics) FactoryOf(StatisticsMode mode) {
  switch (mode) {
    case StatisticsMode::kPerCpu:
      return nullptr;
    case StatisticsMode::kGlobal:
      return &NewStatistics<GlobalStatisticsCells>;
    case StatisticsMode::kThread:
      return &NewStatistics<ThreadStatisticsCells>;
  }
  return nullptr;
}

}  // namespace

AblationExperiment::AblationExperiment(const AblationOptions& the_choices)
    : choices(the_choices) {
  text = choices.ToString();
  flags.locks_reads = !IsProduction(choices.superversion);
  flags.lists_snapshots = !IsProduction(choices.snapshots);
  flags.searches_binary = !IsProduction(choices.block_index);
  flags.renews_arenas = !IsProduction(choices.arena);
  flags.counts_memory_atomically = !IsProduction(choices.memory_accounting);
  flags.folds_by_unicode = !IsProduction(choices.key_case);
  flags.folds_names = !IsProduction(choices.catalog);
  flags.ignores_waste = choices.waste == WasteMode::kIgnored;
  flags.cleans_always = choices.waste == WasteMode::kAlways;
  flags.opens_uncached = !IsProduction(choices.table_open);
  flags.trace_clock = choices.trace_clock;
  flags.trace_collect = choices.trace_collect;
  new_block_cache = FactoryOf(choices.block_cache);
  new_statistics = FactoryOf(choices.statistics);
  if (choices.memtable == MemTableMode::kSkipList) {
    new_memtable_order = &NewSkipListOrder;
  }
}

std::shared_ptr<const Experiment> NewExperiment(
    const AblationOptions& options) {
  return std::make_shared<AblationExperiment>(options);
}

std::shared_ptr<Cache> NewBlockCache(BlockCacheMode mode,
                                     const CacheOptions& options) {
  const auto create = FactoryOf(mode);
  return create != nullptr ? create(options) : NewBlockCache(options);
}

std::shared_ptr<Statistics> CreateDBStatistics(
    StatisticsMode mode, const StatisticsOptions& options) {
  const auto create = FactoryOf(mode);
  return create != nullptr ? create(options) : CreateDBStatistics(options);
}

}  // namespace varve
