// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The compactions of one column family, and what they have got done. Guarded by
// the DB mutex.

#include <cstdint>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_stats.h"
#include "db/options/level_limit.h"

namespace varve {

struct FamilyCompactions {
  // Record that a compaction begins and ends.
  void Begin(const Options& options, Compaction* compaction, uint64_t now_us);
  void End(const Compaction* compaction, bool succeeded, uint64_t now_us);
  // Returns the bytes that compactions have relieved, with the part that the
  // running ones have done. See ComputeRelief.
  double RelievedBytes() const;
  // Returns for how long any compaction ran.
  uint64_t DrainingMicros(uint64_t now_us) const;

  std::vector<const Compaction*> running;
  bool is_exclusive = false;  // A CompactRange excludes other compactions.
  CompactionStats stats[kNumLevels];
  uint64_t space_debt = 0;  // See CompactionPickerContext.

 private:
  double relieved_bytes_ = 0;       // By compactions that have ended.
  uint64_t draining_us_ = 0;        // By compactions that have ended.
  uint64_t draining_since_us_ = 0;  // If any runs.
};

}  // namespace varve
