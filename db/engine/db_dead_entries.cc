// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Dead entries that readers walk over: what is remembered of them is cut by
// writes, and what is reported is removed by flushes and compactions.

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
  DeadRanges* const ranges = dead_walks_.leader_ranges();
  group.ForEach([ranges](const WriteQueue::Writer* writer) {
    if (writer->update != nullptr) {
      if (writer->update->type == ValueType::kValue) {
        ranges->Cut(writer->update->key);
      }
      return;
    }
    BatchReader reader;
    BatchRecord record;
    bool done = false;
    // A batch that cannot be read fails when it is inserted.
    if (!reader.Init(writer->batch->Data()).ok()) return;
    while (reader.NextOfOurs(&record, &done).ok() && !done) {
      if (record.type == ValueType::kValue) ranges->Cut(record.key);
    }
  });
}

bool DBImpl::CleansLocked() const {
  return !read_only_ && !options_.disable_auto_compactions && !ignores_waste_;
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
  std::vector<DeadRangeCleaner::Target> targets;
  uint64_t wakes = 0;
  {
    MutexLock lock(&mutex_);
    cleaner_.AddLocked(dead_walks_.reports()->Take());
    if (CleansLocked() && !scheduler_.is_stopping() && background_error_.ok()) {
      targets = cleaner_.ToExamineLocked();
    }
    wakes = cleaner_.wakes();
  }
  for (const DeadRangeCleaner::Target& target : targets) {
    if (target.is_new) RememberAround(target.report.range, job);
  }
  SuperVersion* const super_version = family_.super_versions().Reference();
  std::vector<DeadRangeFindings> found;
  for (const DeadRangeCleaner::Target& target : targets) {
    if (scheduler_.is_stopping()) break;
    found.push_back(ExamineDeadRange(*super_version, target.report.range,
                                     cleaner_.LeastDead(target)));
  }
  bool flushes = false;
  {
    MutexLock lock(&mutex_);
    targets.resize(found.size());
    PlanCleanupLocked(targets, found, wakes);
    flushes = cleaner_.WantsFlushLocked() || FlushesRangeDeletionsLocked();
  }
  if (flushes) FlushForReaders(super_version->memtable);
  family_.super_versions().Release(super_version);
  MutexLock lock(&mutex_);
  events_.DeliverLocked();
  scheduler_.FinishLocked(JobKind::kCleanup);
  MaybeScheduleLocked();
}

// Walks on from a reported range in both directions, over the next results of
// iterators. So the neighbouring ranges are remembered before readers come to
// them, as long as there are some.
void DBImpl::RememberAround(const DeadRange& range, const Stopwatch& job) {
  constexpr int kResults = 300;
  constexpr uint64_t kMaxMicros = 50000;
  for (const bool forward : {true, false}) {
    std::optional<std::string> position = range.begin;
    for (int i = 0; i < kResults && !scheduler_.is_stopping() &&
                    job.ElapsedMicros() < kMaxMicros;
         ++i) {
      // A new one each time. What it finds dead is so now, and can be
      // remembered beside writers.
      const auto it = NewOwnIterator();
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
bool DBImpl::FlushesRangeDeletionsLocked() {
  if (!dead_walks_.ReadsRangeDeletions()) return false;
  dead_walks_.DecideRangeDeletions();
  const MemTable& memtable = *family_.memtable();
  return CleansLocked() && !memtable.tombstones().empty() &&
         family_.snapshots()->FindOldestLocked().sequence == kNoSnapshot &&
         cleaner_.CanPayLocked(memtable.ApproximateMemoryUsage());
}

void DBImpl::PlanCleanupLocked(
    const std::vector<DeadRangeCleaner::Target>& targets,
    const std::vector<DeadRangeFindings>& found, uint64_t wakes) {
  if (targets.empty()) return;
  const SequenceNumber oldest =
      family_.snapshots()->FindOldestLocked().sequence;
  const uint64_t memtable_bytes = family_.memtable()->ApproximateMemoryUsage();
  for (size_t i = 0; i < targets.size(); ++i) {
    cleaner_.PlanLocked(targets[i].id, found[i], oldest, memtable_bytes, wakes);
  }
}

// Switches the memtable, unless it is another one by now. Does not wait for a
// leader, who may wait for this job: it tries for some milliseconds.
void DBImpl::FlushForReaders(const MemTable* memtable) {
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
    if (family_.memtable() == memtable && !memtable->empty() &&
        family_.SlotFreeLocked() && WritableLocked().ok() &&
        family_.compactions().error.ok() && !IsEndingLocked()) {
      for (const DeadRangeCleaner::Target& target : cleaner_.targets()) {
        if (target.plan == DeadRangeCleaner::Plan::kFlush) {
          AddDeadRangeEventLocked(target, "flush", -1);
        }
      }
      // An error is background_error_ by now, or the memtable stays.
      switched = SwitchMemTableLocked().ok();
    }
    // Otherwise another flush is under way, whose end wakes the cleaner.
    uint64_t cost_bytes = 0;
    if (switched) {
      RecordTick(stats_, Ticker::kDeadRangeFlushes);
      const Version& version = *versions_->current();
      const int base = ComputeLevelTargets(options_, version).base_level;
      cost_bytes = cleaner_.FlushCost(version.NumBytes(base));
    }
    cleaner_.AwaitFlushLocked(cost_bytes);
  }
  write_queue_.Leave(WriteQueue::Group(&leader), Status::OK());
}

std::unique_ptr<Compaction> DBImpl::PickForReadersLocked() {
  if (!CleansLocked()) return nullptr;
  while (const DeadRangeCleaner::Target* const target =
             cleaner_.NextToCompactLocked()) {
    auto compaction = PickForReaders(PickerContextLocked(), target->found.level,
                                     target->found.file_number);
    if (compaction != nullptr) {
      RecordTick(stats_, Ticker::kDeadRangeCompactions);
      AddDeadRangeEventLocked(*target, "compaction", target->found.level);
      cleaner_.CompactionBeginsLocked(target->id);
      return compaction;
    }
    // Another compaction is in the way, or was there before.
    if (family_.compactions().running.empty()) {
      cleaner_.ExamineAgainLocked(target->id);
    } else {
      cleaner_.WaitForJobLocked(target->id);
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
