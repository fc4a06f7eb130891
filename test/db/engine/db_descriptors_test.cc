// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads unsanitized
//
// Goal: a database lives with the descriptors that the rest of the process
// leaves to it, and the program has the reserve. Method: limits that are
// lowered and raised, and descriptors that the program takes, while databases
// are open. test/proof/descriptor_limit_test.cc has the large databases.

#include "experimental/ablation_experiment.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/descriptor_limit.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kTables = 150;

class DbDescriptorsTest : public DbTestBase {
 protected:
  DbDescriptorsTest() {
    options_.block_cache = NewTestCache(0);  // Each read wants its file.
    AblationOptions ablation = TEST_ChoicesOf(options_);
    ablation.table_open = {};  // The other form keeps files open.
    options_.experiment = NewExperiment(ablation);
    options_.compression = CompressionType::kNone;
    options_.target_file_size_base = 1 << 10;
    options_.max_bytes_for_level_base = uint64_t{1} << 30;
  }

  // As many tables, each of one key.
  void Fill() {
    Open();
    for (int i = 0; i < kTables; ++i) Put(Key(i), value_);
    Flush();
    CompactAll();
    ASSERT_GE(Tables(), static_cast<size_t>(kTables));
  }
  void CheckGets(DB* db) {
    std::string value;
    for (int i = 0; i < kTables; ++i) {
      ASSERT_TRUE(Ok(db->Get({}, Key(i), &value))) << i;
    }
  }

  const std::string value_ = std::string(1200, 'v');  // A table's.
};

TEST_F(DbDescriptorsTest, TheProgramHasItsReserveWhateverIsRead) {
  Fill();
  DescriptorLimit limit(100);
  Reopen();
  OwnDescriptors own;
  for (int round = 0; round < 5; ++round) {
    CheckGets(db_.get());
    EXPECT_TRUE(HasEntries(db_.get(), [this] {
      EntryList expected;
      for (int i = 0; i < kTables; ++i) expected.emplace_back(Key(i), value_);
      return expected;
    }()));
    EXPECT_GT(CountOpenTables(path_), 30u);
    // Half of the limit, but for few.
    EXPECT_GE(own.Take(45), 45u);
    own.CloseAll();
  }
}

TEST_F(DbDescriptorsTest, AHigherLimitIsUsedBeforeLong) {
  Fill();
  DescriptorLimit limit(80);
  Reopen();
  CheckGets(db_.get());
  const size_t few = CountOpenTables(path_);
  EXPECT_LT(few, 80u);
  limit.Set(1000);
  for (int i = 0; i < 20; ++i) CheckGets(db_.get());
  EXPECT_EQ(CountOpenTables(path_), Tables());
  // And a lower one, far below what is open.
  limit.Set(60);
  CheckGets(db_.get());
  Put("another", "value");
  Flush();
  for (int i = 0; i < 5; ++i) CheckGets(db_.get());
  EXPECT_LT(CountOpenTables(path_), 60u);
  OwnDescriptors own;
  EXPECT_GE(own.Take(25), 25u);
}

// The program lowers the limit, and opens its files after the next flush.
TEST_F(DbDescriptorsTest, ALowerLimitIsSeenByTheNextTable) {
  Fill();
  DescriptorLimit limit(1000);
  Reopen();
  CheckGets(db_.get());
  EXPECT_EQ(CountOpenTables(path_), Tables());
  limit.Set(static_cast<int>(Tables()) + 40);
  Put("another", "value");
  Flush();
  EXPECT_EQ(Get("another"), "value");  // Opens the table.
  OwnDescriptors own;
  EXPECT_GE(own.Take(Tables() / 2), Tables() / 2);
}

TEST_F(DbDescriptorsTest, SeveralDatabasesShareTheDescriptors) {
  Fill();
  for (const char* copy : {"copy1", "copy2", "copy3"}) {
    ASSERT_TRUE(Ok(db_->CreateCheckpoint(dir_.Sub(copy))));
  }
  DescriptorLimit limit(120);
  Reopen();
  CheckGets(db_.get());  // This one has everything.
  std::vector<std::unique_ptr<DB>> others(3);
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("copy1"), &others[0])));
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("copy2"), &others[1])));
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, dir_.Sub("copy3"), &others[2])));
  std::vector<std::thread> threads;
  for (const auto& other : others) {
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([this, &other] {
        for (int round = 0; round < 5; ++round) CheckGets(other.get());
      });
    }
  }
  for (int i = 0; i < 20; ++i) {
    Put(Key(i), "value");
    Flush();
  }
  for (std::thread& thread : threads) thread.join();
  CheckGets(db_.get());
  // Each has a part, also one that was read before the others: all pools
  // together keep 16 (env/descriptor_supply.cc).
  for (const char* copy : {"copy1", "copy2", "copy3"}) {
    EXPECT_GE(CountOpenTables(dir_.Sub(copy)), 16u / 4);
  }
}

TEST_F(DbDescriptorsTest, EachCallWorksThoughTheProgramHasTakenAll) {
  Fill();
  DescriptorLimit limit(90);
  Reopen();
  OwnDescriptors own;
  CheckGets(db_.get());
  own.Take();
  Flush();
  own.Take();
  Put(Key(0), "value");
  Flush();
  own.Take();
  CheckGets(db_.get());
  own.Take();
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(dir_.Sub("copy"))));
  own.Take(1);
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  CheckGets(db_.get());
}

// The database has no descriptor to release. It returns an error, continues
// reading, and becomes writable by itself.
TEST_F(DbDescriptorsTest, WritesGoOnOnceThereAreDescriptors) {
  Open();
  DescriptorLimit limit(40);
  Put("first", "value");
  {
    OwnDescriptors own;
    own.Take();
    const Status status = db_->Flush({});
    EXPECT_TRUE(IsOutOfDescriptors(status)) << status.ToString();
    std::string value;
    EXPECT_TRUE(Ok(db_->Get({}, "first", &value)));
    own.CloseAll();
    own.Take(1);
  }
  for (int i = 0; i < 1000; ++i) {
    if (db_->Put({}, "second", "value").ok() && db_->Flush({}).ok()) break;
    Env::Default()->SleepForMicroseconds(10000);
  }
  Put("third", "value");
  Flush();
}

// As above, where the log was switched before descriptors ran out.
TEST_F(DbDescriptorsTest, AFailedFlushIsCleared) {
  Open();
  DescriptorLimit limit(40);
  OwnDescriptors own;
  Put("first", "value");
  own.Take();
  own.CloseOne();
  const Status status = db_->Flush({});
  EXPECT_TRUE(IsOutOfDescriptors(status)) << status.ToString();
  EXPECT_FALSE(db_->Put({}, "second", "value").ok());
  own.CloseAll();
  for (int i = 0; i < 1000 && !db_->Put({}, "second", "value").ok(); ++i) {
    Env::Default()->SleepForMicroseconds(10000);
  }
  Put("third", "value");
  Flush();
  std::string value;
  EXPECT_TRUE(Ok(db_->Get({}, "first", &value)));
}

}  // namespace
}  // namespace varve::test
