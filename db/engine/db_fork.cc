// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// An open database in a child created by fork(). The child shares the lock, the
// files and their offsets with the process that opened it, and has none of its
// threads. While any of its ancestors runs, the database belongs to them. The
// child then writes nothing, and releases its descriptors when it closes the
// database. Once all of them have ended, as when a program becomes a daemon,
// the database belongs to the child. This requires that no thread of the parent
// was working in it at the moment of the fork. Otherwise it could be half
// changed in memory, and has to be reopened.

#include <unistd.h>

#include <vector>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "util/base/process_wide.h"

namespace varve {

namespace {

// State of the parent's databases that a child never frees. Freeing it could
// wait for locks that threads of the parent held.
struct Abandoned {
  std::unique_ptr<VersionSet> versions;
  std::shared_ptr<Cache> block_cache;
  std::vector<ColumnFamily::AbandonedState> families;
  // Never freed: their options and comparators are still pointed to.
  std::vector<ColumnFamily*> others;
};

}  // namespace

// No memory may be allocated here: the allocator's own handler may come later.
void DBImpl::InForkedChild() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  const bool mutex_was_free = MakeFree(&mutex_);
  MakeFree(&checkpoint_mutex_);
  if (control_.is_closing() || read_only_) return;
  control_.inheritance().Inherit(
      mutex_was_free && write_queue_.IsIdle() && !scheduler_.AnyRunsLocked() &&
      picker_.gate().manual_count == 0 && obsolete_.running() == 0 &&
      !obsolete_.is_held() && !events_.IsDeliveringLocked() &&
      !auto_resume_.is_running());
  control_.gate().StopInChild();
}

// Makes an inherited database this process's own if no other process has a
// claim to it any more. Otherwise sets an error.
void DBImpl::TakeOverLocked(bool waits) {
  if (control_.inheritance().MayTakeOver(waits, env_)) {
    scheduler_.ForgetJobsLocked();
    quiet_watch_.ForgetLocked();
    age_watch_.ForgetLocked();
    if (control_.inheritance().TakeOver()) control_.ClearErrorLocked();
    Log(LogLevel::kInfo, &log_,
        "process %d goes on, after those that it was "
        "forked from",
        static_cast<int>(getpid()));
    control_.UpdateGateLocked();
    age_watch_.StartLocked();
    jobs_.StartDueLocked();
    return;
  }
  control_.SetInheritedErrorLocked();
}

// Returns the error that prevents writes. Tries to take over an inherited
// database first.
Status DBImpl::WritableLocked() {
  if (control_.IsClosedLocked()) return ClosedError();
  if (control_.inheritance().is_inherited()) [[unlikely]]
    TakeOverLocked(/*waits=*/true);
  return control_.error();
}

// For calls that have not joined the write queue: in a child, the wait for
// leadership may never end.
Status DBImpl::CheckWritable() {
  MutexLock lock(&mutex_);
  return WritableLocked();
}

// Abandons a database that is still another process's. Returns false if it is
// this process's own by now.
bool DBImpl::AbandonInheritedLocked() {
  if (control_.inheritance().is_inherited()) TakeOverLocked(/*waits=*/false);
  if (!control_.inheritance().is_inherited()) return false;
  control_.SetClosingLocked();
  control_.inheritance().Abandon();
  scheduler_.StopLocked();
  scheduler_.ForgetJobsLocked();
  wals_.AbandonLocked();
  db_directory_.Close().IgnoreError();
  return true;
}

void DBImpl::KeepAbandoned() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  // Kept reachable for leak checkers.
  static constinit ProcessWide<std::vector<Abandoned>> kept;
  Abandoned abandoned;
  abandoned.block_cache = options_.block_cache;
  abandoned.families.push_back(family_.Abandon());
  for (auto& family : families_.TakeAllLocked()) {
    abandoned.families.push_back(family->Abandon());
    abandoned.others.push_back(family.release());
  }
  abandoned.versions = std::move(versions_);
  kept.Get().push_back(std::move(abandoned));
}

}  // namespace varve
