// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Makes a follower a database that is open for writing. The memtables stay, and
// so do the logs that have their updates. A new log names the last one and its
// end, and a new MANIFEST begins with the present versions. The dead primary's
// files are not written to.
//
// Thread-safety: owned by one thread.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "db/follower/follower.h"
#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "varve/status.h"

namespace varve {

class Takeover {
 public:
  // Both must outlive this. REQUIRES: the lock is held, and
  // Follower::CatchUpToEnd has succeeded since.
  Takeover(DbCore& core, const Follower& follower)
      : core_(core), follower_(follower) {}
  Takeover(const Takeover&) = delete;
  Takeover& operator=(const Takeover&) = delete;

  // Lists the directory, and checks whether it can be written to.
  Status Prepare();
  // Returns the numbers of the OPTIONS files. Call it after Prepare.
  std::vector<uint64_t> TakeOptionsFiles() { return std::move(options_files_); }
  // Begins the log and the MANIFEST, and makes the memtables ready for writes.
  // After an error, the database is as it was. May release the mutex and
  // reacquire it. REQUIRES: leadership of the write queue.
  Status InstallLocked() VARVE_REQUIRES(kDbMutex);
  // Removes what the primary has left. May release the mutex and reacquire it.
  void RemoveLeftoversLocked() VARVE_REQUIRES(kDbMutex);

 private:
  Status BeginLogLocked(uint64_t number) VARVE_REQUIRES(kDbMutex);
  void SwitchMemTablesLocked(ColumnFamily* family, uint64_t log)
      VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  const Follower& follower_;
  uint64_t next_file_number_ = 0;  // The primary's last one.
  std::vector<uint64_t> options_files_;
  std::set<std::string> foreign_;
};

}  // namespace varve
