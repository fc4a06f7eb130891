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
#include "env/process_name.h"

namespace varve {

namespace {

// A parent that ends at once after the fork may do so a little later than the
// child's first write.
constexpr uint64_t kParentPatienceUs = 500 * 1000;
constexpr uint64_t kParentPollUs = 1000;

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
  Inheritance& from = inheritance_;
  from.is_whole =
      mutex_was_free && write_queue_.IsIdle() && !scheduler_.AnyRunsLocked() &&
      family_.compactions().manual_count == 0 && purges_running_ == 0 &&
      deletions_held_ == 0 && !resume_scheduled_ &&
      from.count < Inheritance::kMaxAncestors &&
      (from.count == 0 || from.is_whole);
  if (from.count < Inheritance::kMaxAncestors) {
    // Not getppid(): it may have ended.
    from.ancestors[from.count++] = pid_;
  }
  pid_ = getpid();
  // Every writer asks from now on. relaxed: there is no other thread.
  write_gate_.store(kGateError, std::memory_order_relaxed);
}

bool DBImpl::AncestorsHaveEnded(uint64_t patience_us) const {
  const auto have_ended = [this] {
    const Inheritance& from = inheritance_;
    // The nearest is the parent as long as it runs.
    if (getppid() == from.ancestors[from.count - 1]) return false;
    for (int i = 0; i + 1 < from.count; ++i) {
      if (!HasProcessEnded(from.ancestors[i])) return false;
    }
    return true;
  };
  for (uint64_t waited_us = 0; !have_ended(); waited_us += kParentPollUs) {
    if (waited_us >= patience_us) return false;
    env_->SleepForMicroseconds(kParentPollUs);
  }
  return true;
}

void DBImpl::TakeOverLocked(bool waits) {
  Inheritance& from = inheritance_;
  const uint64_t patience_us =
      waits && !from.has_waited ? kParentPatienceUs : 0;
  if (from.is_whole && AncestorsHaveEnded(patience_us)) {
    scheduler_.ForgetJobsLocked();
    if (from.has_set_error) background_error_ = Status::OK();
    from = Inheritance();
    Log(LogLevel::kInfo, &log_,
        "process %d goes on, after those that it was "
        "forked from",
        static_cast<int>(getpid()));
    UpdateGateLocked();
    MaybeScheduleLocked();
    return;
  }
  from.has_waited = from.has_waited || waits;
  if (!background_error_.ok()) return;
  from.has_set_error = true;
  background_error_ = Status::Busy(
      place_.path(),
      from.is_whole
          ? "is held by process " + std::to_string(from.ancestors[0]) +
                ", which this one was forked from"
          : "was in use by other threads when this process was forked, "
            "and has to be opened again");
}

Status DBImpl::WritableLocked() {
  if (IsClosedLocked()) return ClosedError();
  if (inheritance_.count > 0) [[unlikely]]
    TakeOverLocked(/*waits=*/true);
  return background_error_;
}

void DBImpl::AbandonLocked() {
  closed_ = true;
  is_abandoned_ = true;
  scheduler_.StopLocked();
  scheduler_.ForgetJobsLocked();
  wals_.AbandonLocked();
  place_.Unlock().IgnoreError();
}

void DBImpl::KeepAbandoned() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  // Reachable, so that leak checkers are content.
  static auto* const kept = new std::vector<Abandoned>;
  kept->push_back({std::move(table_cache_), std::move(versions_),
                   std::move(block_cache_), family_.Abandon()});
}

}  // namespace varve
