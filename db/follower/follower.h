// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database that another process writes, the primary, followed from moment to
// moment (docs/followers.md).
//
// The follower reads what is new in the MANIFEST and in the logs, and shows it
// by the same memtables, versions and SuperVersions that the primary has, so
// that a read of it is an ordinary read.
//
// One moment. A catch-up lists the logs, reads the MANIFEST to its end, then
// the logs, and then the MANIFEST again, until nothing new is in it and CURRENT
// is the same file. Then
//   F1 all records of the logs that were written before the call are read,
//      since their logs were in the listing;
//   F2 the tables have no update of a log that was not read: a family's tables
//      have the updates of the logs before the log that the MANIFEST names for
//      it, and if that is newer than the listing, the logs are listed again;
//   F3 the tables have all updates that an ingestion has put between updates of
//      the logs, since the MANIFEST names it before the next update is logged.
//   So what was read is the state of the primary after the last record.
//
// How it becomes visible. A reader takes a SuperVersion, then the last sequence
// number (db/snapshot). Each of the two steps below keeps every pair that a
// reader can get of one moment, over all families:
//   G1 Growth: records of the log that the current memtables belong to are
//      added to these, and then the number is published. The old SuperVersions
//      show the new moment with the new number, and the old one with the old.
//   G2 Turn: new SuperVersions with other tables, or with new memtables. They
//      are installed after the number is published, and all with the mutex held
//      once. A thread gets a new SuperVersion only by taking the mutex, so that
//      no read of it comes before a read that finds an older one. The old
//      SuperVersions show the moment after the last growth with any number,
//      since none of the turn's records is in their memtables. The new ones are
//      never read with an older number.
//   If an edit brings entries of its own (ManifestView::brings_entries), there
//   is no growth: records after it must not be visible without it.
//   G3 An older snapshot needs entries that the primary may have dropped since.
//      So a snapshot keeps the SuperVersion of its moment, which has the other
//      families' SuperVersions (db/follower/moment).
//
// A memtable has updates of one log. When the MANIFEST says that the tables of
// a family have the updates of the logs before a number, its memtables of these
// logs go. No update is in a table and in a memtable, so that no merge operand
// counts twice.
//
// Thread-safety: thread-safe. Calls exclude each other, and take the DB mutex.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/follower/log_tail.h"
#include "db/follower/manifest_view.h"
#include "db/follower/staged_updates.h"
#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "util/base/mutex.h"
#include "varve/status.h"

namespace varve {

class Follower {
 public:
  // `core` must outlive this object.
  explicit Follower(DbCore& core);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower();

  // Shows at least everything that the primary had answered before the call,
  // and exactly one moment. After an error, the last moment stays.
  Status CatchUp();
  // Does CatchUp after the primary has ended: nobody writes, so that an end in
  // the middle of a record is final. Returns InvalidArgument if the database
  // has families that are not opened. REQUIRES: the lock is held.
  Status CatchUpToEnd();

  // A log that the memtables, or prepared transactions, need.
  struct Log {
    uint64_t number;
    uint64_t end;  // Of its last record.
  };
  // Returns them by number. REQUIRES: CatchUpToEnd has succeeded.
  const std::vector<Log>& logs() const { return logs_; }
  // The MANIFEST's state at the last catch-up. REQUIRES: none runs.
  const ManifestView& view() const { return view_; }
  // Closes the files that are read.
  void Close();

 private:
  // The result of reading all that is new.
  struct Attempt {
    bool restarts = false;
    std::optional<FileId> current_id;
    // Set if it differs from view_.
    std::optional<ManifestView> view;
    std::unique_ptr<LogTail> manifest;  // Of a restart.
    std::vector<uint64_t> listed;       // Logs, increasing.
    // The tails of logs that were opened in this attempt.
    std::vector<std::unique_ptr<LogTail>> tails;
    std::vector<Log> logs;  // That were read, by number.
    StagedUpdates updates;
    bool newest_has_updates = false;
    // The last log that was read ends inside a record.
    bool is_torn = false;
    // The number after the updates of the last record.
    SequenceNumber next_sequence = 0;
    // New versions, each with a reference.
    std::vector<std::pair<ColumnFamily*, Version*>> versions;
  };

  Status CatchUpLocked() VARVE_REQUIRES(serial_);
  Status TryOnce(bool restarts) VARVE_REQUIRES(serial_);
  Status Read(Attempt* attempt) VARVE_REQUIRES(serial_);
  const ManifestView& ViewOf(const Attempt& attempt) const {
    return attempt.view ? *attempt.view : view_;
  }
  std::optional<FileId> CurrentId() const;
  std::string ReadIdentity() const;
  // Reads CURRENT and all of its MANIFEST, as edits against the present
  // versions.
  Status ReadWholeManifest(Attempt* attempt) VARVE_REQUIRES(serial_);
  // Reads what is new in the MANIFEST.
  Status ReadManifest(Attempt* attempt, bool* moved) VARVE_REQUIRES(serial_);
  Status ListLogs(Attempt* attempt) const VARVE_REQUIRES(serial_);
  Status CheckNewestLog(Attempt* attempt) VARVE_REQUIRES(serial_);
  Status ReadLogs(Attempt* attempt) VARVE_REQUIRES(serial_);
  Status ReadLog(Attempt* attempt, LogTail* tail, bool is_newest)
      VARVE_REQUIRES(serial_);
  Status TakeRecord(Attempt* attempt, const LogTail& tail, const Slice& record,
                    bool first) VARVE_REQUIRES(serial_);
  // Checks whether the log that begins with the record continues the logs that
  // were read.
  Status CheckContinues(const Attempt& attempt, const LogTail& tail,
                        const Slice& record) const VARVE_REQUIRES(serial_);
  Status CheckComplete(const Attempt& attempt) const VARVE_REQUIRES(serial_);
  LogTail* FindTail(Attempt* attempt, uint64_t number, Status* status)
      VARVE_REQUIRES(serial_);
  // Makes the new versions, and opens their tables.
  Status MakeVersions(Attempt* attempt) VARVE_REQUIRES(serial_);
  Status HoldTables(ColumnFamily* family, const Version& before,
                    const Version& after);
  Status Show(Attempt* attempt) VARVE_REQUIRES(serial_);
  void TurnLocked(Attempt* attempt) VARVE_REQUIRES(serial_)
      VARVE_REQUIRES(kDbMutex);
  void DropFamiliesLocked(const ManifestView& view) VARVE_REQUIRES(kDbMutex);
  // Sets the memtables of the family. Returns those that are not needed.
  std::vector<MemTable*> ReplaceMemTablesLocked(
      ColumnFamily* family, uint64_t log_number,
      const std::vector<MemTable*>& added, bool restarts, uint64_t newest)
      VARVE_REQUIRES(kDbMutex);
  void Commit(Attempt* attempt) VARVE_REQUIRES(serial_);
  // Frees what no reader uses any more. Another process removes the files.
  void Free() VARVE_EXCLUDES(kDbMutex);

  DbCore& core_;
  const std::string path_;
  // Held during a catch-up. Acquired before the DB mutex.
  Mutex serial_;
  bool is_alone_ VARVE_GUARDED_BY(serial_) = false;
  bool must_restart_ VARVE_GUARDED_BY(serial_) = true;
  std::optional<FileId> current_id_ VARVE_GUARDED_BY(serial_);
  std::string identity_ VARVE_GUARDED_BY(serial_);  // Empty: not known yet.
  ManifestView view_;
  std::unique_ptr<LogTail> manifest_ VARVE_GUARDED_BY(serial_);
  uint64_t manifest_end_ VARVE_GUARDED_BY(serial_) = 0;
  // The newest log that was read, which the current memtables belong to; null
  // if there is none.
  std::unique_ptr<LogTail> log_ VARVE_GUARDED_BY(serial_);
  bool log_has_updates_ VARVE_GUARDED_BY(serial_) = false;
  std::vector<Log> logs_;
  SequenceNumber next_sequence_ VARVE_GUARDED_BY(serial_) = 0;
};

}  // namespace varve
