// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The job that looks at dead entries which readers have reported: examines
// where they are, and lets flushes and compactions remove them. Thread-safety:
// functions called ...Locked require the DB mutex; the rest takes it.

#include <cstdint>
#include <vector>

#include "db/dead_entries/dead_range_examination.h"
#include "db/engine/db_read.h"
#include "db/jobs/flusher.h"
#include "env/stopwatch.h"

namespace varve {

class DeadEntryCleanup {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    Env* env;
    const DbDirectory* place;
    FamilySet* families;
    WriteQueue* write_queue;
    WriteControl* control;
    JobPicker* picker;
    JobStarter* jobs;
    Flusher* flusher;
    DbReader* reader;
    EventQueue* events;
    BackgroundScheduler* scheduler;
    Logger* log;
    StatisticsImpl* stats;  // May be null.
    Mutex* mutex;           // The DB's.
  };

  explicit DeadEntryCleanup(const Parts& parts) : parts_(parts) {}
  DeadEntryCleanup(const DeadEntryCleanup&) = delete;
  DeadEntryCleanup& operator=(const DeadEntryCleanup&) = delete;

  // The job. Cleans up for all families for which that is due.
  void RunJob();

 private:
  void CleanUp(ColumnFamily* family, const Stopwatch& job);
  void RememberAround(ColumnFamily* family, const DeadRange& range,
                      const Stopwatch& job);
  void PlanCleanupLocked(ColumnFamily* family,
                         const std::vector<DeadRangeCleaner::Target>& targets,
                         const std::vector<DeadRangeFindings>& found,
                         uint64_t wakes);
  bool FlushesRangeDeletionsLocked(ColumnFamily* family);
  void FlushForReaders(ColumnFamily* family, const MemTable* memtable);

  const Parts parts_;
};

}  // namespace varve
