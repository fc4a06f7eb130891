// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>

#include "db/compaction/compaction_picker.h"
#include "db/engine/db_impl.h"
#include "db/options/options_check.h"
#include "db/options/options_update.h"
#include "db/parts/common_errors.h"
#include "db/parts/job_events.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"

namespace varve {

namespace {

// Sets *last to the level that a manual compaction of the range ends in: the
// base level or the deepest one that has keys of the range, unless
// `target_level`, if not -1, is deeper.
Status FindOutputLevel(const Options& options, const Version& version,
                       const UserKeyRange& range, int target_level, int* last) {
  const LevelTargets targets = ComputeLevelTargets(options, version);
  *last = targets.base_level;
  for (int level = 1; level <= targets.last_level; ++level) {
    if (version.RangeOverlapsLevel(level, range)) {
      *last = std::max(*last, level);
    }
  }
  if (target_level == -1) return Status::OK();
  if (target_level < *last || target_level > targets.last_level) {
    return Status::InvalidArgument(
        "target_level is " + std::to_string(target_level) + ", must be in [" +
        std::to_string(*last) + ", " + std::to_string(targets.last_level) +
        "]");
  }
  *last = target_level;
  return Status::OK();
}

}  // namespace

bool DBImpl::CompactionDueLocked() const {
  return std::any_of(families_.live().begin(), families_.live().end(),
                     [this](const ColumnFamily* family)
                         VARVE_NO_THREAD_SAFETY_ANALYSIS {
                           return CompactionDueLocked(*family);
                         });
}

bool DBImpl::CompactionDueLocked(const ColumnFamily& family) const {
  return !family.options().disable_auto_compactions &&
         (IsCompactionDue(PickerContextLocked(family)) ||
          family.cleaner()->WantsCompactionLocked());
}

bool DBImpl::AnyCompactionRunsLocked() const {
  bool any = false;
  families_.ForEachUsedLocked([&any](const ColumnFamily* family) {
    any |= !family->compactions().running.empty();
  });
  return any;
}

CompactionPickerContext DBImpl::PickerContextLocked(
    const ColumnFamily& family) const {
  CompactionPickerContext context;
  context.options = &family.options();
  context.version = family.version();
  context.running = &family.compactions().running;
  context.space_debt = family.compactions().space_debt;
  if (context.version->HidesInDeepestLevel() || context.version->HasWaste() ||
      !context.version->reclaim_candidates().empty()) {
    context.oldest_snapshot = family_.snapshots()->FindOldestLocked().sequence;
  }
  return context;
}

// Finds a compaction that is due, and its family. Families whose writers wait
// come first. The others take turns, so that none of them waits for good.
std::unique_ptr<Compaction> DBImpl::PickBackgroundCompactionLocked(
    ColumnFamily** family) {
  const std::vector<ColumnFamily*>& live = families_.live();
  for (const bool urgent : {true, false}) {
    for (size_t i = 0; i < live.size(); ++i) {
      const size_t index = (next_family_ + i) % live.size();
      ColumnFamily* const candidate = live[index];
      if (candidate->CompactionsAreUrgentLocked() != urgent ||
          candidate->options().disable_auto_compactions) {
        continue;
      }
      auto compaction = PickCompaction(PickerContextLocked(*candidate));
      if (compaction == nullptr) compaction = PickForReadersLocked(candidate);
      if (compaction == nullptr) continue;
      next_family_ = index + 1;
      *family = candidate;
      return compaction;
    }
  }
  return nullptr;
}

void DBImpl::BackgroundCompaction() {
  const TimedMutexLock lock(&mutex_, stats_, env_);
  std::unique_ptr<Compaction> compaction;
  ColumnFamily* family = nullptr;
  if (!scheduler_.is_stopping() && background_error_.ok() &&
      compaction_gate_.error.ok() && !compaction_gate_.is_exclusive) {
    compaction = PickBackgroundCompactionLocked(&family);
  }
  if (compaction == nullptr) {
    scheduler_.FinishLocked(JobKind::kCompaction);
    return;
  }
  family->Ref();
  // An error is background_error_ by now.
  RunCompactionLocked(family, compaction.get()).IgnoreError();
  families_.UnrefLocked(family);
  PurgeObsoleteLocked();
  events_.DeliverLocked();
  scheduler_.FinishLocked(JobKind::kCompaction);
  MaybeScheduleLocked();
}

// An error is also stored in background_error_ or compaction_gate_. REQUIRES:
// the caller holds a reference to the family.
Status DBImpl::RunCompactionLocked(ColumnFamily* family,
                                   Compaction* compaction) {
  const RequestSpan span("compaction");
  compaction->version->RefLocked();
  compaction->MarkFilesLocked(true);
  family->BeginCompactionLocked(compaction);
  MaybeScheduleLocked();  // Other work can run beside this.

  CompactionJobInfo info;
  if (events_.HasListeners())
    info = DescribeCompaction(*compaction, db_directory_.path());
  info.cf_id = family->id();
  info.cf_name = family->name();
  events_.Add(
      [info](EventListener* listener) { listener->OnCompactionBegin(info); });
  events_.DeliverLocked();
  VARVE_PROBE(compaction_begin, compaction->level, compaction->output_level,
              compaction->InputBytes(), compaction->reason);
  const Stopwatch compacting(env_);
  Status status;
  {
    const HistogramTimer timer(stats_, HistogramType::kCompactionTime, env_);
    status = table_jobs_.CompactLocked(family, *compaction, &info);
  }
  CompactionStats& stats =
      family->compactions().stats[compaction->output_level];
  info.micros = compacting.ElapsedMicros();
  VARVE_PROBE(compaction_end, compaction->level, compaction->output_level,
              info.micros, status.ok());
  stats.micros += info.micros;
  ++stats.count;
  Log(LogLevel::kInfo, &log_,
      "[%s] %s %zu+%zu tables, level %d to %d (%s), %llu bytes: %s",
      family->name().c_str(), compaction->trivial_move ? "moved" : "compacted",
      compaction->inputs[0].size(), compaction->inputs[1].size(),
      compaction->level, compaction->output_level, compaction->reason,
      static_cast<unsigned long long>(compaction->InputBytes()),
      status.ToString().c_str());
  if (status.IsShutdownInProgress()) {
    RecordTick(stats_, Ticker::kCompactionCancelled);
  }

  compaction->MarkFilesLocked(false);
  family->EndCompactionLocked(compaction, status.ok());
  if (status.ok()) {
    InstallSuperVersionLocked(family);
    if (compaction->for_readers) {
      family->cleaner()->CountCompactionLocked(*compaction, info.output_bytes);
    }
  }
  family->cleaner()->WakeLocked();
  versions_->UnrefVersionLocked(compaction->version);
  info.status = status;
  events_.Add([info](EventListener* listener) {
    listener->OnCompactionCompleted(info);
  });
  if (status.IsNoSpace()) {
    PauseCompactionsLocked(status);
  } else if (!status.ok() && !status.IsShutdownInProgress()) {
    SetBackgroundErrorLocked(status, "a compaction");
  }
  return status;
}

Status DBImpl::CompactRange(const CompactRangeOptions& options,
                            const Slice* begin, const Slice* end) {
  return CompactFamily(&family_, options, UserKeyRange{begin, end});
}

Status DBImpl::CompactRange(const CompactRangeOptions& options,
                            ColumnFamilyHandle* family, const Slice* begin,
                            const Slice* end) {
  return CompactFamily(FamilyOf(family), options, UserKeyRange{begin, end});
}

Status DBImpl::CompactFamily(ColumnFamily* family,
                             const CompactRangeOptions& options,
                             const UserKeyRange& range) {
  if (read_only_) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  Status status = CompactRangeOnce(family, options, range);
  if (!status.IsNoSpace()) return status;
  // Tables dropped without output make space for the rest.
  bool dropped = false;
  const Status drop_status = DropCovered(family, &dropped);
  if (!dropped) return drop_status.ok() ? status : drop_status;
  return CompactRangeOnce(family, options, range);
}

Status DBImpl::CompactRangeOnce(ColumnFamily* family,
                                const CompactRangeOptions& options,
                                const UserKeyRange& range) {
  Status status = ResumeIfFull();
  // Memtables without keys of the range need not be flushed for it.
  if (status.ok() && family->MemTablesOverlap(range.begin, range.end)) {
    status = FlushFamilies(FlushOptions(), {family});
  }
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  status = WritableLocked();
  if (!status.ok()) return status;
  while (compaction_gate_.is_exclusive) scheduler_.WaitLocked();
  if (family->is_dropped()) {
    return Status::InvalidArgument("column family " + family->name(),
                                   "was dropped");
  }
  ++compaction_gate_.manual_count;
  if (options.exclusive_manual_compaction) {
    compaction_gate_.is_exclusive = true;
    while (AnyCompactionRunsLocked()) scheduler_.WaitLocked();
  }
  status = CompactRangeLocked(family, options, range);
  PurgeObsoleteLocked();
  events_.DeliverLocked();
  obsolete_.AwaitLocked();
  --compaction_gate_.manual_count;
  if (options.exclusive_manual_compaction)
    compaction_gate_.is_exclusive = false;
  if (status.ok()) compaction_gate_.error = Status::OK();
  MaybeScheduleLocked();
  scheduler_.SignalLocked();
  return status;
}

Status DBImpl::CompactRangeLocked(ColumnFamily* family,
                                  const CompactRangeOptions& options,
                                  const UserKeyRange& range) {
  int last;
  Status status = FindOutputLevel(family->options(), *family->version(), range,
                                  options.target_level, &last);
  if (!status.ok()) return status;
  // Tables moved into the last level need no second rewrite.
  const uint64_t first_new_file = versions_->NewFileNumber();
  ManualRequest request;
  request.range = range;
  const bool exclusive = options.exclusive_manual_compaction;
  for (; request.level < last && status.ok(); ++request.level) {
    status = CompactLevelLocked(family, request, last, exclusive);
  }
  if (status.ok() && options.rewrite_bottommost_level) {
    request.below_number = first_new_file;
    status = CompactLevelLocked(family, request, last, exclusive);
  }
  return status;
}

// Compacts a level of the request into the next level, or into `last` if that
// is not deeper. `exclusive`: CompactionGate::is_exclusive was set by this
// call.
Status DBImpl::CompactLevelLocked(ColumnFamily* family, ManualRequest request,
                                  int last, bool exclusive) {
  std::string done;
  Slice after;
  for (;;) {
    if (scheduler_.is_stopping()) return Status::ShutdownInProgress();
    if (!background_error_.ok()) return background_error_;
    // Another call can set it between two steps of this one.
    if (compaction_gate_.is_exclusive && !exclusive) {
      scheduler_.WaitLocked();
      continue;
    }
    // Repeat after each wait. Another compaction may have moved older entries
    // into a level that was empty, and these must not end up below them.
    const LevelTargets targets =
        ComputeLevelTargets(family->options(), *family->version());
    request.output_level =
        request.level < last ? std::min(targets.NextLevel(request.level), last)
                             : last;
    bool blocked;
    const auto compaction =
        PickManualCompaction(PickerContextLocked(*family), request, &blocked);
    if (blocked) {
      scheduler_.WaitLocked();
      continue;
    }
    if (compaction == nullptr) return Status::OK();
    done.clear();
    for (const FileMetaData* file : compaction->inputs[0]) {
      if (done.empty() ||
          family->comparator().Compare(file->largest, done) > 0) {
        done = file->largest;
      }
    }
    Status status = RunCompactionLocked(family, compaction.get());
    PurgeObsoleteLocked();  // The next step may need the space.
    // Level 0 is compacted at once: tables flushed during the call are not
    // requested.
    if (!status.ok() || request.level == 0) return status;
    after = done;
    request.after = &after;
  }
}

Status DBImpl::SetOptions(const std::map<std::string, std::string>& changes) {
  return SetOptions(nullptr, changes);
}

Status DBImpl::SetOptions(ColumnFamilyHandle* handle,
                          const std::map<std::string, std::string>& changes) {
  if (read_only_) return ReadOnlyError();
  ColumnFamily* const family = FamilyOf(handle);
  // Leadership: leaders read some of them without the mutex.
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (IsClosedLocked()) return ClosedError();
  Options changed = family->options();
  Status status = UpdateOptions(changes, &changed);
  if (status.ok()) status = CheckOptions(changed);
  if (!status.ok()) return status;
  // Other fields are read without the mutex, so none but these is written.
  UpdateOptions(changes, family->mutable_options()).IgnoreError();  // As above.
  RaiseNumbers(family->mutable_options());
  UpdateLogLimitLocked();
  family->MakePaceDueLocked();  // The log may have less space.
  for (const auto& [name, value] : changes) {
    Log(LogLevel::kInfo, &log_, "[%s] option %s is now %s",
        family->name().c_str(), name.c_str(), value.c_str());
  }
  UpdateStallLocked(family);
  MaybeScheduleLocked();
  scheduler_.SignalLocked();
  events_.DeliverLocked();
  return status;
}

void DBImpl::CancelAllBackgroundWork(bool wait) {
  MutexLock lock(&mutex_);
  scheduler_.StopLocked();
  if (wait) WaitForBackgroundLocked();
}

Status DBImpl::WaitForCompact() {
  MutexLock lock(&mutex_);
  if (IsClosedLocked()) return ClosedError();
  if (read_only_) return Status::OK();
  for (;;) {
    // A snapshot may have been released. A running compaction looks for more
    // itself.
    if (scheduler_.JobsLocked() == 0 && !AnyCompactionRunsLocked()) {
      MaybeScheduleLocked();
    }
    Status status = WritableLocked();
    if (!status.ok()) return status;
    const bool runs = WorkRunsLocked();
    if (!runs && !compaction_gate_.error.ok()) return compaction_gate_.error;
    const bool is_due = FlushesDueLocked() > 0 || CompactionDueLocked();
    const bool goes_on = !scheduler_.is_stopping();
    if (!runs && !(is_due && goes_on)) {
      return is_due ? Status::ShutdownInProgress() : Status::OK();
    }
    scheduler_.WaitLocked();
  }
}

}  // namespace varve
