// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Operation on a full device.
//
// A compaction that finds no space changes nothing: compactions pause, and
// writes continue. A flush or a log that finds no space makes the DB read-only,
// since writes need it. Batches that only delete are still accepted while the
// log is good. A thread retries periodically, and soon after files were
// removed. Each call that can free space retries as well.
//
// Without space, such a call can still remove tables whose keys are all covered
// by newer range deletions. This takes only an edit of the MANIFEST. The range
// deletions may still be in memory, once their log is synced.
//
// A database that is not written to for some seconds also frees space: see
// FlushInQuiet.

#include <algorithm>
#include <vector>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/version/covered_tables.h"
#include "db/version/range_tombstone_collector.h"
#include "db/write/write_batch_internal.h"

namespace varve {

namespace {

// A memtable that cannot be flushed accepts this many more bytes of deletions.
constexpr size_t kDeletionBytes = 1 << 20;

// A quiet database flushes a memtable with at least this many deletions, if
// they are at least this part of all entries.
constexpr uint64_t kLeastDeletions = 256;
constexpr uint64_t kDeletionPart = 8;

// Returns whether the memtable has so many deletions that what they hide, in
// tables or in the log, may be worth a flush.
bool HasDeletions(const ColumnFamily& family) {
  return family.memtable() != nullptr &&
         family.memtable()->DeletionCount() >= kLeastDeletions;
}

}  // namespace

// Called after a write that found no space. Writes a batch that only deletes
// once more, by itself. Returns `status` for other batches.
Status DBImpl::DeleteWithoutSpace(const WriteOptions& options,
                                  WriteBatch* batch, Status status) {
  if (!WriteBatchInternal::OnlyDeletes(*batch)) return status;
  // The batch may have been refused because of the other batches of its group.
  status = WriteThroughQueue(options, batch);
  if (status.IsNoSpace() && ResumeIfFull().ok()) {
    status = WriteThroughQueue(options, batch);
  }
  return status;
}

// Whether a batch that only deletes is logged although there is no space.
bool DBImpl::TakesDeletionsLocked() const {
  // After a log whose end is unknown, updates may be lost. A child created by
  // fork() has inherited the error, and not the log.
  return control_.error().IsNoSpace() &&
         !control_.inheritance().is_inherited() && wals_.AreGoodLocked() &&
         std::all_of(families_.live().begin(), families_.live().end(),
                     [](const ColumnFamily* family) {
                       return family->memtable()->ApproximateMemoryUsage() <=
                              family->options().write_buffer_size +
                                  kDeletionBytes;
                     });
}

// Returns OK if a batch that only deletes may be written although
// control_.error() is set. Calls Resume unless *tried. May release the mutex
// and reacquire it.
Status DBImpl::AdmitDeletionLocked(bool* tried) {
  if (TakesDeletionsLocked()) return Status::OK();
  if (*tried || !control_.error().IsNoSpace()) return control_.error();
  *tried = true;
  return TryResumeLocked();
}

// Calls Resume. Returns the error that still prevents writes. Releases the
// mutex and reacquires it.
Status DBImpl::TryResumeLocked() {
  mutex_.Unlock();
  Status status = Resume();
  mutex_.Lock();
  return status.ok() || control_.error().ok() ? status : control_.error();
}

// For calls that may free space. Calls Resume if there was no space.
Status DBImpl::ResumeIfFull() {
  MutexLock lock(&mutex_);
  Status status = WritableLocked();
  if (!IsTransientError(status) || control_.inheritance().is_inherited())
    return status;
  return TryResumeLocked();
}

// Called by the thread of auto_resume_.
void DBImpl::TryToResume() {
  {
    MutexLock lock(&mutex_);
    // A compaction may also have met a failed sync of the directory, which only
    // Resume gets over.
    if (control_.error().ok() && db_directory_.directory()->failure().ok()) {
      compactor_.RetryLocked();
      return;
    }
  }
  RecordTick(stats_, Ticker::kAutoResumes);
  // It is tried again.
  if (Resume().ok()) RecordTick(stats_, Ticker::kAutoResumeSuccesses);
}

// Returns whether a flush may be worth its cost when no one writes.
bool DBImpl::WatchesQuietLocked() const {
  return control_.error().ok() && !control_.inheritance().is_inherited() &&
         !control_.IsEndingLocked() &&
         std::any_of(families_.live().begin(), families_.live().end(),
                     [this](const ColumnFamily* family)
                         VARVE_NO_THREAD_SAFETY_ANALYSIS {
                           return HasDeletions(*family) &&
                                  picker_.CleansLocked(*family);
                         });
}

// For the thread of age_watch_. Returns 0 if there is to be none. The databases
// of a catalog would have too many threads. Their tables are looked at when
// they are opened, and after each flush and compaction.
uint64_t DBImpl::ShortestAgeLocked() const {
  if (IsOfCatalog() || read_only_ || control_.IsEndingLocked() ||
      control_.inheritance().is_inherited()) {
    return 0;
  }
  return picker_.ShortestAgeLocked();
}

// Called by the thread of quiet_watch_. A flush drops what the memtable's
// deletions hide in memory, and the log becomes obsolete. A compaction can then
// drop what they hide in tables.
void DBImpl::FlushInQuiet() {
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(&mutex_);
    if (!WatchesQuietLocked()) return;
    for (ColumnFamily* const family : families_.live()) {
      if (!HasDeletions(*family) || !picker_.CleansLocked(*family)) continue;
      const MemTable& memtable = *family->memtable();
      const uint64_t entries =
          memtable.EntryCount() + family->version()->KnownEntries();
      if (memtable.DeletionCount() < entries / kDeletionPart) continue;
      family->Ref();
      families.push_back(family);
    }
  }
  FlushOptions options;
  options.wait = false;
  // An error is in control_.error(). Close may have come first.
  FlushFamilies(options, families).IgnoreError();
  MutexLock lock(&mutex_);
  families_.UnrefLocked(families);
  jobs_.PurgeLaterLocked();
}

// Removes tables whose entries are all hidden by range deletions, by an edit
// alone. Sets *dropped if there were any.
Status DBImpl::DropCovered(ColumnFamily* family, bool* dropped) {
  *dropped = false;
  {
    // In a child made by fork() the queue may never come to its end.
    MutexLock lock(&mutex_);
    Status status = WritableLocked();
    if (control_.inheritance().is_inherited()) return status;
  }
  // No Resume comes between, and no write.
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (control_.IsEndingLocked()) return Status::ShutdownInProgress();
  if (!control_.error().ok() && !control_.error().IsNoSpace()) {
    return control_.error();
  }
  std::vector<MemTable*> memtables;
  if (wals_.AreGoodLocked()) {
    Status status = flusher_.FlushLogLocked(true);
    if (!status.ok()) return status;
    wals_.ReleaseSpaceLocked();
    memtables = family->immutable();
    memtables.push_back(family->memtable());
  }
  RangeTombstoneCollector collector(&family->comparator());
  for (const MemTable* memtable : memtables) {
    // A kill would lose unlogged updates.
    if (!memtable->has_unlogged()) collector.AddMemTable(*memtable);
  }
  Version* const version = family->version();
  version->RefLocked();
  mutex_.Unlock();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileMetaData* file : version->files(level)) {
      // If a table cannot be read, its deletions are ignored, and less is
      // dropped.
      collector.AddFile(family->table_cache(), *file).IgnoreError();
    }
  }
  const auto tombstones = collector.Build();
  std::vector<CoveredTable> covered;
  if (tombstones != nullptr) {
    covered =
        FindCoveredTables(*tombstones, *version, table_jobs_.ScanSnapshots());
  }
  mutex_.Lock();
  versions_->UnrefVersionLocked(version);
  Status status = table_jobs_.DropLocked(family, covered, dropped);
  scheduler_.SignalLocked();
  if (!*dropped) return status;
  control_.InstallSuperVersionLocked(family);
  jobs_.PurgeLocked();
  obsolete_.AwaitLocked();
  events_.DeliverLocked();
  return status;
}

}  // namespace varve
