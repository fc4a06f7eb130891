// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The opening of a database: recovers what is on disk, and writes the first
// edits. It has the state that is needed only until the database is open.
// Thread-safety: owned by one thread.

#include <memory>
#include <vector>

#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "db/recovery/recovery.h"
#include "db/recovery/recovery_flush.h"

namespace varve {

class DbOpening {
 public:
  // `others` are the families to open or create beside the default one. `core`
  // must outlive this object.
  DbOpening(DbCore& core, std::vector<std::unique_ptr<ColumnFamily>> others);
  // Closes the families that the database has not got. REQUIRES: the mutex is
  // not held.
  ~DbOpening();
  DbOpening(const DbOpening&) = delete;
  DbOpening& operator=(const DbOpening&) = delete;

  // Reads the database, and directs the info log. Writes nothing but tables of
  // the logs' updates, under temporary names. REQUIRES: the directory is open;
  // the mutex is not held.
  Status Recover();
  // Returns the numbers of the OPTIONS files. Call it after Recover.
  std::vector<uint64_t> TakeOptionsFiles() {
    return std::exchange(state_->options_files, {});
  }
  // Makes the recovered state the database's: names the tables and a new log,
  // and gives the families to FamilySet. May release the mutex and reacquire
  // it.
  Status InstallLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the families that the database has not got.
  std::vector<std::unique_ptr<ColumnFamily>> TakeMissing() {
    return std::exchange(others_, {});
  }
  // Removes files that earlier processes have left. May release the mutex and
  // reacquire it.
  void RemoveLeftoversLocked() VARVE_REQUIRES(kDbMutex);
  // Replaces the calls after one that has failed. REQUIRES: the directory is
  // still locked.
  void Abandon() { flush_.Abandon(); }

 private:
  std::vector<ColumnFamily*> All() const;
  Status ReadFiles();
  Status KeepUnusedLogs() const;
  Status SyncArchivedLogs() const;
  void InitializeVersionsLocked() VARVE_REQUIRES(kDbMutex);
  void InstallReadOnlyLocked() VARVE_REQUIRES(kDbMutex);
  Status ApplyLocked(uint64_t wal_number) VARVE_REQUIRES(kDbMutex);
  Status KeepPreparedLocked() VARVE_REQUIRES(kDbMutex);
  void ListFamiliesLocked() VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  // The families that are not in FamilySet, in the order of RecoveredState.
  std::vector<std::unique_ptr<ColumnFamily>> others_;
  RecoveryFlush flush_;
  std::unique_ptr<RecoveredState> state_;
};

}  // namespace varve
