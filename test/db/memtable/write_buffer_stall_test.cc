// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: no stall for the budget of write buffers lasts for ever, and memtables
// report their memory. Method: writers that wait as the engine's do, while
// families without an engine free memory or do not; and real memtables.

#include "db/memtable/memtable.h"
#include "db/memtable/write_buffer_budget.h"
#include "test/testing/db/write_buffer_family.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/bytes/hash.h"

namespace varve::test {
namespace {

// ---- Stalls -----------------------------------------------------------------

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

TEST_F(WriteBufferStallTest, StallsOnlyIfAllowedAndUseful) {
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

// There may be no writer that waits.
TEST_F(WriteBufferStallTest, ARefusedWriterLooksForClientsToAsk) {
  Open(8 * kMiB, /*allow_stall=*/true);
  family_ = NewFamily();
  auto other = NewFamily();
  family_->Grow(9 * kMiB);
  Settle();
  EXPECT_EQ(family_->requests(), 1);
  EXPECT_FALSE(other->account()->AwaitSpace(0));
  // The request was lost.
  clock_.Advance(WriteBufferBudget::kRequestPatienceUs);
  EXPECT_FALSE(other->account()->AwaitSpace(0));
  Settle();
  EXPECT_TRUE(other->account()->AwaitSpace(0));
  clock_.Advance(WriteBufferBudget::kLateRetryUs);
  family_->Grow(kMiB);
  Settle();
  EXPECT_EQ(family_->requests(), 2);
}

TEST_F(WriteBufferStallTest, ARefusedWriterEndsAStallThatFreesNothing) {
  Fill();
  EXPECT_FALSE(family_->account()->AwaitSpace(0));
  // It comes back now and then.
  clock_.Advance(WriteBufferBudget::kStallPatienceUs / 2);
  EXPECT_FALSE(family_->account()->AwaitSpace(0));
  clock_.Advance(WriteBufferBudget::kStallPatienceUs / 2);
  EXPECT_TRUE(family_->account()->AwaitSpace(0));
  EXPECT_FALSE(family_->account()->ShouldStall());
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
  // Only the time of the test's clock counts. One step may pass before the
  // writer first looks at the clock, one is cut by the limit, and one may pass
  // between the writer's last look and its end.
  constexpr uint64_t kStepUs = 900000;
  uint64_t waited_us = 0;
  while (done_ == 0) {
    clock_.Advance(kStepUs);
    waited_us += kStepUs;
    const uint64_t now_us = clock_.NowNanos() / 1000;
    while (done_ == 0 && budget_->TEST_LastWaitUs() < now_us) {
      std::this_thread::yield();
    }
  }
  writer.Wait();
  EXPECT_GE(waited_us, WriteBufferBudget::kStallPatienceUs);
  EXPECT_LE(waited_us, WriteBufferBudget::kStallPatienceUs + 3 * kStepUs);
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
}  // namespace varve::test
