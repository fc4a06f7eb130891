// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/compactor.h"

#include <algorithm>
#include <string>

#include "db/compaction/kept_tables.h"
#include "db/compaction/level_targets.h"
#include "db/family/common_errors.h"
#include "db/jobs/db_core.h"
#include "db/jobs/job_events.h"
#include "db/jobs/table_jobs.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"

namespace varve {

namespace {

// Sets *last to the level that a manual compaction of the range ends in: the
// base level or the deepest one that has keys of the range, unless
// `target_level`, if not -1, is deeper.
Status FindOutputLevel(const ColumnFamily& family, const UserKeyRange& range,
                       int target_level, int* last) {
  const Version& version = *family.version();
  *last = family.compactions().policy->NextLevel(version, 0);
  const int deepest = LastCompactedLevel(family.options());
  for (int level = *last + 1;
       level <= std::min(version.DeepestLevel(), deepest); ++level) {
    if (version.RangeOverlapsLevel(level, range)) *last = level;
  }
  if (target_level == -1) return Status::OK();
  if (target_level < *last || target_level > deepest) {
    return Status::InvalidArgument(
        "target_level is " + std::to_string(target_level) + ", must be in [" +
        std::to_string(*last) + ", " + std::to_string(deepest) + "]");
  }
  *last = target_level;
  return Status::OK();
}

}  // namespace

void Compactor::RunJob() {
  const TimedMutexLock lock(core_.mutex(), core_.stats, core_.env);
  std::unique_ptr<Compaction> compaction;
  ColumnFamily* family = nullptr;
  if (!core_.scheduler.is_stopping() && core_.control.error().ok() &&
      core_.picker.GateIsOpenLocked()) {
    compaction = core_.picker.PickCompactionLocked(&family);
  }
  if (compaction == nullptr) {
    core_.scheduler.FinishLocked(JobKind::kCompaction);
    return;
  }
  family->Ref();
  // An error is in control by now.
  RunLocked(family, compaction.get()).IgnoreError();
  core_.families.UnrefLocked(family);
  core_.jobs.PurgeLocked();
  core_.events.DeliverLocked();
  core_.scheduler.FinishLocked(JobKind::kCompaction);
  core_.jobs.StartDueLocked();
}

// An error is also stored in control, or in the gate. REQUIRES: the caller
// holds a reference to the family.
Status Compactor::RunLocked(ColumnFamily* family, Compaction* compaction,
                            std::vector<uint64_t>* outputs) {
  const RequestSpan span("compaction");
  compaction->version->RefLocked();
  compaction->MarkFilesLocked(true);
  family->compactions().Begin(compaction, MonotonicMicros(core_.env));
  core_.jobs.StartDueLocked();  // Other work can run beside this.

  CompactionJobInfo info;
  if (core_.events.HasListeners())
    info = DescribeCompaction(*compaction, core_.directory.path());
  info.cf_id = family->id();
  info.cf_name = family->name();
  core_.events.Add(
      [info](EventListener* listener) { listener->OnCompactionBegin(info); });
  core_.events.DeliverLocked();
  VARVE_PROBE(compaction_begin, compaction->level, compaction->output_level,
              compaction->InputBytes(), compaction->reason);
  const Stopwatch compacting(core_.env);
  Status status;
  {
    const HistogramTimer timer(core_.stats, HistogramType::kCompactionTime,
                               core_.env);
    status = TableJobs(core_).CompactLocked(family, *compaction, &info);
  }
  CompactionStats& stats =
      family->compactions().stats[compaction->output_level];
  info.micros = compacting.ElapsedMicros();
  VARVE_PROBE(compaction_end, compaction->level, compaction->output_level,
              info.micros, status.ok());
  stats.micros += info.micros;
  ++stats.count;
  Log(LogLevel::kInfo, &core_.log,
      "[%s] %s %zu+%zu tables, level %d to %d (%s), %llu bytes: %s",
      family->name().c_str(), compaction->trivial_move ? "moved" : "compacted",
      compaction->inputs[0].size(), compaction->inputs[1].size(),
      compaction->level, compaction->output_level, compaction->reason,
      static_cast<unsigned long long>(compaction->InputBytes()),
      status.ToString().c_str());
  if (status.IsShutdownInProgress()) {
    RecordTick(core_.stats, Ticker::kCompactionCancelled);
  }

  compaction->MarkFilesLocked(false);
  family->compactions().End(compaction, status.ok(),
                            MonotonicMicros(core_.env));
  if (status.ok()) {
    core_.control.InstallSuperVersionLocked(family);
    if (outputs != nullptr) {
      outputs->insert(outputs->end(), info.output_files.begin(),
                      info.output_files.end());
    }
    if (compaction->for_readers) {
      family->cleaner()->CountCompactionLocked(*compaction, info.output_bytes);
    }
  }
  family->cleaner()->WakeLocked();
  core_.versions->UnrefVersionLocked(compaction->version);
  info.status = status;
  core_.events.Add([info](EventListener* listener) {
    listener->OnCompactionCompleted(info);
  });
  if (IsSpaceError(status)) {
    PauseLocked(status);
  } else if (!status.ok() && !status.IsShutdownInProgress()) {
    core_.control.SetErrorLocked(status, "a compaction");
  }
  return status;
}

Status Compactor::RunManualLocked(ColumnFamily* family,
                                  const CompactRangeOptions& options,
                                  const UserKeyRange& range) {
  return RunRequestLocked(family, options.exclusive_manual_compaction,
                          [&]() VARVE_REQUIRES(kDbMutex) {
                            return CompactRangeLocked(family, options, range);
                          });
}

Status Compactor::RunRequestLocked(ColumnFamily* family, bool exclusive,
                                   const std::function<Status()>& work) {
  CompactionGate& gate = core_.picker.gate();
  FamilyCompactions& state = family->compactions();
  while (state.is_exclusive) core_.scheduler.WaitLocked();
  if (family->is_dropped()) {
    return FamilyDroppedError(family->name());
  }
  ++gate.manual_count;
  if (exclusive) {
    state.is_exclusive = true;
    while (!state.running.empty()) core_.scheduler.WaitLocked();
  }
  Status status = work();
  core_.jobs.PurgeLocked();
  core_.events.DeliverLocked();
  core_.obsolete.AwaitLocked();
  --gate.manual_count;
  if (exclusive) state.is_exclusive = false;
  if (status.ok()) gate.error = Status::OK();
  core_.jobs.StartDueLocked();
  core_.scheduler.SignalLocked();
  return status;
}

Status Compactor::CompactRangeLocked(ColumnFamily* family,
                                     const CompactRangeOptions& options,
                                     const UserKeyRange& range) {
  int last;
  Status status = FindOutputLevel(*family, range, options.target_level, &last);
  if (!status.ok()) return status;
  // Tables moved into the last level need no second rewrite.
  const uint64_t first_new_file = core_.versions->NewFileNumber();
  ManualRequest request;
  request.range = range;
  const bool exclusive = options.exclusive_manual_compaction;
  for (; request.level < last && status.ok(); ++request.level) {
    status = CompactLevelLocked(family, request, last, exclusive);
  }
  if (!status.ok()) return status;
  request.below_number = first_new_file;
  // As in RocksDB, a filter is asked for all entries.
  const bool filters = family->options().compaction_filter != nullptr ||
                       family->options().compaction_filter_factory != nullptr;
  std::set<uint64_t> kept;
  if (!options.rewrite_bottommost_level && !filters) {
    kept = FindKeptLocked(family, last, range);
    request.numbers = &kept;
  }
  return CompactLevelLocked(family, request, last, exclusive);
}

std::set<uint64_t> Compactor::FindKeptLocked(ColumnFamily* family, int level,
                                             const UserKeyRange& range) {
  Version* const version = family->version();
  version->RefLocked();
  core_.mutex()->Unlock();
  std::set<uint64_t> kept =
      FindKeptTables(*version, level, range, TableJobs(core_).ScanSnapshots(),
                     family->options().merge_operator != nullptr);
  core_.mutex()->Lock();
  core_.versions->UnrefVersionLocked(version);
  return kept;
}

// Compacts a level of the request into the next level, or into `last` if that
// is not deeper. `exclusive`: FamilyCompactions::is_exclusive was set by this
// call.
Status Compactor::CompactLevelLocked(ColumnFamily* family,
                                     ManualRequest request, int last,
                                     bool exclusive) {
  std::string done;
  Slice after;
  for (;;) {
    if (core_.scheduler.is_stopping()) return Status::ShutdownInProgress();
    if (!core_.control.error().ok()) return core_.control.error();
    // Another call can set it between two steps of this one.
    if (family->compactions().is_exclusive && !exclusive) {
      core_.scheduler.WaitLocked();
      continue;
    }
    // Repeat after each wait. Another compaction may have moved older entries
    // into a level that was empty, and these must not end up below them.
    const CompactionPolicy& policy = *family->compactions().policy;
    request.output_level =
        request.level < last
            ? std::min(policy.NextLevel(*family->version(), request.level),
                       last)
            : last;
    bool blocked;
    const auto compaction = policy.PickManual(
        core_.picker.ContextLocked(*family), request, &blocked);
    if (blocked) {
      core_.scheduler.WaitLocked();
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
    Status status = RunLocked(family, compaction.get());
    core_.jobs.PurgeLocked();  // The next step may need the space.
    // Level 0 is compacted at once: tables flushed during the call are not
    // requested.
    if (!status.ok() || request.level == 0) return status;
    after = done;
    request.after = &after;
  }
}

void Compactor::PauseLocked(const Status& status) {
  if (core_.picker.gate().error.ok()) {
    Log(LogLevel::kWarn, &core_.log, "compactions pause: %s",
        status.ToString().c_str());
    core_.picker.gate().error = status.Annotate(
        "writes are stopped: no space for the compactions that they wait for");
  }
  if (!core_.control.IsEndingLocked()) core_.auto_resume.StartLocked();
  core_.scheduler.SignalLocked();
}

void Compactor::ResumeLocked() {
  if (core_.picker.gate().error.ok()) return;
  core_.picker.gate().error = Status::OK();
  core_.jobs.StartDueLocked();
  core_.scheduler.SignalLocked();
}

void Compactor::RetryLocked() {
  ResumeLocked();
  while (core_.scheduler.JobsLocked(JobKind::kCompaction) > 0 &&
         core_.picker.gate().error.ok() && core_.control.error().ok() &&
         !core_.scheduler.is_stopping()) {
    core_.scheduler.WaitLocked();
  }
}

}  // namespace varve
