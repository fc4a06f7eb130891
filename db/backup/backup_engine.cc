// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The public classes, which forward to BackupEngineImpl.
#include "varve/backup_engine.h"

#include <utility>

#include "db/backup/backup_engine_impl.h"

namespace varve {

namespace {

// The calls that both have. `Base` is one of the public classes.
template <typename Base>
class ReadingEngine : public Base {
 public:
  ReadingEngine(const BackupEngineOptions& options, Env* db_env,
                bool is_read_only)
      : impl_(options, db_env, is_read_only) {}

  Status Open() { return impl_.Open(); }

  Status GetLatestBackupInfo(BackupInfo* info, bool details) const override {
    return impl_.GetLatestInfo(info, details);
  }
  Status GetBackupInfo(BackupID id, BackupInfo* info,
                       bool details) const override {
    return impl_.GetInfo(id, info, details);
  }
  void GetBackupInfo(std::vector<BackupInfo>* infos,
                     bool details) const override {
    impl_.GetInfos(infos, details);
  }
  void GetCorruptedBackups(std::vector<BackupID>* ids) const override {
    impl_.GetCorrupted(ids);
  }
  Status RestoreDBFromBackup(const RestoreOptions& options, BackupID id,
                             const std::string& db_dir,
                             const std::string& wal_dir) const override {
    return impl_.Restore(options, id, db_dir, wal_dir);
  }
  Status RestoreDBFromLatestBackup(const RestoreOptions& options,
                                   const std::string& db_dir,
                                   const std::string& wal_dir,
                                   BackupID* restored) const override {
    return impl_.RestoreLatest(options, db_dir, wal_dir, restored);
  }
  Status VerifyBackup(BackupID id, bool with_checksum) const override {
    return impl_.Verify(id, with_checksum);
  }

 protected:
  BackupEngineImpl impl_;
};

class WritingEngine final : public ReadingEngine<BackupEngine> {
 public:
  WritingEngine(const BackupEngineOptions& options, Env* db_env)
      : ReadingEngine(options, db_env, /*is_read_only=*/false) {}

  Status CreateNewBackupWithMetadata(const CreateBackupOptions& options, DB* db,
                                     const std::string& app_metadata,
                                     BackupID* id) override {
    return impl_.Create(options, db, app_metadata, id);
  }
  void StopBackup() override { impl_.Stop(); }
  Status GarbageCollect() override { return impl_.GarbageCollect(); }
  Status PurgeOldBackups(uint32_t count) override { return impl_.Purge(count); }
  Status DeleteBackup(BackupID id) override { return impl_.Delete(id); }
};

}  // namespace

Status BackupEngine::Open(const BackupEngineOptions& options, Env* db_env,
                          std::unique_ptr<BackupEngine>* engine) {
  engine->reset();
  auto opened = std::make_unique<WritingEngine>(options, db_env);
  Status status = opened->Open();
  if (status.ok()) *engine = std::move(opened);
  return status;
}

Status BackupEngineReadOnly::Open(
    const BackupEngineOptions& options, Env* db_env,
    std::unique_ptr<BackupEngineReadOnly>* engine) {
  engine->reset();
  auto opened = std::make_unique<ReadingEngine<BackupEngineReadOnly>>(
      options, db_env, /*is_read_only=*/true);
  Status status = opened->Open();
  if (status.ok()) *engine = std::move(opened);
  return status;
}

}  // namespace varve
