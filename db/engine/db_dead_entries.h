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
#include "db/options/db_mutex.h"
#include "env/stopwatch.h"

namespace varve {

struct DbCore;

class DeadEntryCleanup {
 public:
  // All must outlive this object.
  DeadEntryCleanup(DbCore& core, Flusher& flusher, DbReader& reader)
      : core_(core), flusher_(flusher), reader_(reader) {}
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
                         uint64_t wakes) VARVE_REQUIRES(kDbMutex);
  bool FlushesRangeDeletionsLocked(ColumnFamily* family)
      VARVE_REQUIRES(kDbMutex);
  void FlushForReaders(ColumnFamily* family, const MemTable* memtable);

  DbCore& core_;
  Flusher& flusher_;
  DbReader& reader_;
};

}  // namespace varve
