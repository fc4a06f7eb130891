// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs compactions: those that are due, and the steps of a manual one. Lets
// compactions pause while the device is full. Thread-safety: functions called
// ...Locked require the DB mutex, and may release it and reacquire it.

#include <cstdint>
#include <set>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_picker.h"
#include "db/family/family_set.h"
#include "db/jobs/auto_resume.h"
#include "db/jobs/job_picker.h"
#include "db/jobs/job_starter.h"
#include "db/jobs/obsolete_files.h"
#include "db/jobs/table_jobs.h"
#include "db/jobs/write_control.h"
#include "util/base/mutex.h"
#include "varve/options.h"

namespace varve {

class Compactor {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    const DbDirectory* place;
    VersionSet* versions;
    FamilySet* families;
    WriteControl* control;
    JobPicker* picker;
    JobStarter* jobs;
    TableJobs* table_jobs;
    ObsoleteFiles* obsolete;
    AutoResume* auto_resume;
    EventQueue* events;
    BackgroundScheduler* scheduler;
    Logger* log;
    StatisticsImpl* stats;  // May be null.
    Mutex* mutex;           // The DB's.
  };

  explicit Compactor(const Parts& parts) : parts_(parts) {}
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  // The job of a compaction that is due. REQUIRES: the mutex is not held.
  void RunJob();
  // Does DB::CompactRange, after the memtables with keys of the range were
  // flushed. REQUIRES: the caller holds a reference to the family, or a handle.
  Status RunManualLocked(ColumnFamily* family,
                         const CompactRangeOptions& options,
                         const UserKeyRange& range);

  // Lets paused compactions run.
  void ResumeLocked();
  // Lets paused compactions run, and waits until it is known whether there is
  // space for them.
  void RetryLocked();

 private:
  Status RunLocked(ColumnFamily* family, Compaction* compaction);
  Status CompactRangeLocked(ColumnFamily* family,
                            const CompactRangeOptions& options,
                            const UserKeyRange& range);
  // Returns FindKeptTables of the family's current version.
  std::set<uint64_t> FindKeptLocked(ColumnFamily* family, int level,
                                    const UserKeyRange& range);
  Status CompactLevelLocked(ColumnFamily* family, ManualRequest request,
                            int last, bool exclusive);
  // Called after a compaction that found no space.
  void PauseLocked(const Status& status);

  const Parts parts_;
};

}  // namespace varve
