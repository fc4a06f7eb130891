// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: memory of memtables is counted exactly, the budget asks for the right
// memtable and no more often than needed, and the cache is charged and
// released. Method: families without an engine, which grow and switch charges
// as told; a clock that the test sets; and a forked child.
#include "db/memtable/write_buffer_budget.h"

#include "db/memtable/memtable.h"
#include "test/testing/db/write_buffer_family.h"
#include "test/testing/forked.h"
#include "test/testing/sanitizers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"

namespace varve::test {
namespace {

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

// Also of what has grown since its arena took memory last.
TEST_F(WriteBufferBudgetTest, ASwitchedMemTableIsCountedWhole) {
  Open(100 * kMiB);
  const auto account = std::make_shared<WriteBufferAccount>(budget_);
  const InternalKeyComparator comparator(BytewiseComparator());
  auto* const memtable =
      new MemTable(&comparator, 1, 4 * kMiB, nullptr, account, 64 * kKiB);
  const auto uncounted = [&] {
    return memtable->ApproximateMemoryUsage() - budget_->usage();
  };
  for (uint64_t i = 1; i < 100000 && uncounted() < 8 * kKiB; ++i) {
    memtable->Add(i, ValueType::kValue, std::to_string(i), "");
  }
  EXPECT_GE(uncounted(), 8 * kKiB);
  memtable->MarkImmutable();
  EXPECT_LT(uncounted(), 4 * kKiB);
  EXPECT_EQ(budget_->immutable(), budget_->usage());
  if (memtable->Unref()) delete memtable;
  ExpectEmpty();
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
  const uint64_t seed = TestSeed();
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
  // Memory that cannot be flushed is not counted against the others.
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
  Rng rng(TestSeed());
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

// ---- Forked children --------------------------------------------------------

#ifndef VARVE_TEST_THREAD_SANITIZED
TEST_F(WriteBufferBudgetTest, WorksInAForkedChild) {
  Open(8 * kMiB, /*allow_stall=*/true, NewBlockCache(64 * kMiB));
  auto family = NewFamily();
  family->Grow(8 * kMiB);
  Settle();  // The thread exists.
  const int outcome = RunForked([&] {
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

}  // namespace
}  // namespace varve::test
