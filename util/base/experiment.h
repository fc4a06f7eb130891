// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of the engine that an experiment (experimental/ablation.h)
// replaces. The baselines are in baseline/ folders, and the library does not
// contain them. It knows them only by the pointers here, and uses these where
// it creates the part.

#include <cstdint>
#include <memory>
#include <string>

#include "varve/cache.h"
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

// trace_clock=steady: clock_gettime(CLOCK_MONOTONIC) for traces. coarse: its
// coarse form, which costs nearly nothing and advances every few milliseconds.
// Production: the time stamp counter, if it is reliable. Process-wide: the last
// database opened decides for traces that begin later.
enum class TraceClockMode : uint8_t { kTsc = 0, kSteady, kCoarse };

// trace_collect=mutex: each span is put into one vector, which has a lock.
// channel: each span is sent through one lock-free channel. Production: spans
// stay in chunks of memory of their thread, which are handed over when full.
// Process-wide, as trace_clock.
enum class TraceCollectMode : uint8_t { kThreadLocal = 0, kMutex, kChannel };

// Creates the structure that orders a memtable. The arenas provide the memory
// for entries and for nodes. All arguments must outlive the result.
using NewMemTableOrder = std::unique_ptr<MemTableOrder>(
    const InternalKeyComparator* comparator, Arena* entries, Arena* nodes);

// The parts of a database that count the steps of their own variants.
struct PathCountSources {
  const SuperVersionCache& super_versions;
  const SnapshotRegistry& snapshots;
  const BlockCache& block_cache;
  const StatisticsImpl* statistics;  // May be null.
};

// Changes of behavior that have no class of their own. The library already has
// the code for them, or a virtual call would cost more on its fast path than a
// test. One unit acts on each flag.
struct ExperimentFlags {
  // A read takes the DB mutex for a reference (SuperVersionCache).
  bool locks_reads = false;
  // Snapshots are in a list under the DB mutex (SnapshotRegistry).
  bool lists_snapshots = false;
  // Comparator calls search indexes and blocks, as they do for a comparator
  // without prefixes (TableReaderOptions::binary_search).
  bool searches_binary = false;
  // Iterators and MultiGets use new memory (ScopedArena).
  bool renews_arenas = false;
  // One atomic sum for each kind of memory (memory_account.h). It stays set for
  // the rest of the process.
  bool counts_memory_atomically = false;
  // All keys are folded by the Unicode library (KeyFolding).
  bool folds_by_unicode = false;
  // A catalog looks up each name under its mutex (CatalogImpl).
  bool folds_names = false;
  // Dead entries do not cause flushes, compactions or drops by a flush
  // (FlushMemTables, CompactionPicker).
  bool ignores_waste = false;
  // Each walk over a deletion counts as a long one (DeadWalks,
  // DeadRangeCleaner).
  bool cleans_always = false;
  // Tables are opened without any cached knowledge
  // (FileOptions::uncached_open).
  bool opens_uncached = false;
  // Process-wide (tsc_clock.h, trace_collector.h).
  TraceClockMode trace_clock = {};
  TraceCollectMode trace_collect = {};
};

// Created in experimental/.
struct Experiment {
  virtual ~Experiment() = default;
  // Returns the property varve.ablation-path-counts: a line "FIELD=VALUE COUNT"
  // for each field of AblationOptions. COUNT is the number of times that the
  // variant's own step ran.
  virtual std::string PathCountsText(const PathCountSources& sources) const = 0;

  std::string text;  // AblationOptions::ToString.
  ExperimentFlags flags;
  // Each is null for the production form.
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

// Returns the factory of the memtables' order, or null for the production form.
inline NewMemTableOrder* MemTableOrderOf(const Options& options) {
  return options.experiment == nullptr ? nullptr
                                       : options.experiment->new_memtable_order;
}

}  // namespace varve
