// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Removes obsolete files: tables that no version holds, replaced MANIFESTs, and
// logs whose updates are in tables. Also frees memtables that no reader uses,
// and column families that were dropped and are not used any more.
// Thread-safety: guarded by the DB mutex.

#include <memory>
#include <vector>

#include "db/family/column_family.h"
#include "db/options/db_mutex.h"

namespace varve {

struct DbCore;

class ObsoleteFiles {
 public:
  // `core` must outlive this object.
  explicit ObsoleteFiles(DbCore& core) : core_(core) {}
  ObsoleteFiles(const ObsoleteFiles&) = delete;
  ObsoleteFiles& operator=(const ObsoleteFiles&) = delete;

  bool AnyLocked() const VARVE_REQUIRES(kDbMutex);
  // Removes them. May release the mutex and reacquire it.
  void RemoveLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the memtables that no reader uses. The caller owns them.
  std::vector<MemTable*> TakeMemTablesLocked() VARVE_REQUIRES(kDbMutex);
  // Waits until no RemoveLocked runs. Releases the mutex and reacquires it.
  void AwaitLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the number of running calls of RemoveLocked.
  int running() const { return running_; }

  // Keeps all files until LetGoLocked was called as often.
  void HoldLocked() VARVE_REQUIRES(kDbMutex) { ++holds_; }
  void LetGoLocked() VARVE_REQUIRES(kDbMutex) { --holds_; }
  bool is_held() const { return holds_ > 0; }

  // Returns true if files were removed since ForgetRemovedLocked, so that there
  // may be space again.
  bool has_removed() const { return has_removed_; }
  void ForgetRemovedLocked() VARVE_REQUIRES(kDbMutex) { has_removed_ = false; }

 private:
  DbCore& core_;
  // Families of which a running call may be removing tables.
  std::vector<std::unique_ptr<ColumnFamily>> closed_;
  int running_ = 0;
  int holds_ = 0;
  bool has_removed_ = false;
};

}  // namespace varve
