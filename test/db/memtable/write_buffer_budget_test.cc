// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: memory of memtables is counted exactly, the budget asks for the right
// memtable and no more often than needed, the cache is charged and released,
// and no stall lasts for ever. Method: families without an engine, which grow
// and switch charges as told; a clock that the test sets; and real memtables.
#include "db/memtable/write_buffer_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/memtable/memtable.h"
#include "test/testing/actor.h"
#include "test/testing/forked.h"
#include "test/testing/sanitizers.h"
#include "test/testing/seed.h"
#include "util/bytes/hash.h"

namespace varve {
namespace {

using test::Actor;
using test::Rng;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

class SetClock final : public EnvWrapper {
 public:
  SetClock() : EnvWrapper(Env::Default()) {}
  uint64_t NowNanos() override { return now_us_ * 1000; }
  void Advance(uint64_t us) { now_us_ += us; }

 private:
  std::atomic<uint64_t> now_us_{1000000};
};

// A column family: an active charge, and those that a flush should free.
class Family final : public WriteBufferClient {
 public:
  explicit Family(std::shared_ptr<WriteBufferBudget> budget)
      : account_(std::make_shared<WriteBufferAccount>(std::move(budget))) {
    Begin();
    account_->Register(this);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() { account_->Unregister(); }

  // `on_request` runs for each request.
  std::function<void(Family*)> on_request;

  void RequestSwitch() override {
    ++requests_;
    if (on_request) on_request(this);
  }

  void Grow(size_t bytes) {
    std::shared_ptr<WriteBufferCharge> active;
    {
      MutexLock lock(&mu_);
      active_bytes_ += bytes;
      bytes = active_bytes_;
      active = active_;
    }
    active->Update(bytes);
  }
  void Switch() {
    MutexLock lock(&mu_);
    active_->MarkImmutable();
    immutable_.push_back(std::move(active_));
    active_ = std::make_shared<WriteBufferCharge>(account_);
    active_bytes_ = 0;
  }
  // Frees all that was switched. They are destroyed without the mutex.
  void Flush() {
    std::vector<std::shared_ptr<WriteBufferCharge>> flushed;
    MutexLock lock(&mu_);
    flushed.swap(immutable_);
  }
  void Hold() {
    MutexLock lock(&mu_);
    for (const auto& charge : immutable_) charge->MarkHeld();
  }
  size_t ActiveBytes() {
    MutexLock lock(&mu_);
    return active_bytes_;
  }

  int requests() const { return requests_; }
  WriteBufferAccount* account() const { return account_.get(); }

 private:
  void Begin() { active_ = std::make_shared<WriteBufferCharge>(account_); }

  const std::shared_ptr<WriteBufferAccount> account_;
  std::atomic<int> requests_{0};
  Mutex mu_;
  std::shared_ptr<WriteBufferCharge> active_ VARVE_GUARDED_BY(mu_);
  size_t active_bytes_ VARVE_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<WriteBufferCharge>> immutable_
      VARVE_GUARDED_BY(mu_);
};

class WriteBufferBudgetTest : public testing::Test {
 protected:
  void Open(size_t buffer_size, bool allow_stall = false,
            std::shared_ptr<Cache> cache = nullptr) {
    budget_ = std::make_shared<WriteBufferBudget>(buffer_size, std::move(cache),
                                                  allow_stall, &clock_);
  }
  std::unique_ptr<Family> NewFamily() {
    return std::make_unique<Family>(budget_);
  }
  std::vector<std::unique_ptr<Family>> NewFamilies(size_t count) {
    std::vector<std::unique_ptr<Family>> families;
    for (size_t i = 0; i < count; ++i) families.push_back(NewFamily());
    return families;
  }
  void Settle() { budget_->TEST_WaitForRequests(); }
  void ExpectEmpty() {
    EXPECT_EQ(budget_->usage(), 0u);
    EXPECT_EQ(budget_->active(), 0u);
    EXPECT_EQ(budget_->immutable(), 0u);
    EXPECT_EQ(budget_->charged_to_cache(), 0u);
    EXPECT_FALSE(budget_->ShouldFlush());
    EXPECT_FALSE(budget_->ShouldStall());
  }

  SetClock clock_;
  std::shared_ptr<WriteBufferBudget> budget_;
};

// ---- Counting ---------------------------------------------------------------

TEST_F(WriteBufferBudgetTest, CountsByState) {
  Open(100 * kMiB);
  auto family = NewFamily();
  family->Grow(3 * kMiB);
  EXPECT_EQ(budget_->usage(), 3 * kMiB);
  EXPECT_EQ(budget_->active(), 3 * kMiB);
  EXPECT_EQ(family->account()->ActiveBytes(), 3 * kMiB);
  family->Switch();
  family->Grow(kMiB);
  EXPECT_EQ(budget_->usage(), 4 * kMiB);
  EXPECT_EQ(budget_->active(), kMiB);
  EXPECT_EQ(budget_->immutable(), 3 * kMiB);
  family->Hold();
  EXPECT_EQ(budget_->usage(), 4 * kMiB);
  EXPECT_EQ(budget_->immutable(), 0u);
  family->Flush();
  EXPECT_EQ(budget_->usage(), kMiB);
  family.reset();
  ExpectEmpty();
}

TEST_F(WriteBufferBudgetTest, CountsInSteps) {
  Open(100 * kMiB);
  auto account = std::make_shared<WriteBufferAccount>(budget_);
  WriteBufferCharge charge(account);
  charge.Update(4095);
  EXPECT_EQ(budget_->usage(), 0u);
  charge.Update(5000);
  EXPECT_EQ(budget_->usage(), 5000u);
  charge.Update(4000);  // Another thread was faster.
  EXPECT_EQ(budget_->usage(), 5000u);
}

TEST_F(WriteBufferBudgetTest, MemTablesMayOutliveTheManager) {
  auto manager = std::make_shared<WriteBufferManager>(kMiB);
  std::shared_ptr<WriteBufferAccount> account =
      WriteBufferAccount::New(manager);
  WriteBufferCharge charge(account);
  charge.Update(kMiB);
  EXPECT_EQ(manager->memory_usage(), kMiB);
  EXPECT_TRUE(manager->ShouldFlush());
  manager.reset();
  account.reset();
  charge.MarkImmutable();
}

TEST_F(WriteBufferBudgetTest, NothingWithoutAManager) {
  EXPECT_EQ(WriteBufferAccount::New(nullptr), nullptr);
  WriteBufferCharge charge(nullptr);
  charge.Update(kMiB);
  charge.MarkImmutable();
  charge.MarkHeld();
}

TEST_F(WriteBufferBudgetTest, WithoutABudgetMemoryIsOnlyCounted) {
  Open(0, /*allow_stall=*/true);
  auto family = NewFamily();
  family->Grow(100 * kMiB);
  family->Switch();
  family->Grow(100 * kMiB);
  Settle();
  EXPECT_EQ(family->requests(), 0);
  EXPECT_EQ(budget_->usage(), 200 * kMiB);
  EXPECT_FALSE(budget_->ShouldFlush());
  EXPECT_FALSE(budget_->ShouldStall());
  EXPECT_EQ(family->account()->ExpectedBytes(64 * kMiB), 64 * kMiB);
}

// ---- Requests ---------------------------------------------------------------

TEST_F(WriteBufferBudgetTest, AsksTheLargestAndOnlyOnce) {
  Open(80 * kMiB);
  auto families = NewFamilies(3);
  families[0]->Grow(20 * kMiB);
  families[1]->Grow(40 * kMiB);
  families[2]->Grow(10 * kMiB);
  Settle();
  EXPECT_FALSE(budget_->ShouldFlush());  // Exactly 7/8.
  EXPECT_EQ(families[1]->requests(), 0);
  for (int i = 0; i < 10; ++i) families[2]->Grow(kMiB);
  Settle();
  EXPECT_TRUE(budget_->ShouldFlush());
  EXPECT_EQ(families[1]->requests(), 1);
  EXPECT_TRUE(families[1]->account()->IsSwitchRequested());
  EXPECT_EQ(families[0]->requests(), 0);
  EXPECT_EQ(families[2]->requests(), 0);
  families[1]->Switch();
  EXPECT_FALSE(families[1]->account()->IsSwitchRequested());
  // The rest is 40 MiB; its flush brings the usage under the budget.
  families[0]->Grow(10 * kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 0);
  families[1]->Flush();
  families[0]->Grow(21 * kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 1);
}

TEST_F(WriteBufferBudgetTest, AsksAtHalfWhenAFlushDoesNotSuffice) {
  Open(80 * kMiB);
  auto families = NewFamilies(2);
  families[0]->Grow(50 * kMiB);
  families[0]->Switch();
  families[0]->Hold();  // An iterator keeps it.
  families[1]->Grow(39 * kMiB);
  Settle();
  EXPECT_EQ(families[1]->requests(), 0);  // Less than half.
  families[1]->Grow(kMiB);
  Settle();
  EXPECT_EQ(families[1]->requests(), 1);
}

TEST_F(WriteBufferBudgetTest, AsksNoMoreWhileAFlushSuffices) {
  Open(80 * kMiB);
  auto families = NewFamilies(2);
  families[0]->Grow(30 * kMiB);
  families[0]->Switch();
  families[1]->Grow(60 * kMiB);
  Settle();
  // Over the budget, and the active memtable has more than half, but 60 MiB
  // remain after the flush.
  EXPECT_TRUE(budget_->ShouldFlush());
  EXPECT_EQ(families[1]->requests(), 0);
  families[0]->Hold();
  families[1]->Grow(kMiB);
  Settle();
  EXPECT_EQ(families[1]->requests(), 1);
}

TEST_F(WriteBufferBudgetTest, OneClient) {
  Open(8 * kMiB);
  auto family = NewFamily();
  family->on_request = [](Family* asked) {
    asked->Switch();
    asked->Flush();
  };
  size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    family->Grow(64 * kKiB);
    most = std::max(most, budget_->usage());
    Settle();
  }
  EXPECT_LE(most, 7 * kMiB + 64 * kKiB);
  // 62.5 MiB in pieces of 7 MiB.
  EXPECT_EQ(family->requests(), 8);
}

TEST_F(WriteBufferBudgetTest, ThousandClientsStayWithinTheBudget) {
  constexpr size_t kFamilies = 1000;
  constexpr size_t kBlock = 64 * kKiB;
  Open(64 * kMiB);
  auto families = NewFamilies(kFamilies);
  size_t freed = 0;
  size_t switches = 0;
  for (auto& family : families) {
    family->on_request = [&](Family* asked) {
      freed += asked->ActiveBytes();
      ++switches;
      asked->Switch();
      asked->Flush();
    };
  }
  const uint64_t seed = test::TestSeed();
  Rng rng(seed);
  size_t most = 0;
  for (int i = 0; i < 5000; ++i) {
    families[rng.Below(kFamilies)]->Grow(kBlock);
    most = std::max(most, budget_->usage());
    Settle();
  }
  EXPECT_LE(most, 56 * kMiB + kBlock);
  EXPECT_GE(most, 56 * kMiB - kBlock);
  // The largest are switched, not any.
  EXPECT_GT(freed / switches, 56 * kMiB / kFamilies);
  families.clear();
  ExpectEmpty();
}

TEST_F(WriteBufferBudgetTest, AsksAnotherWhenOneDoesNotAnswer) {
  Open(80 * kMiB, /*allow_stall=*/true);
  auto families = NewFamilies(2);
  families[0]->Grow(50 * kMiB);
  families[1]->Grow(40 * kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 1);
  EXPECT_EQ(families[1]->requests(), 0);
  EXPECT_TRUE(budget_->ShouldStall());
  clock_.Advance(WriteBufferBudget::kRequestPatienceUs);
  families[1]->Grow(kMiB);
  Settle();
  // It no longer counts. The other has only half of the budget.
  EXPECT_EQ(families[1]->requests(), 1);
  EXPECT_EQ(families[0]->requests(), 1);
  // Late, but still welcome.
  EXPECT_TRUE(families[0]->account()->IsSwitchRequested());
  families[1]->Switch();
  families[1]->Flush();
  EXPECT_FALSE(budget_->ShouldStall());
  families[0]->Grow(40 * kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 1);
  clock_.Advance(WriteBufferBudget::kLateRetryUs);
  families[0]->Grow(kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 2);
  families[0]->Switch();
  EXPECT_FALSE(families[0]->account()->IsSwitchRequested());
}

TEST_F(WriteBufferBudgetTest, AsksAnotherAtOnceWhenOneDeclines) {
  Open(80 * kMiB);
  auto families = NewFamilies(3);
  families[0]->on_request = [](Family* asked) { asked->account()->Decline(); };
  families[1]->on_request = [](Family* asked) { asked->Switch(); };
  families[0]->Grow(12 * kMiB);
  families[1]->Grow(11 * kMiB);
  families[2]->Grow(10 * kMiB);
  Settle();
  families[0]->Grow(50 * kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 1);
  // What cannot be flushed is not counted against the others.
  EXPECT_EQ(families[1]->requests(), 0);
  families[1]->Grow(20 * kMiB);
  Settle();
  EXPECT_EQ(families[1]->requests(), 1);
  EXPECT_EQ(families[0]->requests(), 1);
}

TEST_F(WriteBufferBudgetTest, ASwitchInBetweenAnswersTheRequest) {
  Open(8 * kMiB);
  auto family = NewFamily();
  bool requested = true;
  family->on_request = [&](Family* asked) {
    asked->Switch();  // By a writer whose buffer was full.
    requested = asked->account()->IsSwitchRequested();
  };
  family->Grow(8 * kMiB);
  Settle();
  EXPECT_EQ(family->requests(), 1);
  EXPECT_FALSE(requested);
}

TEST_F(WriteBufferBudgetTest, TheBudgetMayShrinkInUse) {
  Open(100 * kMiB);
  auto families = NewFamilies(10);
  for (auto& family : families) {
    family->on_request = [](Family* asked) {
      asked->Switch();
      asked->Flush();
    };
    family->Grow(8 * kMiB);
  }
  Settle();
  EXPECT_EQ(budget_->usage(), 80 * kMiB);
  budget_->SetBufferSize(32 * kMiB);
  Settle();
  EXPECT_EQ(budget_->usage(), 24 * kMiB);  // The most that is not over 7/8.
  EXPECT_EQ(families[0]->account()->ExpectedBytes(64 * kMiB), 8 * kMiB);
  EXPECT_EQ(families[0]->account()->ExpectedBytes(kMiB), kMiB);
}

TEST_F(WriteBufferBudgetTest, AFailedFlushIsHeldAndTriedAgain) {
  Open(8 * kMiB, /*allow_stall=*/true);
  auto family = NewFamily();
  WriteBufferCharge charge(std::make_shared<WriteBufferAccount>(budget_));
  charge.Update(8 * kMiB);
  Settle();
  charge.MarkImmutable();
  EXPECT_TRUE(budget_->ShouldStall());
  charge.MarkHeld();
  EXPECT_FALSE(budget_->ShouldStall());
  charge.MarkImmutable();
  EXPECT_TRUE(budget_->ShouldStall());
  EXPECT_EQ(budget_->usage(), 8 * kMiB);
}

// ---- Clients that come and go -----------------------------------------------

TEST_F(WriteBufferBudgetTest, UnregisterWaitsForARunningRequest) {
  Open(8 * kMiB);
  auto family = NewFamily();
  std::atomic<bool> entered{false};
  std::atomic<bool> may_return{false};
  std::atomic<bool> returned{false};
  family->on_request = [&](Family*) {
    entered = true;
    while (!may_return) std::this_thread::yield();
    returned = true;
  };
  family->Grow(8 * kMiB);
  while (!entered) std::this_thread::yield();
  Actor actor;
  actor.Start([&] {
    family->account()->Unregister();
    EXPECT_TRUE(returned);
  });
  // Others may come and go.
  NewFamily().reset();
  may_return = true;
  actor.Wait();
  family->Grow(8 * kMiB);
  Settle();
  EXPECT_EQ(family->requests(), 1);
  family->account()->Unregister();  // Does nothing.
}

TEST_F(WriteBufferBudgetTest, UnregisterEndsTheRequest) {
  Open(8 * kMiB, /*allow_stall=*/true);
  auto family = NewFamily();
  auto other = NewFamily();
  family->Grow(8 * kMiB);
  Settle();
  EXPECT_TRUE(budget_->ShouldStall());
  family->account()->Unregister();
  EXPECT_FALSE(budget_->ShouldStall());
  family->account()->Register(family.get());
  family->Grow(kMiB);
  Settle();
  EXPECT_EQ(family->requests(), 2);
}

TEST_F(WriteBufferBudgetTest, UnregistersAnyOfMany) {
  Open(80 * kMiB);
  auto families = NewFamilies(20);
  Rng rng(test::TestSeed());
  while (families.size() > 1) {
    families.erase(families.begin() +
                   static_cast<ptrdiff_t>(rng.Below(families.size())));
  }
  families[0]->Grow(80 * kMiB);
  Settle();
  EXPECT_EQ(families[0]->requests(), 1);
  EXPECT_EQ(budget_->client_count(), 1u);
}

// ---- The cache --------------------------------------------------------------

TEST_F(WriteBufferBudgetTest, ChargesTheCacheAndReleasesIt) {
  const std::shared_ptr<Cache> cache = NewBlockCache(8 * kMiB);
  const size_t empty = cache->GetUsage();
  Open(0, false, cache);
  auto first = NewFamily();
  auto second = NewFamily();
  first->Grow(4 * kKiB);
  EXPECT_EQ(budget_->charged_to_cache(), 256 * kKiB);
  EXPECT_EQ(cache->GetUsage() - empty, 256 * kKiB);
  first->Grow(kMiB);
  second->Grow(3 * kMiB);
  EXPECT_EQ(budget_->charged_to_cache(), 4 * kMiB + 256 * kKiB);
  EXPECT_EQ(cache->GetUsage() - empty, 4 * kMiB + 256 * kKiB);
  // 3 MiB + 4 KiB are under three quarters.
  first->Switch();
  first->Flush();
  EXPECT_EQ(budget_->charged_to_cache(), 3 * kMiB);
  first->Grow(kMiB);
  EXPECT_EQ(budget_->charged_to_cache(), 4 * kMiB);
  first->Switch();
  first->Flush();  // Exactly three quarters: kept.
  EXPECT_EQ(budget_->charged_to_cache(), 4 * kMiB);
  second.reset();
  first.reset();
  ExpectEmpty();
  EXPECT_EQ(cache->GetUsage(), empty);
}

TEST_F(WriteBufferBudgetTest, ChargesMoreThanTheCacheHas) {
  const std::shared_ptr<Cache> cache = NewBlockCache(kMiB);
  const size_t empty = cache->GetUsage();
  {
    const WriteBufferManager manager(16 * kMiB, cache);
    EXPECT_TRUE(manager.cost_to_cache());
  }
  Open(16 * kMiB, false, cache);
  NewFamily()->Grow(4 * kMiB);
  ExpectEmpty();
  EXPECT_EQ(cache->GetUsage(), empty);
}

// ---- Stalls -----------------------------------------------------------------

TEST_F(WriteBufferBudgetTest, StallsOnlyIfAllowedAndUseful) {
  Open(8 * kMiB, /*allow_stall=*/false);
  auto family = NewFamily();
  family->Grow(9 * kMiB);
  Settle();
  EXPECT_FALSE(family->account()->ShouldStall());
  budget_->SetAllowStall(true);
  EXPECT_TRUE(family->account()->ShouldStall());  // A request is out.
  family->account()->Decline();
  EXPECT_FALSE(family->account()->ShouldStall());
  family->Switch();
  EXPECT_TRUE(family->account()->ShouldStall());  // A flush runs.
  family->Hold();
  EXPECT_FALSE(family->account()->ShouldStall());
  EXPECT_TRUE(family->account()->AwaitSpace(UINT64_MAX));
}

class WriteBufferStallTest : public WriteBufferBudgetTest {
 protected:
  // Starts a writer that waits, as the engine does it.
  void StartWriter(Actor* actor) {
    const int before = waiting_;
    actor->Start([this] {
      ++waiting_;
      while (!family_->account()->AwaitSpace(100000)) {
      }
      ++done_;
    });
    while (waiting_ == before) std::this_thread::yield();
  }
  // Fills the budget with a memtable whose flush runs.
  void Fill() {
    Open(8 * kMiB, /*allow_stall=*/true);
    family_ = NewFamily();
    family_->Grow(9 * kMiB);
    family_->Switch();
    Settle();
    ASSERT_TRUE(family_->account()->ShouldStall());
  }

  std::unique_ptr<Family> family_;
  std::atomic<int> waiting_{0};
  std::atomic<int> done_{0};
};

TEST_F(WriteBufferStallTest, EndsWhenMemoryIsFreed) {
  Fill();
  std::vector<Actor> writers(4);
  for (Actor& writer : writers) StartWriter(&writer);
  EXPECT_EQ(done_, 0);
  family_->Flush();
  for (Actor& writer : writers) writer.Wait();
  EXPECT_EQ(done_, 4);
}

TEST_F(WriteBufferStallTest, EndsWhenIteratorsKeepTheMemory) {
  Fill();
  Actor writer;
  StartWriter(&writer);
  family_->Hold();
  writer.Wait();
}

TEST_F(WriteBufferStallTest, EndsWhenTheBudgetGrows) {
  Fill();
  Actor writer;
  StartWriter(&writer);
  budget_->SetBufferSize(10 * kMiB);
  writer.Wait();
}

TEST_F(WriteBufferStallTest, EndsWhenItIsForbidden) {
  Fill();
  Actor writer;
  StartWriter(&writer);
  budget_->SetAllowStall(false);
  writer.Wait();
}

TEST_F(WriteBufferStallTest, EndsWhenTheBudgetIsRemoved) {
  Fill();
  Actor writer;
  StartWriter(&writer);
  budget_->SetBufferSize(0);
  writer.Wait();
}

TEST_F(WriteBufferStallTest, ReturnsAtItsTimeout) {
  Fill();
  EXPECT_FALSE(family_->account()->AwaitSpace(0));
}

// Other writers take the space before the waiting one looks.
TEST_F(WriteBufferStallTest, AMomentWithSpaceIsEnough) {
  Fill();
  auto other = NewFamily();
  Actor writer;
  StartWriter(&writer);
  // The clock stands still: only the freed memory can end the wait.
  while (budget_->TEST_LastWaitUs() == 0) std::this_thread::yield();
  family_->Flush();
  other->Grow(9 * kMiB);
  other->Switch();
  EXPECT_TRUE(family_->account()->ShouldStall());
  writer.Wait();
  EXPECT_EQ(done_, 1);
}

TEST_F(WriteBufferStallTest, IsSuspendedWhenNothingIsFreed) {
  Fill();
  Actor writer;
  StartWriter(&writer);
  // Only the time of the test's clock counts.
  uint64_t waited_us = 0;
  while (done_ == 0) {
    clock_.Advance(900000);
    waited_us += 900000;
    const uint64_t now_us = clock_.NowNanos() / 1000;
    while (done_ == 0 && budget_->TEST_LastWaitUs() < now_us) {
      std::this_thread::yield();
    }
  }
  writer.Wait();
  EXPECT_GE(waited_us, WriteBufferBudget::kStallPatienceUs);
  EXPECT_LE(waited_us, WriteBufferBudget::kStallPatienceUs + 2 * 900000);
  EXPECT_FALSE(family_->account()->ShouldStall());
  EXPECT_TRUE(family_->account()->AwaitSpace(0));
  // Freed memory is progress, though not enough.
  auto other = NewFamily();
  other->Grow(kMiB);
  other->Switch();
  other->Flush();
  EXPECT_TRUE(family_->account()->ShouldStall());
}

TEST_F(WriteBufferStallTest, WaitersAskForFlushes) {
  Open(8 * kMiB, /*allow_stall=*/true);
  family_ = NewFamily();
  auto other = NewFamily();
  other->Grow(5 * kMiB);
  other->on_request = [](Family* asked) {
    asked->Switch();
    asked->Flush();
  };
  family_->Grow(7 * kMiB);
  Settle();
  EXPECT_EQ(family_->requests(), 1);
  EXPECT_EQ(other->requests(), 0);
  Actor writer;
  StartWriter(&writer);
  // Nobody grows. The first one does not answer.
  while (done_ == 0) {
    clock_.Advance(10000);
    std::this_thread::yield();
  }
  writer.Wait();
  EXPECT_EQ(other->requests(), 1);
}

// ---- Forked children --------------------------------------------------------

#ifndef VARVE_TEST_THREAD_SANITIZED
TEST_F(WriteBufferBudgetTest, WorksInAForkedChild) {
  Open(8 * kMiB, /*allow_stall=*/true, NewBlockCache(64 * kMiB));
  auto family = NewFamily();
  family->Grow(8 * kMiB);
  Settle();  // The thread exists.
  const int outcome = test::RunForked([&] {
    family->on_request = [](Family* asked) {
      asked->Switch();
      asked->Flush();
    };
    family->Switch();
    family->Flush();
    family->Grow(8 * kMiB);
    Settle();
    return budget_->usage() == 0 && family->requests() == 2 ? 7 : 1;
  });
  EXPECT_EQ(outcome, 7);
  EXPECT_EQ(budget_->usage(), 8 * kMiB);
}
#endif

// ---- MemTables --------------------------------------------------------------

class WriteBufferMemTableTest : public WriteBufferBudgetTest {
 protected:
  static constexpr size_t kWriteBuffer = 64 * kMiB;

  std::unique_ptr<MemTable> NewMemTable(
      const std::shared_ptr<WriteBufferAccount>& account) {
    return std::make_unique<MemTable>(&comparator_, 1, kWriteBuffer, nullptr,
                                      account);
  }
  void Add(MemTable* memtable, int count) {
    for (int i = 0; i < count; ++i) {
      ++sequence_;
      memtable->Add(sequence_, ValueType::kValue,
                    "key" + std::to_string(sequence_), std::string(100, 'v'));
    }
  }
  static bool Has(const MemTable& memtable, SequenceNumber number) {
    const std::string key = "key" + std::to_string(number);
    Slice value;
    return memtable.Find(key, kMaxSequenceNumber, PreviewXxh3(key), &value) ==
           LookupState::kFound;
  }

  const InternalKeyComparator comparator_{BytewiseComparator()};
  SequenceNumber sequence_ = 0;
};

TEST_F(WriteBufferMemTableTest, CountsItsMemory) {
  Open(100 * kMiB);
  auto account = std::make_shared<WriteBufferAccount>(budget_);
  auto memtable = NewMemTable(account);
  Add(memtable.get(), 20000);
  const size_t bytes = memtable->ApproximateMemoryUsage();
  // The pages of the index that the last block's entries touch come later.
  EXPECT_LE(budget_->usage(), bytes);
  EXPECT_GE(budget_->usage(), bytes - bytes / 8);
  EXPECT_EQ(budget_->active(), budget_->usage());
  memtable->MarkImmutable();
  EXPECT_NEAR(static_cast<double>(budget_->usage()), static_cast<double>(bytes),
              4096);
  EXPECT_EQ(budget_->active(), 0u);
  EXPECT_EQ(budget_->immutable(), budget_->usage());
  memtable->MarkHeld();
  EXPECT_EQ(budget_->immutable(), 0u);
  memtable.reset();
  ExpectEmpty();
}

TEST_F(WriteBufferMemTableTest, CountsRangeDeletions) {
  Open(100 * kMiB);
  auto account = std::make_shared<WriteBufferAccount>(budget_);
  auto memtable = NewMemTable(account);
  const std::string suffix(10000, 's');
  for (int i = 0; i < 100; ++i) {
    const std::string begin = "key" + std::to_string(1000 + i);
    memtable->Add(++sequence_, ValueType::kRangeDeletion, begin,
                  begin + suffix);
  }
  EXPECT_GT(budget_->usage(), 1000000u);
  memtable.reset();
  ExpectEmpty();
}

// A thousand families with a few entries each fit into a small budget.
TEST_F(WriteBufferMemTableTest, IsSmallIfItsShareIsSmall) {
  Open(64 * kMiB);
  auto families = NewFamilies(1000);
  auto account = std::make_shared<WriteBufferAccount>(budget_);
  auto small = NewMemTable(account);
  auto alone = NewMemTable(nullptr);
  Add(small.get(), 20);
  Add(alone.get(), 20);
  EXPECT_LT(small->ApproximateMemoryUsage(), 32 * kKiB);
  EXPECT_GT(alone->ApproximateMemoryUsage(), 512 * kKiB);
  // It may still become as large as any.
  Add(small.get(), 20000);
  for (SequenceNumber number = 21; number <= 40; ++number) {
    EXPECT_FALSE(Has(*small, number));
  }
  for (SequenceNumber number = 41; number <= sequence_; ++number) {
    ASSERT_TRUE(Has(*small, number));
  }
  // The next one is expected to be as large.
  EXPECT_LT(account->ExpectedBytes(kWriteBuffer), 128 * kKiB);
  const size_t bytes = small->ApproximateMemoryUsage();
  small->MarkImmutable();
  EXPECT_NEAR(static_cast<double>(account->ExpectedBytes(kWriteBuffer)),
              static_cast<double>(bytes), 4096);
}

}  // namespace
}  // namespace varve
