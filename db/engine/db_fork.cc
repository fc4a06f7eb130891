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
void DBImpl::InForkedChild() {
  const bool mutex_was_free = MakeFree(core_.mutex());
  MakeFree(&checkpoint_mutex_);
  if (core_.control.is_closing() || core_.is_read_only) return;
  core_.control.inheritance().Inherit(
      mutex_was_free && core_.write_queue.IsIdle() &&
      !core_.scheduler.AnyRunsLocked() &&
      core_.picker.gate().manual_count == 0 && core_.obsolete.running() == 0 &&
      !core_.obsolete.is_held() && !core_.events.IsDeliveringLocked() &&
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
  core_.wals.AbandonLocked();
  core_.directory.Close().IgnoreError();
  return true;
}

void DBImpl::KeepAbandoned() {
  // Kept reachable for leak checkers.
  static constinit ProcessWide<std::vector<Abandoned>> kept;
  Abandoned abandoned;
  abandoned.block_cache = core_.options.block_cache;
  abandoned.families.push_back(core_.default_family.Abandon());
  std::vector<std::unique_ptr<ColumnFamily>> others;
  {
    MutexLock lock(core_.mutex());
    others = core_.families.TakeAllLocked();
  }
  for (auto& family : others) {
    abandoned.families.push_back(family->Abandon());
    abandoned.others.push_back(family.release());
  }
  abandoned.versions = std::move(core_.versions);
  kept.Get().push_back(std::move(abandoned));
}

}  // namespace varve
