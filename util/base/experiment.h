// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What an experiment (include/varve/experimental.h) puts in the place of parts
// of the engine. The baselines are in baseline/ folders, which the library does
// not contain: it knows them by the pointers here only, and asks for them where
// it creates the part in question. Created in experimental/.

#include <memory>
#include <string>

#include "util/base/ablation_choice.h"
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

// Parts of a database that count the steps of their variants themselves.
struct WitnessSources {
  const SuperVersionCache& super_versions;
  const SnapshotRegistry& snapshots;
  const BlockCache& block_cache;
  const StatisticsImpl* statistics;  // May be null.
};

struct Experiment {
  AblationOptions choices;
  // AblationOptions::ToString.
  std::string text;

  // The property varve.ablation-witness: a line "FIELD=VALUE COUNT" for each
  // field of the choices, how often the step was done that only it does.
  std::string (*witness_text)(const AblationOptions& choices,
                              const WitnessSources& sources) = nullptr;

  // Null, each: the production form.
  std::shared_ptr<Cache> (*new_block_cache)(const CacheOptions& options) =
      nullptr;
  std::shared_ptr<Statistics> (*new_statistics)(
      const StatisticsOptions& options) = nullptr;
  std::unique_ptr<MemTableOrder> (*new_memtable_order)(
      const InternalKeyComparator* comparator, Arena* arena) = nullptr;
};

inline constexpr AblationOptions kProduction;

// What orders the memtables; null for the production form.
inline auto MemTableOrderOf(const Options& options) {
  return options.experiment == nullptr ? nullptr
                                       : options.experiment->new_memtable_order;
}

inline const AblationOptions& ChoicesOf(const Options& options) {
  return options.experiment == nullptr ? kProduction
                                       : options.experiment->choices;
}

}  // namespace varve
