// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's backups; see varve/rocksdb.h and varve/backup_engine.h.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/backup_engine.h"
#include "varve/rocksdb/db.h"
#include "varve/rocksdb/names.h"

namespace VARVE_ROCKSDB_NAMESPACE {

using varve::BackupExcludedFileInfo;
using varve::BackupFileInfo;
using varve::BackupID;
using varve::BackupInfo;
using varve::CpuPriority;
using varve::CreateBackupOptions;
using varve::MaybeExcludeBackupFile;
// Its alternate_dirs are engines of Varve; see GetVarve.
using varve::RestoreOptions;
using IOStatus = Status;

struct BackupEngineOptions : varve::BackupEngineOptions {
  explicit BackupEngineOptions(const std::string& directory, Env* env = nullptr,
                               bool share_tables = true, Logger* log = nullptr,
                               bool sync_files = true, bool destroy = false,
                               bool backup_logs = true)
      : varve::BackupEngineOptions(directory, env) {
    share_table_files = share_tables;
    share_files_with_checksum = share_tables;
    info_log = log;
    sync = sync_files;
    destroy_old_data = destroy;
    backup_log_files = backup_logs;
  }
};

class BackupEngineReadOnlyBase {
 public:
  BackupEngineReadOnlyBase(const BackupEngineReadOnlyBase&) = delete;
  BackupEngineReadOnlyBase& operator=(const BackupEngineReadOnlyBase&) = delete;
  virtual ~BackupEngineReadOnlyBase() = default;

  // Returns Varve's engine.
  virtual const varve::BackupEngineReadOnlyBase* GetVarve() const = 0;

  Status GetLatestBackupInfo(BackupInfo* info,
                             bool include_file_details = false) const {
    return GetVarve()->GetLatestBackupInfo(info, include_file_details);
  }
  Status GetBackupInfo(BackupID id, BackupInfo* info,
                       bool include_file_details = false) const {
    return GetVarve()->GetBackupInfo(id, info, include_file_details);
  }
  void GetBackupInfo(std::vector<BackupInfo>* infos,
                     bool include_file_details = false) const {
    GetVarve()->GetBackupInfo(infos, include_file_details);
  }
  void GetCorruptedBackups(std::vector<BackupID>* ids) const {
    GetVarve()->GetCorruptedBackups(ids);
  }
  IOStatus RestoreDBFromBackup(const RestoreOptions& options, BackupID id,
                               const std::string& db_dir,
                               const std::string& wal_dir) const {
    return GetVarve()->RestoreDBFromBackup(options, id, db_dir, wal_dir);
  }
  IOStatus RestoreDBFromBackup(
      BackupID id, const std::string& db_dir, const std::string& wal_dir,
      const RestoreOptions& options = RestoreOptions()) const {
    return RestoreDBFromBackup(options, id, db_dir, wal_dir);
  }
  IOStatus RestoreDBFromLatestBackup(const RestoreOptions& options,
                                     const std::string& db_dir,
                                     const std::string& wal_dir) const {
    return GetVarve()->RestoreDBFromLatestBackup(options, db_dir, wal_dir);
  }
  IOStatus RestoreDBFromLatestBackup(
      const std::string& db_dir, const std::string& wal_dir,
      const RestoreOptions& options = RestoreOptions()) const {
    return RestoreDBFromLatestBackup(options, db_dir, wal_dir);
  }
  IOStatus VerifyBackup(BackupID id, bool verify_with_checksum = false) const {
    return GetVarve()->VerifyBackup(id, verify_with_checksum);
  }

 protected:
  BackupEngineReadOnlyBase() = default;
};

// The caller owns *engine.
class BackupEngine : public BackupEngineReadOnlyBase {
 public:
  static IOStatus Open(const BackupEngineOptions& options, Env* db_env,
                       BackupEngine** engine) {
    std::unique_ptr<varve::BackupEngine> rep;
    Status status = varve::BackupEngine::Open(options, db_env, &rep);
    *engine = status.ok() ? new BackupEngine(std::move(rep)) : nullptr;
    return status;
  }
  static IOStatus Open(Env* db_env, const BackupEngineOptions& options,
                       BackupEngine** engine) {
    return Open(options, db_env, engine);
  }

  const varve::BackupEngineReadOnlyBase* GetVarve() const override {
    return rep_.get();
  }

  IOStatus CreateNewBackupWithMetadata(const CreateBackupOptions& options,
                                       DB* db, const std::string& app_metadata,
                                       BackupID* id = nullptr) {
    return rep_->CreateNewBackupWithMetadata(options, db->GetVarve(),
                                             app_metadata, id);
  }
  IOStatus CreateNewBackupWithMetadata(
      DB* db, const std::string& app_metadata, bool flush_before_backup = false,
      std::function<void()> progress_callback = {}) {
    return CreateNewBackupWithMetadata(
        OptionsOf(flush_before_backup, std::move(progress_callback)), db,
        app_metadata);
  }
  IOStatus CreateNewBackup(const CreateBackupOptions& options, DB* db,
                           BackupID* id = nullptr) {
    return CreateNewBackupWithMetadata(options, db, std::string(), id);
  }
  IOStatus CreateNewBackup(DB* db, bool flush_before_backup = false,
                           std::function<void()> progress_callback = {}) {
    return CreateNewBackup(
        OptionsOf(flush_before_backup, std::move(progress_callback)), db);
  }
  void StopBackup() { rep_->StopBackup(); }
  IOStatus GarbageCollect() { return rep_->GarbageCollect(); }
  IOStatus PurgeOldBackups(uint32_t num_backups_to_keep) {
    return rep_->PurgeOldBackups(num_backups_to_keep);
  }
  IOStatus DeleteBackup(BackupID id) { return rep_->DeleteBackup(id); }

 private:
  explicit BackupEngine(std::unique_ptr<varve::BackupEngine> rep)
      : rep_(std::move(rep)) {}

  static CreateBackupOptions OptionsOf(bool flush_before_backup,
                                       std::function<void()> progress) {
    CreateBackupOptions options;
    options.flush_before_backup = flush_before_backup;
    options.progress_callback = std::move(progress);
    return options;
  }

  const std::unique_ptr<varve::BackupEngine> rep_;
};

// The caller owns *engine.
class BackupEngineReadOnly : public BackupEngineReadOnlyBase {
 public:
  static IOStatus Open(const BackupEngineOptions& options, Env* db_env,
                       BackupEngineReadOnly** engine) {
    std::unique_ptr<varve::BackupEngineReadOnly> rep;
    Status status = varve::BackupEngineReadOnly::Open(options, db_env, &rep);
    *engine = status.ok() ? new BackupEngineReadOnly(std::move(rep)) : nullptr;
    return status;
  }
  static IOStatus Open(Env* db_env, const BackupEngineOptions& options,
                       BackupEngineReadOnly** engine) {
    return Open(options, db_env, engine);
  }

  const varve::BackupEngineReadOnlyBase* GetVarve() const override {
    return rep_.get();
  }

 private:
  explicit BackupEngineReadOnly(
      std::unique_ptr<varve::BackupEngineReadOnly> rep)
      : rep_(std::move(rep)) {}

  const std::unique_ptr<varve::BackupEngineReadOnly> rep_;
};

}  // namespace VARVE_ROCKSDB_NAMESPACE
