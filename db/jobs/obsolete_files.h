// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Removes obsolete files: tables that no version holds, replaced MANIFESTs, and
// logs whose updates are in tables. Also frees memtables that no reader uses,
// and column families that were dropped and are not used any more.
// Thread-safety: guarded by the DB mutex.

#include <memory>
#include <vector>

#include "db/directory/db_directory.h"
#include "db/family/family_set.h"
#include "db/jobs/background_scheduler.h"
#include "db/jobs/event_queue.h"
#include "db/wal/wal_set.h"

namespace varve {

class ObsoleteFiles {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    DbDirectory* place;
    VersionSet* versions;
    WalSet* wals;
    FamilySet* families;
    EventQueue* events;
    BackgroundScheduler* scheduler;  // Signalled when a removal ends.
    StatisticsImpl* stats;
    Mutex* mutex;
  };

  explicit ObsoleteFiles(const Parts& parts) : parts_(parts) {}
  ObsoleteFiles(const ObsoleteFiles&) = delete;
  ObsoleteFiles& operator=(const ObsoleteFiles&) = delete;

  bool AnyLocked() const;
  // Removes them. May release the mutex and reacquire it.
  void RemoveLocked();
  // Returns the memtables that no reader uses. The caller owns them.
  std::vector<MemTable*> TakeMemTablesLocked();
  // Waits until no RemoveLocked runs. Releases the mutex and reacquires it.
  void AwaitLocked() {
    while (running_ > 0) parts_.scheduler->WaitLocked();
  }
  // Returns the number of running calls of RemoveLocked.
  int running() const { return running_; }

  // Keeps all files until LetGoLocked was called as often.
  void HoldLocked() { ++holds_; }
  void LetGoLocked() { --holds_; }
  bool is_held() const { return holds_ > 0; }

  // Returns true if files were removed since ForgetRemovedLocked, so that there
  // may be space again.
  bool has_removed() const { return has_removed_; }
  void ForgetRemovedLocked() { has_removed_ = false; }

 private:
  const Parts parts_;
  // Families of which a running call may be removing tables.
  std::vector<std::unique_ptr<ColumnFamily>> closed_;
  int running_ = 0;
  int holds_ = 0;
  bool has_removed_ = false;
};

}  // namespace varve
