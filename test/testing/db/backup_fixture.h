// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database and a directory of its backups, in tests.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/backup_engine.h"

namespace varve::test {

// Returns bytes that cannot be compressed.
inline std::string Noise(size_t count) {
  static Rng rng(301);
  return rng.Bytes(count);
}

class BackupTestBase : public DbTestBase {
 protected:
  BackupTestBase()
      : backups_(dir_.Sub("backups")),
        restored_(dir_.Sub("restored")),
        backup_options_(backups_) {
    options_.disable_auto_compactions = true;
  }

  void TearDown() override {
    engine_.reset();
    DbTestBase::TearDown();
  }

  void OpenEngine() {
    engine_.reset();
    ASSERT_TRUE(Ok(BackupEngine::Open(backup_options_, nullptr, &engine_)));
  }
  BackupID Backup(bool flush = false) {
    CreateBackupOptions options;
    options.flush_before_backup = flush;
    BackupID id = 0;
    EXPECT_TRUE(Ok(engine_->CreateNewBackup(options, db_.get(), &id)));
    return id;
  }
  Status TryRestore(BackupID id, const RestoreOptions& options = {}) {
    return engine_->RestoreDBFromBackup(options, id, restored_, restored_);
  }

  EntryList Contents() {
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    return entries;
  }
  // Returns the entries of the database at `path`, in `env` if it is not null.
  EntryList ContentsOf(const std::string& path, Env* env = nullptr) {
    Options options = options_;
    options.create_if_missing = false;
    if (env != nullptr) options.env = env;
    std::unique_ptr<DB> db;
    EntryList entries;
    Status status = env != nullptr ? DB::OpenForReadOnly(options, path, &db)
                                   : DB::Open(options, path, &db);
    EXPECT_TRUE(Ok(status));
    if (status.ok()) {
      EXPECT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
      db.reset();
    }
    return entries;
  }
  // Checks that a backup restores to these entries.
  void ExpectRestores(BackupID id, const EntryList& entries) {
    SCOPED_TRACE("backup " + std::to_string(id));
    ASSERT_TRUE(Ok(TryRestore(id)));
    EXPECT_TRUE(SameEntries(entries, ContentsOf(restored_)));
  }

  // Returns the paths of the files in a folder of the backups, sorted.
  std::vector<std::string> FilesIn(const std::string& folder) {
    std::vector<std::string> files;
    const std::string path = backups_ + "/" + folder;
    if (!std::filesystem::exists(path)) return files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  static std::string Read(const std::string& path) {
    std::string bytes;
    EXPECT_TRUE(Ok(ReadFileToString(Env::Default(), path, &bytes)));
    return bytes;
  }
  static void Write(const std::string& path, const std::string& bytes) {
    EXPECT_TRUE(Ok(WriteStringToFile(Env::Default(), bytes, path, false)));
  }
  static void Flip(const std::string& path, size_t offset) {
    std::string bytes = Read(path);
    ASSERT_LT(offset, bytes.size());
    bytes[offset] = static_cast<char>(bytes[offset] ^ 0x10);
    Write(path, bytes);
  }

  std::string backups_;
  std::string restored_;
  BackupEngineOptions backup_options_;
  std::unique_ptr<BackupEngine> engine_;
};

}  // namespace varve::test
