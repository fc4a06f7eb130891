// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Whether a database may be written to. Never once it is closed, not after an
// error that made it read-only, and not while it belongs to the process that
// this one was forked from. Writers have to wait while a column family or the
// logs hold them up. The gate has the answer for writers without the mutex.
// Thread-safety: guarded by the DB mutex, except gate().

#include <cstdint>
#include <utility>

#include "db/directory/db_directory.h"
#include "db/directory/fork_inheritance.h"
#include "db/family/family_set.h"
#include "db/family/log_bound.h"
#include "db/jobs/auto_resume.h"
#include "db/jobs/event_queue.h"
#include "db/jobs/obsolete_files.h"
#include "db/wal/wal_set.h"
#include "db/write/write_gate.h"
#include "varve/status.h"

namespace varve {

class WriteControl {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    const Options* options;
    const DbDirectory* place;
    const FamilySet* families;
    WalSet* wals;
    const ObsoleteFiles* obsolete;
    EventQueue* events;
    BackgroundScheduler* scheduler;
    AutoResume* auto_resume;
    Logger* log;
    StatisticsImpl* stats;  // May be null.
  };

  explicit WriteControl(const Parts& parts)
      : parts_(parts),
        log_bound_(parts.options, parts.families, parts.wals, parts.log) {}
  WriteControl(const WriteControl&) = delete;
  WriteControl& operator=(const WriteControl&) = delete;

  WriteGate& gate() { return gate_; }
  LogBound& log_bound() { return log_bound_; }
  ForkInheritance& inheritance() { return inheritance_; }
  const ForkInheritance& inheritance() const { return inheritance_; }

  // ---- Closing ----

  // Returns true if Close has begun.
  bool is_closing() const { return is_closing_; }
  void SetClosingLocked() { is_closing_ = true; }
  // The result of Close, for further calls of it.
  const Status& close_status() const { return close_status_; }
  void SetCloseStatusLocked(Status status) {
    close_status_ = std::move(status);
  }
  // Returns true if Close is done: all other calls return an error then.
  bool IsClosedLocked() const {
    return is_closing_ && parts_.wals->EmptyLocked();
  }
  // Returns true if no new work should begin.
  bool IsEndingLocked() const {
    return is_closing_ || parts_.scheduler->is_stopping();
  }

  // ---- Errors ----

  // Returns the first error since the last ClearErrorLocked. Only DB::Resume
  // makes the database writable again.
  const Status& error() const { return error_; }
  uint64_t error_count() const { return error_count_; }
  // Reports an error, and stops writes. `where` completes "... failed". The
  // event waits for the next DeliverLocked.
  void SetErrorLocked(const Status& status, const char* where);
  void ClearErrorLocked() { error_ = Status::OK(); }
  // Stops writes in a child created by fork(), unless there is an error.
  void SetInheritedErrorLocked();

  // ---- Stalls ----

  // Call it when the causes of a family's write delays have changed.
  void UpdateStallLocked(ColumnFamily* family);
  // Call it when a stall state has changed, or whether the database is
  // writable.
  void UpdateGateLocked();
  // Returns whether writers have to wait because the logs have reached their
  // bound, and a flush or removal is about to free some.
  bool LogsHoldUpLocked();
  // Does LogsHoldUpLocked for a leader that is to replace a log.
  bool LogsBeginToHoldUpLocked();
  // Makes the family's memtables and version visible to reads, and updates its
  // stall.
  void InstallSuperVersionLocked(ColumnFamily* family);

 private:
  bool CheckLogsLocked();

  const Parts parts_;
  WriteGate gate_;
  LogBound log_bound_;
  ForkInheritance inheritance_;
  Status error_;
  uint64_t error_count_ = 0;
  bool is_closing_ = false;
  Status close_status_;
};

}  // namespace varve
