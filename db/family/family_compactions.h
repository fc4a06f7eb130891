// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The compactions of one column family: the policy that chooses them, those
// that run, and what they have got done. Guarded by the DB mutex.

#include <cstdint>
#include <memory>
#include <vector>

#include "db/compaction/compaction_policy.h"
#include "db/compaction/compaction_stats.h"
#include "db/options/level_limit.h"

namespace varve {

struct FamilyCompactions {
  // `options` must outlive this object.
  explicit FamilyCompactions(const Options* options);

  // Record that a compaction begins and ends.
  void Begin(Compaction* compaction, uint64_t now_us);
  void End(const Compaction* compaction, bool succeeded, uint64_t now_us);
  // Returns the bytes that compactions have relieved, with the part that the
  // running ones have done. See CompactionPolicy::Relief.
  double RelievedBytes() const;
  CompactionDebt Debt(const Version& version) const {
    return policy->Debt(version, running);
  }
  // Returns for how long any compaction ran.
  uint64_t DrainingMicros(uint64_t now_us) const;

  const std::unique_ptr<const CompactionPolicy> policy;
  std::vector<const Compaction*> running;
  std::vector<TakenKeys> taken;  // See CompactionContext.
  bool is_exclusive = false;     // A CompactRange excludes other compactions.
  CompactionStats stats[kNumLevels];
  uint64_t space_debt = 0;  // See CompactionContext.

 private:
  double relieved_bytes_ = 0;       // By compactions that have ended.
  uint64_t draining_us_ = 0;        // By compactions that have ended.
  uint64_t draining_since_us_ = 0;  // If any runs.
};

}  // namespace varve
