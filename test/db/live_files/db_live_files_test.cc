// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the files that a database names are the database. Method: copy what it
// names, while it goes on, and open the copy; compare the metadata with the
// properties.

#include <filesystem>
#include <set>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/random_entries.h"
#include "test/testing/seed.h"
#include "varve/listener.h"

namespace varve::test {
namespace {

class DbLiveFilesTest : public DbTestBase {
 protected:
  DbLiveFilesTest() : copy_(dir_.Sub("copy")) {
    options_.listeners = {};
    std::filesystem::create_directory(copy_);
  }

  void Fill(int seed, int count = 3000) {
    Rng rng(seed);
    for (int i = 0; i < count; ++i) {
      const std::string key = Key(rng.Between(0, 2000));
      expected_[key] = rng.Bytes(60);
      Put(key, expected_[key]);
    }
  }

  void CopyFile(const std::string& name, uint64_t size) {
    std::string bytes = ReadWholeFile(path_ + "/" + name);
    ASSERT_GE(bytes.size(), size) << name;
    WriteWholeFile(copy_ + "/" + name, bytes.substr(0, size));
  }

  void CopyWals(const VectorWalPtr& wals) {
    for (const auto& wal : wals) {
      CopyFile(wal->PathName().substr(1), wal->SizeFileBytes());
    }
  }

  ::testing::AssertionResult CopyHas(const Entries& entries) {
    Options options = options_;
    options.create_if_missing = false;
    options.paranoid_checks = true;
    options.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
    std::unique_ptr<DB> db;
    Status status = DB::Open(options, copy_, &db);
    if (!status.ok()) return Ok(status);
    return HasEntries(db.get(), ToList(entries));
  }

  std::set<std::string> NamesOf(const std::string& directory) {
    std::set<std::string> names;
    for (const auto& [name, bytes] : ReadDirectory(directory)) {
      names.insert(name);
    }
    return names;
  }

  const std::string copy_;
  Entries expected_;
};

TEST_F(DbLiveFilesTest, CopyOfTheStorageInfoIsTheDatabase) {
  for (const uint64_t flush_from : {uint64_t{0}, UINT64_MAX}) {
    OpenAnew();
    expected_.clear();
    std::filesystem::remove_all(copy_);
    std::filesystem::create_directory(copy_);
    Fill(1);
    ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
    LiveFilesStorageInfoOptions options;
    options.wal_size_for_flush = flush_from;
    std::vector<LiveFileStorageInfo> files;
    ASSERT_TRUE(Ok(db_->GetLiveFilesStorageInfo(options, &files)));
    const Entries then = expected_;
    Fill(2);  // The database goes on before the files are copied.
    CompactAll();
    uint64_t log_bytes = 0;
    for (const LiveFileStorageInfo& file : files) {
      EXPECT_EQ(file.directory, path_);
      if (file.replacement_contents.empty()) {
        CopyFile(file.relative_filename, file.size);
      } else {
        EXPECT_EQ(file.file_type, FileType::kCurrentFile);
        EXPECT_EQ(file.size, file.replacement_contents.size());
        WriteWholeFile(copy_ + "/" + file.relative_filename,
                       file.replacement_contents);
      }
      EXPECT_EQ(file.trim_to_size,
                file.file_type == FileType::kDescriptorFile ||
                    file.file_type == FileType::kWalFile);
      if (file.file_type == FileType::kWalFile) log_bytes += file.size;
    }
    // After a flush the log only has a note about the one before it.
    EXPECT_EQ(log_bytes > 1000, flush_from != 0);
    ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
    EXPECT_TRUE(CopyHas(then));
    EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  }
}

// The steps of a backup by RocksDB's older calls: the log that holds the
// updates is obsolete before the logs are listed.
TEST_F(DbLiveFilesTest, LogsThatAFlushMadeObsoleteAreListed) {
  Open();
  Fill(1);
  ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
  std::vector<std::string> files;
  uint64_t manifest_size = 0;
  ASSERT_TRUE(Ok(db_->GetLiveFiles(&files, &manifest_size, /*flush=*/false)));
  Flush();
  VectorWalPtr wals;
  ASSERT_TRUE(Ok(db_->GetSortedWalFiles(&wals)));
  ASSERT_GE(wals.size(), 2u);
  EXPECT_LT(wals[0]->LogNumber(), wals[1]->LogNumber());
  EXPECT_LE(wals[0]->StartSequence(), 3000u);
  EXPECT_GT(wals[0]->StartSequence(), 0u);
  EXPECT_EQ(wals.back()->StartSequence(), 0u);
  EXPECT_EQ(wals[0]->Type(), WalFileType::kAliveLogFile);
  for (const std::string& file : files) {
    ASSERT_EQ(file[0], '/');
    const std::string name = file.substr(1);
    CopyFile(name, name.starts_with("MANIFEST")
                       ? manifest_size
                       : std::filesystem::file_size(path_ + file));
  }
  CopyWals(wals);
  ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
  EXPECT_TRUE(CopyHas(expected_));
  // The obsolete ones are removed now.
  ASSERT_TRUE(Ok(db_->GetSortedWalFiles(&wals)));
  EXPECT_EQ(wals.size(), 1u);
  EXPECT_EQ(FilesEndingIn(path_, ".log").size(), 1u);
}

// The log of the moment is needed, although it has no updates.
TEST_F(DbLiveFilesTest, GetLiveFilesFlushes) {
  options_.disable_auto_compactions = true;  // They would remove files.
  Open();
  Fill(1);
  std::vector<std::string> files;
  uint64_t manifest_size = 0;
  ASSERT_TRUE(Ok(db_->GetLiveFiles(&files, &manifest_size, /*flush=*/true)));
  for (const std::string& file : files) {
    const std::string name = file.substr(1);
    CopyFile(name, name.starts_with("MANIFEST")
                       ? manifest_size
                       : std::filesystem::file_size(path_ + file));
  }
  EXPECT_FALSE(CopyHas(expected_));
  VectorWalPtr wals;
  ASSERT_TRUE(Ok(db_->GetSortedWalFiles(&wals)));
  ASSERT_EQ(wals.size(), 1u);
  EXPECT_EQ(wals[0]->StartSequence(), 0u);
  CopyWals(wals);
  EXPECT_TRUE(CopyHas(expected_));
}

TEST_F(DbLiveFilesTest, FilesStayWhileDeletionsAreDisabled) {
  Open();
  Fill(1);
  Flush();
  ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
  ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 0u);
  const std::set<std::string> before = NamesOf(path_);
  Fill(2);
  CompactAll();
  const auto all_stay = [&] {
    const std::set<std::string> now = NamesOf(path_);
    return std::includes(now.begin(), now.end(), before.begin(), before.end());
  };
  EXPECT_TRUE(all_stay());
  ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 0u);
  EXPECT_TRUE(all_stay());
  ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 1u);
  EXPECT_FALSE(all_stay());
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
  // One call too many has no effect.
  ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 1u);
  // A database can be closed meanwhile. The next one removes the files.
  ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
  CompactAll();
  Reopen();
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

// The bound for logs stops no writer that would wait for held logs.
TEST_F(DbLiveFilesTest, HeldLogsMayExceedTheirBound) {
  constexpr uint64_t kBound = 64 << 10;
  options_.max_total_wal_size = kBound;
  Open();
  ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
  Fill(1, 4000);
  uint64_t bytes = 0;
  VectorWalPtr wals;
  ASSERT_TRUE(Ok(db_->GetSortedWalFiles(&wals)));
  for (const auto& wal : wals) bytes += wal->SizeFileBytes();
  EXPECT_GT(bytes, 4 * kBound);
  ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
  EXPECT_LT(FilesEndingIn(path_, ".log").size(), wals.size());
}

TEST_F(DbLiveFilesTest, MetadataTellsOfEachTable) {
  options_.disable_auto_compactions = true;
  Open();
  ColumnFamilyHandle* other = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &other)));
  Do("put c 0, put d 0, flush");
  Do("put a 1, put b 2, delete c, delete_range d f, flush");
  ASSERT_TRUE(Ok(db_->Put({}, other, "x", "y")));
  ASSERT_TRUE(Ok(db_->Flush({}, other)));
  for (const bool reopened : {false, true}) {
    if (reopened) {
      ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(other)));
      Close();
      std::vector<ColumnFamilyHandle*> handles;
      ASSERT_TRUE(Ok(
          DB::Open(options_, path_,
                   {{kDefaultColumnFamilyName, options_}, {"other", options_}},
                   &handles, &db_)));
      ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handles[0])));
      other = handles[1];
    }
    std::vector<LiveFileMetaData> all;
    db_->GetLiveFilesMetaData(&all);
    ASSERT_EQ(all.size(), 3u);
    const LiveFileMetaData& first = all[0];  // The newest one of level 0.
    EXPECT_EQ(first.column_family_name, kDefaultColumnFamilyName);
    EXPECT_EQ(first.level, 0);
    EXPECT_EQ(first.smallestkey, "a");
    EXPECT_EQ(first.largestkey, "f");
    EXPECT_EQ(first.smallest_seqno, 3u);
    EXPECT_EQ(first.largest_seqno, 6u);
    EXPECT_EQ(first.num_entries, 4u);
    EXPECT_EQ(first.num_deletions, 2u);
    EXPECT_EQ(first.name, "/" + first.relative_filename);
    EXPECT_EQ(first.directory, path_);
    EXPECT_EQ(first.db_path, path_);
    EXPECT_EQ(first.size, std::filesystem::file_size(path_ + first.name));
    EXPECT_EQ(first.file_type, FileType::kTableFile);
    EXPECT_FALSE(first.being_compacted);
    EXPECT_GT(first.file_creation_time, 0u);
    EXPECT_EQ(first.oldest_ancester_time, first.file_creation_time);
    EXPECT_EQ(all[2].column_family_name, "other");
    EXPECT_EQ(all[2].num_entries, 1u);
    ColumnFamilyMetaData family;
    db_->GetColumnFamilyMetaData(other, &family);
    EXPECT_EQ(family.name, "other");
    EXPECT_EQ(family.file_count, 1u);
    EXPECT_EQ(family.size, all[2].size);
    ASSERT_EQ(family.levels.size(), static_cast<size_t>(options_.num_levels));
    ASSERT_EQ(family.levels[0].files.size(), 1u);
    EXPECT_EQ(family.levels[0].size, all[2].size);
    EXPECT_EQ(family.levels[0].files[0].name, all[2].name);
    EXPECT_EQ(family.levels[3].level, 3);
    uint64_t oldest = 0;
    ASSERT_TRUE(Ok(db_->GetCreationTimeOfOldestFile(&oldest)));
    EXPECT_LE(oldest, first.file_creation_time);
    EXPECT_GT(oldest, 0u);
  }
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(other)));
}

TEST_F(DbLiveFilesTest, CurrentWalIsTheOneThatIsWritten) {
  Open();
  Put("a", "1");
  std::unique_ptr<WalFile> wal;
  ASSERT_TRUE(Ok(db_->GetCurrentWalFile(&wal)));
  ASSERT_NE(wal, nullptr);
  EXPECT_EQ(wal->StartSequence(), 1u);
  EXPECT_TRUE(std::filesystem::exists(path_ + wal->PathName()));
  const uint64_t bytes = wal->SizeFileBytes();
  Put("b", "2");
  ASSERT_TRUE(Ok(db_->GetCurrentWalFile(&wal)));
  EXPECT_GT(wal->SizeFileBytes(), bytes);
  const uint64_t number = wal->LogNumber();
  Flush();
  Put("c", "3");
  ASSERT_TRUE(Ok(db_->GetCurrentWalFile(&wal)));
  EXPECT_GT(wal->LogNumber(), number);
  EXPECT_EQ(wal->StartSequence(), 3u);
}

// A listener may ask for the live files, even while writers wait for it.
TEST_F(DbLiveFilesTest, ListenersMayListLiveFiles) {
  class Lister final : public EventListener {
   public:
    void OnFlushCompleted(const FlushJobInfo& /*info*/) override {
      uint64_t size = 0;
      std::vector<std::string> files;
      EXPECT_TRUE(Ok(db->GetLiveFiles(&files, &size, /*flush=*/false)));
      std::vector<LiveFileMetaData> metadata;
      db->GetLiveFilesMetaData(&metadata);
      EXPECT_FALSE(metadata.empty());
      ++calls;
    }
    DB* db = nullptr;
    int calls = 0;
  };
  const auto lister = std::make_shared<Lister>();
  options_.listeners = {lister};
  Open();
  lister->db = db_.get();
  Do("put a 1, flush");
  EXPECT_EQ(lister->calls, 1);
}

TEST_F(DbLiveFilesTest, ReadersAndClosedDatabases) {
  Open();
  Do("put a 1, flush");
  std::unique_ptr<DB> reader;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &reader)));
  std::vector<LiveFileMetaData> metadata;
  reader->GetLiveFilesMetaData(&metadata);
  EXPECT_EQ(metadata.size(), 1u);
  TablePropertiesCollection properties;
  EXPECT_TRUE(Ok(reader->GetPropertiesOfAllTables(nullptr, &properties)));
  EXPECT_EQ(properties.size(), 1u);
  std::vector<std::string> files;
  uint64_t size = 0;
  VectorWalPtr wals;
  std::vector<LiveFileStorageInfo> infos;
  EXPECT_TRUE(reader->DisableFileDeletions().IsNotSupported());
  EXPECT_TRUE(reader->EnableFileDeletions().IsNotSupported());
  EXPECT_TRUE(reader->GetLiveFiles(&files, &size).IsNotSupported());
  EXPECT_TRUE(reader->GetLiveFilesStorageInfo({}, &infos).IsNotSupported());
  EXPECT_TRUE(reader->GetSortedWalFiles(&wals).IsNotSupported());
  EXPECT_TRUE(
      reader->DeleteFilesInRanges(nullptr, nullptr, 0).IsNotSupported());
  EXPECT_TRUE(reader->PromoteL0(nullptr, 1).IsNotSupported());

  ASSERT_TRUE(Ok(db_->Close()));
  db_->GetLiveFilesMetaData(&metadata);
  EXPECT_TRUE(metadata.empty());
  EXPECT_TRUE(db_->DisableFileDeletions().IsShutdownInProgress());
  EXPECT_TRUE(db_->GetLiveFiles(&files, &size).IsShutdownInProgress());
  EXPECT_TRUE(db_->GetLiveFilesStorageInfo({}, &infos).IsShutdownInProgress());
  EXPECT_TRUE(db_->GetSortedWalFiles(&wals).IsShutdownInProgress());
  EXPECT_TRUE(db_->GetPropertiesOfAllTables(nullptr, &properties)
                  .IsShutdownInProgress());
  EXPECT_TRUE(
      db_->CompactFiles({}, nullptr, {"000001.sst"}, 1).IsShutdownInProgress());
  EXPECT_TRUE(
      db_->DeleteFilesInRanges(nullptr, nullptr, 0).IsShutdownInProgress());
}

}  // namespace
}  // namespace varve::test
