// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The logs of an open database that may still be needed, and what a failure of
// one means.
//
// The newest is written to, by the leader of the write queue only. It is left
// for a new one when its memtable is, and then freed when the MANIFEST says
// that the tables have what is in it. A power cut may take the end of any log
// that was not synced, each by itself, so a sync is one of all logs that are
// not safe yet, oldest first, and of the directory if the newest one's name may
// not be safe.
//
// After a failed write or sync the end of the newest log is unknown: nothing is
// added to it any more (has_failed), until another one takes its place. A
// failed sync is told by the kernel only once. If it was that of the directory,
// all logs whose names may be lost count as failed (ForgiveDirectoryLocked).
//
// Thread-safety: what is called ...Locked, with the DB mutex held; the rest by
// the leader of the write queue. What changes which log is the newest, by the
// leader with the mutex held, so that either is enough to look at it.

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "db/parts/database_place.h"
#include "db/wal/wal_writer.h"
#include "db/write/write_queue.h"
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
    bool synced = false;  // Whole; the newest one never is.
  };
  // A log that is to follow the newest.
  struct Next {
    Status status;
    bool newest_is_whole = false;  // All of it is with the operating system.
    bool was_created = false;
    Wal wal;
  };

  // `mutex` is the DB's. All outlive this.
  WalSet(DatabasePlace* place, const Options* options, StatisticsImpl* stats,
         Mutex* mutex)
      : place_(place), options_(options), stats_(stats), mutex_(mutex) {}
  WalSet(const WalSet&) = delete;
  WalSet& operator=(const WalSet&) = delete;

  // ---- By the leader ----

  // Adds the group's batches, which have so many updates together, to the
  // newest log.
  Status Append(const WriteQueue::Group& group, uint64_t count);
  // Whether the last Append, if it failed, has left the newest log as it was.
  bool HasRefused() const { return !newest_->failed(); }
  // Hands all of the newest log to the operating system.
  Status Flush() { return newest_->Flush(); }
  // The newest log without what it began with.
  uint64_t UpdateBytes() const { return newest_->Size() - begin_bytes_; }
  // How many more bytes may be written before the newest log is too large for a
  // write buffer. Log data and empty ranges are in no memtable, so that a full
  // one never ends a log of these.
  uint64_t RoomForUpdates() const;
  // Makes a log, which replaces a file of that name. `space_is_short`: no more
  // of it is asked for than needed.
  Status Create(uint64_t number, bool space_is_short, Wal* wal);
  // Flushes the newest log, unless it has failed, and makes one that names it
  // as its predecessor; no file is left if that fails. `sequence` is that of
  // the next update.
  Next CreateNext(uint64_t number, SequenceNumber sequence,
                  bool space_is_short);

  // ---- With the mutex ----

  // Makes it the newest.
  void AddLocked(Wal wal);
  // Makes all safe that was written. Gives the mutex back while it waits for
  // the device. REQUIRES: the lead.
  Status SyncLocked();
  // The same for a group of writers, whose next sync is then expected to take
  // as long.
  Status SyncForGroupLocked();
  uint64_t group_sync_us() const { return group_sync_us_; }
  // The directory was synced since the newest log was made.
  void SetDirectorySyncedLocked() { directory_synced_ = true; }

  // Nothing may be added to the newest log.
  bool has_failed() const { return has_failed_; }
  void FailLocked() { has_failed_ = true; }
  // Whether all that was written can be made safe.
  bool AreGoodLocked() const;
  // The directory is synced again after a failure: logs whose names may be lost
  // fail with that error.
  void ForgiveDirectoryLocked(const Status& error);
  // Gives back the space that was allocated after the ends of the logs.
  void ReleaseSpaceLocked();

  bool EmptyLocked() const { return wals_.empty(); }
  // REQUIRES: there is one.
  uint64_t OldestLocked() const { return wals_.front().number; }
  // Numbers and sizes of those from `number` on.
  std::vector<std::pair<uint64_t, uint64_t>> SizesFromLocked(
      uint64_t number) const;
  // Those before `number` are not needed any more.
  void ReleaseLocked(uint64_t number);
  bool HasObsoleteLocked() const { return !obsolete_.empty(); }
  std::vector<Wal> TakeObsoleteLocked() { return std::exchange(obsolete_, {}); }

  // There is none after either.
  Status CloseLocked();
  // In a child made by fork(): the files write nothing of what they have
  // buffered (env/posix_file.cc).
  void AbandonLocked();

 private:
  DatabasePlace* const place_;
  const Options* const options_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;
  std::deque<Wal> wals_;           // Oldest first.
  wal::Writer* newest_ = nullptr;  // The last one's.
  uint64_t begin_bytes_ = 0;       // Of it, before its first update.
  bool has_failed_ = false;
  bool directory_synced_ = false;
  std::vector<Wal> obsolete_;
  std::vector<Slice> parts_;    // Owned by the leader.
  uint64_t group_sync_us_ = 0;  // Owned by the leader.
};

}  // namespace varve
