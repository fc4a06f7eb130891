// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The work of a flush and of a compaction: write tables, make their names
// durable, and apply the edit that names them. The caller decides when a job
// runs, what readers see after it, and what its failure means. Thread-safety:
// functions called ...Locked require the DB mutex.

#include <cstdint>
#include <functional>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/table_output.h"
#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "db/version/covered_tables.h"
#include "varve/listener.h"

namespace varve {

struct DbCore;

class TableJobs {
 public:
  // `core` must outlive this object.
  explicit TableJobs(DbCore& core) : core_(core) {}
  TableJobs(const TableJobs&) = delete;
  TableJobs& operator=(const TableJobs&) = delete;

  // Called before the tables of the families are named: from then on the
  // families do not need logs before `first`, and some of them not those before
  // `end`.
  using SyncLogs =
      std::function<Status(const std::vector<ColumnFamily*>& families,
                           uint64_t first, uint64_t end)>;

  // Writes the oldest immutable memtables of each family to one table. They
  // stay in the lists of immutable memtables. The tables of several families
  // are named in one step, with one sync of the directory. `infos` is parallel
  // to `families`: its `memtables` is the number to write, and the rest is
  // filled in. If `atomic` is set, an error of one family is the error of all.
  // Otherwise the families before it are flushed. A family that was dropped is
  // left out: its info has ShutdownInProgress, which is not returned. May
  // release the mutex and reacquire it.
  Status FlushLocked(const std::vector<ColumnFamily*>& families, bool atomic,
                     std::vector<FlushJobInfo>* infos,
                     const SyncLogs& sync_logs) VARVE_REQUIRES(kDbMutex);
  // Writes or moves the tables of a compaction of the family. May release the
  // mutex and reacquire it.
  Status CompactLocked(ColumnFamily* family, const Compaction& compaction,
                       CompactionJobInfo* info) VARVE_REQUIRES(kDbMutex);
  // Removes those of the tables that the family still has, by an edit alone.
  // Sets *dropped if there are any. `why` is for the log. May release the mutex
  // and reacquire it.
  Status DropLocked(ColumnFamily* family,
                    const std::vector<CoveredTable>& tables, const char* why,
                    bool* dropped) VARVE_REQUIRES(kDbMutex);
  // Returns the snapshots whose versions a job must keep, after it chose its
  // inputs. REQUIRES: the mutex is not held.
  std::vector<SequenceNumber> ScanSnapshots() const;

 private:
  // The flush of one family.
  struct FamilyFlush {
    ColumnFamily* family;
    std::vector<MemTable*> memtables;
    uint64_t number;   // Of the table.
    Version* version;  // A reference is held while the table is written.
    TableOutputContext context;
    VersionEdit edit;
    Status status;

    // Returns the first log that the family needs after the flush.
    uint64_t NextLogLocked() const;
  };

  FamilyFlush BeginFlushLocked(ColumnFamily* family, const FlushJobInfo& info,
                               uint64_t now_us) VARVE_REQUIRES(kDbMutex);
  Status WriteTable(FamilyFlush* flush) const;
  // Writes the tables, and makes their names durable. REQUIRES: the mutex is
  // not held.
  Status WriteTables(std::vector<FamilyFlush>* flushes, bool atomic) const;
  // Adds the tables to the MANIFEST.
  Status NameTablesLocked(std::vector<FamilyFlush>* flushes,
                          const SyncLogs& sync_logs) VARVE_REQUIRES(kDbMutex);
  void EndFlushLocked(const FamilyFlush& flush, uint64_t micros,
                      FlushJobInfo* info) VARVE_REQUIRES(kDbMutex);
  // Sets the status of the flushes that have none, and removes their tables.
  // REQUIRES: the mutex is not held.
  void Fail(const Status& status, std::vector<FamilyFlush>* flushes) const;
  // Does so for dropped families. May release the mutex and reacquire it.
  void FailDroppedLocked(const Status& status,
                         std::vector<FamilyFlush>* flushes) const
      VARVE_REQUIRES(kDbMutex);
  // Makes the names of new tables durable.
  Status SyncOutputs() const;
  // Opens new tables, so that no read has to: loading index and filter takes
  // about a millisecond.
  void OpenOutputs(ColumnFamily* family, const VersionEdit& edit) const;
  // Removes new tables that no edit names.
  void RemoveOutputs(ColumnFamily* family, const VersionEdit& edit) const;

  DbCore& core_;
};

}  // namespace varve
