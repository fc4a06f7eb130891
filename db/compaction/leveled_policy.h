// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Leveled compaction. Level 0 is due by its number of tables, the other levels
// by their size (level_targets.h), the most urgent one first. Single tables are
// due apart from that:
// - if their compaction frees many bytes for its cost
//   (Version::reclaim_candidates);
// - in the deepest level, if they hold many bytes that were kept for released
//   snapshots;
// - for their age (table_age.h).

#include <memory>
#include <vector>

#include "db/compaction/compaction_policy.h"

namespace varve {

class LeveledPolicy : public CompactionPolicy {
 public:
  using CompactionPolicy::CompactionPolicy;

  std::unique_ptr<Compaction> Pick(
      const CompactionContext& context) const override;
  bool IsDue(const CompactionContext& context) const override;
  double Score(const Version& version,
               const std::vector<const Compaction*>& running,
               int level) const override;
  // Level 0 goes to the base level, another level to the one below it.
  int NextLevel(const Version& version, int level) const override;
  // The cost of a byte is the sum over the remaining levels of one, for itself,
  // and the ratio of the next level's target to the level's own, for the bytes
  // that it is merged with.
  CompactionDebt Debt(
      const Version& version,
      const std::vector<const Compaction*>& running) const override;
  double Relief(const Compaction& compaction) const override;
};

}  // namespace varve
