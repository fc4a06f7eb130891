// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// An open database in a child made by fork(). It shares the lock, the files and
// their offsets with the process that opened it, and has none of its threads.
// While any process that it came from runs, the database is theirs: the child
// writes nothing, and gives back its descriptors when it closes it. Once all of
// them have ended, as when a program becomes a daemon, the database is the
// child's, if no thread of the parent was at work in it at the moment of the
// fork; else it could be half changed in memory, and has to be opened again.

#include <unistd.h>

#include <vector>

#include "db/engine/db_impl.h"
#include "db/parts/usual_errors.h"

namespace varve {

namespace {

// What a child keeps of the parent's databases: to free it could wait for locks
// that threads of the parent held.
struct Abandoned {
  std::unique_ptr<TableCache> table_cache;
  std::unique_ptr<VersionSet> versions;
  std::shared_ptr<Cache> block_cache;
  ColumnFamily::Remains family;
};

}  // namespace

// No memory may be allocated here: the allocator's own handler may come later.
void DBImpl::InForkedChild() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  const bool mutex_was_free = MakeFree(&mutex_);
  MakeFree(&checkpoint_mutex_);
  if (closed_ || read_only_) return;
  inheritance_.Inherit(
      mutex_was_free && write_queue_.IsIdle() && !scheduler_.AnyRunsLocked() &&
      family_.compactions().manual_count == 0 && obsolete_.running() == 0 &&
      !obsolete_.is_held() && !events_.IsDeliveringLocked() &&
      !auto_resume_.is_running());
  family_.CloseGateInChild();
}

// Makes an inherited database this process's own if no other process has a
// claim to it any more. Otherwise sets an error.
void DBImpl::TakeOverLocked(bool waits) {
  if (inheritance_.MayTakeOver(waits, env_)) {
    scheduler_.ForgetJobsLocked();
    if (inheritance_.TakeOver()) background_error_ = Status::OK();
    Log(LogLevel::kInfo, &log_,
        "process %d goes on, after those that it was "
        "forked from",
        static_cast<int>(getpid()));
    UpdateGateLocked();
    MaybeScheduleLocked();
    return;
  }
  if (background_error_.ok()) {
    background_error_ = inheritance_.Error(place_.path());
  }
}

// Returns the error that prevents writes. Tries to take over an inherited
// database first.
Status DBImpl::WritableLocked() {
  if (IsClosedLocked()) return ClosedError();
  if (inheritance_.is_inherited()) [[unlikely]]
    TakeOverLocked(/*waits=*/true);
  return background_error_;
}

// For calls that have not joined the write queue: in a child, the wait for the
// lead may never end.
Status DBImpl::CheckWritable() {
  MutexLock lock(&mutex_);
  return WritableLocked();
}

// Abandons a database that is still another process's. Returns false if it is
// this process's own by now.
bool DBImpl::AbandonInheritedLocked() {
  if (inheritance_.is_inherited()) TakeOverLocked(/*waits=*/false);
  if (!inheritance_.is_inherited()) return false;
  AbandonLocked();
  return true;
}

// Closes a database that stays another process's.
void DBImpl::AbandonLocked() {
  closed_ = true;
  inheritance_.Abandon();
  scheduler_.StopLocked();
  scheduler_.ForgetJobsLocked();
  wals_.AbandonLocked();
  place_.Unlock().IgnoreError();
}

void DBImpl::KeepAbandoned() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  // Reachable, so that leak checkers are content.
  static auto* const kept = new std::vector<Abandoned>;
  kept->push_back({std::move(table_cache_), std::move(versions_),
                   std::move(options_.block_cache), family_.Abandon()});
}

}  // namespace varve
