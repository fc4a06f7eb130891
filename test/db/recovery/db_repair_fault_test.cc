// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a repair that is cut off anywhere, by an error or by a power cut,
// leaves all for another one, which finds what the first would have found.
// Method: each operation of a repair fails in turn.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbRepairFaultTest : public ::testing::Test {
 protected:
  void Renew() {
    faulty_.reset();
    memory_ = NewMemoryEnv(Env::Default());
    faulty_ = std::make_unique<FaultInjectionEnv>(memory_.get());
    ASSERT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = faulty_.get();
    options_.disable_auto_compactions = true;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db)));
    for (int i = 0; i < 100; i++) Add(db.get(), i, "old");
    ASSERT_TRUE(Ok(db->Flush({})));
    const auto old_table = FirstTable();
    for (int i = 10; i < 20; i++) Add(db.get(), i, "newer");
    ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    for (int i = 50; i < 120; i++) Add(db.get(), i, "new");
    ASSERT_TRUE(Ok(db->SyncWAL()));
    ASSERT_TRUE(Ok(db->Close()));
    db.reset();
    ASSERT_TRUE(Ok(faulty_->RemoveFile("/db/it/CURRENT")));
    // As if the process had died before it was removed. In the table that
    // replaced it the newer values have lost their numbers.
    ASSERT_TRUE(faulty_->FileExists(old_table.first).IsNotFound());
    ASSERT_TRUE(Ok(WriteStringToFile(faulty_.get(), old_table.second,
                                     old_table.first, true)));
    std::unique_ptr<Directory> directory;
    ASSERT_TRUE(Ok(faulty_->NewDirectory("/db/it", &directory)));
    ASSERT_TRUE(Ok(directory->Sync()));
  }
  // Its path, and what it holds.
  std::pair<std::string, std::string> FirstTable() {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(faulty_->GetChildren("/db/it", &names)));
    std::pair<std::string, std::string> table;
    for (const std::string& name : names) {
      if (name.ends_with(".sst")) table.first = "/db/it/" + name;
    }
    EXPECT_TRUE(
        Ok(ReadFileToString(faulty_.get(), table.first, &table.second)));
    return table;
  }

  void Add(DB* db, int i, const char* value) {
    ASSERT_TRUE(Ok(db->Put({}, Key(i), value)));
    expected_[Key(i)] = value;
  }

  std::unique_ptr<Env> memory_;
  std::unique_ptr<FaultInjectionEnv> faulty_;
  Options options_;
  std::map<std::string, std::string> expected_;
};

TEST_F(DbRepairFaultTest, FilesPutAsideSurviveAPowerCut) {
  Renew();
  ASSERT_TRUE(Ok(RepairDB("/db/it", options_)));
  std::vector<std::string> before, after;
  ASSERT_TRUE(Ok(faulty_->GetChildren("/db/it/lost", &before)));
  EXPECT_GE(before.size(), 4u);  // MANIFEST, log, and two tables.
  faulty_->SetFilesystemActive(false);
  ASSERT_TRUE(Ok(faulty_->CrashAndReset({.lose_everything_unsynced = true})));
  ASSERT_TRUE(Ok(faulty_->GetChildren("/db/it/lost", &after)));
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  EXPECT_EQ(after, before);
}

// Logs have bytes that cannot be read.
class BadSectorsEnv final : public EnvWrapper {
 public:
  BadSectorsEnv(Env* target, uint64_t begin, uint64_t size)
      : EnvWrapper(target), begin_(begin), end_(begin + size) {}
  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override {
    Status status = EnvWrapper::NewSequentialFile(path, options, file);
    if (status.ok() && path.ends_with(".log")) {
      *file = std::make_unique<Log>(this, std::move(*file));
    }
    return status;
  }

 private:
  class Log final : public SequentialFile {
   public:
    Log(const BadSectorsEnv* env, std::unique_ptr<SequentialFile> target)
        : env_(env), target_(std::move(target)) {}
    Status Read(size_t count, Slice* result, char* scratch) override {
      if (offset_ < env_->end_ && offset_ + count > env_->begin_) {
        return Status::IOError("a bad sector");
      }
      offset_ += count;
      return target_->Read(count, result, scratch);
    }
    Status Skip(uint64_t count) override {
      offset_ += count;
      return target_->Skip(count);
    }

   private:
    const BadSectorsEnv* const env_;
    const std::unique_ptr<SequentialFile> target_;
    uint64_t offset_ = 0;
  };

  const uint64_t begin_;
  const uint64_t end_;
};

// An unreadable sector costs its block of the log.
TEST_F(DbRepairFaultTest, KeepsRecordsAfterUnreadableBlocksOfALog) {
  constexpr uint64_t kBlock = 32 << 10;
  constexpr uint64_t kRecords = 400;
  constexpr uint64_t kPerBlock = kBlock / 1000;
  memory_ = NewMemoryEnv(Env::Default());
  faulty_ = std::make_unique<FaultInjectionEnv>(memory_.get());
  ASSERT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
  options_ = TinyOptions();
  options_.env = faulty_.get();
  options_.write_buffer_size = 4 << 20;
  for (uint64_t n = 0; n <= kRecords / kPerBlock; ++n) {
    for (const uint64_t run : {1, 3}) {
      SCOPED_TRACE(n);
      ASSERT_TRUE(Ok(DestroyDB("/db/it", options_)));
      std::unique_ptr<DB> db;
      ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db)));
      for (uint64_t i = 0; i < kRecords; ++i) {
        ASSERT_TRUE(
            Ok(db->Put({}, Key(static_cast<int>(i)), std::string(1000, 'v'))));
      }
      ASSERT_TRUE(Ok(db->Close()));
      db.reset();
      BadSectorsEnv bad(faulty_.get(), n * kBlock, run * kBlock);
      Options options = options_;
      options.env = &bad;
      ASSERT_TRUE(Ok(RepairDB("/db/it", options)));
      ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db)));
      EntryList entries;
      ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
      EXPECT_GE(entries.size(), kRecords - (run + 1) * (kPerBlock + 1));
      EXPECT_LT(entries.size(), kRecords);
    }
  }
}

TEST_F(DbRepairFaultTest, AnySingleFaultOrPowerCutLeavesAllForAnotherRepair) {
  // Unreadable data is the reason for a repair, which continues without it.
  const OperationMask kinds =
      kAllOperations & ~(kReadOperation | kOpenOperation);
  Renew();
  const uint64_t before = faulty_->OperationCount(kinds);
  ASSERT_TRUE(Ok(RepairDB("/db/it", options_)));
  const uint64_t operations = faulty_->OperationCount(kinds) - before;
  ASSERT_GT(operations, 20u);
  uint64_t failed = 0;
  for (uint64_t n = 0; n < operations; n++) {
    for (const int mode : {0, 1, 2, 3}) {
      const bool power_cut = (mode & 1) != 0;
      const bool repair_again = (mode & 2) != 0;
      SCOPED_TRACE("operation " + std::to_string(n) + ", mode " +
                   std::to_string(mode));
      Renew();
      faulty_->FailAfter(n, FaultInjectionEnv::InjectedError(), kinds,
                         {.once = !power_cut});
      const bool repaired = RepairDB("/db/it", options_).ok();
      failed += !repaired;
      faulty_->ClearFailure();
      if (power_cut) {
        faulty_->SetFilesystemActive(false);
        ASSERT_TRUE(
            Ok(faulty_->CrashAndReset({.lose_everything_unsynced = true})));
      }
      // It may have come so far that the database opens; then all is there.
      std::unique_ptr<DB> db;
      if (repair_again || !DB::Open(options_, "/db/it", &db).ok()) {
        ASSERT_FALSE(repaired && !repair_again);
        ASSERT_TRUE(Ok(RepairDB("/db/it", options_)));
        ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db)));
      }
      ASSERT_TRUE(HasEntries(db.get(), ToList(expected_)));
    }
  }
  EXPECT_GT(failed, operations);
}

}  // namespace
}  // namespace varve::test
