// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: no work of a family waits for a long CompactRange of another family.
// Method: a compaction filter that blocks, and calls for other families.

#include "test/testing/db/families_fixture.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"
#include "varve/compaction_filter.h"
#include "varve/listener.h"

namespace varve::test {
namespace {

// Blocks the compactions that ask it.
class BlockingFilter : public CompactionFilter {
 public:
  Decision FilterV2(int /*level*/, const Slice& /*key*/, ValueType /*type*/,
                    const Slice& /*value*/, std::string* /*new_value*/,
                    std::string* /*skip_until*/) const override {
    std::unique_lock lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    return Decision::kKeep;
  }
  const char* Name() const override { return "BlockingFilter"; }

  void AwaitCall() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_reached_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool is_reached_ = false;
  bool is_open_ = false;
};

// Counts the compactions of each family that have ended.
class CompactionCounter : public EventListener {
 public:
  void OnCompactionCompleted(const CompactionJobInfo& info) override {
    const std::lock_guard lock(mutex_);
    ++counts_[info.cf_name];
    changed_.notify_all();
  }
  // Returns whether one of the family has ended, which is only waited for as
  // long as a failure takes.
  bool Await(const std::string& family) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return counts_[family] > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> counts_;
};

class DbFamiliesJobsTest : public FamiliesTest {
 protected:
  DbFamiliesJobsTest() {
    options_.level0_file_num_compaction_trigger = 2;
    options_.listeners.push_back(counter_);
    ColumnFamilyOptions blocking = options_;
    blocking.compaction_filter = &filter_;
    family_options_["a"] = blocking;
  }
  void SetUp() override {
    FamiliesTest::SetUp();
    OpenNew({"a", "b", "c"});
    PutIn("a", "k", "v");
  }
  // Calls a function while a CompactRange of "a" is blocked.
  void WhileCompactionIsBlocked(const CompactRangeOptions& options,
                                const std::function<void()>& call) {
    std::thread compacting([&] {
      EXPECT_TRUE(Ok(db_->CompactRange(options, At("a"), nullptr, nullptr)));
    });
    filter_.AwaitCall();
    call();
    filter_.Open();
    compacting.join();
  }
  // Makes a compaction due that cannot be a move.
  void FillLevel0(const std::string& family) {
    for (int i = 0; i < 2; ++i) {
      PutIn(family, "k", std::to_string(i));
      FlushOne(family);
    }
  }

  BlockingFilter filter_;
  const std::shared_ptr<CompactionCounter> counter_ =
      std::make_shared<CompactionCounter>();
};

TEST_F(DbFamiliesJobsTest, AnAutomaticCompactionDoesNotWaitForAnotherFamilys) {
  WhileCompactionIsBlocked({}, [this] {
    FillLevel0("b");
    EXPECT_TRUE(counter_->Await("b"));
    EXPECT_EQ(NumberIn("b", "varve.num-files-at-level0"), 0u);
  });
  EXPECT_EQ(GetIn("a", "k"), "v");
  EXPECT_EQ(GetIn("b", "k"), "1");
}

TEST_F(DbFamiliesJobsTest, AnExclusiveCompactRangeIsExclusiveInItsFamily) {
  WhileCompactionIsBlocked({}, [this] {
    PutIn("b", "k", "v");
    bool done = false;
    std::thread compacting([&] {
      EXPECT_TRUE(Ok(db_->CompactRange({}, At("b"), nullptr, nullptr)));
      done = true;
    });
    EXPECT_TRUE(counter_->Await("b"));
    if (::testing::Test::HasFailure()) filter_.Open();
    compacting.join();
    EXPECT_TRUE(done);
    // No compaction of "a" begins beside it.
    FillLevel0("a");
    EXPECT_EQ(NumberIn("a", "varve.num-running-compactions"), 1u);
    EXPECT_EQ(NumberIn("a", "varve.compaction-pending"), 0u);
  });
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(NumberIn("a", "varve.num-files-at-level0"), 0u);
}

TEST_F(DbFamiliesJobsTest, OtherCallsDoNotWaitForIt) {
  WhileCompactionIsBlocked({}, [this] {
    PutIn("b", "k", "v");
    FlushOne("b");
    ASSERT_TRUE(Ok(db_->SetOptions(
        At("b"), {{"level0_file_num_compaction_trigger", "3"}})));
    Create("new");
    PutIn("new", "k", "v");
    FlushOne("new");
    std::unique_ptr<Checkpoint> checkpoint;
    ASSERT_TRUE(Ok(Checkpoint::Create(db_.get(), &checkpoint)));
    ASSERT_TRUE(Ok(checkpoint->CreateCheckpoint(dir_.Sub("checkpoint"))));
    ASSERT_TRUE(Ok(db_->DropColumnFamily(At("c"))));
    PutIn("a", "k", "later");
    FlushOne("a");
  });
  EXPECT_EQ(GetIn("a", "k"), "later");
  EXPECT_EQ(GetIn("b", "k"), "v");
}

TEST_F(DbFamiliesJobsTest, AFamilyIsDroppedWhileItIsCompacted) {
  std::thread compacting([&] {
    EXPECT_FALSE(db_->CompactRange({}, At("a"), nullptr, nullptr).ok());
  });
  filter_.AwaitCall();
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("a"))));
  filter_.Open();
  compacting.join();
  FillLevel0("b");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(NumberIn("b", "varve.num-files-at-level0"), 0u);
}

}  // namespace
}  // namespace varve::test
