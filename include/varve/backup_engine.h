// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Backups of open databases, in a directory of their own: incremental, with
// checksums, for any Env. Interface and directory are RocksDB's, so that both
// engines and `ldb backup` and `ldb restore` work on the same backups.
// docs/backups.md

#include <climits>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/db.h"
#include "varve/env.h"
#include "varve/export.h"
#include "varve/metadata.h"
#include "varve/rate_limiter.h"
#include "varve/status.h"

namespace varve {

// The number of a backup, from 1.
using BackupID = uint32_t;

// The priority of the threads that copy.
enum class CpuPriority : uint8_t {
  kIdle = 0,
  kLow = 1,
  kNormal = 2,
  kHigh = 3
};

// Where backups are, and how they are written.
struct VARVE_EXPORT VARVE_USES_CONTAINERS BackupEngineOptions {
  // How tables are called in shared_checksum/. One of the first two, and flags.
  enum ShareFilesNaming : uint32_t {
    // <number>_<crc32c>_<size>.sst. The whole table must be read to find out
    // whether it is there.
    kLegacyCrc32cAndFileSize = 1U,
    // <number>_s<session>.sst, with the identity of the session that wrote the
    // table. Tables without one are called as above.
    kUseDbSessionId = 2U,
    kMaskNoNamingFlags = 0xffffU,
    // Adds _<size> to names with a session.
    kFlagIncludeFileSize = 1U << 31,
    kMaskNamingFlags = ~kMaskNoNamingFlags,
  };

  // Sets the directory, and the defaults.
  explicit BackupEngineOptions(std::string directory, Env* env = nullptr)
      : backup_dir(std::move(directory)), backup_env(env) {}

  // The directory of the backups, which is created if it is missing. Do not use
  // the directory of a database.
  std::string backup_dir;
  // The Env of backup_dir, which outlives the engine. Null: the one given to
  // Open.
  Env* backup_env;
  // Keep a table that several backups have once. Otherwise each backup is
  // complete in itself.
  bool share_table_files = true;
  // Gets messages, unless it is null. Outlives the engine.
  Logger* info_log = nullptr;
  // Backups and restored databases are durable when a call returns. Otherwise
  // a power cut may damage the newest.
  bool sync = true;
  // Removes all backups on Open.
  bool destroy_old_data = false;
  // Copy write-ahead logs. See RestoreOptions::keep_log_files.
  bool backup_log_files = true;
  // The maximum bytes per second that are written to a backup; 0: no limit.
  uint64_t backup_rate_limit = 0;
  // Takes the place of backup_rate_limit. May be shared with databases.
  std::shared_ptr<RateLimiter> backup_rate_limiter;
  // The same for a restored database.
  uint64_t restore_rate_limit = 0;
  std::shared_ptr<RateLimiter> restore_rate_limiter;
  // Keep shared tables in shared_checksum/ under names that tell tables of
  // different databases apart. Otherwise they are in shared/ by their number.
  // Each of them is then read whole for each backup, to compare it.
  bool share_files_with_checksum = true;
  // The number of threads that copy, verify and restore. [1, 64]
  int max_background_operations = 1;
  // CreateBackupOptions::progress_callback is called after this many bytes.
  uint64_t callback_trigger_interval_size = 4 << 20;
  // BackupEngineReadOnly opens at most this many of the newest backups that
  // are not corrupt.
  int max_valid_backups_to_open = INT_MAX;
  ShareFilesNaming share_files_with_checksum_naming =
      static_cast<ShareFilesNaming>(kUseDbSessionId | kFlagIncludeFileSize);
  // The format of a backup's file in meta/. 1: as all versions of RocksDB read
  // it. 2: also has the files' sizes, excluded files, and its own checksum.
  // RocksDB 6.19 reads it.
  int schema_version = 1;
  // Has no effect: Varve's files have no temperatures.
  bool current_temperatures_override_manifest = false;
  // The bytes that are read at once; 0: 1 MiB, or less with a low rate limit.
  uint64_t io_buffer_size = 0;
};

// A shared file that a backup may leave out.
struct BackupExcludedFileInfo {
  std::string relative_file;  // The path in the backup directory.
};

struct MaybeExcludeBackupFile {
  BackupExcludedFileInfo info;
  bool exclude_decision = false;  // Set by the program.
};

// How a backup is created.
struct CreateBackupOptions {
  // Flush the memtables first. Otherwise their updates are in the logs of the
  // backup. Updates written with disable_wal are flushed in any case.
  bool flush_before_backup = false;
  // Called after each callback_trigger_interval_size bytes, by the threads that
  // copy, one at a time. It must not call the engine except StopBackup. An
  // exception ends the backup with Aborted.
  std::function<void()> progress_callback;
  // Called once with all tables that can be shared. Those for which it sets
  // exclude_decision are not copied. Needs schema_version 2.
  std::function<void(MaybeExcludeBackupFile* begin,
                     MaybeExcludeBackupFile* end)>
      exclude_files_callback;
  // If true, threads that copy get this priority. It can only be lower than
  // kNormal.
  bool decrease_background_thread_cpu_priority = false;
  CpuPriority background_thread_cpu_priority = CpuPriority::kNormal;
  // Has no effect: a backup has all families at one moment.
  bool atomic_flush = false;
};

class BackupEngineReadOnlyBase;

// How a database is restored.
struct RestoreOptions {
  // Which tables of the target directory are kept, if they are in the backup.
  enum Mode : uint32_t {
    // Those with the number, session and size of the backup's table.
    kKeepLatestDbSessionIdFiles = 1U,
    // Those with the size and checksum of the backup's table. Reads them.
    kVerifyChecksum = 2U,
    // None.
    kPurgeAllFiles = 0xffffU,
  };

  RestoreOptions() = default;
  // Sets the options of these names.
  explicit RestoreOptions(bool keep_logs, Mode its_mode = kPurgeAllFiles)
      : keep_log_files(keep_logs), mode(its_mode) {}

  // Keep the target's write-ahead logs, and move archived ones back. For
  // databases that are backed up without logs.
  bool keep_log_files = false;
  Mode mode = kPurgeAllFiles;
  // Read and verify the whole backup before the files of a database in the
  // target are removed. Not done if the target has no database.
  bool verify_before_replacing = true;
  // Backups that have the files which this one excludes. Not owned.
  std::vector<const BackupEngineReadOnlyBase*> alternate_dirs;
};

// A file of a backup. `relative_filename` is in `directory`, the backup
// directory. The checksum is as by RocksDB's FileChecksumCrc32c.
using BackupFileInfo = FileStorageInfo;

// Facts about a backup.
struct VARVE_EXPORT VARVE_USES_CONTAINERS BackupInfo {
  BackupID backup_id = 0;
  int64_t timestamp = 0;  // Of its creation, in seconds since 1970.
  uint64_t size = 0;      // The bytes of its files, also of shared ones.
  uint32_t number_files = 0;
  std::string app_metadata;  // As given to CreateNewBackupWithMetadata.

  // The rest is set only if details are requested.
  std::vector<BackupFileInfo> file_details;
  std::vector<BackupExcludedFileInfo> excluded_files;
  // DB::OpenForReadOnly opens the backup in place with this name and this Env,
  // which may be used after the engine was destroyed. Both refer to the backup
  // directory, so the backup must not be deleted while they are used.
  std::string name_for_open;
  std::shared_ptr<Env> env_for_open;
};

// Calls that do not change the backups.
// Thread-safety: thread-safe. They run at the same time as each other, and wait
// for calls of the same object that change backups.
class VARVE_EXPORT VARVE_USES_CONTAINERS BackupEngineReadOnlyBase {
 public:
  virtual ~BackupEngineReadOnlyBase() = default;

  // Returns NotFound if there is no backup that is not corrupt.
  virtual Status GetLatestBackupInfo(
      BackupInfo* info, bool include_file_details = false) const = 0;
  // Returns NotFound if there is no such backup, and the reason, mostly
  // Corruption, if it is known to be damaged.
  virtual Status GetBackupInfo(BackupID id, BackupInfo* info,
                               bool include_file_details = false) const = 0;
  // Stores all backups that are not corrupt, the oldest first.
  virtual void GetBackupInfo(std::vector<BackupInfo>* infos,
                             bool include_file_details = false) const = 0;
  // Stores the backups that could not be loaded: damaged files in meta/,
  // missing files, or files with another size than recorded.
  virtual void GetCorruptedBackups(std::vector<BackupID>* ids) const = 0;

  // Restores the backup into `db_dir`, and its logs into `wal_dir`, which is
  // `db_dir` for Varve. Every byte is compared with its checksum. A database
  // in `db_dir` is replaced: its files are removed first, but other files are
  // kept. If the call is interrupted, `db_dir` has no CURRENT.
  //
  // Errors:
  // - Busy: a process, maybe this one, has the database in `db_dir` open.
  // - Corruption: the backup is damaged.
  // - NotFound: there is no such backup.
  virtual Status RestoreDBFromBackup(const RestoreOptions& options, BackupID id,
                                     const std::string& db_dir,
                                     const std::string& wal_dir) const = 0;
  // Restores the newest backup that is not damaged, also if the damage is found
  // only while it is restored. Stores its number in *restored, which may be
  // null.
  virtual Status RestoreDBFromLatestBackup(
      const RestoreOptions& options, const std::string& db_dir,
      const std::string& wal_dir, BackupID* restored = nullptr) const = 0;

  // Checks that all files of the backup exist and have their sizes. With
  // checksums, reads every byte. Returns Corruption, or NotFound for a missing
  // file or backup. A file that is found damaged is written again by the next
  // backup that needs it.
  virtual Status VerifyBackup(BackupID id,
                              bool verify_with_checksum = false) const = 0;
};

// Creates, deletes, verifies and restores backups. Several engines may be open
// for one directory, which may be a database's. Calls that change backups lock
// its file meta/LOCK, and see what others did before. RocksDB takes no lock.
// Thread-safety: thread-safe. Calls that change backups run one at a time.
class VARVE_EXPORT BackupEngine : public BackupEngineReadOnlyBase {
 public:
  // Stores an engine for options.backup_dir. `db_env` is for restored
  // databases; null: Env::Default(). It outlives the engine. Damaged backups
  // are no error, see GetCorruptedBackups. Returns InvalidArgument for options
  // out of bounds.
  static Status Open(const BackupEngineOptions& options, Env* db_env,
                     std::unique_ptr<BackupEngine>* engine);

  // Creates a backup of `db`, of one moment during the call. Reads, writes and
  // compactions continue; obsolete files are kept until the end of the call.
  // Stores its number in *id, which may be null.
  //
  // Tables that an earlier backup has are not copied again, after their sizes
  // and ends were compared. Tables that a stopped or interrupted call copied
  // are used if their checksums are right. A shared file that is known to be
  // damaged is replaced.
  //
  // Errors:
  // - Incomplete: StopBackup was called.
  // - Busy: another engine, maybe of another process, changes the backups.
  // - NotSupported: `db` was opened for reading only.
  // - InvalidArgument: the metadata has more than 1 MiB.
  // - IOError and others: the backup is incomplete, and invisible. Its files
  //   are removed by this call, or by the next one that changes backups.
  virtual Status CreateNewBackupWithMetadata(const CreateBackupOptions& options,
                                             DB* db,
                                             const std::string& app_metadata,
                                             BackupID* id = nullptr) = 0;
  virtual Status CreateNewBackup(const CreateBackupOptions& options, DB* db,
                                 BackupID* id = nullptr) {
    return CreateNewBackupWithMetadata(options, db, std::string(), id);
  }

  // Ends the running CreateNewBackup soon, with Incomplete, and all later ones
  // of this object. Does not wait. May be called at any time. The next engine
  // of the directory continues with the tables that were copied.
  virtual void StopBackup() = 0;

  // Removes the files that calls which did not complete have left. It keeps the
  // files of corrupt backups, as far as their files in meta/ can be read.
  // Otherwise it keeps all complete shared files. Delete such backups first.
  virtual Status GarbageCollect() = 0;

  // Deletes the oldest backups but `count`. Corrupt ones neither count nor are
  // deleted.
  virtual Status PurgeOldBackups(uint32_t count) = 0;
  // Deletes a backup, which may be corrupt. Once this returns OK, a power cut
  // does not bring it back.
  virtual Status DeleteBackup(BackupID id) = 0;
};

// Reads backups, and writes nothing to their directory. It shows the backups
// that existed at Open.
class VARVE_EXPORT BackupEngineReadOnly : public BackupEngineReadOnlyBase {
 public:
  // Errors: as BackupEngine::Open, and NotFound if there is no such directory.
  static Status Open(const BackupEngineOptions& options, Env* db_env,
                     std::unique_ptr<BackupEngineReadOnly>* engine);
};

}  // namespace varve
