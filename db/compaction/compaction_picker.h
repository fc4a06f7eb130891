// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decides what to compact. These are pure functions of a version, the options,
// and the running compactions. They read FileMetaData::being_compacted, so the
// DB mutex must be held.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/level_targets.h"
#include "db/version/version.h"
#include "varve/options.h"

namespace varve {

struct CompactionPickerContext {
  const Options* options = nullptr;
  Version* version = nullptr;
  const std::vector<const Compaction*>* running = nullptr;
  // No reader uses an older sequence number. Needed if the version has reclaim
  // candidates, waste, or hidden entries in its deepest level.
  SequenceNumber oldest_snapshot = 0;
  // Bytes that compactions for space rewrote without freeing space, less the
  // bytes flushed since. A compaction that does not promise much more has to
  // wait.
  uint64_t space_debt = 0;
  // Seconds since 1970 by the wall clock. With 0, no table is due for its age.
  uint64_t now_s = 0;
};

// Returns the urgency of a level. A level is due at 1 and above. Files that are
// being compacted do not count.
double CompactionScore(const Options& options, const LevelTargets& targets,
                       const Version& version,
                       const std::vector<const Compaction*>& running,
                       int level);

// Returns true if some level or a single table is due. A table is due if its
// compaction frees many bytes for its cost (Version::reclaim_candidates). A
// table of the last level is due if it holds many bytes that were kept for
// released snapshots. Tables can be due for their age (table_age.h).
bool IsCompactionDue(const CompactionPickerContext& context);

// Returns about how many bytes compactions must rewrite until no level is due.
uint64_t EstimatePendingCompactionBytes(const Options& options,
                                        const Version& version);

// The work of all compactions that are due, seen from the writers: bytes of
// level 0 whose way to the last level takes as much work.
struct CompactionDebt {
  // What level 0 holds, less the progress of a running compaction. Whole files
  // count, whatever their size, because the limits of level 0 are counts.
  double level0_files = 0;
  // Of levels above their targets, less the progress of running compactions, in
  // bytes of tables of level 0.
  double deep_bytes = 0;
};

// Computes the debt. The cost of a byte is the sum over the remaining levels of
// one, for itself, and the ratio of the next level's target to the level's own,
// for the bytes that it is merged with.
CompactionDebt ComputeCompactionDebt(
    const Options& options, const Version& version,
    const std::vector<const Compaction*>& running);

// Returns the bytes of level 0 whose debt the compaction removes.
double ComputeRelief(const Options& options, const Compaction& compaction);

// Returns the most urgent compaction that can start now, or null.
std::unique_ptr<Compaction> PickCompaction(
    const CompactionPickerContext& context);

// Returns a compaction that removes the dead entries of a table, or of all
// tables of level 0 if `level` is 0. A table of the deepest level is rewritten
// in place. Returns null if the level has no such table, or if the compaction
// would overlap a running one.
std::unique_ptr<Compaction> PickForReaders(
    const CompactionPickerContext& context, int level, uint64_t file_number);

// Returns how many more bytes a compaction for space rewrote than it freed.
// This happens, for example, when the deleted keys did not exist. Bytes that
// its outputs promise to free in deeper levels count as freed. The next
// compaction shows whether they were.
uint64_t RewrittenInVain(const Compaction& compaction, uint64_t output_bytes,
                         uint64_t reclaimable_bytes);

// The work of CompactRange on one level.
struct ManualRequest {
  int level = 0;
  int output_level = 0;
  UserKeyRange range;
  // Only files that begin after this internal key, if not null.
  const Slice* after = nullptr;
  // Only files with smaller numbers.
  uint64_t below_number = UINT64_MAX;
  // Only files with these numbers, if not null.
  const std::set<uint64_t>* numbers = nullptr;
};

// Returns a compaction of the first requested files, up to about
// max_compaction_bytes. Level 0 is taken whole. Returns null if there are no
// such files. Also returns null, and sets *blocked, if they overlap a running
// compaction.
std::unique_ptr<Compaction> PickManualCompaction(
    const CompactionPickerContext& context, const ManualRequest& request,
    bool* blocked);

}  // namespace varve
