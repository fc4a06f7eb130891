// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: every call of a database after Close is an error, none a crash. Close
// gives back what the database holds, although its object lives on.
// Method: all calls, on a database with data in memory and in tables, opened
// for writing or for reading, in every mode of reads. Counts of descriptors,
// threads, bytes of the budget of write buffers and of the block cache, before
// Open, after Close and after the destructor; and the same data afterwards.
#include <dirent.h>

#include "experimental/ablation.h"
#include "test/testing/db_helpers.h"
#include "test/testing/machine/live_threads.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/write_buffer_manager.h"

namespace varve {
namespace {

using Call = std::function<Status(DB*)>;

WriteOptions Sync() {
  WriteOptions options{.sync = true};
  return options;
}

WriteOptions Unlogged() {
  WriteOptions options{.disable_wal = true};
  return options;
}

WriteOptions NoSlowdown() {
  WriteOptions options{.no_slowdown = true};
  return options;
}

Status GetString(DB* db, const Slice& key) {
  std::string value = "as before";
  const Status status = db->Get(ReadOptions(), key, &value);
  EXPECT_EQ(value, "");
  return status;
}

Status MultiGet(DB* db, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(i % 2 ? "table" : "memory");
  const std::vector<Slice> keys(names.begin(), names.end());
  std::vector<std::string> values(count, "as before");
  const std::vector<Status> statuses =
      db->MultiGet(ReadOptions(), keys, &values);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(values[i], "");
    if (!statuses[i].IsShutdownInProgress()) return statuses[i];
  }
  return statuses[0];
}

const std::vector<std::pair<const char*, Call>>& Writes() {
  static const std::vector<std::pair<const char*, Call>> calls = {
      {"Put", [](DB* db) { return db->Put(WriteOptions(), "k", "v"); }},
      {"Put, sync", [](DB* db) { return db->Put(Sync(), "k", "v"); }},
      {"Put, no log", [](DB* db) { return db->Put(Unlogged(), "k", "v"); }},
      {"Put, fast", [](DB* db) { return db->Put(NoSlowdown(), "k", "v"); }},
      {"Delete", [](DB* db) { return db->Delete(WriteOptions(), "k"); }},
      {"SingleDelete",
       [](DB* db) { return db->SingleDelete(WriteOptions(), "k"); }},
      {"DeleteRange",
       [](DB* db) { return db->DeleteRange(WriteOptions(), "a", "z"); }},
      {"Write",
       [](DB* db) {
         WriteBatch batch;
         batch.Put("k", "v");
         return db->Write(WriteOptions(), &batch);
       }},
      {"Flush", [](DB* db) { return db->Flush(FlushOptions()); }},
      {"SyncWAL", [](DB* db) { return db->SyncWAL(); }},
      {"FlushWAL", [](DB* db) { return db->FlushWAL(false); }},
      {"Resume", [](DB* db) { return db->Resume(); }},
      {"CompactRange",
       [](DB* db) {
         return db->CompactRange(CompactRangeOptions(), nullptr, nullptr);
       }},
      {"SetOptions",
       [](DB* db) {
         return db->SetOptions({{"write_buffer_size", "1M"}});
       }},
      {"CreateCheckpoint",
       [](DB* db) { return db->CreateCheckpoint("/nonexistent/checkpoint"); }},
  };
  return calls;
}

const std::vector<std::pair<const char*, Call>>& Reads() {
  static const std::vector<std::pair<const char*, Call>> calls = {
      {"Get, memory", [](DB* db) { return GetString(db, "memory"); }},
      {"Get, table", [](DB* db) { return GetString(db, "table"); }},
      {"Get, absent", [](DB* db) { return GetString(db, "absent"); }},
      {"Get, pinned",
       [](DB* db) {
         PinnableSlice value;
         const Status status = db->Get(ReadOptions(), "table", &value);
         EXPECT_TRUE(value.empty());
         return status;
       }},
      {"Get at a snapshot",
       [](DB* db) {
         ReadOptions options{.snapshot = db->GetSnapshot()};
         std::string value;
         const Status status = db->Get(options, "table", &value);
         db->ReleaseSnapshot(options.snapshot);
         return status;
       }},
      {"MultiGet", [](DB* db) { return MultiGet(db, 2); }},
      {"MultiGet of many", [](DB* db) { return MultiGet(db, 100); }},
      {"NewIterator",
       [](DB* db) {
         const auto iterator = db->NewIterator(ReadOptions());
         iterator->SeekToFirst();
         EXPECT_FALSE(iterator->Valid());
         return iterator->status();
       }},
      {"GetApproximateSizes",
       [](DB* db) {
         const Range range{"a", "z"};
         uint64_t size = 0;
         return db->GetApproximateSizes(&range, 1, &size);
       }},
      {"WaitForCompact", [](DB* db) { return db->WaitForCompact(); }},
      {"VerifyChecksum", [](DB* db) { return db->VerifyChecksum(); }},
  };
  return calls;
}

void ExpectErrors(DB* db,
                  const std::vector<std::pair<const char*, Call>>& calls) {
  // Twice, and in turns: the first error may not be the only one.
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, call] : calls) {
      const Status status = call(db);
      EXPECT_TRUE(status.IsShutdownInProgress())
          << name << ": " << status.ToString();
    }
  }
}

void ExpectClosed(DB* db) {
  ExpectErrors(db, Reads());
  std::string text;
  uint64_t number = 0;
  for (const char* name :
       {"varve.stats", "varve.sstables", "varve.min-log-number-to-keep",
        "varve.estimate-num-keys", "varve.levelstats"}) {
    EXPECT_FALSE(db->GetProperty(name, &text)) << name;
    EXPECT_FALSE(db->GetIntProperty(name, &number)) << name;
  }
  db->CancelAllBackgroundWork(true);
  EXPECT_GT(db->GetLatestSequenceNumber(), 0u);
  EXPECT_TRUE(db->Close().ok());
}

class DbClosedTest : public testing::TestWithParam<SuperVersionMode> {
 protected:
  void Fill() {
    options_.create_if_missing = true;
    options_.experiment = NewExperiment({.superversion = GetParam()});
    path_ = dir_.Sub("db");
    ASSERT_TRUE(DB::Open(options_, path_, &db_).ok());
    ASSERT_TRUE(db_->Put(WriteOptions(), "table", "v").ok());
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    ASSERT_TRUE(db_->Put(WriteOptions(), "memory", "v").ok());
    std::string value;
    ASSERT_TRUE(db_->Get(ReadOptions(), "table", &value).ok());
  }

  test::TempDir dir_;
  Options options_;
  std::string path_;
  std::unique_ptr<DB> db_;
};

TEST_P(DbClosedTest, EveryCallIsAnError) {
  Fill();
  ASSERT_TRUE(db_->Close().ok());
  ExpectErrors(db_.get(), Writes());
  ExpectClosed(db_.get());
  // Another open may have the database now, and finds everything.
  std::unique_ptr<DB> other;
  ASSERT_TRUE(DB::Open(options_, path_, &other).ok());
  ExpectErrors(db_.get(), Writes());
  ExpectErrors(db_.get(), Reads());
  std::string value;
  EXPECT_TRUE(other->Get(ReadOptions(), "memory", &value).ok());
  EXPECT_TRUE(other->Get(ReadOptions(), "k", &value).IsNotFound());
}

TEST_P(DbClosedTest, EveryReadOfOneOpenedForReadingIsAnError) {
  Fill();
  db_.reset();
  ASSERT_TRUE(DB::OpenForReadOnly(options_, path_, &db_).ok());
  ASSERT_TRUE(db_->Close().ok());
  ExpectClosed(db_.get());
  EXPECT_TRUE(db_->Put(WriteOptions(), "k", "v").IsNotSupported());
}

TEST_P(DbClosedTest, CloseThatIsBusyLeavesItOpen) {
  Fill();
  auto iterator = db_->NewIterator(ReadOptions());
  ASSERT_TRUE(db_->Close().IsBusy());
  EXPECT_TRUE(db_->Put(WriteOptions(), "k", "v").ok());
  std::string value;
  EXPECT_TRUE(db_->Get(ReadOptions(), "k", &value).ok());
  EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
  iterator.reset();
  EXPECT_TRUE(db_->Close().ok());
  EXPECT_TRUE(db_->Put(WriteOptions(), "k", "v").IsShutdownInProgress());
}

INSTANTIATE_TEST_SUITE_P(, DbClosedTest,
                         testing::Values(SuperVersionMode::kThreadLocal,
                                         SuperVersionMode::kMutex),
                         [](const auto& test) {
                           return test.param == SuperVersionMode::kMutex
                                      ? "Mutex"
                                      : "ThreadLocal";
                         });

}  // namespace
}  // namespace varve

namespace varve::test {
namespace {

int CountDescriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

struct Holdings {
  int descriptors = CountDescriptors();
  int threads = CountLiveThreads();
  size_t write_buffers = 0;
  size_t cached = 0;

  bool operator==(const Holdings&) const = default;
};

void PrintTo(const Holdings& held, std::ostream* out) {
  *out << held.descriptors << " descriptors, " << held.threads << " threads, "
       << held.write_buffers << " bytes of memtables, " << held.cached
       << " bytes in the cache";
}

struct Case {
  const char* name;
  void (*change)(Options*);
};

class DbCloseTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    options_.block_cache = NewTestCache(64 << 20);
    options_.write_buffer_manager = budget_;
    // A thread that waits for the tables' age.
    options_.ttl = 1000000;
    GetParam().change(&options_);
    // The Env's threads stay, and so does the budget's.
    Work("warm-up");
    delete family_;
    delete dropped_;
    db_.reset();
  }
  Holdings Count() const {
    Holdings held;
    held.write_buffers = budget_->memory_usage();
    held.cached = options_.block_cache->GetUsage();
    return held;
  }
  // Opens a database and uses it: tables, two logs, memtables, deletions that a
  // thread watches, and a family.
  void Work(const std::string& name) {
    path_ = dir_.Sub(name);
    ASSERT_TRUE(Ok(DB::Open(options_, path_, &db_)));
    ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "f", &family_)));
    ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "dropped", &dropped_)));
    for (ColumnFamilyHandle* const family :
         {db_->DefaultColumnFamily(), family_, dropped_}) {
      for (int i = 0; i < 3000; ++i) {
        ASSERT_TRUE(Ok(db_->Put({}, family, Key(i), std::string(100, 'v'))));
        if (i == 2000) {
          ASSERT_TRUE(Ok(db_->Flush(FlushOptions(), family)));
        }
      }
      ASSERT_TRUE(Ok(db_->Delete({}, family, Key(1))));
    }
    ASSERT_TRUE(Ok(db_->DropColumnFamily(dropped_)));
    ReadAll(db_.get());
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
  }
  static void ReadAll(DB* db) {
    const auto it = db->NewIterator({});
    int count = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++count;
    EXPECT_TRUE(Ok(it->status()));
    EXPECT_EQ(count, 2999);
    std::string value;
    EXPECT_TRUE(Ok(db->Get({}, Key(5), &value)));
  }

  TempDir dir_;
  std::shared_ptr<WriteBufferManager> budget_ =
      std::make_shared<WriteBufferManager>(64 << 20);
  Options options_ = TinyOptions();
  std::string path_;
  std::unique_ptr<DB> db_;
  ColumnFamilyHandle* family_ = nullptr;
  ColumnFamilyHandle* dropped_ = nullptr;
};

TEST_P(DbCloseTest, GivesBackWhatTheDestructorWould) {
  const Holdings before = Count();
  ASSERT_EQ(before.write_buffers, 0u);
  Work("db");
  const Holdings open = Count();
  EXPECT_GT(open.descriptors, before.descriptors);
  EXPECT_GT(open.write_buffers, 0u);
  ASSERT_TRUE(Ok(db_->Close()));
  Holdings closed = Count();
  EXPECT_EQ(closed.descriptors, before.descriptors);
  EXPECT_EQ(closed.write_buffers, 0u);
  // Only the object is left, and it says so.
  std::string value;
  EXPECT_TRUE(db_->Get({}, Key(5), &value).IsShutdownInProgress());
  EXPECT_TRUE(db_->Get({}, family_, Key(5), &value).IsShutdownInProgress());
  EXPECT_TRUE(db_->Get({}, dropped_, Key(5), &value).IsShutdownInProgress());
  EXPECT_TRUE(db_->NewIterator({})->status().IsShutdownInProgress());
  EXPECT_TRUE(db_->Put({}, "k", "v").IsShutdownInProgress());
  EXPECT_TRUE(db_->Resume().IsShutdownInProgress());
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(dropped_)));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family_)));
  db_.reset();
  const Holdings destroyed = Count();
  EXPECT_EQ(closed, destroyed);
}

TEST_P(DbCloseTest, LosesNothing) {
  Work("db");
  ASSERT_TRUE(Ok(db_->Close()));
  const std::unique_ptr<DB> closed = std::move(db_);
  // Another one may have the database now.
  for (int i = 0; i < 2; ++i) {
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(
        Ok(DB::Open(options_, path_,
                    {{kDefaultColumnFamilyName, options_}, {"f", options_}},
                    &handles, &db_)));
    ReadAll(db_.get());
    std::string value;
    EXPECT_TRUE(Ok(db_->Get({}, handles[1], Key(2999), &value)));
    EXPECT_TRUE(Ok(db_->VerifyChecksum()));
    for (ColumnFamilyHandle* const handle : handles) {
      ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handle)));
    }
    db_.reset();
  }
  ASSERT_TRUE(Ok(closed->DestroyColumnFamilyHandle(family_)));
  ASSERT_TRUE(Ok(closed->DestroyColumnFamilyHandle(dropped_)));
}

TEST_P(DbCloseTest, AlsoOfADatabaseForReading) {
  Work("db");
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family_)));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(dropped_)));
  db_.reset();
  const Holdings before = Count();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  ReadAll(db_.get());
  EXPECT_GT(Count().descriptors, before.descriptors);
  ASSERT_TRUE(Ok(db_->Close()));
  const Holdings closed = Count();
  EXPECT_EQ(closed.descriptors, before.descriptors);
  EXPECT_EQ(closed.write_buffers, 0u);
  db_.reset();
  EXPECT_EQ(closed, Count());
  // Nothing was removed.
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  ReadAll(db_.get());
}

INSTANTIATE_TEST_SUITE_P(
    , DbCloseTest,
    testing::Values(Case{"Default", [](Options*) {}},
                    Case{"ChargedTables",
                         [](Options* options) {
                           options->cache_index_and_filter_blocks = true;
                         }},
                    Case{"OneOpenFile",
                         [](Options* options) { options->max_open_files = 1; }},
                    Case{"Folding",
                         [](Options* options) {
                           options->key_case = KeyCase::kInsensitive;
                         }},
                    Case{"LocksReads",
                         [](Options* options) {
                           options->experiment = NewExperiment(
                               {.superversion = SuperVersionMode::kMutex});
                         }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace varve::test
