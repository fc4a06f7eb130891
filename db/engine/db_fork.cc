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

// No memory may be allocated here: the allocator's own handler may come later.
void DBImpl::InForkedChild() {
  const bool mutex_was_free = MakeFree(core_.mutex());
  MakeFree(&checkpoint_mutex_);
  if (core_.control.is_closing() || core_.is_read_only) return;
  core_.control.inheritance().Inherit(
      mutex_was_free, mutex_was_free && core_.write_queue.IsIdle() &&
                          !core_.scheduler.AnyRunsLocked() &&
                          core_.picker.gate().manual_count == 0 &&
                          core_.obsolete.running() == 0 &&
                          !core_.obsolete.is_held() &&
                          !core_.events.IsDeliveringLocked() &&
                          !core_.auto_resume.is_running());
  core_.control.gate().StopInChild();
}

// Makes an inherited database this process's own if no other process has a
// claim to it any more. Otherwise sets an error.
void DBImpl::TakeOverLocked(bool waits) {
  if (core_.control.inheritance().MayTakeOver(waits, core_.env)) {
    core_.scheduler.ForgetJobsLocked();
    quiet_watch_.ForgetLocked();
    age_watch_.ForgetLocked();
    if (core_.control.inheritance().TakeOver())
      core_.control.ClearErrorLocked();
    Log(LogLevel::kInfo, &core_.log,
        "process %d goes on, after those that it was "
        "forked from",
        static_cast<int>(getpid()));
    core_.control.UpdateGateLocked();
    age_watch_.StartLocked();
    core_.jobs.StartDueLocked();
    return;
  }
  core_.control.SetInheritedErrorLocked();
}

// Abandons a database that is still another process's. Returns false if it is
// this process's own by now.
bool DBImpl::AbandonInheritedLocked() {
  if (core_.control.inheritance().is_inherited())
    TakeOverLocked(/*waits=*/false);
  if (!core_.control.inheritance().is_inherited()) return false;
  core_.control.SetClosingLocked();
  core_.control.inheritance().Abandon();
  core_.scheduler.StopLocked();
  core_.scheduler.ForgetJobsLocked();
  if (core_.control.inheritance().mutex_was_free()) {
    core_.families.ForEachUsedLocked(
        [](ColumnFamily* family) { family->Abandon(); });
    core_.wals.AbandonLocked();
  } else {
    core_.default_family.Abandon();
  }
  core_.directory.Close().IgnoreError();
  return true;
}

// What is abandoned is never destroyed. The leader of the write queue, for one,
// changes the buffers of the log without any lock, and the fork may have come
// between the release of the old memory and the store of the new pointer.
// Besides, threads of the parent may have held locks.
bool DBImpl::AbandonWith(void* owner) {
  {
    MutexLock lock(core_.mutex());
    if (!core_.control.is_closing()) AbandonInheritedLocked();
    if (!core_.control.inheritance().is_abandoned()) return false;
  }
  handles_->Abandon();
  // Reachable for leak checkers.
  static constinit ProcessWide<std::vector<void*>> kept;
  kept.Get().push_back(owner);
  return true;
}

void DBImpl::operator delete(DBImpl* db, std::destroying_delete_t) {
  if (!db->AbandonWith(db)) ::delete db;
}

}  // namespace varve
