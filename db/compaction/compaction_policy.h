// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decides what a column family compacts. A policy says what is due, what goes
// where, and how much work that is. The rest does not depend on it: what else
// must be an input so that no older version of a key gets above a newer one,
// and which files are an input when somebody asks for a compaction.

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/version/version.h"
#include "varve/options.h"

namespace varve {

// Keys of a level above 0 that a new table is about to take.
struct TakenKeys {
  int level = 0;
  KeySpan span;
};

// The state that compactions are chosen for.
struct CompactionContext {
  Version* version = nullptr;
  const std::vector<const Compaction*>* running = nullptr;
  // By ingestions whose edits are being written. Null: none.
  const std::vector<TakenKeys>* taken = nullptr;
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

// Returns whether a running compaction, or an ingestion, writes keys of the
// span to the level.
bool MeetsOutput(const CompactionContext& context, int level,
                 const InternalKeyComparator& comparator, const KeySpan& span);

// The work of all compactions that are due.
struct CompactionDebt {
  // About how many bytes compactions must rewrite until no level is due. The
  // progress of running compactions does not count.
  uint64_t pending_bytes = 0;
  // The rest is the work seen from the writers: bytes of level 0 whose way to
  // the last level takes as much work. First, what level 0 holds, less the
  // progress of a running compaction. Whole files count, whatever their size,
  // because the limits of level 0 are counts.
  double level0_files = 0;
  // Of levels above their targets, less the progress of running compactions, in
  // bytes of tables of level 0.
  double deep_bytes = 0;
};

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

// Thread-safety: has no state but the options. They may change, and
// FileMetaData::being_compacted is read, so the DB mutex must be held.
class CompactionPolicy {
 public:
  // `options` must outlive this object.
  explicit CompactionPolicy(const Options* options) : options_(*options) {}
  virtual ~CompactionPolicy() = default;
  CompactionPolicy(const CompactionPolicy&) = delete;
  CompactionPolicy& operator=(const CompactionPolicy&) = delete;

  // Returns the most urgent compaction that can start now, or null.
  virtual std::unique_ptr<Compaction> Pick(
      const CompactionContext& context) const = 0;
  // Returns true if something is due. It may have to wait for a compaction that
  // runs.
  virtual bool IsDue(const CompactionContext& context) const = 0;
  // Returns the urgency of a level. A level is due at 1 and above. Files that
  // are being compacted do not count.
  virtual double Score(const Version& version,
                       const std::vector<const Compaction*>& running,
                       int level) const = 0;
  // Returns the output level of a compaction of `level`, which is not the last
  // one. The levels between them are empty.
  virtual int NextLevel(const Version& version, int level) const = 0;
  virtual CompactionDebt Debt(
      const Version& version,
      const std::vector<const Compaction*>& running) const = 0;
  // Returns the bytes of level 0 whose debt the compaction removes.
  virtual double Relief(const Compaction& compaction) const = 0;

  // Returns a compaction that removes the dead entries of a table, or of all
  // tables of level 0 if `level` is 0. A table of the deepest level is
  // rewritten in place. Returns null if the level has no such table, or if the
  // compaction would overlap a running one.
  std::unique_ptr<Compaction> PickForReaders(const CompactionContext& context,
                                             int level,
                                             uint64_t file_number) const;
  // Returns a compaction of the first requested files, up to about
  // max_compaction_bytes. Level 0 is taken whole. Returns null if there are no
  // such files. Also returns null, and sets *blocked, if they overlap a running
  // compaction.
  std::unique_ptr<Compaction> PickManual(const CompactionContext& context,
                                         const ManualRequest& request,
                                         bool* blocked) const;
  // Returns a compaction of these files of a level, and of those that share
  // keys with them. Rewrites them. The levels between the two have no key of
  // their range. Returns null if they overlap a running compaction.
  std::unique_ptr<Compaction> PickFiles(const CompactionContext& context,
                                        int level, int output_level,
                                        std::vector<FileMetaData*> files) const;
  // For policies. Completes a compaction whose inputs[0], level, output_level
  // and is_manual are set. Returns null if it would overlap a running one.
  std::unique_ptr<Compaction> Complete(const CompactionContext& context,
                                       std::unique_ptr<Compaction> c) const;

 protected:
  const Options& options() const { return options_; }

 private:
  const Options& options_;
};

}  // namespace varve
