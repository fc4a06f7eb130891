// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The opening of a database: recovers what is on disk, and writes the first
// edits. It has the state that is needed only until the database is open.
// Thread-safety: owned by one thread.

#include <memory>
#include <vector>

#include "db/directory/buffering_logger.h"
#include "db/directory/db_directory.h"
#include "db/family/family_set.h"
#include "db/jobs/event_queue.h"
#include "db/jobs/job_starter.h"
#include "db/jobs/write_control.h"
#include "db/recovery/recovery.h"
#include "db/recovery/recovery_flush.h"
#include "db/wal/wal_set.h"
#include "util/base/mutex.h"

namespace varve {

class DbOpening {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    const Options* options;
    DbDirectory* place;
    BufferingLogger* log;
    StatisticsImpl* stats;  // May be null.
    VersionSet* versions;
    ColumnFamily* default_family;
    FamilySet* families;
    WalSet* wals;
    WriteControl* control;
    JobStarter* jobs;
    EventQueue* events;
    Mutex* mutex;  // The DB's.
    bool is_read_only;
  };

  // `others` are the families to open or create beside the default one.
  DbOpening(const Parts& parts,
            std::vector<std::unique_ptr<ColumnFamily>> others);
  // Closes the families that the database has not got. REQUIRES: the mutex is
  // not held.
  ~DbOpening();
  DbOpening(const DbOpening&) = delete;
  DbOpening& operator=(const DbOpening&) = delete;

  // Reads the database, and directs the info log. Writes nothing but tables of
  // the logs' updates, under temporary names. REQUIRES: the directory is open;
  // the mutex is not held.
  Status Recover();
  // Returns whether RocksDB's files of options were found. Call it after
  // Recover.
  bool FoundOptionsFiles() const { return state_->has_options_files; }
  // Makes the recovered state the database's: names the tables and a new log,
  // and gives the families to FamilySet. May release the mutex and reacquire
  // it.
  Status InstallLocked();
  // Returns the families that the database has not got.
  std::vector<std::unique_ptr<ColumnFamily>> TakeMissing() {
    return std::exchange(others_, {});
  }
  // Removes files that earlier processes have left. May release the mutex and
  // reacquire it.
  void RemoveLeftoversLocked();
  // Replaces the calls after one that has failed. REQUIRES: the directory is
  // still locked.
  void Abandon() { flush_.Abandon(); }

 private:
  std::vector<ColumnFamily*> All() const;
  Status ReadFiles();
  Status KeepUnusedLogs() const;
  void InitializeVersionsLocked();
  void InstallReadOnlyLocked();
  Status ApplyLocked(uint64_t wal_number);
  void ListFamiliesLocked();

  const Parts parts_;
  // The families that are not in FamilySet, in the order of RecoveredState.
  std::vector<std::unique_ptr<ColumnFamily>> others_;
  RecoveryFlush flush_;
  std::unique_ptr<RecoveredState> state_;
};

}  // namespace varve
