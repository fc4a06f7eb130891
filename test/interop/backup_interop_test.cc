// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB, by its library and by ldb, create, list, verify,
// delete and restore backups in one directory, in any order. Method: both in
// turn on databases of either, beside the contents at each backup.

#include "test/testing/db/backup_fixture.h"
#include "test/testing/engines/rocksdb_database.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/db_ttl.h"
#include "varve/transaction_db.h"

namespace varve::test {
namespace {

constexpr char kRocksDbOptions[] =
    "create_if_missing=true;compression=kNoCompression";

// RocksDB's engine, open for one call after the other.
class RocksDbBackups : public RocksDbDatabase {
 public:
  void OpenEngine(const std::string& path) {
    void* const options = Call<void*>("options_create");
    engine_ = CallChecked<void*>("backup_engine_open", options, path.c_str());
    Call<void>("options_destroy", options);
    ASSERT_NE(engine_, nullptr);
  }
  void CloseEngine() { Call<void>("backup_engine_close", engine_); }
  void Backup(bool flush) {
    CallChecked<void>("backup_engine_create_new_backup_flush", engine_, db(),
                      static_cast<unsigned char>(flush));
  }
  void Verify(uint32_t id) {
    CallChecked<void>("backup_engine_verify_backup", engine_, id);
  }
  void Purge(uint32_t count) {
    CallChecked<void>("backup_engine_purge_old_backups", engine_, count);
  }
  void Restore(uint32_t id, const std::string& path) {
    void* const options = Call<void*>("restore_options_create");
    CallChecked<void>("backup_engine_restore_db_from_backup", engine_,
                      path.c_str(), path.c_str(), options, id);
    Call<void>("restore_options_destroy", options);
  }
  // Returns the number, the size and the count of files of each backup.
  std::vector<std::tuple<uint32_t, uint64_t, uint32_t>> List() {
    std::vector<std::tuple<uint32_t, uint64_t, uint32_t>> list;
    void* const info = Call<void*>("backup_engine_get_backup_info", engine_);
    const int count = Call<int>("backup_engine_info_count", info);
    for (int i = 0; i < count; ++i) {
      list.emplace_back(
          Call<uint32_t>("backup_engine_info_backup_id", info, i),
          Call<uint64_t>("backup_engine_info_size", info, i),
          Call<uint32_t>("backup_engine_info_number_files", info, i));
    }
    Call<void>("backup_engine_info_destroy", info);
    return list;
  }

 private:
  void* engine_ = nullptr;
};

class BackupInteropTest : public BackupTestBase {
 protected:
  EntryList LdbContents(const std::string& path) {
    EntryList entries;
    std::istringstream lines(Ldb(path, {"scan"}));
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string key, separator, value;
      words >> key >> separator >> value;
      if (separator != ":" && separator != "==>") continue;
      entries.emplace_back(FromHex(key), FromHex(value));
    }
    return entries;
  }
  static std::string FromHex(const std::string& text) {
    std::string bytes;
    for (size_t i = 2; i + 1 < text.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
    }
    return bytes;
  }
  std::string Numbers() {
    std::string numbers;
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    for (const BackupInfo& info : infos) {
      numbers += std::to_string(info.backup_id) + " ";
      EXPECT_TRUE(Ok(engine_->VerifyBackup(info.backup_id, true)));
    }
    std::vector<BackupID> corrupt;
    engine_->GetCorruptedBackups(&corrupt);
    EXPECT_TRUE(corrupt.empty());
    return numbers;
  }
};

TEST_F(BackupInteropTest, LdbRestoresOurBackup) {
  Open();
  OpenEngine();
  Do("put a 1, flush, put b 2, delete a, put c 3");
  Backup();
  Put("d", "4");
  const EntryList state = Contents();
  Backup(/*flush=*/true);
  Close();
  Ldb(restored_, {"restore", "--backup_dir=" + backups_});
  EXPECT_TRUE(SameEntries(state, LdbContents(restored_)));
  // And goes on with the directory.
  Ldb(path_, {"backup", "--backup_dir=" + backups_});
  OpenEngine();
  EXPECT_EQ(Numbers(), "1 2 3 ");
  ExpectRestores(3, state);
}

TEST_F(BackupInteropTest, WeRestoreWhatLdbBacksUp) {
  Ldb(path_, {"--create_if_missing", "put", "0x61", "0x31"});
  Ldb(path_, {"put", "0x62", "0x32"});
  Ldb(path_, {"compact"});
  Ldb(path_, {"put", "0x63", "0x33"});
  Ldb(path_, {"backup", "--backup_dir=" + backups_});
  const EntryList first = LdbContents(path_);
  ASSERT_EQ(first.size(), 3u);
  OpenEngine();
  EXPECT_EQ(Numbers(), "1 ");
  ExpectRestores(1, first);
  BackupInfo info;
  ASSERT_TRUE(Ok(engine_->GetBackupInfo(1, &info, true)));
  EXPECT_TRUE(SameEntries(
      first, ContentsOf(info.name_for_open, info.env_for_open.get())));
  // Tables that ldb has copied are shared with our backup of the database.
  const auto shared = FilesIn("shared_checksum");
  Open();
  Put("e", "5");
  const EntryList second = Contents();
  Backup();
  const auto after = FilesIn("shared_checksum");
  EXPECT_TRUE(
      std::includes(after.begin(), after.end(), shared.begin(), shared.end()));
  EXPECT_LE(after.size(), shared.size() + 1);
  Close();
  Ldb(restored_, {"restore", "--backup_dir=" + backups_});
  EXPECT_TRUE(SameEntries(second, LdbContents(restored_)));
}

// Both engines, at random, on databases that either has written.
TEST_F(BackupInteropTest, BothTakeTurns) {
  Rng rng(TestSeed());
  RocksDbBackups rocksdb;
  std::map<BackupID, EntryList> states;
  const auto check = [&] {
    rocksdb.OpenEngine(backups_);
    OpenEngine();
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    std::vector<std::tuple<uint32_t, uint64_t, uint32_t>> ours;
    for (const BackupInfo& info : infos) {
      ours.emplace_back(info.backup_id, info.size, info.number_files);
    }
    EXPECT_EQ(ours, rocksdb.List());
    ASSERT_EQ(infos.size(), states.size());
    for (const auto& [id, state] : states) {
      rocksdb.Verify(id);
      EXPECT_TRUE(Ok(engine_->VerifyBackup(id, true)));
    }
    auto any = states.begin();
    if (any == states.end()) return;
    std::advance(any, rng.Below(states.size()));
    ExpectRestores(any->first, any->second);
    rocksdb.Restore(any->first, restored_);
    EXPECT_TRUE(SameEntries(any->second, ContentsOf(restored_)));
  };
  for (int round = 0; round < 40 && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const bool ours = rng.OneIn(2);
    backup_options_.schema_version = rng.Between(1, 2);
    backup_options_.share_files_with_checksum_naming =
        static_cast<BackupEngineOptions::ShareFilesNaming>(
            rng.Pick<uint32_t>({1U, 2U, 2U | (1U << 31)}));
    const int puts = rng.Between(0, 50);
    std::string key = Key(static_cast<int>(rng.Below(200)));
    if (ours) {
      Open();
      for (int i = 0; i < puts; ++i) Put(key += "x", rng.Bytes(20));
      if (rng.OneIn(3)) Flush();
      if (rng.OneIn(5)) CompactAll();
      OpenEngine();
      states[Backup(rng.OneIn(2))] = Contents();
      Close();
    } else {
      rocksdb.Open(path_, kRocksDbOptions);
      for (int i = 0; i < puts; ++i) rocksdb.Put(key += "x", rng.Bytes(20));
      if (rng.OneIn(3)) rocksdb.Flush();
      if (rng.OneIn(5)) rocksdb.CompactAll();
      rocksdb.OpenEngine(backups_);
      const BackupID id = states.empty() ? 1 : states.rbegin()->first + 1;
      rocksdb.Backup(rng.OneIn(2));
      rocksdb.CloseEngine();
      rocksdb.Close();
      states[id] = ContentsOf(path_);
    }
    if (rng.OneIn(5)) {
      const auto count = static_cast<uint32_t>(rng.Between(1, 4));
      if (rng.OneIn(2)) {
        OpenEngine();
        ASSERT_TRUE(Ok(engine_->PurgeOldBackups(count)));
      } else {
        rocksdb.OpenEngine(backups_);
        rocksdb.Purge(count);
        rocksdb.CloseEngine();
      }
      while (states.size() > count) states.erase(states.begin());
    }
    check();
    rocksdb.CloseEngine();
  }
}

TEST_F(BackupInteropTest, LdbRestoresPreparedTransactionsAndFamilies) {
  std::unique_ptr<TransactionDB> db;
  ASSERT_TRUE(Ok(TransactionDB::Open(options_, {}, path_, &db)));
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db->CreateColumnFamily({}, "f", &family)));
  ASSERT_TRUE(Ok(db->Put({}, family, "k", "1")));
  ASSERT_TRUE(Ok(db->Flush({})));
  std::unique_ptr<Transaction> prepared(db->BeginTransaction({}));
  ASSERT_TRUE(Ok(prepared->SetName("x")));
  ASSERT_TRUE(Ok(prepared->Put("p", "1")));
  ASSERT_TRUE(Ok(prepared->Prepare()));
  OpenEngine();
  ASSERT_TRUE(Ok(engine_->CreateNewBackup({}, db.get())));
  ASSERT_TRUE(Ok(prepared->Rollback()));
  prepared.reset();
  delete family;
  db.reset();
  Ldb(restored_, {"restore", "--backup_dir=" + backups_});
  std::vector<ColumnFamilyHandle*> handles;
  ASSERT_TRUE(Ok(TransactionDB::Open(
      options_, {}, restored_,
      {{kDefaultColumnFamilyName, options_}, {"f", options_}}, &handles, &db)));
  std::unique_ptr<Transaction> found(db->GetTransactionByName("x"));
  ASSERT_NE(found, nullptr);
  ASSERT_TRUE(Ok(found->Rollback()));
  found.reset();
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, handles[1], "k", &value)));
  for (ColumnFamilyHandle* const handle : handles) delete handle;
}

TEST_F(BackupInteropTest, LdbRestoresDatabasesWithATtl) {
  std::unique_ptr<DBWithTTL> db;
  ASSERT_TRUE(Ok(DBWithTTL::Open(options_, path_, &db, 100000)));
  ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
  ASSERT_TRUE(Ok(db->Flush({})));
  OpenEngine();
  ASSERT_TRUE(Ok(engine_->CreateNewBackup({}, db.get())));
  db.reset();
  Ldb(restored_, {"restore", "--backup_dir=" + backups_});
  ASSERT_TRUE(Ok(DBWithTTL::Open(options_, restored_, &db, 100000)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, "a", &value)));
  EXPECT_EQ(value, "1");
}

}  // namespace
}  // namespace varve::test
