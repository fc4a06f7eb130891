// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Dead entries that readers walk over: what is remembered of them is cut by
// writes, and what is reported is removed by flushes and compactions.

#include <algorithm>

#include "db/compaction/compaction_picker.h"
#include "db/compaction/level_targets.h"
#include "db/engine/db_impl.h"
#include "db/snapshot/snapshot_handshake.h"
#include "db/write/write_batch_internal.h"
#include "env/stopwatch.h"

namespace varve {

// For the leader, before the numbers of its group become visible: takes the
// keys of the group's values out of the ranges that are known to have none.
void DBImpl::CutDeadRanges(const WriteQueue::Group& group) {
  const auto& live = families_.live();
  const bool any =
      std::any_of(live.begin(), live.end(), [](const ColumnFamily* family) {
        return !family->dead_walks()->ranges().empty();
      });
  if (!any) return;
  group.ForEach([this](const WriteQueue::Writer* writer) {
    if (!writer->is_refused) CutDeadRangesOf(*writer);
  });
}

void DBImpl::CutDeadRangesOf(const WriteQueue::Writer& writer) {
  if (writer.update != nullptr) {
    if (writer.update->type == ValueType::kValue) {
      writer.update->family->dead_walks()->leader_ranges()->Cut(
          writer.update->key);
    }
    return;
  }
  BatchReader reader;
  BatchRecord record;
  bool done = false;
  // A batch that cannot be read fails when it is inserted.
  if (!reader.Init(writer.batch->Data()).ok()) return;
  ColumnFamily* family = &family_;
  while (reader.NextOfOurs(&record, &done).ok() && !done) {
    if (record.type != ValueType::kValue || record.is_log_data) continue;
    if (record.family != family->id()) family = families_.Find(record.family);
    family->dead_walks()->leader_ranges()->Cut(record.key);
  }
}

bool DBImpl::CleansLocked(const ColumnFamily& family) const {
  return !read_only_ && !family.options().disable_auto_compactions &&
         !ignores_waste_;
}

bool DBImpl::CleanupDueLocked(ColumnFamily& family) const {
  return (family.dead_walks()->reports()->Any() ||
          family.dead_walks()->ReadsRangeDeletions() ||
          family.cleaner()->MustExamineLocked()) &&
         CleansLocked(family);
}

// For readers: lets background work look at a new report. If the mutex is
// taken, its holder or the next report does so.
void DBImpl::WakeCleaner() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.TryLock()) return;
  MaybeScheduleLocked();
  mutex_.Unlock();
}

void DBImpl::BackgroundCleanup() {
  const Stopwatch job(env_);
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(&mutex_);
    for (ColumnFamily* const family : families_.live()) {
      if (!CleanupDueLocked(*family)) continue;
      family->Ref();
      families.push_back(family);
    }
  }
  for (ColumnFamily* const family : families) CleanUp(family, job);
  MutexLock lock(&mutex_);
  for (ColumnFamily* const family : families) families_.UnrefLocked(family);
  events_.DeliverLocked();
  scheduler_.FinishLocked(JobKind::kCleanup);
  MaybeScheduleLocked();
  FreeLaterLocked();
}

void DBImpl::CleanUp(ColumnFamily* family, const Stopwatch& job) {
  DeadRangeCleaner* const cleaner = family->cleaner();
  std::vector<DeadRangeCleaner::Target> targets;
  uint64_t wakes = 0;
  {
    MutexLock lock(&mutex_);
    cleaner->AddLocked(family->dead_walks()->reports()->Take());
    if (CleansLocked(*family) && !scheduler_.is_stopping() &&
        background_error_.ok()) {
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
    if (scheduler_.is_stopping()) break;
    found.push_back(ExamineDeadRange(*super_version, target.report.range,
                                     cleaner->LeastDead(target)));
  }
  bool flushes = false;
  {
    MutexLock lock(&mutex_);
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
void DBImpl::RememberAround(ColumnFamily* family, const DeadRange& range,
                            const Stopwatch& job) {
  constexpr int kResults = 300;
  constexpr uint64_t kMaxMicros = 50000;
  for (const bool forward : {true, false}) {
    std::optional<std::string> position = range.begin;
    for (int i = 0; i < kResults && !scheduler_.is_stopping() &&
                    job.ElapsedMicros() < kMaxMicros;
         ++i) {
      // A new one each time. What it finds dead is so now, and can be
      // remembered beside writers.
      const auto it = NewOwnIterator(family);
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
bool DBImpl::FlushesRangeDeletionsLocked(ColumnFamily* family) {
  if (!family->dead_walks()->ReadsRangeDeletions()) return false;
  family->dead_walks()->DecideRangeDeletions();
  const MemTable& memtable = *family->memtable();
  return CleansLocked(*family) && !memtable.tombstones().empty() &&
         family->snapshots()->FindOldestLocked().sequence == kNoSnapshot &&
         family->cleaner()->CanPayLocked(memtable.ApproximateMemoryUsage());
}

void DBImpl::PlanCleanupLocked(
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

// Switches the memtable, unless it is another one by now. Does not wait for a
// leader, who may wait for this job: it tries for some milliseconds.
void DBImpl::FlushForReaders(ColumnFamily* family, const MemTable* memtable) {
  constexpr int kTries = 50;
  constexpr int kPauseUs = 100;
  WriteQueue::Writer leader;
  int tries = 0;
  while (!write_queue_.TryLead(&leader)) {
    if (++tries == kTries || scheduler_.is_stopping()) return;
    env_->SleepForMicroseconds(kPauseUs);
  }
  {
    MutexLock lock(&mutex_);
    bool switched = false;
    if (family->memtable() == memtable && !memtable->empty() &&
        !family->is_dropped() && family->SlotFreeLocked() &&
        WritableLocked().ok() && compaction_gate_.error.ok() &&
        !IsEndingLocked()) {
      for (const DeadRangeCleaner::Target& target :
           family->cleaner()->targets()) {
        if (target.plan == DeadRangeCleaner::Plan::kFlush) {
          AddDeadRangeEventLocked(target, "flush", -1);
        }
      }
      // An error is background_error_ by now, or the memtable stays.
      switched = SwitchLocked({family}).ok();
    }
    // Otherwise another flush is under way, whose end wakes the cleaner.
    uint64_t cost_bytes = 0;
    if (switched) {
      RecordTick(stats_, Ticker::kDeadRangeFlushes);
      const Version& version = *family->version();
      const int base =
          ComputeLevelTargets(family->options(), version).base_level;
      cost_bytes = family->cleaner()->FlushCost(version.NumBytes(base));
    }
    family->cleaner()->AwaitFlushLocked(cost_bytes);
  }
  write_queue_.Leave(WriteQueue::Group(&leader), Status::OK());
}

std::unique_ptr<Compaction> DBImpl::PickForReadersLocked(ColumnFamily* family) {
  if (!CleansLocked(*family)) return nullptr;
  DeadRangeCleaner* const cleaner = family->cleaner();
  while (const DeadRangeCleaner::Target* const target =
             cleaner->NextToCompactLocked()) {
    auto compaction =
        PickForReaders(PickerContextLocked(*family), target->found.level,
                       target->found.file_number);
    if (compaction != nullptr) {
      RecordTick(stats_, Ticker::kDeadRangeCompactions);
      AddDeadRangeEventLocked(*target, "compaction", target->found.level);
      cleaner->CompactionBeginsLocked(target->id);
      return compaction;
    }
    // Another compaction is in the way, or was there before.
    if (family->compactions().running.empty()) {
      cleaner->ExamineAgainLocked(target->id);
    } else {
      cleaner->WaitForJobLocked(target->id);
    }
  }
  return nullptr;
}

void DBImpl::AddDeadRangeEventLocked(const DeadRangeCleaner::Target& target,
                                     const char* job, int level) {
  const DeadRange& range = target.report.range;
  Log(LogLevel::kInfo, &log_,
      "readers walked over %llu dead entries, %llu times: %s, level %d",
      static_cast<unsigned long long>(range.dead),
      static_cast<unsigned long long>(target.report.walks), job, level);
  if (!events_.HasListeners()) return;
  DeadRangeInfo info;
  info.db_path = db_directory_.path();
  info.begin = range.begin.value_or("");
  info.end = range.end.value_or("");
  info.has_begin = range.begin.has_value();
  info.has_end = range.end.has_value();
  info.dead = range.dead;
  info.walks = target.report.walks;
  info.job = job;
  info.level = level;
  events_.Add([info](EventListener* listener) { listener->OnDeadRange(info); });
}

}  // namespace varve
