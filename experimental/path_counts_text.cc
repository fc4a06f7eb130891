// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reports the variants that have run: the property varve.ablation-path-counts.

#include <cstdint>

#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version_cache.h"
#include "experimental/ablation_experiment.h"
#include "monitoring/memory_accounting.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "monitoring/tsc_clock.h"
#include "table/cache/block_cache.h"
#include "util/threads/path_counter.h"

namespace varve {

std::string AblationExperiment::PathCountsText(
    const PathCountSources& sources) const {
  std::string out;
  const auto add = [&](const char* field, uint64_t count) {
    out += field;
    out += '=';
    const char* const value = choices.ValueName(field);
    out += value != nullptr ? value : "?";  // Made by a cast.
    out += ' ' + std::to_string(count) + '\n';
  };
  // Returns the count of a variant that has no component of its own to ask.
  const auto count = [](auto mode, PathCounter production,
                        PathCounter baseline) {
    return PathCount(IsProduction(mode) ? production : baseline);
  };
  add("superversion", sources.super_versions.PathCount());
  add("block_index", count(choices.block_index, PathCounter::kPrefixIndex,
                           PathCounter::kBinarySearch));
  add("block_cache", sources.block_cache.PathCount());
  add("memtable",
      count(choices.memtable, PathCounter::kBlinkTree, PathCounter::kSkipList));
  add("table_open", count(choices.table_open, PathCounter::kTailRead,
                          PathCounter::kUncachedOpen));
  add("snapshots", sources.snapshots.PathCount());
  add("arena",
      count(choices.arena, PathCounter::kKeptArena, PathCounter::kFreshArena));
  add("memory_accounting",
      AccountedBytes(!IsProduction(choices.memory_accounting)));
  add("statistics",
      sources.statistics == nullptr ? 0 : sources.statistics->PathCount());
  const TraceCollector& traces = TraceCollector::Get();
  add("trace_clock", traces.FinishedWith(CurrentClock()));
  add("trace_collect", traces.FinishedWith(choices.trace_collect));
  add("key_case", count(choices.key_case, PathCounter::kFoldingOpen,
                        PathCounter::kUnicodeFold));
  add("catalog", count(choices.catalog, PathCounter::kCachedName,
                       PathCounter::kCatalogFold));
  add("waste", PathCount(choices.waste == WasteMode::kIgnored
                             ? PathCounter::kWasteIgnored
                             : PathCounter::kWasteMended));
  return out;
}

}  // namespace varve
