// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The removal of what nothing needs any more: tables that no version holds,
// MANIFESTs that were replaced, logs whose updates are in tables; and of
// memtables that nobody reads.
// Thread-safety: guarded by the DB mutex.

#include "db/parts/background_scheduler.h"
#include "db/parts/column_family.h"
#include "db/parts/database_place.h"
#include "db/parts/event_queue.h"
#include "db/parts/wal_set.h"
#include "table/reader/table_cache.h"

namespace varve {

class ObsoleteFiles {
 public:
  // Of the database. All outlive this.
  struct Parts {
    DatabasePlace* place;
    WalSet* wals;
    ColumnFamily* family;
    EventQueue* events;
    BackgroundScheduler* scheduler;  // Is told of the end of a removal.
    StatisticsImpl* stats;
    Mutex* mutex;
  };

  explicit ObsoleteFiles(const Parts& parts) : parts_(parts) {}
  ObsoleteFiles(const ObsoleteFiles&) = delete;
  ObsoleteFiles& operator=(const ObsoleteFiles&) = delete;
  // To be called once, first.
  void SetTables(VersionSet* versions, TableCache* table_cache) {
    versions_ = versions;
    table_cache_ = table_cache;
  }

  bool AnyLocked() const;
  // Removes them. May release the mutex and reacquire it.
  void RemoveLocked();
  // Waits until no RemoveLocked runs. Releases the mutex and reacquires it.
  void AwaitLocked() {
    while (running_ > 0) parts_.scheduler->WaitLocked();
  }
  // Calls of RemoveLocked that run.
  int running() const { return running_; }

  // All files stay until as many calls of LetGoLocked.
  void HoldLocked() { ++holds_; }
  void LetGoLocked() { --holds_; }
  bool is_held() const { return holds_ > 0; }

  // Whether files were removed since it was forgotten: there may be space
  // again.
  bool has_removed() const { return has_removed_; }
  void ForgetRemovedLocked() { has_removed_ = false; }

 private:
  const Parts parts_;
  VersionSet* versions_ = nullptr;
  TableCache* table_cache_ = nullptr;
  int running_ = 0;
  int holds_ = 0;
  bool has_removed_ = false;
};

}  // namespace varve
