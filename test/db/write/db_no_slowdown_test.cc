// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: what stops writers that do not wait is always about to end, whatever
// database of a budget holds the memory. Method: requests, errors and
// cancellations at the moments when no other writer comes, and waits for the
// jobs that are due.

#include "db/memtable/write_buffer_budget.h"
#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"
#include "varve/write_buffer_manager.h"

namespace varve::test {
namespace {

constexpr size_t kBudget = 1 << 20;
const std::string kValue(1000, 'v');

// Counts the pauses of all threads.
class PauseCounter final : public EnvWrapper {
 public:
  PauseCounter() : EnvWrapper(Env::Default()) {}
  void SleepForMicroseconds(uint64_t duration_us) override {
    ++pauses;
    EnvWrapper::SleepForMicroseconds(duration_us);
  }
  std::atomic<int> pauses{0};
};

// Calls `pause` before each comparison, while it is on.
class PausingComparator final : public UnrecognizedBytewiseComparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    if (is_on) pause();
    return UnrecognizedBytewiseComparator::Compare(a, b);
  }
  std::function<void()> pause;
  std::atomic<bool> is_on{false};
};

class DbNoSlowdownTest : public testing::Test {
 protected:
  DbNoSlowdownTest() {
    options_ = TinyOptions();
    options_.write_buffer_size = 64 << 20;
    options_.write_buffer_manager = budget_;
    fast_.no_slowdown = true;
  }
  std::unique_ptr<DB> Open(const std::string& name) {
    std::unique_ptr<DB> db;
    EXPECT_TRUE(Ok(DB::Open(options_, dir_.Sub(name), &db)));
    return db;
  }
  // Writes more than the budget has, in one batch.
  static Status Exceed(DB* db) {
    WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.Put(Key(i), kValue);
    return db->Write(WriteOptions(), &batch);
  }
  // Shrinks the budget to its usual size, and waits until it has asked for what
  // that needs.
  void Shrink() {
    budget_->SetBufferSize(kBudget);
    WriteBufferBudget::Share(*budget_)->TEST_WaitForRequests();
  }
  static Status PutAll(DB* db, ColumnFamilyHandle* family, int bytes) {
    Status status;
    for (int i = 0; status.ok() && i < bytes / 1000; ++i) {
      status = db->Put(WriteOptions(), family, Key(i), kValue);
    }
    return status;
  }

  TempDir dir_;
  PauseCounter env_;
  std::shared_ptr<WriteBufferManager> budget_ =
      std::make_shared<WriteBufferManager>(kBudget, nullptr,
                                           /*allow_stall=*/true);
  Options options_;
  WriteOptions fast_;
};

// The job that switches the memtable finds a leader, which is in the middle of
// a batch, and no writer comes after it.
TEST_F(DbNoSlowdownTest, ARequestOutlivesALongBatch) {
  PausingComparator comparator;
  // After so many, a job does not try to lead any more.
  constexpr int kPauses = 50;
  comparator.pause = [&] {
    while (budget_->ShouldFlush() && env_.pauses < kPauses) {
      std::this_thread::yield();
    }
  };
  options_.comparator = &comparator;
  options_.env = &env_;
  const auto db = Open("db");
  const auto other = Open("other");
  comparator.is_on = true;
  ASSERT_TRUE(Ok(Exceed(db.get())));
  comparator.is_on = false;
  ASSERT_TRUE(Ok(db->WaitForCompact()));
  EXPECT_LT(budget_->memory_usage(), kBudget);
  EXPECT_TRUE(Ok(db->Put(fast_, "k", "v")));
  EXPECT_TRUE(Ok(other->Put(fast_, "k", "v")));
}

// One family's flush fails, and the other's never begins.
TEST_F(DbNoSlowdownTest, AnErrorEndsTheStallsOfOtherDatabases) {
  FaultInjectionEnv env(Env::Default());
  const auto other = Open("other");
  options_.env = &env;
  options_.max_background_jobs = 1;
  const auto db = Open("db");
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db->CreateColumnFamily({}, "f", &family)));
  budget_->SetBufferSize(16 << 20);
  ASSERT_TRUE(Ok(PutAll(db.get(), nullptr, kBudget)));
  ASSERT_TRUE(Ok(PutAll(db.get(), family, kBudget)));
  env.SetPathFilter(".sst");
  env.FailAfter(0, Status::IOError("test"), kCreateOperation, {.once = false});
  FlushOptions flush;
  EXPECT_FALSE(db->Flush(flush, {db->DefaultColumnFamily(), family}).ok());
  Shrink();
  EXPECT_GE(budget_->memory_usage(), kBudget);
  EXPECT_TRUE(Ok(other->Put(fast_, "k", "v")));
  ASSERT_TRUE(Ok(db->DestroyColumnFamilyHandle(family)));
}

// No flush begins any more that would free the memory.
TEST_F(DbNoSlowdownTest, ACancellationEndsTheStallsOfOtherDatabases) {
  const auto other = Open("other");
  budget_->SetBufferSize(16 << 20);
  options_.write_buffer_size = 512 << 10;
  options_.max_write_buffer_number = 4;
  const auto db = Open("db");
  db->CancelAllBackgroundWork(true);
  // Until the memtables are full.
  EXPECT_TRUE(PutAll(db.get(), nullptr, 4 << 20).IsShutdownInProgress());
  EXPECT_TRUE(db->Put(fast_, "k", "v").IsShutdownInProgress());
  Shrink();
  EXPECT_GE(budget_->memory_usage(), kBudget);
  EXPECT_TRUE(Ok(other->Put(fast_, "k", "v")));
}

TEST_F(DbNoSlowdownTest, CloseEndsTheStallsOfOtherDatabases) {
  const auto db = Open("db");
  const auto other = Open("other");
  budget_->SetBufferSize(16 << 20);
  ASSERT_TRUE(Ok(PutAll(db.get(), nullptr, 2 * kBudget)));
  ASSERT_TRUE(Ok(db->Close()));
  Shrink();
  EXPECT_LT(budget_->memory_usage(), kBudget);
  EXPECT_TRUE(Ok(other->Put(fast_, "k", "v")));
}

}  // namespace
}  // namespace varve::test
