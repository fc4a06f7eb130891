// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/db_dead_entries.h"

#include <optional>

#include "db/jobs/job_events.h"
#include "db/snapshot/snapshot_handshake.h"
#include "env/stopwatch.h"

namespace varve {

void DeadEntryCleanup::RunJob() {
  const Stopwatch job(core_.env);
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(core_.mutex());
    families = core_.picker.FamiliesToCleanLocked();
    for (ColumnFamily* const family : families) family->Ref();
  }
  for (ColumnFamily* const family : families) CleanUp(family, job);
  MutexLock lock(core_.mutex());
  core_.families.UnrefLocked(families);
  core_.events.DeliverLocked();
  core_.scheduler.FinishLocked(JobKind::kCleanup);
  core_.jobs.StartDueLocked();
  core_.jobs.PurgeLaterLocked();
}

void DeadEntryCleanup::CleanUp(ColumnFamily* family, const Stopwatch& job) {
  DeadRangeCleaner* const cleaner = family->cleaner();
  std::vector<DeadRangeCleaner::Target> targets;
  uint64_t wakes = 0;
  {
    MutexLock lock(core_.mutex());
    cleaner->AddLocked(family->dead_walks()->reports()->Take());
    if (core_.picker.CleansLocked(*family) && !core_.scheduler.is_stopping() &&
        core_.control.error().ok()) {
      targets = cleaner->ToExamineLocked();
    }
    wakes = cleaner->wakes();
  }
  for (const DeadRangeCleaner::Target& target : targets) {
    if (target.is_new) RememberAround(family, target.report.range, job);
  }
  SuperVersion* const super_version = family->super_versions().Reference();
  std::vector<DeadRangeFindings> found;
  for (const DeadRangeCleaner::Target& target : targets) {
    if (core_.scheduler.is_stopping()) break;
    found.push_back(ExamineDeadRange(*super_version, target.report.range,
                                     cleaner->LeastDead(target)));
  }
  bool flushes = false;
  {
    MutexLock lock(core_.mutex());
    targets.resize(found.size());
    PlanCleanupLocked(family, targets, found, wakes);
    flushes =
        cleaner->WantsFlushLocked() || FlushesRangeDeletionsLocked(family);
  }
  if (flushes) FlushForReaders(family, super_version->memtable);
  family->super_versions().Release(super_version);
}

// Walks on from a reported range in both directions, over the next results of
// iterators. So the neighbouring ranges are remembered before readers come to
// them, as long as there are some.
void DeadEntryCleanup::RememberAround(ColumnFamily* family,
                                      const DeadRange& range,
                                      const Stopwatch& job) {
  constexpr int kResults = 300;
  constexpr uint64_t kMaxMicros = 50000;
  for (const bool forward : {true, false}) {
    std::optional<std::string> position = range.begin;
    for (int i = 0; i < kResults && !core_.scheduler.is_stopping() &&
                    job.ElapsedMicros() < kMaxMicros;
         ++i) {
      // A new one each time. What it finds dead is so now, and can be
      // remembered beside writers.
      const auto it = reader_.NewOwnIterator(family);
      if (position) {
        it->Seek(*position);
      } else {
        it->SeekToFirst();
      }
      if (!it->Valid()) {
        if (forward) break;
        it->SeekToLast();
      } else if (!forward) {
        it->Prev();
      } else if (i > 0) {
        it->Next();
      }
      if (!it->Valid()) break;
      position = it->key().ToString();
    }
  }
}

// Decides, once for each memtable, whether to flush it because iterators often
// meet range deletions in it, which a flush would apply.
bool DeadEntryCleanup::FlushesRangeDeletionsLocked(ColumnFamily* family) {
  if (!family->dead_walks()->ReadsRangeDeletions()) return false;
  family->dead_walks()->DecideRangeDeletions();
  const MemTable& memtable = *family->memtable();
  return core_.picker.CleansLocked(*family) && !memtable.tombstones().empty() &&
         family->snapshots()->FindOldestLocked().sequence == kNoSnapshot &&
         family->cleaner()->CanPayLocked(memtable.ApproximateMemoryUsage());
}

void DeadEntryCleanup::PlanCleanupLocked(
    ColumnFamily* family, const std::vector<DeadRangeCleaner::Target>& targets,
    const std::vector<DeadRangeFindings>& found, uint64_t wakes) {
  if (targets.empty()) return;
  const SequenceNumber oldest =
      family->snapshots()->FindOldestLocked().sequence;
  const uint64_t memtable_bytes = family->memtable()->ApproximateMemoryUsage();
  for (size_t i = 0; i < targets.size(); ++i) {
    family->cleaner()->PlanLocked(targets[i].id, found[i], oldest,
                                  memtable_bytes, wakes);
  }
}

// Has the memtable switched, unless it is another one by now.
void DeadEntryCleanup::FlushForReaders(ColumnFamily* family,
                                       const MemTable* memtable) {
  MutexLock lock(core_.mutex());
  // Without a switch, another flush is under way, whose end wakes the cleaner.
  uint64_t cost_bytes = 0;
  if (family->memtable() == memtable && !memtable->empty() &&
      !family->is_dropped() && family->memtables().SlotFreeLocked() &&
      core_.control.error().ok() && core_.picker.gate().error.ok() &&
      !core_.control.IsEndingLocked()) {
    for (const DeadRangeCleaner::Target& target :
         family->cleaner()->targets()) {
      if (target.plan == DeadRangeCleaner::Plan::kFlush) {
        ReportDeadRange(core_.directory.path(), target, "flush", -1, &core_.log,
                        &core_.events);
      }
    }
    flusher_.SwitchSoonLocked(family);
    RecordTick(core_.stats, Ticker::kDeadRangeFlushes);
    const Version& version = *family->version();
    const int base = family->compactions().policy->NextLevel(version, 0);
    cost_bytes = family->cleaner()->FlushCost(version.NumBytes(base));
  }
  family->cleaner()->AwaitFlushLocked(cost_bytes);
}

}  // namespace varve
