// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Which variants have run: the property varve.ablation-witness.

#include <cstdint>

#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version_cache.h"
#include "experimental/ablation_experiment.h"
#include "monitoring/memory_accounting.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "monitoring/tsc_clock.h"
#include "table/cache/block_cache.h"
#include "util/threads/witness.h"

namespace varve {

std::string AblationExperiment::WitnessText(
    const WitnessSources& sources) const {
  std::string out;
  const auto add = [&](const char* field, uint64_t count) {
    out += field;
    out += '=';
    const char* const value = choices.ValueName(field);
    out += value != nullptr ? value : "?";  // Made by a cast.
    out += ' ' + std::to_string(count) + '\n';
  };
  // The count of a field's variant that has no part of its own to ask.
  const auto count = [](auto mode, Witness production, Witness baseline) {
    return WitnessCount(IsProduction(mode) ? production : baseline);
  };
  add("superversion", sources.super_versions.WitnessCount());
  add("block_index", count(choices.block_index, Witness::kPrefixIndex,
                           Witness::kBinarySearch));
  add("block_cache", sources.block_cache.WitnessCount());
  add("memtable",
      count(choices.memtable, Witness::kBlinkTree, Witness::kSkipList));
  add("table_open",
      count(choices.table_open, Witness::kTailRead, Witness::kUncachedOpen));
  add("snapshots", sources.snapshots.WitnessCount());
  add("context",
      count(choices.context, Witness::kKeptContext, Witness::kFreshContext));
  add("memory_accounting",
      AccountedBytes(!IsProduction(choices.memory_accounting)));
  add("statistics",
      sources.statistics == nullptr ? 0 : sources.statistics->WitnessCount());
  const TraceCollector& traces = TraceCollector::Get();
  add("trace_clock", traces.FinishedWith(CurrentClock()));
  add("trace_collect", traces.FinishedWith(choices.trace_collect));
  add("key_case",
      count(choices.key_case, Witness::kFoldingOpen, Witness::kUnicodeFold));
  add("catalog",
      count(choices.catalog, Witness::kSpelling, Witness::kCatalogFold));
  return out;
}

}  // namespace varve
