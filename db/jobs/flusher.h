// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Replaces the log and the memtables that are full, and writes immutable
// memtables to tables. Thread-safety: functions called ...Locked require the DB
// mutex. Only the leader of the write queue may call the functions marked "for
// the leader".

#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "db/wal/outside_change.h"
#include "db/write/write_queue.h"

namespace varve {

struct DbCore;
class LargeBatch;

class Flusher {
 public:
  // `core` must outlive this object.
  explicit Flusher(DbCore& core) : core_(core) {}
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  // ---- For the leader ----

  // Starts a new log, and a new memtable of each of the families. Adds the
  // families that keep too many logs. With a large batch, that becomes the
  // log's first record, and its memtables are among the new ones. May release
  // the mutex and reacquire it.
  Status SwitchLocked(std::vector<ColumnFamily*> families,
                      LargeBatch* large = nullptr) VARVE_REQUIRES(kDbMutex);
  // Does SwitchLocked, or sets *wait if the logs have reached their bound.
  Status ReplaceLogLocked(std::vector<ColumnFamily*> families, bool* wait)
      VARVE_REQUIRES(kDbMutex);
  // Writes the buffered end of the newest log to the operating system, and
  // syncs all logs if `sync` is set. May release the mutex and reacquire it.
  Status FlushLogLocked(bool sync) VARVE_REQUIRES(kDbMutex);
  // Copies the prepared sections to the newest log. `all`: the logs before it
  // may still be needed, and are synced with it. May release the mutex and
  // reacquire it.
  Status MovePreparedLocked(bool all) VARVE_REQUIRES(kDbMutex);
  // Records a change that takes sequence numbers and is in no log. The caller
  // publishes these afterwards. The change is done: a log that refuses the
  // record lacks only the names of its files.
  void LogOutsideLocked(const OutsideChange& change) VARVE_REQUIRES(kDbMutex);
  // Flushes all memtables, or those of the families. Writers wait until this is
  // done. May release the mutex and reacquire it.
  Status FlushAllLocked() VARVE_REQUIRES(kDbMutex);
  Status FlushAsLeaderLocked(const std::vector<ColumnFamily*>& families)
      VARVE_REQUIRES(kDbMutex);

  // ---- With the mutex ----

  // Writes the immutable memtables of the families to tables, and names these
  // in one step. Sets *counts to the number of flushed memtables of each
  // family. See TableJobs::FlushLocked for `atomic`. May release the mutex and
  // reacquire it.
  Status FlushLocked(const std::vector<ColumnFamily*>& families, bool atomic,
                     std::vector<size_t>* counts) VARVE_REQUIRES(kDbMutex);
  // Releases the logs that are not needed any more, by the MANIFEST.
  void ReleaseLogsLocked() VARVE_REQUIRES(kDbMutex);
  // Waits until `target` memtables of the family have been flushed since Open.
  // Returns InvalidArgument if it is dropped before.
  // May release the mutex and reacquire it.
  Status AwaitLocked(const ColumnFamily& family, uint64_t target)
      VARVE_REQUIRES(kDbMutex);

  // Has the family's memtable switched and flushed, by the next leader of the
  // queue or by a job. REQUIRES: the memtable is not empty.
  void SwitchSoonLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);

  // ---- Without the mutex ----

  // The job of a flush that is due.
  void RunJob();
  // Called by the budget of write buffers, on its own thread: the memtable of
  // this family frees most.
  void RequestSwitch(ColumnFamily* family);
  // Leads the queue if that takes no more than some milliseconds. Does not wait
  // for a leader, who may wait for the calling job.
  [[nodiscard]] bool TryLead(WriteQueue::Writer* leader);

 private:
  // Returns false if the database is closing, stops its jobs or has an error.
  bool MayBeginJobsLocked() const VARVE_REQUIRES(kDbMutex);
  void StartSwitchJobLocked() VARVE_REQUIRES(kDbMutex);
  void RunSwitchJob();
  // Returns the live families whose memtables are due to be switched, and can
  // be.
  std::vector<ColumnFamily*> ToSwitchLocked() const VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
};

}  // namespace varve
