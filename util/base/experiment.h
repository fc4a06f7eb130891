// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What an experiment (include/varve/experimental.h) puts in the place of parts
// of the engine. The baselines are in baseline/ folders, which the library does
// not contain: it knows them by the pointers here only, and asks for them where
// it creates the part in question.

#include <memory>
#include <string>

#include "varve/cache.h"
#include "varve/experimental.h"
#include "varve/options.h"
#include "varve/statistics.h"

namespace varve {

class Arena;
class BlockCache;
class InternalKeyComparator;
class MemTableOrder;
class SnapshotRegistry;
class StatisticsImpl;
class SuperVersionCache;

// Creates what orders a memtable. `arena` is for the entries. Both must outlive
// the result.
using NewMemTableOrder = std::unique_ptr<MemTableOrder>(
    const InternalKeyComparator* comparator, Arena* arena);

// Parts of a database that count the steps of their variants themselves.
struct WitnessSources {
  const SuperVersionCache& super_versions;
  const SnapshotRegistry& snapshots;
  const BlockCache& block_cache;
  const StatisticsImpl* statistics;  // May be null.
};

// Where the library does something else because of an experiment, without a
// class of its own for it: because it has the code anyway, or because a call in
// place of a test would cost its fast path. Each is acted on by one unit.
struct ExperimentFlags {
  // A read takes the DB mutex for a reference (SuperVersionCache).
  bool locks_reads = false;
  // Snapshots are in a list under the DB mutex (SnapshotRegistry).
  bool lists_snapshots = false;
  // Comparator calls search indexes and blocks, as they do for a comparator
  // without prefixes (TableReaderOptions::binary_search).
  bool searches_binary = false;
  // Iterators and MultiGets are made of new memory (ContextLoan).
  bool renews_contexts = false;
  // One atomic sum for each kind of memory (memory_account.h); for good.
  bool counts_memory_atomically = false;
  // All keys are folded by the Unicode library (KeyFolding).
  bool folds_by_unicode = false;
  // A catalog looks up each name under its mutex (CatalogImpl).
  bool folds_names = false;
  // Tables are opened without what is known of their files
  // (FileOptions::uncached_open).
  bool opens_uncached = false;
  // The process's (tsc_clock.h, trace_collector.h).
  TraceClockMode trace_clock = {};
  TraceCollectMode trace_collect = {};
};

// Created in experimental/.
struct Experiment {
  virtual ~Experiment() = default;
  // The property varve.ablation-witness: a line "FIELD=VALUE COUNT" for each
  // field of AblationOptions, how often the step was done that only it does.
  virtual std::string WitnessText(const WitnessSources& sources) const = 0;

  std::string text;  // AblationOptions::ToString.
  ExperimentFlags flags;
  // Null, each: the production form.
  std::shared_ptr<Cache> (*new_block_cache)(const CacheOptions& options) =
      nullptr;
  std::shared_ptr<Statistics> (*new_statistics)(
      const StatisticsOptions& options) = nullptr;
  NewMemTableOrder* new_memtable_order = nullptr;
};

inline constexpr ExperimentFlags kNoExperiment;

inline const ExperimentFlags& ExperimentFlagsOf(const Options& options) {
  return options.experiment == nullptr ? kNoExperiment
                                       : options.experiment->flags;
}

// What orders the memtables; null for the production form.
inline NewMemTableOrder* MemTableOrderOf(const Options& options) {
  return options.experiment == nullptr ? nullptr
                                       : options.experiment->new_memtable_order;
}

}  // namespace varve
