// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Operation on a full device, or at the bound of the SstFileManager.
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
#include "db/jobs/table_jobs.h"
#include "db/version/covered_tables.h"
#include "db/version/range_tombstone_collector.h"
#include "db/write/write_batch_internal.h"

namespace varve {

namespace {

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
  if (IsSpaceError(status) && admission_.ResumeIfFull().ok()) {
    status = WriteThroughQueue(options, batch);
  }
  return status;
}

// Called by the thread of core_.auto_resume.
void DBImpl::TryToResume() {
  {
    MutexLock lock(core_.mutex());
    // A compaction may also have met a failed sync of the directory, which only
    // Resume gets over.
    if (core_.control.error().ok() &&
        core_.directory.directory()->failure().ok()) {
      compactor_.RetryLocked();
      return;
    }
  }
  RecordTick(core_.stats, Ticker::kAutoResumes);
  // It is tried again.
  if (Resume().ok()) RecordTick(core_.stats, Ticker::kAutoResumeSuccesses);
}

// Returns whether a flush may be worth its cost when no one writes.
bool DBImpl::WatchesQuietLocked() const {
  return core_.control.error().ok() &&
         !core_.control.inheritance().is_inherited() &&
         !core_.control.IsEndingLocked() &&
         std::any_of(core_.families.live().begin(), core_.families.live().end(),
                     [this](const ColumnFamily* family)
                         VARVE_REQUIRES(kDbMutex) {
                           return HasDeletions(*family) &&
                                  core_.picker.CleansLocked(*family);
                         });
}

// For the thread of age_watch_. Returns 0 if there is to be none. The databases
// of a catalog would have too many threads. Their tables are looked at when
// they are opened, and after each flush and compaction.
uint64_t DBImpl::ShortestAgeLocked() const {
  if (core_.IsOfCatalog() || core_.is_read_only ||
      core_.control.IsEndingLocked() ||
      core_.control.inheritance().is_inherited()) {
    return 0;
  }
  const uint64_t age_s = core_.picker.ShortestAgeLocked();
  const uint64_t ttl_s = core_.archive.ttl_s();
  if (age_s == 0 || ttl_s == 0) return std::max(age_s, ttl_s);
  return std::min(age_s, ttl_s);
}

// Called by the thread of quiet_watch_. A flush drops what the memtable's
// deletions hide in memory, and the log becomes obsolete. A compaction can then
// drop what they hide in tables.
void DBImpl::FlushInQuiet() {
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(core_.mutex());
    if (!WatchesQuietLocked()) return;
    for (ColumnFamily* const family : core_.families.live()) {
      if (!HasDeletions(*family) || !core_.picker.CleansLocked(*family))
        continue;
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
  // An error is in core_.control.error(). Close may have come first.
  FlushFamilies(options, families).IgnoreError();
  MutexLock lock(core_.mutex());
  core_.families.UnrefLocked(families);
  core_.jobs.PurgeLaterLocked();
}

// Removes tables whose entries are all hidden by range deletions, by an edit
// alone. Sets *dropped if there were any.
Status DBImpl::DropCovered(ColumnFamily* family, bool* dropped) {
  *dropped = false;
  {
    // In a child made by fork() the queue may never come to its end.
    MutexLock lock(core_.mutex());
    Status status = core_.control.WritableLocked();
    if (core_.control.inheritance().is_inherited()) return status;
  }
  // No Resume comes between, and no write.
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  if (core_.control.IsEndingLocked()) return Status::ShutdownInProgress();
  if (!core_.control.error().ok() && !IsSpaceError(core_.control.error())) {
    return core_.control.error();
  }
  std::vector<MemTable*> memtables;
  if (core_.wals.AreGoodLocked()) {
    Status status = flusher_.FlushLogLocked(true);
    if (!status.ok()) return status;
    core_.wals.ReleaseSpaceLocked();
    memtables = family->memtables().immutable();
    memtables.push_back(family->memtable());
  }
  RangeTombstoneCollector collector(&family->comparator());
  for (const MemTable* memtable : memtables) {
    // A kill would lose unlogged updates.
    if (!memtable->has_unlogged()) collector.AddMemTable(*memtable);
  }
  Version* const version = family->version();
  version->RefLocked();
  core_.mutex()->Unlock();
  for (const auto& files : version->levels()) {
    for (const FileMetaData* file : files) {
      // If a table cannot be read, its deletions are ignored, and less is
      // dropped.
      collector.AddFile(family->table_cache(), *file).IgnoreError();
    }
  }
  const auto tombstones = collector.Build();
  std::vector<CoveredTable> covered;
  if (tombstones != nullptr) {
    covered = FindCoveredTables(*tombstones, *version,
                                TableJobs(core_).ScanSnapshots());
  }
  core_.mutex()->Lock();
  core_.versions->UnrefVersionLocked(version);
  Status status = TableJobs(core_).DropLocked(family, covered,
                                              "all of it deleted", dropped);
  core_.scheduler.SignalLocked();
  if (!*dropped) return status;
  core_.control.InstallSuperVersionLocked(family);
  core_.jobs.PurgeLocked();
  core_.obsolete.AwaitLocked();
  core_.events.DeliverLocked();
  return status;
}

}  // namespace varve
