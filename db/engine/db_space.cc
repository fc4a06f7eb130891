// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// What the DB does when the device is full of its own data.
//
// A compaction that finds no space changes nothing: compactions pause, and
// writes go on. A flush or a log that finds none makes the DB read-only, since
// writes need it: all but batches that only delete, as long as the log is good.
// A thread tries again after a while, and soon after files were removed; and so
// does each call that a user would free space with.
//
// What such a call then can do without space: tables whose keys are all covered
// by newer range deletions are removed by an edit of the MANIFEST alone. The
// deletions may still be in memory, once the log that has them is synced.

#include <algorithm>
#include <iterator>
#include <vector>

#include "db/engine/db_impl.h"
#include "db/engine/usual_errors.h"
#include "db/version/range_tombstone_collector.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "env/stopwatch.h"

namespace varve {

// A table all of whose entries range deletions hide. `covered_from` is the
// oldest one of those that are needed for it.
struct CoveredTable {
  int level;
  uint64_t number;
  SequenceNumber smallest_sequence;
  SequenceNumber covered_from;
};

namespace {

// Between attempts to resume when there was no space.
constexpr uint64_t kMinResumeWaitUs = 100 * 1000;
constexpr uint64_t kMaxResumeWaitUs = 2 * 1000 * 1000;

// A memtable that cannot be flushed takes so much more of deletions.
constexpr size_t kDeletionBytes = 1 << 20;

// Sets *sequence to the least of the newest deletions of each of the file's
// keys. False if some of its entries are not hidden.
bool IsCovered(const RangeTombstoneSet& tombstones, const FileMetaData& file,
               SequenceNumber* sequence) {
  if (file.sequences_unknown) return false;
  const InternalKeyComparator& comparator = tombstones.comparator();
  size_t last = tombstones.FindInterval(file.largest_user_key());
  if (file.EndIsExclusive() && last > 0 &&
      comparator.CompareUser(tombstones.bound(last - 1),
                             file.largest_user_key()) == 0) {
    --last;
  }
  *sequence = kMaxSequenceNumber;
  for (size_t i = tombstones.FindInterval(file.smallest_user_key()); i <= last;
       ++i) {
    *sequence = std::min(*sequence,
                         tombstones.MaxCoveringInterval(i, kMaxSequenceNumber));
    if (*sequence <= file.largest_sequence) return false;
  }
  return *sequence != kMaxSequenceNumber;
}

std::vector<CoveredTable> FindCovered(const RangeTombstoneSet& tombstones,
                                      const Version& version) {
  std::vector<CoveredTable> result;
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileMetaData* file : version.files(level)) {
      SequenceNumber sequence;
      if (IsCovered(tombstones, *file, &sequence)) {
        result.push_back(
            {level, file->number, file->smallest_sequence, sequence});
      }
    }
  }
  return result;
}

}  // namespace

Status DBImpl::DeleteWithoutSpace(const WriteOptions& options,
                                  WriteBatch* batch, Status status) {
  if (!WriteBatchInternal::OnlyDeletes(*batch)) return status;
  // It may have been refused for the updates that it was grouped with.
  status = WriteThroughQueue(options, batch);
  if (status.IsNoSpace() && ResumeIfFull().ok()) {
    status = WriteThroughQueue(options, batch);
  }
  return status;
}

bool DBImpl::TakesDeletionsLocked() const {
  // After a log whose end is unknown nothing counts for sure. A child made by
  // fork() has inherited the error, and not the log.
  return background_error_.IsNoSpace() && !inheritance_.is_inherited() &&
         wals_.AreGoodLocked() &&
         family_.memtable()->ApproximateMemoryUsage() <=
             options_.write_buffer_size + kDeletionBytes;
}

Status DBImpl::AdmitDeletionLocked(bool* tried) {
  if (TakesDeletionsLocked()) return Status::OK();
  if (*tried || !background_error_.IsNoSpace()) return background_error_;
  *tried = true;
  mutex_.Unlock();
  Status status = Resume();
  mutex_.Lock();
  if (status.ok() || background_error_.ok()) return status;
  return background_error_;
}

Status DBImpl::ResumeIfFull() {
  MutexLock lock(&mutex_);
  Status status = WritableLocked();
  if (!MayPass(status) || inheritance_.is_inherited()) return status;
  mutex_.Unlock();
  status = Resume();
  mutex_.Lock();
  if (status.ok() || background_error_.ok()) return status;
  return background_error_;
}

void DBImpl::PauseCompactionsLocked(const Status& status) {
  if (family_.compactions().error.ok()) {
    Log(LogLevel::kWarn, &log_, "compactions pause: %s",
        status.ToString().c_str());
    family_.compactions().error = status.Annotate(
        "writes are stopped: no space for the compactions that they wait for");
  }
  ResumeLaterLocked();
  scheduler_.SignalLocked();
}

void DBImpl::ResumeLaterLocked() {
  if (resume_scheduled_ || IsEndingLocked()) return;
  // Of its own: it waits most of the time, which would keep a thread of the
  // Env from others. Without it there is still Resume.
  resume_scheduled_ = resume_pool_.Schedule([this] { KeepResuming(); }).ok();
}

bool DBImpl::AwaitSpaceLocked(uint64_t wait_us) {
  obsolete_.ForgetRemovedLocked();
  const Stopwatch waiting(env_);
  for (;;) {
    if (scheduler_.is_stopping()) return false;
    if (!MayPass(background_error_) && family_.compactions().error.ok())
      return false;
    // Not at once: the files may be those that a failed attempt left.
    if (obsolete_.has_removed()) wait_us = kMinResumeWaitUs;
    const uint64_t waited_us = waiting.ElapsedMicros();
    if (waited_us >= wait_us) return true;
    scheduler_.WaitForLocked(wait_us - waited_us);
  }
}

void DBImpl::ResumeCompactionsLocked() {
  if (family_.compactions().error.ok()) return;
  family_.compactions().error = Status::OK();
  MaybeScheduleLocked();
  scheduler_.SignalLocked();
}

void DBImpl::RetryCompactionsLocked() {
  ResumeCompactionsLocked();
  while (scheduler_.JobsLocked(JobKind::kCompaction) > 0 &&
         family_.compactions().error.ok() && background_error_.ok() &&
         !scheduler_.is_stopping()) {
    scheduler_.WaitLocked();
  }
}

void DBImpl::KeepResuming() {
  MutexLock lock(&mutex_);
  for (uint64_t wait_us = kMinResumeWaitUs; AwaitSpaceLocked(wait_us);
       wait_us = std::min(2 * wait_us, kMaxResumeWaitUs)) {
    // A compaction may also have met a failed sync of the directory, which only
    // Resume gets over.
    if (background_error_.ok() && place_.directory()->failure().ok()) {
      RetryCompactionsLocked();
      continue;
    }
    mutex_.Unlock();
    RecordTick(stats_, Ticker::kAutoResumes);
    // It is tried again.
    if (Resume().ok()) RecordTick(stats_, Ticker::kAutoResumeSuccesses);
    mutex_.Lock();
  }
  resume_scheduled_ = false;
  scheduler_.SignalLocked();
}

Status DBImpl::DropCovered(bool* dropped) {
  *dropped = false;
  {
    // In a child made by fork() the queue may never come to its end.
    MutexLock lock(&mutex_);
    Status status = WritableLocked();
    if (inheritance_.is_inherited()) return status;
  }
  // No Resume comes between, and no write.
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (IsEndingLocked()) return Status::ShutdownInProgress();
  if (!background_error_.ok() && !background_error_.IsNoSpace()) {
    return background_error_;
  }
  std::vector<MemTable*> memtables;
  if (wals_.AreGoodLocked()) {
    Status status = FlushLogLocked(true);
    if (!status.ok()) return status;
    wals_.ReleaseSpaceLocked();
    memtables = family_.immutable();
    memtables.push_back(family_.memtable());
  }
  RangeTombstoneCollector collector(&comparator_);
  for (const MemTable* memtable : memtables) {
    // What was not logged a kill would take.
    if (!memtable->has_unlogged()) collector.AddMemTable(*memtable);
  }
  Version* const version = versions_->current();
  version->RefLocked();
  mutex_.Unlock();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileMetaData* file : version->files(level)) {
      // Without those of a table that cannot be read there is less to drop.
      collector.AddFile(table_cache_.get(), *file).IgnoreError();
    }
  }
  const auto tombstones = collector.Build();
  std::vector<CoveredTable> covered;
  if (tombstones != nullptr) covered = FindCovered(*tombstones, *version);
  const std::vector<SequenceNumber> snapshots = ScanSnapshots();
  mutex_.Lock();
  versions_->UnrefVersionLocked(version);
  std::erase_if(covered, [&](const CoveredTable& table) {
    return std::any_of(snapshots.begin(), snapshots.end(),
                       [&](SequenceNumber snapshot) {
                         return snapshot >= table.smallest_sequence &&
                                snapshot < table.covered_from;
                       });
  });
  return RemoveTablesLocked(covered, dropped);
}

Status DBImpl::RemoveTablesLocked(const std::vector<CoveredTable>& tables,
                                  bool* removed) {
  VersionEdit edit;
  for (const CoveredTable& table : tables) {
    const auto& files = versions_->current()->files(table.level);
    const bool is_there =
        std::any_of(files.begin(), files.end(), [&](const FileMetaData* file) {
          return file->number == table.number && !file->being_compacted;
        });
    if (is_there) edit.RemoveFile(table.level, table.number);
  }
  if (edit.deleted_files().empty()) return Status::OK();
  Status status = versions_->LogAndApply(&edit);
  if (!status.ok()) return status;
  *removed = true;
  Log(LogLevel::kInfo, &log_, "dropped %zu tables, all of it deleted",
      edit.deleted_files().size());
  InstallSuperVersionLocked();
  PurgeObsoleteLocked();
  while (obsolete_.running() > 0) scheduler_.WaitLocked();
  events_.DeliverLocked();
  return status;
}

}  // namespace varve
