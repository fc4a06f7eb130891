// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decides what to compact. Pure functions of a version, the options, and the
// compactions that are running; the DB mutex is held, since the files' marks
// are read.

#include <cstdint>
#include <memory>
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
  // Nobody reads as of an earlier moment. Needed where the version has
  // reclaimers, or hides in its deepest level.
  SequenceNumber oldest_snapshot = 0;
  // What compactions for space have rewritten in vain, less what was flushed
  // since. One that does not promise much more has to wait.
  uint64_t space_debt = 0;
};

// How urgent a level is; 1 and above are due. Files that are being compacted
// do not count.
double CompactionScore(const Options& options, const LevelTargets& targets,
                       const Version& version,
                       const std::vector<const Compaction*>& running,
                       int level);

// Whether some level is due, or a table by itself: its deletions hide much of
// what lies deeper, or it is of the last level and holds much that was kept for
// snapshots that are gone.
bool IsCompactionDue(const CompactionPickerContext& context);

// Bytes that compactions will have to rewrite until no level is due, about.
uint64_t EstimatePendingCompactionBytes(const Options& options,
                                        const Version& version);

// The most urgent compaction that can start now, or null.
std::unique_ptr<Compaction> PickCompaction(
    const CompactionPickerContext& context);

// Bytes that a compaction for the space that deletions hide has rewritten
// beyond what it was worth: the deletions were of keys that did not exist, say.
// What its outputs promise to free further down counts as freed: the next step
// tells whether it was.
uint64_t RewrittenInVain(const Compaction& compaction, uint64_t output_bytes,
                         uint64_t promised_bytes);

// What CompactRange asks of one level.
struct ManualRequest {
  int level = 0;
  int output_level = 0;
  UserKeyRange range;
  // Only files that begin after this internal key, if not null.
  const Slice* after = nullptr;
  // Only files with smaller numbers.
  uint64_t below_number = UINT64_MAX;
};

// The first files of what is asked for, up to about max_compaction_bytes
// (of level 0 all), or null if there are none, or, with *blocked set, if they
// would meet a running compaction.
std::unique_ptr<Compaction> PickManualCompaction(
    const CompactionPickerContext& context, const ManualRequest& request,
    bool* blocked);

}  // namespace varve
