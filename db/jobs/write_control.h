// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Whether a database may be written to. Never once it is closed, not after an
// error that made it read-only, and not while it belongs to the process that
// this one was forked from. Writers have to wait while a column family or the
// logs hold them up. The gate has the answer for writers without the mutex.
// Thread-safety: guarded by the DB mutex, except gate().

#include <cstdint>
#include <utility>

#include "db/directory/fork_inheritance.h"
#include "db/options/db_mutex.h"
#include "db/write/write_gate.h"
#include "varve/status.h"

namespace varve {

class ColumnFamily;
struct DbCore;

class WriteControl {
 public:
  // `core` must outlive this object.
  explicit WriteControl(DbCore& core) : core_(core) {}
  WriteControl(const WriteControl&) = delete;
  WriteControl& operator=(const WriteControl&) = delete;

  WriteGate& gate() { return gate_; }
  ForkInheritance& inheritance() { return inheritance_; }
  const ForkInheritance& inheritance() const { return inheritance_; }

  // ---- Closing ----

  // Returns true if Close has begun.
  bool is_closing() const { return is_closing_; }
  void SetClosingLocked() VARVE_REQUIRES(kDbMutex) { is_closing_ = true; }
  // The result of Close, for further calls of it.
  const Status& close_status() const { return close_status_; }
  void SetCloseStatusLocked(Status status) VARVE_REQUIRES(kDbMutex) {
    close_status_ = std::move(status);
  }
  // Returns true if Close is done: all other calls return an error then.
  bool IsClosedLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if no new work should begin.
  bool IsEndingLocked() const VARVE_REQUIRES(kDbMutex);

  // Returns the error that prevents writes. Tries to take over an inherited
  // database first.
  Status WritableLocked() VARVE_REQUIRES(kDbMutex);
  // Does so for calls that have not joined the write queue: in a child of
  // fork(), the wait for leadership may never end.
  Status CheckWritable() VARVE_EXCLUDES(kDbMutex);

  // ---- Errors ----

  // Returns the first error since the last ClearErrorLocked. Only DB::Resume
  // makes the database writable again.
  const Status& error() const { return error_; }
  uint64_t error_count() const { return error_count_; }
  // Reports an error, and stops writes. `where` completes "... failed". The
  // event waits for the next DeliverLocked.
  void SetErrorLocked(const Status& status, const char* where)
      VARVE_REQUIRES(kDbMutex);
  void ClearErrorLocked() VARVE_REQUIRES(kDbMutex) { error_ = Status::OK(); }
  // Stops writes in a child created by fork(), unless there is an error.
  void SetInheritedErrorLocked() VARVE_REQUIRES(kDbMutex);

  // ---- Stalls ----

  // Call it when the causes of a family's write delays have changed.
  void UpdateStallLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);
  // Call it when a stall state has changed, or whether the database is
  // writable.
  void UpdateGateLocked() VARVE_REQUIRES(kDbMutex);
  // Returns whether writers have to wait because the logs have reached their
  // bound, and a flush or removal is about to free some.
  bool LogsHoldUpLocked() VARVE_REQUIRES(kDbMutex);
  // Does LogsHoldUpLocked for a leader that is to replace a log.
  bool LogsBeginToHoldUpLocked() VARVE_REQUIRES(kDbMutex);
  // Makes the family's memtables and version visible to reads, and updates its
  // stall.
  void InstallSuperVersionLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);

 private:
  bool CheckLogsLocked() VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  WriteGate gate_;
  ForkInheritance inheritance_;
  Status error_;
  uint64_t error_count_ = 0;
  bool is_closing_ = false;
  Status close_status_;
};

}  // namespace varve
