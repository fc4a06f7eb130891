// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the manager counts tables, keeps the bound, and removes tables at the
// rate that is set. Method: files in memory, and a clock that a test moves.

#include "db/space/sst_file_manager_impl.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// Its waits end when a test lets time pass.
class HeldClock final : public RateLimiterClock {
 public:
  uint64_t NowMicros() override {
    MutexLock lock(&mutex_);
    return now_us_;
  }
  void WaitFor(CondVar* wake, Mutex* mutex, uint64_t time_us) override
      VARVE_REQUIRES(mutex) {
    {
      MutexLock lock(&mutex_);
      waits_us_.push_back(time_us);
      wake_ = wake;
      held_ = mutex;
      changed_.SignalAll();
    }
    wake->Wait(mutex);
  }

  // Returns the time of the next wait, once it has begun.
  uint64_t AwaitWait() {
    MutexLock lock(&mutex_);
    while (waits_us_.empty()) changed_.Wait(&mutex_);
    const uint64_t time_us = waits_us_.front();
    waits_us_.erase(waits_us_.begin());
    return time_us;
  }
  // REQUIRES: AwaitWait was called since the last one.
  void Pass(uint64_t time_us) {
    Mutex* held = nullptr;
    {
      MutexLock lock(&mutex_);
      now_us_ += time_us;
      held = held_;
    }
    // The waiter holds it until it waits.
    MutexLock lock(held);
    wake_->SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t now_us_ = 1000;
  std::vector<uint64_t> waits_us_;
  CondVar* wake_ = nullptr;
  Mutex* held_ = nullptr;
};

class SstFileManagerTest : public ::testing::Test {
 protected:
  SstFileManagerTest() : env_(NewMemoryEnv(Env::Default())) {
    EXPECT_TRUE(Ok(env_->CreateDirIfMissing("/db")));
    auto clock = std::make_unique<HeldClock>();
    clock_ = clock.get();
    manager_ = std::make_unique<SstFileManagerImpl>(0, 1.0, std::move(clock));
  }
  ~SstFileManagerTest() override { manager_->Finish(env_.get(), "/db"); }

  static std::string Path(int number) {
    return "/db/" + std::to_string(100000 + number) + ".sst";
  }
  void Make(int number, uint64_t bytes) {
    std::unique_ptr<WritableFile> file;
    ASSERT_TRUE(Ok(env_->NewWritableFile(Path(number), FileOptions(), &file)));
    ASSERT_TRUE(Ok(file->Close()));
    manager_->Add(Path(number), bytes);
  }
  void Remove(int number) {
    EXPECT_TRUE(Ok(manager_->Remove(env_.get(), Path(number))));
  }
  size_t Files() {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(env_->GetChildren("/db", &names)));
    return names.size();
  }

  const std::unique_ptr<Env> env_;
  HeldClock* clock_;
  std::unique_ptr<SstFileManagerImpl> manager_;
};

TEST_F(SstFileManagerTest, TablesAreCountedOnce) {
  Make(1, 100);
  Make(2, 50);
  manager_->Add(Path(1), 100);
  EXPECT_EQ(manager_->GetTotalSize(), 150u);
  EXPECT_THAT(manager_->GetTrackedFiles(),
              ::testing::UnorderedElementsAre(::testing::Pair(Path(1), 100u),
                                              ::testing::Pair(Path(2), 50u)));
  Remove(1);
  manager_->Forget(Path(7));
  EXPECT_EQ(manager_->GetTotalSize(), 50u);
  EXPECT_EQ(Files(), 1u);
  EXPECT_TRUE(manager_->Remove(env_.get(), Path(1)).IsNotFound());
}

TEST_F(SstFileManagerTest, BoundsCountCompactions) {
  Make(1, 100);
  EXPECT_TRUE(manager_->HasRoom(UINT64_MAX / 2));
  EXPECT_FALSE(manager_->IsMaxAllowedSpaceReached());
  manager_->SetMaxAllowedSpaceUsage(200);
  EXPECT_TRUE(manager_->HasRoom(100));
  EXPECT_FALSE(manager_->HasRoom(101));
  manager_->SetCompactionBufferSize(10);
  EXPECT_FALSE(manager_->Reserve(91));
  EXPECT_TRUE(manager_->Reserve(90));
  EXPECT_FALSE(manager_->Reserve(1));
  EXPECT_FALSE(manager_->IsMaxAllowedSpaceReachedIncludingCompactions());
  Make(2, 10);
  EXPECT_FALSE(manager_->IsMaxAllowedSpaceReached());
  EXPECT_TRUE(manager_->IsMaxAllowedSpaceReachedIncludingCompactions());
  manager_->Unreserve(90);
  EXPECT_TRUE(manager_->Reserve(80));
  manager_->Unreserve(80);
  Make(3, 90);
  EXPECT_TRUE(manager_->IsMaxAllowedSpaceReached());
  // A lower bound than what is there, and none.
  manager_->SetMaxAllowedSpaceUsage(50);
  EXPECT_FALSE(manager_->HasRoom(0));
  manager_->SetMaxAllowedSpaceUsage(0);
  EXPECT_TRUE(manager_->HasRoom(UINT64_MAX / 2));
}

TEST_F(SstFileManagerTest, PausesTakeAsLongAsTheRateSays) {
  manager_->SetDeleteRateBytesPerSecond(1000);
  EXPECT_EQ(manager_->GetDeleteRateBytesPerSecond(), 1000);
  for (int i = 1; i <= 4; ++i) Make(i, 500);
  // The first is removed at once, and a pause follows.
  Remove(1);
  EXPECT_EQ(clock_->AwaitWait(), 500000u);
  EXPECT_EQ(Files(), 3u);
  Remove(2);
  Remove(3);
  EXPECT_EQ(manager_->GetTotalTrashSize(), 1000u);
  EXPECT_EQ(manager_->GetTotalSize(), 1500u);
  clock_->Pass(499999);
  EXPECT_EQ(clock_->AwaitWait(), 1u);
  EXPECT_EQ(manager_->GetTotalTrashSize(), 1000u);
  clock_->Pass(1);
  EXPECT_EQ(clock_->AwaitWait(), 500000u);
  EXPECT_EQ(manager_->GetTotalTrashSize(), 500u);
  EXPECT_EQ(Files(), 2u);
  EXPECT_TRUE(Ok(env_->FileExists(Path(3) + ".trash")));
  manager_->SetDeleteRateBytesPerSecond(0);  // Ends the pause.
  manager_->Finish(env_.get(), "/db");
  EXPECT_EQ(Files(), 1u);
  EXPECT_EQ(manager_->GetTotalSize(), 0u);
}

TEST_F(SstFileManagerTest, LackOfRoomEndsPauses) {
  manager_->SetDeleteRateBytesPerSecond(1);
  for (int i = 1; i <= 3; ++i) Make(i, 500);
  for (int i = 1; i <= 3; ++i) Remove(i);
  clock_->AwaitWait();
  manager_->SetMaxAllowedSpaceUsage(1600);
  EXPECT_FALSE(manager_->HasRoom(1500));
  // The thread removes the rest without a pause.
  manager_->Finish(env_.get(), "/db");
  EXPECT_TRUE(manager_->HasRoom(1500));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(SstFileManagerTest, LittleMayWait) {
  manager_->SetDeleteRateBytesPerSecond(1);
  manager_->SetMaxTrashDBRatio(0.5);
  EXPECT_EQ(manager_->GetMaxTrashDBRatio(), 0.5);
  for (int i = 1; i <= 4; ++i) Make(i, 100);
  Remove(1);
  Remove(2);
  clock_->AwaitWait();
  // 1 is gone, and 2 waits. 3 would be more than half.
  EXPECT_EQ(manager_->GetTotalTrashSize(), 100u);
  Remove(3);
  EXPECT_EQ(manager_->GetTotalTrashSize(), 100u);
  EXPECT_EQ(manager_->GetTotalSize(), 200u);
}

TEST_F(SstFileManagerTest, DirectoriesFinishByThemselves) {
  ASSERT_TRUE(Ok(env_->CreateDirIfMissing("/db2")));
  Make(1, 100);
  manager_->Add("/db2/000001.sst", 10);
  // Of a database in the directory of the first one.
  manager_->Add("/db/inner/000001.sst", 5);
  manager_->Finish(env_.get(), "/db");
  EXPECT_EQ(manager_->GetTotalSize(), 15u);
  manager_->Finish(env_.get(), "/db/inner");
  EXPECT_EQ(manager_->GetTotalSize(), 10u);
}

}  // namespace
}  // namespace varve::test
