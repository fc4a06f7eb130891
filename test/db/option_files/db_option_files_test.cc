// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an open database's newest OPTIONS file has its present options, and
// what an earlier file had of options that the engine lacks. Method: files of
// RocksDB, changes, and an Env that fails.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/column_family.h"
#include "varve/convert.h"
#include "varve/merge_operator.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbOptionFilesTest : public ::testing::Test {
 protected:
  ~DbOptionFilesTest() override { Close(); }

  void Open(const std::vector<std::string>& names = {"default"}) {
    options_.create_if_missing = true;
    options_.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, options_);
    }
    ASSERT_TRUE(Ok(DB::Open(options_, path_, families, &handles_, &db_)));
  }
  void Close() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  // Returns the paths, in order.
  std::vector<std::string> Files() const {
    return FilesStartingWith(path_, "OPTIONS-");
  }
  std::string Newest() const { return ReadWholeFile(Files().back()); }
  // Returns the options that the newest file has.
  DBOptions Load() {
    DBOptions loaded;
    EXPECT_TRUE(Ok(LoadLatestOptions({}, path_, &loaded, &families_)));
    return loaded;
  }
  std::vector<std::string> LoadedNames() {
    Load();
    std::vector<std::string> names;
    for (const ColumnFamilyDescriptor& one : families_) {
      names.push_back(one.name);
    }
    return names;
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  Options options_;
  std::vector<ColumnFamilyHandle*> handles_;
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyDescriptor> families_;
};

TEST_F(DbOptionFilesTest, AnOpenWritesAFileOnlyIfOptionsHaveChanged) {
  Open();
  const std::vector<std::string> first = Files();
  ASSERT_EQ(first.size(), 1u);
  Close();
  Open();
  EXPECT_EQ(Files(), first);
  Close();
  options_.max_background_jobs = 5;
  Open();
  ASSERT_EQ(Files().size(), 2u);
  EXPECT_EQ(Files()[0], first[0]);
  EXPECT_EQ(Load().max_background_jobs, 5);
  Close();
  options_.block_size = 8192;
  options_.key_case = KeyCase::kSensitive;
  options_.wal_write = WriteMethod::kCall;
  options_.filter_policy = NewBloomFilterPolicy(12);
  Open();
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_NE(Files()[0], first[0]);
  EXPECT_EQ(Load().wal_write, WriteMethod::kCall);
  EXPECT_EQ(families_[0].options.block_size, 8192u);
  EXPECT_EQ(families_[0].options.filter_policy->BuiltinBloomBitsPerKey(), 12);
}

TEST_F(DbOptionFilesTest, ReadersAndClosedDatabasesWriteNone) {
  Open();
  Close();
  const std::vector<std::string> before = Files();
  options_.max_background_jobs = 6;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_EQ(Files(), before);
  EXPECT_TRUE(
      db_->SetDBOptions({{"max_background_jobs", "7"}}).IsNotSupported());
  EXPECT_EQ(db_->GetDBOptions().max_background_jobs, 6);
  db_.reset();
  Open();
  ASSERT_TRUE(Ok(db_->Close()));
  EXPECT_FALSE(db_->SetDBOptions({{"max_background_jobs", "7"}}).ok());
  EXPECT_FALSE(db_->SetOptions({{"ttl", "7"}}).ok());
  EXPECT_EQ(Load().max_background_jobs, 6);
}

TEST_F(DbOptionFilesTest, EachChangeIsWritten) {
  Open();
  ASSERT_TRUE(Ok(db_->SetOptions({{"write_buffer_size", "1M"}})));
  Load();
  EXPECT_EQ(families_[0].options.write_buffer_size, 1u << 20);
  ASSERT_TRUE(Ok(db_->SetDBOptions({{"max_background_jobs", "9"}})));
  EXPECT_EQ(Load().max_background_jobs, 9);
  EXPECT_EQ(Files().size(), 2u);
  const std::vector<std::string> before = Files();
  EXPECT_TRUE(
      db_->SetOptions({{"write_buffer_size", "x"}}).IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->SetOptions({{"write_buffer_size", "1024K"}})));
  EXPECT_EQ(Files(), before);
}

TEST_F(DbOptionFilesTest, NamesTheFamilies) {
  Open({"default", "one"});
  EXPECT_EQ(LoadedNames(), (std::vector<std::string>{"default", "one"}));
  ColumnFamilyHandle* handle = nullptr;
  ColumnFamilyOptions other;
  other.num_levels = 3;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(other, "a]b \"c#d\n", &handle)));
  handles_.push_back(handle);
  EXPECT_EQ(LoadedNames(),
            (std::vector<std::string>{"default", "one", "a]b \"c#d\n"}));
  EXPECT_EQ(families_[2].options.num_levels, 3);
  ASSERT_TRUE(Ok(db_->DropColumnFamily(handles_[1])));
  EXPECT_EQ(LoadedNames(),
            (std::vector<std::string>{"default", "a]b \"c#d\n"}));
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(DbOptionFilesTest, KeepsWhatTheEngineLacks) {
  Open();
  Close();
  for (const std::string& name : Files()) {
    std::filesystem::remove(name);
  }
  WriteWholeFile(
      path_ + "/OPTIONS-000050",
      "[Version]\n  rocksdb_version=9.1.0\n  options_file_version=1.1\n"
      "[DBOptions]\n  max_manifest_file_size=123\n  max_open_files=77\n"
      "  wal_dir=/elsewhere\n  a_later_option=x\\#y\n"
      "[CFOptions \"default\"]\n  compaction_style=kCompactionStyleUniversal\n"
      "  arena_block_size=1048576\n"
      "  merge_operator={id=StringAppendOperator;delimiter=\\:;}\n"
      "  compression_opts={window_bits=-14;level=4;strategy=2;}\n"
      "[TableOptions/BlockBasedTable \"default\"]\n  checksum=kCRC32c\n"
      "[CFOptions \"gone\"]\n  bloom_locality=5\n");
  options_.merge_operator = NewStringAppendOperator(":");
  options_.compression = CompressionType::kZSTD;
  options_.compression_level = 7;
  for (int i = 0; i < 2; ++i) {
    Open();
    const std::string text = Newest();
    for (const char* const kept :
         {"rocksdb_version=9.1.0\n", "  max_manifest_file_size=123\n",
          "  a_later_option=x\\#y\n",
          "  compaction_style=kCompactionStyleUniversal\n",
          "  merge_operator={id=StringAppendOperator;delimiter=\\:;}\n",
          "  compression_opts={window_bits=-14;level=7;strategy=2;}\n",
          "  checksum=kCRC32c\n", "  max_open_files=-1\n"}) {
      EXPECT_TRUE(Contains(text, kept)) << kept << text;
    }
    EXPECT_FALSE(Contains(text, "wal_dir")) << text;
    EXPECT_FALSE(Contains(text, "arena_block_size")) << text;
    EXPECT_FALSE(Contains(text, "gone")) << text;
    EXPECT_FALSE(Contains(text, "max_open_files=77")) << text;
    EXPECT_EQ(Files().size(), 2u);
    Close();
  }
  EXPECT_EQ(Files()[0], path_ + "/OPTIONS-000050");
  options_.merge_operator = nullptr;
  Open();
  EXPECT_TRUE(Contains(Newest(), "  merge_operator=nullptr\n"));
  EXPECT_TRUE(Contains(Newest(), "  max_manifest_file_size=123\n"));
}

TEST_F(DbOptionFilesTest, DamagedFilesAreReplaced) {
  for (const std::string& text :
       {std::string(), std::string(500, '\xff'), std::string("[DBOptions]\n"),
        std::string(5000, '[')}) {
    Open();
    Close();
    WriteWholeFile(Files().back(), text);
    Open();
    EXPECT_EQ(LoadedNames(), std::vector<std::string>{"default"});
    Close();
  }
}

TEST_F(DbOptionFilesTest, AFileThatCannotBeReadIsLeft) {
  HookEnv env(kOpenOperation, "OPTIONS-");
  options_.env = &env;
  Open();
  WriteWholeFile(Files().back(),
                 Newest() + "[CFOptions \"one\"]\n  bloom_locality=5\n");
  Close();
  Open({"default", "one"});
  const std::string text = Newest();
  ASSERT_TRUE(Contains(text, "bloom_locality=5"));
  env.hook = [&](const std::string& path) {
    return Status::FromErrno(path, EIO);
  };
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", "7"}})));
  EXPECT_EQ(Newest(), text);
  env.hook = [&](const std::string& /*path*/) { return Status::OK(); };
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", "8"}})));
  EXPECT_TRUE(Contains(Newest(), "bloom_locality=5"));
  Close();
}

TEST_F(DbOptionFilesTest, NoFileNamesOtherFamiliesWhenItCannotBeWritten) {
  HookEnv env(kRenameOperation, "OPTIONS-");
  options_.env = &env;
  Open({"default", "one"});
  std::atomic<bool> fails = true;
  env.hook = [&](const std::string& path) {
    return fails ? Status::FromErrno(path, ENOSPC) : Status::OK();
  };
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", "7"}})));
  EXPECT_EQ(LoadedNames(), (std::vector<std::string>{"default", "one"}));
  EXPECT_EQ(families_[0].options.ttl, 0u);
  ASSERT_TRUE(Ok(db_->DropColumnFamily(handles_[1])));
  EXPECT_TRUE(Files().empty());
  fails = false;
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", "8"}})));
  EXPECT_EQ(LoadedNames(), std::vector<std::string>{"default"});
  EXPECT_EQ(families_[0].options.ttl, 8u);
  EXPECT_EQ(FilesStartingWith(path_, "OPTIONS-").size(), 1u);
  Close();
}

TEST_F(DbOptionFilesTest, ChangesOptionsOfTheDatabase) {
  options_.max_total_wal_size = 1 << 20;
  Open({"default", "one"});
  ASSERT_TRUE(Ok(db_->SetOptions(handles_[1], {{"ttl", "9"}})));
  ASSERT_TRUE(Ok(db_->SetDBOptions({{"max_background_jobs", "8"},
                                    {"max_subcompactions", "3"},
                                    {"max_open_files", "20"},
                                    {"max_total_wal_size", "2M"},
                                    {"bytes_per_sync", "0"},
                                    {"wal_bytes_per_sync", "4096"},
                                    {"avoid_flush_during_shutdown", "1"}})));
  for (const DBOptions& now :
       {db_->GetDBOptions(), DBOptions(db_->GetOptions(handles_[1])), Load()}) {
    EXPECT_EQ(now.max_background_jobs, 8);
    EXPECT_EQ(now.max_subcompactions, 3);
    EXPECT_EQ(now.max_open_files, 20);
    EXPECT_EQ(now.max_total_wal_size, 2u << 20);
    EXPECT_EQ(now.bytes_per_sync, 0u);
    EXPECT_EQ(now.wal_bytes_per_sync, 4096u);
    EXPECT_TRUE(now.avoid_flush_during_shutdown);
  }
  EXPECT_EQ(db_->GetOptions(handles_[1]).ttl, 9u);
  EXPECT_EQ(db_->GetOptions(nullptr).ttl, 0u);
  for (const char* const name :
       {"ttl", "write_buffer_size", "paranoid_checks", "no_such_option"}) {
    EXPECT_TRUE(db_->SetDBOptions({{"max_background_jobs", "9"}, {name, "1"}})
                    .IsInvalidArgument())
        << name;
  }
  EXPECT_TRUE(
      db_->SetDBOptions({{"max_background_jobs", "99"}}).IsInvalidArgument());
  EXPECT_TRUE(
      db_->SetOptions({{"max_background_jobs", "9"}}).IsInvalidArgument());
  EXPECT_EQ(db_->GetDBOptions().max_background_jobs, 8);
  // A family that is created now has the changes, too.
  ColumnFamilyHandle* handle = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "two", &handle)));
  handles_.push_back(handle);
  EXPECT_EQ(db_->GetOptions(handle).max_subcompactions, 3);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Ok(db_->Put({}, handle, Key(i), "v")));
    ASSERT_TRUE(Ok(db_->Flush({}, handle)));
  }
  ASSERT_TRUE(Ok(db_->CompactRange({}, handle, nullptr, nullptr)));
}

TEST_F(DbOptionFilesTest, TellsNameAndEnv) {
  HookEnv env(kRenameOperation, "none");
  options_.env = &env;
  Open();
  EXPECT_EQ(db_->GetName(), path_);
  EXPECT_EQ(db_->GetEnv(), &env);
  EXPECT_EQ(db_->GetOptions().env, &env);
  EXPECT_EQ(db_->GetDBOptions().env, &env);
  Close();
}

// Changes from several threads, while others create and drop families.
TEST_F(DbOptionFilesTest, ChangesAtTheSameTime) {
  Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 5; ++i) {
        if (t == 0) {
          EXPECT_TRUE(Ok(db_->SetOptions({{"ttl", std::to_string(i)}})));
        } else if (t == 1) {
          EXPECT_TRUE(
              Ok(db_->SetDBOptions({{"bytes_per_sync", std::to_string(i)}})));
          EXPECT_TRUE(Ok(db_->Put({}, Key(i), "v")));
          EXPECT_TRUE(Ok(db_->Flush({})));
        } else {
          ColumnFamilyHandle* handle = nullptr;
          EXPECT_TRUE(Ok(db_->CreateColumnFamily({}, "one", &handle)));
          EXPECT_TRUE(Ok(db_->DropColumnFamily(handle)));
          delete handle;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Load().bytes_per_sync, 4u);
  ASSERT_EQ(families_.size(), 1u);
  EXPECT_EQ(families_[0].options.ttl, 4u);
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(DbOptionFilesTest, ACheckpointHasAFile) {
  Open({"default", "one"});
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", "7"}})));
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(copy)));
  DBOptions loaded;
  ASSERT_TRUE(Ok(LoadLatestOptions({}, copy, &loaded, &families_)));
  ASSERT_EQ(families_.size(), 2u);
  EXPECT_EQ(families_[0].options.ttl, 7u);
  EXPECT_EQ(ReadWholeFile(FilesStartingWith(copy, "OPTIONS-").back()),
            Newest());
}

// A file under its name is complete after any power failure, and the next Open
// has the newest one right.
TEST(DbOptionFilesPowerTest, ThePowerMayFailAtAnyOperation) {
  const uint64_t seed = TestSeed();
  uint64_t operations = 1;
  for (uint64_t n = 0; n <= operations; ++n) {
    SCOPED_TRACE("before operation " + std::to_string(n));
    const std::unique_ptr<Env> memory = NewMemoryEnv(Env::Default());
    FaultInjectionEnv faulty(memory.get());
    ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
    Options options = TinyOptions();
    options.env = &faulty;
    options.create_if_missing = true;
    const auto run = [&]() -> Status {
      std::unique_ptr<DB> db;
      Status status = DB::Open(options, "/db/it", &db);
      for (int i = 1; status.ok() && i < 4; ++i) {
        status = db->SetOptions({{"ttl", std::to_string(i)}});
      }
      if (status.ok()) status = db->Close();
      return status;
    };
    if (n > 0) {
      faulty.FailAfter(n - 1, FaultInjectionEnv::InjectedError(),
                       kAllOperations, {.once = false});
    }
    const Status status = run();
    if (n == 0) {
      ASSERT_TRUE(Ok(status));
      operations = faulty.OperationCount();
    }
    faulty.SetFilesystemActive(false);
    ASSERT_TRUE(Ok(faulty.CrashAndReset({.seed = seed + n})));
    ConfigOptions config;
    config.env = &faulty;
    DBOptions loaded;
    std::vector<ColumnFamilyDescriptor> families;
    const Status load = LoadLatestOptions(config, "/db/it", &loaded, &families);
    EXPECT_TRUE(load.ok() || load.IsNotFound()) << load.ToString();
    std::unique_ptr<DB> db;
    options.max_background_jobs = 5;
    ASSERT_TRUE(Ok(DB::Open(options, "/db/it", &db)));
    ASSERT_TRUE(Ok(LoadLatestOptions(config, "/db/it", &loaded, &families)));
    EXPECT_EQ(loaded.max_background_jobs, 5);
    EXPECT_EQ(families[0].options.ttl, 0u);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace varve::test
