// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The set of write-ahead logs that an open database still needs.
//
// Only the leader of the write queue writes to the newest log. A new log
// replaces it when its memtable is switched. A log is freed when the MANIFEST
// says that the tables have its updates. A power failure may lose the unsynced
// end of any log, independently of the others. So a sync covers all logs that
// are not durable, oldest first. It includes the directory if the newest log's
// name may not be durable. Before the MANIFEST says that the tables of some
// column families have updates, logs that other families need up to there are
// synced. Otherwise a power failure could keep one family's part of a batch
// and lose another's.
//
// After a failed write or sync the end of the newest log is unknown. Nothing is
// added to it (has_failed) until a new log replaces it. The kernel reports a
// failed sync only once. After a failed sync of the directory, all logs whose
// names may be lost count as failed (ClearDirectoryErrorLocked).
//
// Thread-safety: functions called ...Locked require the DB mutex; the rest is
// for the leader of the write queue. The leader changes which log is the newest
// with the mutex held, so either of the two suffices to read it.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/directory/db_directory.h"
#include "db/options/db_mutex.h"
#include "db/wal/wal_writer.h"
#include "db/write/write_queue.h"
#include "monitoring/instrumented_file.h"
#include "monitoring/statistics.h"
#include "table/block/internal_key.h"
#include "util/base/mutex.h"
#include "varve/options.h"

namespace varve {

class WalSet {
 public:
  struct Wal {
    uint64_t number = 0;
    std::shared_ptr<wal::Writer> writer;
    bool synced = false;  // Completely; never set for the newest log.
    uint64_t created_us = 0;
    uint64_t begin_bytes = 0;  // Its size before its first update.
    uint64_t bytes = 0;        // Its size, once it is not the newest.
  };
  // A log to be added after the newest one.
  struct Next {
    Status status;
    bool newest_is_whole = false;  // Written to the operating system.
    bool was_created = false;
    Wal wal;
  };

  // `mutex` is the DB's. All must outlive this object.
  WalSet(DbDirectory* place, const Options* options, StatisticsImpl* stats,
         Mutex* mutex)
      : db_directory_(place), options_(options), stats_(stats), mutex_(mutex) {}
  WalSet(const WalSet&) = delete;
  WalSet& operator=(const WalSet&) = delete;

  // ---- By the leader ----

  // Appends the group's batches, with `count` updates in total, to the newest
  // log.
  Status Append(const WriteQueue::Group& group, uint64_t count);
  // Appends a record, the concatenation of the parts.
  Status Append(const std::vector<Slice>& parts) {
    return newest_->AddRecord(parts);
  }
  // Appends the record that names the log before the newest one.
  Status AppendPredecessor(uint64_t number, uint64_t size,
                           SequenceNumber sequence);
  // Returns the last update in a log since Open, or 0.
  SequenceNumber last_logged() const {
    return newest_ != nullptr ? newest_->last_update() : last_logged_;
  }
  // Records it, once the update is in the newest log.
  void SetLastLogged(SequenceNumber sequence) {
    newest_->SetLastUpdate(sequence);
  }
  // Returns true if a failed Append left the newest log unchanged.
  bool HasRefused() const { return !newest_->failed(); }
  // Writes the buffered part of the newest log to the operating system.
  Status Flush() { return newest_->Flush(); }
  // Returns the size of the newest log without its first records.
  uint64_t UpdateBytes() const { return newest_->Size() - begin_bytes_; }
  uint64_t NewestBytes() const { return newest_->Size(); }
  // Returns how many more bytes may be written before the newest log should be
  // replaced. Log data and empty ranges are in no memtable, so a full memtable
  // never ends a log of them. Nor need a log that several column families share
  // fill any memtable.
  uint64_t SpaceForUpdates() const {
    const uint64_t size = UpdateBytes();
    return size < max_log_bytes_ ? max_log_bytes_ - size : 0;
  }
  // Sets the size at which a log should be replaced. REQUIRES: leadership, and
  // the mutex.
  void SetMaxLogBytesLocked(uint64_t bytes) VARVE_REQUIRES(kDbMutex) {
    max_log_bytes_ = bytes;
  }
  uint64_t max_log_bytes() const { return max_log_bytes_; }
  // Creates a log, which replaces a file of that name. `space_is_short`:
  // allocates no more space than needed.
  Status Create(uint64_t number, bool space_is_short, Wal* wal);
  // Flushes the newest log, unless it has failed, and creates a log that names
  // it as its predecessor. After a failure the new file is removed. `sequence`
  // is the next update's sequence number.
  Next CreateNext(uint64_t number, SequenceNumber sequence,
                  bool space_is_short);

  // Appends a record to a log from CreateNext, unless it is empty, and makes it
  // durable if `sync` is set: the logs before it must be. After a failure the
  // new file is removed, but may come back. So newest_is_whole is false,
  // because nothing may be added to the log before it, unless the record was
  // refused for lack of space and the file is removed for good.
  void AddFirst(Next* next, const Slice& record, bool sync);

  // ---- With the mutex ----

  // Adds a log that another process has written, before the first AddLocked. It
  // ends after `size` bytes, and need not be durable.
  void AddFinishedLocked(uint64_t number, uint64_t size)
      VARVE_REQUIRES(kDbMutex);
  // Makes the log the newest.
  void AddLocked(Wal wal) VARVE_REQUIRES(kDbMutex);
  // Syncs all written updates. May release the mutex and reacquire it.
  // REQUIRES: leadership of the queue.
  Status SyncLocked() VARVE_REQUIRES(kDbMutex);
  // Syncs the newest log and its name alone. May release the mutex and
  // reacquire it. REQUIRES: leadership of the queue.
  Status SyncNewestLocked() VARVE_REQUIRES(kDbMutex);
  // Does SyncLocked for a group of writers, and records its duration as the
  // expected duration of the next one.
  Status SyncForGroupLocked() VARVE_REQUIRES(kDbMutex);
  // Syncs the logs before `number`, which is not after the newest one. May
  // release the mutex and reacquire it. Can be called without leadership. After
  // an error, the log that caused it has failed. The directory is not synced.
  Status SyncBeforeLocked(uint64_t number) VARVE_REQUIRES(kDbMutex);
  uint64_t group_sync_us() const { return group_sync_us_; }
  // Records that the directory was synced after the newest log was created.
  void SetDirectorySyncedLocked() VARVE_REQUIRES(kDbMutex) {
    directory_synced_ = true;
  }

  // Returns true if nothing may be added to the newest log. REQUIRES: the
  // mutex, or leadership after PublicationOrder was idle: a group that inserts
  // beside the leader calls FailLocked before it ends.
  bool has_failed() const { return has_failed_; }
  void FailLocked() VARVE_REQUIRES(kDbMutex) { has_failed_ = true; }
  // Returns true if all written updates can be made durable.
  bool AreGoodLocked() const VARVE_REQUIRES(kDbMutex);
  // Clears a sync error of the directory. Logs whose names may be lost fail
  // with that error.
  void ClearDirectoryErrorLocked(const Status& error) VARVE_REQUIRES(kDbMutex);
  // Returns how the newest log is written; see WritableFile::WritePath.
  std::string WritePathLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if it differs from the path at the last call.
  bool WritePathChangedLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the calls of logs that waited.
  const FileWaits& waits() const { return *waits_; }
  // Releases the space allocated after the ends of logs. Releases the mutex and
  // reacquires it. REQUIRES: leadership of the write queue.
  void ReleaseSpaceLocked() VARVE_REQUIRES(kDbMutex);

  bool EmptyLocked() const VARVE_REQUIRES(kDbMutex) { return wals_.empty(); }
  // REQUIRES: there is a log.
  uint64_t OldestLocked() const VARVE_REQUIRES(kDbMutex) {
    return wals_.front().number;
  }
  uint64_t NewestLocked() const VARVE_REQUIRES(kDbMutex) {
    return wals_.back().number;
  }
  // Returns the time since the oldest log was created.
  uint64_t OldestAgeMicrosLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns the bytes of the logs from `number` on, but for the newest.
  uint64_t OlderBytesLocked(uint64_t number = 0) const VARVE_REQUIRES(kDbMutex);
  // Returns the numbers and sizes of the logs from `number` on. REQUIRES:
  // leadership of the queue, as AllSizesLocked.
  std::vector<std::pair<uint64_t, uint64_t>> SizesFromLocked(
      uint64_t number) const VARVE_REQUIRES(kDbMutex);
  // Returns those of all logs that exist, by number: also of obsolete ones
  // whose removal has not begun.
  std::vector<std::pair<uint64_t, uint64_t>> AllSizesLocked() const
      VARVE_REQUIRES(kDbMutex);
  // Marks the logs before `number` as obsolete.
  void ReleaseLocked(uint64_t number) VARVE_REQUIRES(kDbMutex);
  bool HasObsoleteLocked() const VARVE_REQUIRES(kDbMutex) {
    return !obsolete_.empty();
  }
  // Call CountRemovedLocked when their removal has ended.
  std::vector<Wal> TakeObsoleteLocked() VARVE_REQUIRES(kDbMutex) {
    return std::exchange(obsolete_, {});
  }
  void CountRemovedLocked(const std::vector<Wal>& removed)
      VARVE_REQUIRES(kDbMutex);
  // Returns the bytes of obsolete logs whose removal has not ended.
  uint64_t ObsoleteBytesLocked() const VARVE_REQUIRES(kDbMutex) {
    return obsolete_bytes_;
  }

  // Closes all logs. The set is empty afterwards, even on failure.
  Status CloseLocked() VARVE_REQUIRES(kDbMutex);
  // Closes the files in a child created by fork(), where they do not write
  // their buffers (env/posix_writable_file.cc). The writers stay: the parent's
  // leader may have been changing one.
  void AbandonLocked() VARVE_REQUIRES(kDbMutex);

 private:
  bool RemoveNext(Next* next);
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  DbDirectory* const db_directory_;
  const Options* const options_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;  // The DB's.
  const std::shared_ptr<FileWaits> waits_ = std::make_shared<FileWaits>();
  std::deque<Wal> wals_;  // Oldest first.
  // Held during a sync of logs. Taken before *mutex_.
  Mutex sync_mutex_;
  wal::Writer* newest_ = nullptr;  // The last log's.
  uint64_t begin_bytes_ = 0;  // The newest log's size before its first update.
  uint64_t max_log_bytes_ = UINT64_MAX;
  bool has_failed_ = false;
  bool directory_synced_ = false;
  std::string last_write_path_ = "write";
  std::vector<Wal> obsolete_;
  uint64_t obsolete_bytes_ = 0;     // Also of those that were taken.
  SequenceNumber last_logged_ = 0;  // When there is no log.
  std::vector<Slice> parts_;        // Owned by the leader.
  uint64_t group_sync_us_ = 0;      // Owned by the leader.
};

}  // namespace varve
