// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: backups hold a moment of the database, share tables, are listed,
// verified, deleted and restored, also in place, and damage is found. Method:
// small databases on the file system; files of the backups are changed by hand.

#include "test/testing/db/backup_fixture.h"
#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "varve/db_ttl.h"
#include "varve/transaction_db.h"

namespace varve::test {
namespace {

class BackupEngineTest : public BackupTestBase {
 protected:
  // Opens all.
  void SetUp() override {
    Open();
    OpenEngine();
  }
};

TEST_F(BackupEngineTest, HoldsTheMomentOfEachBackup) {
  std::vector<EntryList> states;
  for (int i = 0; i < 4; ++i) {
    Put("a" + std::to_string(i), Noise(1000));
    if (i % 2 == 0) Flush();
    Put("b", std::to_string(i));
    states.push_back(Contents());
    EXPECT_EQ(Backup(/*flush=*/i == 3), static_cast<BackupID>(i + 1));
  }
  for (BackupID id = 4; id >= 1; --id) ExpectRestores(id, states[id - 1]);
  OpenEngine();
  std::vector<BackupInfo> infos;
  engine_->GetBackupInfo(&infos);
  ASSERT_EQ(infos.size(), 4u);
  for (const BackupInfo& info : infos) {
    EXPECT_TRUE(Ok(engine_->VerifyBackup(info.backup_id, true)));
    EXPECT_GT(info.timestamp, 1'700'000'000);
  }
  ExpectRestores(2, states[1]);
}

TEST_F(BackupEngineTest, CopiesSharedTablesOnce) {
  Do("put a 1, flush, put b 2, flush");
  Backup();
  const auto first = FilesIn("shared_checksum");
  EXPECT_EQ(first.size(), 2u);
  const auto time = std::filesystem::last_write_time(first[0]);
  Do("put c 3, flush");
  Backup();
  EXPECT_EQ(FilesIn("shared_checksum").size(), 3u);
  EXPECT_EQ(std::filesystem::last_write_time(first[0]), time);
  EXPECT_THAT(first[0], ::testing::ContainsRegex(
                            "/[0-9]{6}_s[0-9A-Z]{20}_[0-9]+\\.sst$"));
}

TEST_F(BackupEngineTest, RemovesFilesWithTheirLastBackup) {
  Do("put a 1, flush");
  Backup();
  Do("compact, put b 2, compact");
  const EntryList state = Contents();
  Backup();
  BackupInfo info;
  ASSERT_TRUE(Ok(engine_->GetBackupInfo(2, &info, true)));
  std::vector<std::string> needed;
  for (const BackupFileInfo& file : info.file_details) {
    if (file.relative_filename.starts_with("shared_checksum/")) {
      needed.push_back(backups_ + "/" + file.relative_filename);
    }
  }
  std::sort(needed.begin(), needed.end());
  EXPECT_GT(FilesIn("shared_checksum").size(), needed.size());
  ASSERT_TRUE(Ok(engine_->PurgeOldBackups(1)));
  EXPECT_EQ(FilesIn("shared_checksum"), needed);
  EXPECT_FALSE(std::filesystem::exists(backups_ + "/private/1"));
  ExpectRestores(2, state);
  EXPECT_TRUE(IsNotFound(engine_->DeleteBackup(1)));
  ASSERT_TRUE(Ok(engine_->DeleteBackup(2)));
  EXPECT_EQ(FilesIn(""), (std::vector<std::string>{backups_ + "/meta/LOCK"}));
  EXPECT_TRUE(IsNotFound(engine_->GetLatestBackupInfo(&info)));
  EXPECT_TRUE(
      IsNotFound(engine_->RestoreDBFromLatestBackup({}, restored_, restored_)));
  EXPECT_EQ(Backup(), 1u);
}

// As a Go program's backups are, if it uses grocksdb.
TEST_F(BackupEngineTest, BackupsMayBeInTheDatabasesDirectory) {
  backup_options_.backup_dir = path_;
  OpenEngine();
  Do("put a 1, flush, put b 2");
  const EntryList first = Contents();
  EXPECT_EQ(Backup(), 1u);
  Do("put a 3, flush, compact");
  const EntryList second = Contents();
  EXPECT_EQ(Backup(), 2u);
  ExpectRestores(1, first);
  ExpectRestores(2, second);
  ASSERT_TRUE(Ok(engine_->DeleteBackup(1)));
  Reopen();
  EXPECT_TRUE(SameEntries(second, Contents()));
  ASSERT_TRUE(Ok(engine_->VerifyBackup(2, true)));
  ExpectRestores(2, second);
}

TEST_F(BackupEngineTest, TellsOfABackup) {
  Do("put a 1, flush, put b 2");
  const std::string metadata("m\n\0\xFF", 4);
  BackupID id = 0;
  ASSERT_TRUE(
      Ok(engine_->CreateNewBackupWithMetadata({}, db_.get(), metadata, &id)));
  for (int i = 0; i < 2; ++i) {
    BackupInfo info;
    ASSERT_TRUE(Ok(engine_->GetBackupInfo(id, &info, true)));
    EXPECT_EQ(info.app_metadata, metadata);
    EXPECT_EQ(info.number_files, info.file_details.size());
    uint64_t size = 0;
    std::set<FileType> types;
    for (const BackupFileInfo& file : info.file_details) {
      types.insert(file.file_type);
      size += file.size;
      EXPECT_EQ(file.size, std::filesystem::file_size(file.directory + "/" +
                                                      file.relative_filename));
      EXPECT_EQ(file.file_checksum_func_name, "FileChecksumCrc32c");
      EXPECT_EQ(file.file_checksum.size(), 4u);
    }
    EXPECT_EQ(info.size, size);
    EXPECT_THAT(types, ::testing::IsSupersetOf(
                           {FileType::kWalFile, FileType::kTableFile,
                            FileType::kDescriptorFile, FileType::kCurrentFile,
                            FileType::kOptionsFile}));
    OpenEngine();
  }
  BackupInfo info;
  EXPECT_TRUE(IsNotFound(engine_->GetBackupInfo(7, &info)));
  const std::string large((1 << 20) + 1, 'm');
  EXPECT_TRUE(IsInvalidArgument(
      engine_->CreateNewBackupWithMetadata({}, db_.get(), large)));
}

TEST_F(BackupEngineTest, OpensInPlace) {
  Do("put a 1, flush, put b 2");
  const EntryList state = Contents();
  Backup();
  Do("put a 9, put c 3, compact");
  Backup();
  BackupInfo info;
  ASSERT_TRUE(Ok(engine_->GetBackupInfo(1, &info, true)));
  const auto before = FilesIn("");
  engine_.reset();
  EXPECT_TRUE(SameEntries(
      state, ContentsOf(info.name_for_open, info.env_for_open.get())));
  EXPECT_EQ(FilesIn(""), before);
  // It cannot be written to.
  Options options = options_;
  options.env = info.env_for_open.get();
  std::unique_ptr<DB> db;
  EXPECT_FALSE(DB::Open(options, info.name_for_open, &db).ok());
  EXPECT_FALSE(info.env_for_open->RemoveFile(info.name_for_open).ok());
  EXPECT_EQ(FilesIn(""), before);
}

TEST_F(BackupEngineTest, KeepsFamiliesTogether) {
  std::vector<ColumnFamilyHandle*> handles(2);
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "one", &handles[0])));
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "two", &handles[1])));
  WriteBatch batch;
  batch.Put("k", "0");
  batch.Put(handles[0], "k", "1");
  batch.Put(handles[1], "k", "2");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ASSERT_TRUE(Ok(db_->Flush({}, handles[0])));
  Backup();
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  ASSERT_TRUE(Ok(TryRestore(1)));
  std::unique_ptr<DB> db;
  handles.clear();
  ASSERT_TRUE(Ok(
      DB::Open(options_, restored_,
               {{kDefaultColumnFamilyName, options_}, {"one", {}}, {"two", {}}},
               &handles, &db)));
  for (size_t i = 0; i < handles.size(); ++i) {
    std::string value;
    EXPECT_TRUE(Ok(db->Get({}, handles[i], "k", &value)));
    EXPECT_EQ(value, std::to_string(i));
    delete handles[i];
  }
}

TEST_F(BackupEngineTest, KeepsPreparedTransactions) {
  Close();
  std::unique_ptr<TransactionDB> db;
  ASSERT_TRUE(Ok(TransactionDB::Open(options_, {}, path_, &db)));
  std::unique_ptr<Transaction> prepared(db->BeginTransaction({}));
  ASSERT_TRUE(Ok(prepared->SetName("x")));
  ASSERT_TRUE(Ok(prepared->Put("p", "1")));
  ASSERT_TRUE(Ok(prepared->Prepare()));
  ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
  ASSERT_TRUE(Ok(db->Flush({})));
  CreateBackupOptions options;
  options.flush_before_backup = true;
  ASSERT_TRUE(Ok(engine_->CreateNewBackup(options, db.get())));
  ASSERT_TRUE(Ok(prepared->Rollback()));
  prepared.reset();
  db.reset();
  ASSERT_TRUE(Ok(TryRestore(1)));
  ASSERT_TRUE(Ok(TransactionDB::Open(options_, {}, restored_, &db)));
  std::unique_ptr<Transaction> found(db->GetTransactionByName("x"));
  ASSERT_NE(found, nullptr);
  ASSERT_TRUE(Ok(found->Commit()));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, "p", &value)));
  found.reset();
}

TEST_F(BackupEngineTest, BacksUpDatabasesWithATtl) {
  Close();
  std::unique_ptr<DBWithTTL> db;
  ASSERT_TRUE(Ok(DBWithTTL::Open(options_, path_, &db, 1000)));
  ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
  ASSERT_TRUE(Ok(engine_->CreateNewBackup({}, db.get())));
  db.reset();
  ASSERT_TRUE(Ok(TryRestore(1)));
  ASSERT_TRUE(Ok(DBWithTTL::Open(options_, restored_, &db, 1000)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, "a", &value)));
  EXPECT_EQ(value, "1");
}

TEST_F(BackupEngineTest, WritesToAnotherEnv) {
  const auto memory = NewMemoryEnv(Env::Default());
  backup_options_.backup_env = memory.get();
  backup_options_.backup_dir = "/b";
  OpenEngine();
  Do("put a 1, flush, put b 2");
  const EntryList state = Contents();
  Backup();
  Do("put c 3, compact");
  Backup();
  ExpectRestores(1, state);
  EXPECT_TRUE(FilesIn("meta").empty());
  BackupInfo info;
  ASSERT_TRUE(Ok(engine_->GetBackupInfo(1, &info, true)));
  EXPECT_TRUE(SameEntries(
      state, ContentsOf(info.name_for_open, info.env_for_open.get())));
  engine_.reset();
}

TEST_F(BackupEngineTest, NamesTablesAsTold) {
  Do("put a 1, flush");
  using Naming = BackupEngineOptions::ShareFilesNaming;
  const EntryList state = Contents();
  const auto expect = [&](const std::string& pattern) {
    SCOPED_TRACE(pattern);
    OpenEngine();
    const BackupID id = Backup();
    Backup();
    BackupInfo info;
    ASSERT_TRUE(Ok(engine_->GetBackupInfo(id, &info, true)));
    bool is_found = false;
    for (const BackupFileInfo& file : info.file_details) {
      is_found = is_found || ::testing::Matches(::testing::ContainsRegex(
                                 pattern))(file.relative_filename);
    }
    EXPECT_TRUE(is_found);
    ExpectRestores(id, state);
  };
  backup_options_.share_files_with_checksum_naming =
      BackupEngineOptions::kLegacyCrc32cAndFileSize;
  expect("^shared_checksum/[0-9]{6}_[0-9]+_[0-9]+\\.sst$");
  backup_options_.share_files_with_checksum_naming =
      BackupEngineOptions::kUseDbSessionId;
  expect("^shared_checksum/[0-9]{6}_s[0-9A-Z]{20}\\.sst$");
  backup_options_.share_files_with_checksum_naming = static_cast<Naming>(3);
  std::unique_ptr<BackupEngine> engine;
  EXPECT_TRUE(
      IsInvalidArgument(BackupEngine::Open(backup_options_, nullptr, &engine)));
  backup_options_ = BackupEngineOptions(backups_);
  backup_options_.share_files_with_checksum = false;
  expect("^shared/[0-9]{6}\\.sst$");
  backup_options_.share_table_files = false;
  expect("^private/[0-9]+/[0-9]{6}\\.sst$");
}

// Two databases may have tables of the same number in shared/.
TEST_F(BackupEngineTest, DoesNotMixUpTablesOfOneName) {
  backup_options_.share_files_with_checksum = false;
  OpenEngine();
  Do("put a 1, flush");
  const EntryList state = Contents();
  Backup();
  OpenAnew();
  Do("put z 9, flush");
  EXPECT_TRUE(IsInvalidArgument(engine_->CreateNewBackup({}, db_.get()),
                                "another table"));
  ExpectRestores(1, state);
}

TEST_F(BackupEngineTest, ReportsProgressAndKeepsToTheRate) {
  Put("a", Noise(300'000));
  Flush();
  backup_options_.callback_trigger_interval_size = 10'000;
  backup_options_.backup_rate_limiter = NewGenericRateLimiter(1 << 30);
  backup_options_.restore_rate_limiter = NewGenericRateLimiter(1 << 30);
  OpenEngine();
  int calls = 0;
  CreateBackupOptions options;
  options.progress_callback = [&] { ++calls; };
  ASSERT_TRUE(Ok(engine_->CreateNewBackup(options, db_.get())));
  EXPECT_GE(calls, 30);
  constexpr auto kLow = RateLimiter::Priority::kLow;
  BackupInfo info;
  ASSERT_TRUE(Ok(engine_->GetLatestBackupInfo(&info)));
  EXPECT_EQ(backup_options_.backup_rate_limiter->GetTotalBytesThrough(kLow),
            info.size);
  ASSERT_TRUE(Ok(TryRestore(1)));
  EXPECT_EQ(backup_options_.restore_rate_limiter->GetTotalBytesThrough(kLow),
            info.size);
  options.progress_callback = [] { throw std::runtime_error("enough"); };
  Do("put b 1");
  Put("c", Noise(50'000));
  EXPECT_TRUE(
      IsAborted(engine_->CreateNewBackup(options, db_.get()), "enough"));
  EXPECT_TRUE(FilesIn("private/2").empty());
}

TEST_F(BackupEngineTest, StopsAndContinues) {
  for (int i = 0; i < 5; ++i) {
    Put(Key(i), Noise(100'000));
    Flush();
  }
  const EntryList state = Contents();
  Backup();
  ASSERT_TRUE(Ok(engine_->DeleteBackup(1)));
  backup_options_.callback_trigger_interval_size = 100'000;
  OpenEngine();
  int calls = 0;
  CreateBackupOptions options;
  options.progress_callback = [&] {
    if (++calls == 3) engine_->StopBackup();
  };
  EXPECT_TRUE(IsIncomplete(engine_->CreateNewBackup(options, db_.get())));
  EXPECT_TRUE(IsIncomplete(engine_->CreateNewBackup(options, db_.get())));
  const auto copied = FilesIn("shared_checksum");
  EXPECT_GE(copied.size(), 2u);
  BackupInfo info;
  EXPECT_TRUE(IsNotFound(engine_->GetLatestBackupInfo(&info)));
  std::map<std::string, std::filesystem::file_time_type> times;
  for (const std::string& path : copied) {
    if (!path.ends_with(".tmp")) {
      times[path] = std::filesystem::last_write_time(path);
    }
  }
  ASSERT_GE(times.size(), 1u);
  // A leftover with other contents is not used.
  const std::string bad = times.begin()->first;
  const std::string good = Read(bad);
  Flip(bad, 10);
  OpenEngine();
  Backup();
  for (const auto& [path, time] : times) {
    if (path == bad) {
      EXPECT_EQ(Read(path), good);
    } else {
      EXPECT_EQ(std::filesystem::last_write_time(path), time) << path;
    }
  }
  EXPECT_TRUE(Ok(engine_->VerifyBackup(1, true)));
  ExpectRestores(1, state);
  for (const std::string& path : FilesIn("")) {
    EXPECT_FALSE(path.ends_with(".tmp")) << path;
  }
}

// ---- Damage -----------------------------------------------------------------

TEST_F(BackupEngineTest, FindsDamageAndRestoresTheOneBefore) {
  Do("put a 1, flush");
  const EntryList first = Contents();
  Backup();
  Do("put b 2, compact, put c 3");
  const EntryList second = Contents();
  Backup();
  BackupInfo info;
  ASSERT_TRUE(Ok(engine_->GetBackupInfo(2, &info, true)));
  for (const BackupFileInfo& file : info.file_details) {
    SCOPED_TRACE(file.relative_filename);
    const std::string path = backups_ + "/" + file.relative_filename;
    const std::string bytes = Read(path);
    for (const int kind : {0, 1, 2}) {
      if (kind == 0) Flip(path, bytes.size() / 2);
      if (kind == 1) Write(path, bytes.substr(0, bytes.size() - 1));
      if (kind == 2) std::filesystem::remove(path);
      for (const bool reopen : {false, true}) {
        if (reopen) OpenEngine();
        EXPECT_FALSE(engine_->VerifyBackup(2, true).ok());
        EXPECT_TRUE(Ok(engine_->VerifyBackup(1, true)));
        if (!reopen && kind != 0) {
          EXPECT_FALSE(engine_->VerifyBackup(2).ok());
        }
        EXPECT_FALSE(TryRestore(2).ok());
        BackupID restored = 0;
        ASSERT_TRUE(Ok(engine_->RestoreDBFromLatestBackup(
            {}, restored_, restored_, &restored)));
        EXPECT_EQ(restored, 1u);
        EXPECT_TRUE(SameEntries(first, ContentsOf(restored_)));
      }
      Write(path, bytes);
      OpenEngine();
    }
  }
  ExpectRestores(2, second);
}

TEST_F(BackupEngineTest, DoesNotRemoveADatabaseForADamagedBackup) {
  Do("put a 1, flush");
  const EntryList state = Contents();
  Backup();
  ExpectRestores(1, state);
  Flip(FilesIn("shared_checksum")[0], 20);
  EXPECT_TRUE(IsCorruption(TryRestore(1)));
  EXPECT_TRUE(IsCorruption(
      engine_->RestoreDBFromLatestBackup({}, restored_, restored_)));
  EXPECT_TRUE(SameEntries(state, ContentsOf(restored_)));
}

TEST_F(BackupEngineTest, NextBackupHealsSharedTables) {
  Put("a", Noise(100'000));
  Flush();
  const EntryList state = Contents();
  Backup();
  const std::string path = FilesIn("shared_checksum")[0];
  const std::string bytes = Read(path);
  const auto expect_healed = [&] {
    Backup();
    EXPECT_EQ(Read(path), bytes);
    OpenEngine();
    EXPECT_TRUE(Ok(engine_->VerifyBackup(1, true)));
  };
  // At its end, without a check before.
  Flip(path, bytes.size() - 100);
  expect_healed();
  // Truncated or missing, found by Open.
  Write(path, bytes.substr(0, 50));
  OpenEngine();
  std::vector<BackupID> corrupt;
  engine_->GetCorruptedBackups(&corrupt);
  EXPECT_EQ(corrupt, (std::vector<BackupID>{1, 2}));
  expect_healed();
  std::filesystem::remove(path);
  OpenEngine();
  expect_healed();
  // In the middle, found by VerifyBackup.
  Flip(path, 50);
  EXPECT_TRUE(IsCorruption(engine_->VerifyBackup(1, true)));
  expect_healed();
  ExpectRestores(1, state);
}

TEST_F(BackupEngineTest, KeepsTheFilesOfCorruptBackups) {
  Do("put a 1, flush");
  const EntryList state = Contents();
  Backup();
  Do("put b 2, compact");
  Backup();
  const auto before = FilesIn("");
  // Its list cannot be read.
  const std::string meta = Read(backups_ + "/meta/1");
  Write(backups_ + "/meta/1", "nothing\n");
  OpenEngine();
  ASSERT_TRUE(Ok(engine_->GarbageCollect()));
  EXPECT_EQ(FilesIn(""), before);
  // A file is missing.
  Write(backups_ + "/meta/1", meta);
  std::filesystem::rename(backups_ + "/private/1/CURRENT", backups_ + "/x");
  OpenEngine();
  ASSERT_TRUE(Ok(engine_->GarbageCollect()));
  ASSERT_TRUE(Ok(engine_->PurgeOldBackups(1)));
  BackupInfo info;
  EXPECT_TRUE(IsCorruption(engine_->GetBackupInfo(1, &info)));
  std::filesystem::rename(backups_ + "/x", backups_ + "/private/1/CURRENT");
  OpenEngine();
  EXPECT_EQ(FilesIn(""), before);
  ExpectRestores(1, state);
  Write(backups_ + "/meta/1", "nothing\n");
  OpenEngine();
  ASSERT_TRUE(Ok(engine_->DeleteBackup(1)));
  EXPECT_EQ(FilesIn("shared_checksum").size(), 1u);
}

// One of two lists of the same table has a wrong checksum.
TEST_F(BackupEngineTest, AWrongListDoesNotSpoilTheOthers) {
  Do("put a 1, flush");
  const EntryList state = Contents();
  Backup();
  Backup();
  std::string meta = Read(backups_ + "/meta/2");
  const size_t digit = meta.find(".sst crc32 ") + 11;
  meta[digit] = meta[digit] == '1' ? '2' : '1';
  Write(backups_ + "/meta/2", meta);
  OpenEngine();
  std::vector<BackupID> corrupt;
  engine_->GetCorruptedBackups(&corrupt);
  EXPECT_EQ(corrupt, (std::vector<BackupID>{2}));
  EXPECT_TRUE(Ok(engine_->VerifyBackup(1, true)));
  ExpectRestores(1, state);
}

// ---- Restoring --------------------------------------------------------------

TEST_F(BackupEngineTest, ReplacesADatabase) {
  Do("put a 1, flush, put b 2");
  const EntryList state = Contents();
  Backup();
  Do("put c 3, compact, put d 4");
  Close();
  restored_ = path_;
  Write(path_ + "/mine.txt", "not the engine's");
  Write(path_ + "/000900.sst", "a leftover");
  std::filesystem::create_directory(path_ + "/000001.dbtmp");
  std::filesystem::create_directory(path_ + "/000901.sst");
  std::filesystem::create_directory(path_ + "/archive");
  Write(path_ + "/archive/000001.log", "old");
  ExpectRestores(1, state);
  EXPECT_EQ(Read(path_ + "/mine.txt"), "not the engine's");
  EXPECT_FALSE(std::filesystem::exists(path_ + "/000900.sst"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/000901.sst"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/archive/000001.log"));
}

TEST_F(BackupEngineTest, DoesNotReplaceAnOpenDatabase) {
  Do("put a 1, flush");
  Backup();
  restored_ = path_;
  EXPECT_TRUE(IsBusy(TryRestore(1)));
  EXPECT_TRUE(
      IsBusy(engine_->RestoreDBFromLatestBackup({}, restored_, restored_)));
  Do("put b 2, reopen");
  EXPECT_EQ(Contents().size(), 2u);
}

TEST_F(BackupEngineTest, KeepsTablesInPlace) {
  Put("a", Noise(1000));
  Flush();
  Put("b", Noise(1000));
  Flush();
  const EntryList state = Contents();
  Backup();
  for (const auto mode :
       {RestoreOptions::kKeepLatestDbSessionIdFiles,
        RestoreOptions::kVerifyChecksum, RestoreOptions::kPurgeAllFiles}) {
    SCOPED_TRACE(static_cast<uint32_t>(mode));
    ASSERT_TRUE(Ok(TryRestore(1)));
    std::vector<std::string> tables;
    for (const auto& entry : std::filesystem::directory_iterator(restored_)) {
      if (entry.path().extension() == ".sst") tables.push_back(entry.path());
    }
    std::sort(tables.begin(), tables.end());
    ASSERT_EQ(tables.size(), 2u);
    const std::string good = Read(tables[0]);
    const std::string second = Read(tables[1]);
    // One is damaged in the middle, so that its properties can be read.
    Flip(tables[0], 100);
    const auto time =
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
    for (const std::string& table : tables) {
      std::filesystem::last_write_time(table, time);
    }
    ASSERT_TRUE(Ok(TryRestore(1, RestoreOptions(false, mode))));
    const auto is_kept = [&](const std::string& table) {
      return std::filesystem::last_write_time(table) == time;
    };
    EXPECT_EQ(is_kept(tables[0]),
              mode == RestoreOptions::kKeepLatestDbSessionIdFiles);
    EXPECT_EQ(is_kept(tables[1]), mode != RestoreOptions::kPurgeAllFiles);
    if (mode != RestoreOptions::kKeepLatestDbSessionIdFiles) {
      EXPECT_EQ(Read(tables[0]), good);
      EXPECT_TRUE(SameEntries(state, ContentsOf(restored_)));
    }
  }
}

TEST_F(BackupEngineTest, KeepsLogsThatAreElsewhere) {
  backup_options_.backup_log_files = false;
  OpenEngine();
  Do("put a 1, flush, put b 2");
  Backup();
  Put("c", "3");
  const EntryList state = Contents();
  // The process ends without a flush.
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(db_->SyncWAL()));
  std::filesystem::copy(path_, copy);
  std::filesystem::create_directory(copy + "/archive");
  std::string log;
  for (const auto& entry : std::filesystem::directory_iterator(copy)) {
    if (entry.path().extension() == ".log") log = entry.path();
  }
  std::filesystem::rename(
      log, copy + "/archive/" + std::filesystem::path(log).filename().string());
  restored_ = copy;
  ASSERT_TRUE(Ok(TryRestore(1, RestoreOptions(/*keep_logs=*/true))));
  EXPECT_TRUE(SameEntries(state, ContentsOf(copy)));
  // Without the log, there is what is in tables.
  restored_ = dir_.Sub("without");
  ASSERT_TRUE(Ok(TryRestore(1)));
  EXPECT_TRUE(SameEntries({{"a", "1"}}, ContentsOf(restored_)));
}

TEST_F(BackupEngineTest, ExcludesFilesThatOthersHave) {
  Do("put a 1, flush, put b 2, flush");
  const EntryList state = Contents();
  Backup();
  BackupEngineOptions other_options(dir_.Sub("other"));
  CreateBackupOptions options;
  options.exclude_files_callback = [](MaybeExcludeBackupFile* begin,
                                      MaybeExcludeBackupFile* end) {
    EXPECT_EQ(end - begin, 2);
    begin->exclude_decision = true;
  };
  std::unique_ptr<BackupEngine> other;
  ASSERT_TRUE(Ok(BackupEngine::Open(other_options, nullptr, &other)));
  EXPECT_TRUE(IsInvalidArgument(other->CreateNewBackup(options, db_.get())));
  other_options.schema_version = 2;
  ASSERT_TRUE(Ok(BackupEngine::Open(other_options, nullptr, &other)));
  ASSERT_TRUE(Ok(other->CreateNewBackup(options, db_.get())));
  ASSERT_TRUE(Ok(BackupEngine::Open(other_options, nullptr, &other)));
  BackupInfo info;
  ASSERT_TRUE(Ok(other->GetBackupInfo(1, &info, true)));
  EXPECT_EQ(info.excluded_files.size(), 1u);
  RestoreOptions restore;
  EXPECT_TRUE(IsInvalidArgument(
      other->RestoreDBFromBackup(restore, 1, restored_, restored_)));
  restore.alternate_dirs.push_back(engine_.get());
  ASSERT_TRUE(Ok(other->RestoreDBFromBackup(restore, 1, restored_, restored_)));
  EXPECT_TRUE(SameEntries(state, ContentsOf(restored_)));
}

// ---- Several engines --------------------------------------------------------

TEST_F(BackupEngineTest, SeesWhatOtherEnginesDid) {
  Do("put a 1, flush");
  const EntryList first = Contents();
  std::unique_ptr<BackupEngine> other;
  ASSERT_TRUE(Ok(BackupEngine::Open(backup_options_, nullptr, &other)));
  Backup();
  BackupID id = 0;
  Do("put b 2, compact");
  ASSERT_TRUE(Ok(other->CreateNewBackup({}, db_.get(), &id)));
  EXPECT_EQ(id, 2u);
  ASSERT_TRUE(Ok(engine_->GarbageCollect()));
  EXPECT_TRUE(Ok(engine_->VerifyBackup(1, true)));
  EXPECT_TRUE(Ok(engine_->VerifyBackup(2, true)));
  ASSERT_TRUE(Ok(other->DeleteBackup(2)));
  EXPECT_TRUE(IsNotFound(engine_->DeleteBackup(2)));
  ExpectRestores(1, first);
}

TEST_F(BackupEngineTest, IsBusyWhileAnotherEngineWorks) {
  Put("a", Noise(100'000));
  Flush();
  backup_options_.callback_trigger_interval_size = 10'000;
  OpenEngine();
  std::unique_ptr<BackupEngine> other;
  ASSERT_TRUE(Ok(BackupEngine::Open(backup_options_, nullptr, &other)));
  CreateBackupOptions options;
  Status busy;
  options.progress_callback = [&] { busy = other->GarbageCollect(); };
  ASSERT_TRUE(Ok(engine_->CreateNewBackup(options, db_.get())));
  EXPECT_TRUE(IsBusy(busy));
  EXPECT_TRUE(Ok(other->GarbageCollect()));
  EXPECT_TRUE(Ok(other->VerifyBackup(1, true)));
}

TEST_F(BackupEngineTest, ReadOnlyEngineReadsTheNewest) {
  for (int i = 0; i < 3; ++i) {
    Put(Key(i), "1");
    Backup();
  }
  std::unique_ptr<BackupEngineReadOnly> reader;
  backup_options_.max_valid_backups_to_open = 2;
  const auto before = FilesIn("");
  ASSERT_TRUE(
      Ok(BackupEngineReadOnly::Open(backup_options_, nullptr, &reader)));
  std::vector<BackupInfo> infos;
  reader->GetBackupInfo(&infos);
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].backup_id, 2u);
  EXPECT_TRUE(Ok(reader->VerifyBackup(3, true)));
  EXPECT_TRUE(Ok(reader->RestoreDBFromLatestBackup({}, restored_, restored_)));
  EXPECT_EQ(FilesIn(""), before);
  backup_options_.destroy_old_data = true;
  EXPECT_TRUE(IsInvalidArgument(
      BackupEngineReadOnly::Open(backup_options_, nullptr, &reader)));
  BackupEngineOptions missing(dir_.Sub("missing"));
  EXPECT_TRUE(
      IsNotFound(BackupEngineReadOnly::Open(missing, nullptr, &reader)));
  // The other engine removes them all.
  OpenEngine();
  engine_->GetBackupInfo(&infos);
  EXPECT_TRUE(infos.empty());
  EXPECT_TRUE(FilesIn("private").empty());
}

TEST_F(BackupEngineTest, CopiesByManyThreadsBesideWriters) {
  options_.disable_auto_compactions = false;
  Reopen();
  backup_options_.max_background_operations = 4;
  backup_options_.sync = false;
  OpenEngine();
  std::atomic<bool> stop = false;
  std::atomic<int> written = 0;
  std::atomic<int> limit = 0;  // Keeps the database small.
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      while (i >= limit && !stop) std::this_thread::yield();
      ASSERT_TRUE(Ok(db_->Put({}, Key(i), Noise(100))));
      written = i + 1;
      if (i % 1000 == 0) Flush();
    }
  });
  // Also after a failed check.
  const std::shared_ptr<void> join(nullptr, [&](void*) {
    stop = true;
    if (writer.joinable()) writer.join();
  });
  CreateBackupOptions options;
  options.decrease_background_thread_cpu_priority = true;
  options.background_thread_cpu_priority = CpuPriority::kLow;
  std::vector<std::pair<int, int>> bounds;
  for (BackupID id = 1; id <= 5; ++id) {
    limit = static_cast<int>(id) * 1000 + 2000;
    while (written < static_cast<int>(id) * 1000) std::this_thread::yield();
    const int before = written;
    ASSERT_TRUE(Ok(engine_->CreateNewBackup(options, db_.get())));
    bounds.emplace_back(before, written + 1);
  }
  stop = true;
  writer.join();
  for (BackupID id = 1; id <= 5; ++id) {
    ASSERT_TRUE(Ok(TryRestore(id)));
    const EntryList entries = ContentsOf(restored_);
    const auto count = static_cast<int>(entries.size());
    EXPECT_GE(count, bounds[id - 1].first);
    EXPECT_LE(count, bounds[id - 1].second);
    ASSERT_FALSE(entries.empty());
    // No update is missing before the last.
    EXPECT_EQ(entries.back().first, Key(count - 1));
  }
}

TEST_F(BackupEngineTest, RefusesWhatItCannotDo) {
  EXPECT_TRUE(IsInvalidArgument(engine_->CreateNewBackup({}, nullptr)));
  std::unique_ptr<BackupEngine> engine;
  const auto refused = [&](auto change) {
    BackupEngineOptions options(backups_);
    change(&options);
    return BackupEngine::Open(options, nullptr, &engine);
  };
  EXPECT_TRUE(IsInvalidArgument(
      refused([](auto* o) { o->max_background_operations = 0; })));
  EXPECT_TRUE(
      IsInvalidArgument(refused([](auto* o) { o->schema_version = 0; })));
  EXPECT_TRUE(IsNotSupported(refused([](auto* o) { o->schema_version = 3; })));
  EXPECT_TRUE(IsInvalidArgument(refused([](auto* o) { o->backup_dir = ""; })));
  Close();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(IsNotSupported(engine_->CreateNewBackup({}, db_.get())));
}

}  // namespace
}  // namespace varve::test
