// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The work of a flush and of a compaction: write tables, make their names
// durable, and apply the edit that names them. The caller decides when a job
// runs, what readers see after it, and what its failure means. Thread-safety:
// functions called ...Locked require the DB mutex.

#include <cstdint>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/table_output.h"
#include "db/parts/background_scheduler.h"
#include "db/parts/column_family.h"
#include "db/parts/db_directory.h"
#include "db/parts/event_queue.h"
#include "table/reader/table_cache.h"
#include "util/base/mutex.h"

namespace varve {

class TableJobs {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    const DbDirectory* place;
    ColumnFamily* family;
    EventQueue* events;
    const BackgroundScheduler* scheduler;
    Logger* log;
    StatisticsImpl* stats;  // May be null.
    Mutex* mutex;
  };

  explicit TableJobs(const Parts& parts) : parts_(parts) {}
  TableJobs(const TableJobs&) = delete;
  TableJobs& operator=(const TableJobs&) = delete;
  // REQUIRES: called once, before all other functions.
  void SetTables(VersionSet* versions, TableCache* table_cache) {
    versions_ = versions;
    table_cache_ = table_cache;
  }
  // Returns the settings of all tables. Set them before the first job.
  TableOutputContext* output_context() { return &output_context_; }

  // Writes all immutable memtables to one table, and sets info->memtables to
  // their number. They stay in the list of immutable memtables. May release the
  // mutex and reacquire it.
  Status FlushLocked(FlushJobInfo* info);
  // Writes or moves the tables of a compaction. May release the mutex and
  // reacquire it.
  Status CompactLocked(const Compaction& compaction, CompactionJobInfo* info);
  // Returns the snapshots whose versions a job must keep, after it chose its
  // inputs. REQUIRES: the mutex is not held.
  std::vector<SequenceNumber> ScanSnapshots() const;

 private:
  // Makes the names of new tables durable. Removes the tables if that fails,
  // since no edit names them then.
  Status SyncOutputs(const VersionEdit& edit) const;

  const Parts parts_;
  VersionSet* versions_ = nullptr;
  TableCache* table_cache_ = nullptr;
  TableOutputContext output_context_;
};

}  // namespace varve
