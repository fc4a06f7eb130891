// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The state of an open database that all of its parts share, and the services
// that they use of each other. A part gets a reference to it, and no pointers
// to other parts.
//
// The services get the same reference. Each has its own header, which names
// DbCore only.
//
// Thread-safety: see each member.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "db/directory/buffering_logger.h"
#include "db/directory/db_directory.h"
#include "db/family/column_family.h"
#include "db/family/family_set.h"
#include "db/family/log_bound.h"
#include "db/jobs/auto_resume.h"
#include "db/jobs/background_scheduler.h"
#include "db/jobs/event_queue.h"
#include "db/jobs/job_picker.h"
#include "db/jobs/job_starter.h"
#include "db/jobs/obsolete_files.h"
#include "db/jobs/write_control.h"
#include "db/options/db_mutex.h"
#include "db/space/table_space.h"
#include "db/version/version_set.h"
#include "db/wal/prepared_set.h"
#include "db/wal/wal_archive.h"
#include "db/wal/wal_set.h"
#include "db/write/publication_watch.h"
#include "db/write/write_queue.h"
#include "util/base/mutex.h"
#include "varve/options.h"

namespace varve {

struct DbCore {
  // Functions of the parts above. All but the last two are called without the
  // mutex.
  struct Calls {
    // The jobs. Each ends by BackgroundScheduler::FinishLocked.
    std::function<void()> flush = {};
    std::function<void()> compact = {};
    std::function<void()> clean_up = {};
    // Called when the budget of write buffers is exceeded and the family's
    // memtable is to be switched. Must not wait for a flush.
    std::function<void(ColumnFamily*)> request_switch = {};
    // Tries to make the database writable again, or to go on with compactions.
    std::function<void()> retry = {};
    // Calls DB::Resume.
    std::function<Status()> resume = {};
    // Makes an inherited database this process's own, or sets an error.
    std::function<void()> take_over = {};
    // Called when the database is written to: it is to be watched from now on.
    std::function<void()> watch_quiet = {};
  };

  // `options` are complete. If `shared_file_pool` is not null, it is used for
  // the table files in place of an own pool, and must outlive this object.
  DbCore(const Options& options, const std::string& path, bool read_only,
         FilePool* shared_file_pool, Calls calls);
  DbCore(const DbCore&) = delete;
  DbCore& operator=(const DbCore&) = delete;

  // Returns the DB mutex.
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return &mutex_; }

  // Returns what a family needs of this. `snapshots` is null for the default
  // family, which creates them.
  ColumnFamily::Shared FamilyParts(SnapshotRegistry* snapshots);
  // Creates a family beside the default one. It is not in `families` yet.
  std::unique_ptr<ColumnFamily> NewFamily(const std::string& name,
                                          const ColumnFamilyOptions& options)
      VARVE_EXCLUDES(kDbMutex);
  // Returns whether the database is one of a catalog's.
  bool IsOfCatalog() const { return file_pool.use_count() == 0; }

  // ---- Immutable after Open ----
  // Except the fields that SetOptions and SetDBOptions change, which the mutex
  // guards.
  Options options;  // Of the database, and of its default family.
  // A follower's becomes false when it is promoted (db/follower).
  std::atomic<bool> is_read_only;
  // Another process writes it, and this one follows. So snapshots must keep the
  // SuperVersions of their moment.
  std::atomic<bool> follows{false};
  DbDirectory directory;
  Env* const env;               // The Env of `directory`.
  StatisticsImpl* const stats;  // May be null.
  BufferingLogger log;          // Thread-safe.
  const Calls calls;
  const std::shared_ptr<FilePool> file_pool;
  TableSpace space;  // Thread-safe.
  std::unique_ptr<VersionSet> versions;

  WriteQueue write_queue;  // Thread-safe.

 private:
  mutable Mutex mutex_;

 public:
  // ---- Guarded by the mutex ----
  WalSet wals;           // See the class.
  WalArchive archive;    // See the class.
  PreparedSet prepared;  // See the class.
  // Also signalled when a condition that writers wait for changes.
  BackgroundScheduler scheduler;
  EventQueue events;
  ColumnFamily default_family;  // Reads of it take no mutex.
  FamilySet families;
  LogBound log_bound;
  // ---- Services ----
  ObsoleteFiles obsolete{*this};
  AutoResume auto_resume{*this};
  WriteControl control{*this};
  JobPicker picker{*this};
  JobStarter jobs{*this};
  PublicationWatch publications{&write_queue, &control.gate()};  // Thread-safe.
};

// Returns how the tables of a database with these options are opened.
FileOptions TableFileOptions(const Options& options);

}  // namespace varve
