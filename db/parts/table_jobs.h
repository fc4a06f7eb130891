// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The work of a flush and of a compaction: write tables, make their names
// durable, and apply the edit that names them. When a job runs, what readers
// see after it, and what its failure means, are for the caller.
//
// Thread-safety: the functions called ...Locked, with the DB mutex held. They
// release it while tables are written.

#include <cstdint>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/table_output.h"
#include "db/parts/background_scheduler.h"
#include "db/parts/column_family.h"
#include "db/parts/database_place.h"
#include "db/parts/event_queue.h"
#include "table/reader/table_cache.h"
#include "util/base/mutex.h"

namespace varve {

class TableJobs {
 public:
  // Of the database. All outlive this.
  struct Parts {
    const DatabasePlace* place;
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
  // To be called once, first.
  void SetTables(VersionSet* versions, TableCache* table_cache) {
    versions_ = versions;
    table_cache_ = table_cache;
  }
  // What all tables have in common. To be set before the first job.
  TableOutputContext* output_context() { return &output_context_; }

  // Writes the immutable memtables, info->memtables in number, to one table.
  // They are still immutable ones when it returns.
  Status FlushLocked(FlushJobInfo* info);
  // Writes, or moves, the tables of a compaction.
  Status CompactLocked(const Compaction& compaction, CompactionJobInfo* info);
  // The snapshots whose versions a job that has chosen its inputs must keep.
  // REQUIRES: the mutex is not held.
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
