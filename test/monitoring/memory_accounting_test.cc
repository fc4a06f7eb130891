// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: live memory is known exactly, by kind and by the thread that allocated
// it, whichever thread frees it, even after the allocating thread has ended; in
// both modes. Method: sums before and after, with threads that pass their
// allocations to each other.
#include "monitoring/memory_accounting.h"

#include <pthread.h>
#include <unistd.h>
#include <random>

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

using test::TestSeed;

constexpr MemoryKind kKind = MemoryKind::kBlock;

struct Piece {
  MemoryAccount* account;
  MemoryKind kind;
  size_t bytes;
};

std::array<uint64_t, kMemoryKinds> LiveByKind() {
  MemoryCounts kinds[kMemoryKinds];
  MemoryByKind(kinds);
  std::array<uint64_t, kMemoryKinds> live;
  for (int k = 0; k < kMemoryKinds; k++) {
    live[static_cast<size_t>(k)] = kinds[k].live();
  }
  return live;
}
uint64_t Live() { return LiveByKind()[static_cast<size_t>(kKind)]; }

// Returns the counts of the thread with that id, alive or ended, or 0 without
// accounting.
MemoryCounts CountsOf(int64_t id, bool ended, std::string* name = nullptr) {
  for (const ThreadMemory& thread : MemoryByThread()) {
    if (thread.id != id || thread.ended != ended) continue;
    if (name != nullptr) *name = thread.name;
    return thread.kinds[static_cast<int>(kKind)];
  }
  return MemoryCounts();
}

class MemoryAccountingTest : public ::testing::TestWithParam<bool> {
 protected:
  MemoryAccountingTest() { SetMemoryAccountingAtomic(GetParam()); }
  ~MemoryAccountingTest() override { SetMemoryAccountingAtomic(false); }
};

INSTANTIATE_TEST_SUITE_P(Modes, MemoryAccountingTest, ::testing::Bool(),
                         [](const auto& mode) {
                           return mode.param ? "Atomic" : "Owner";
                         });

TEST_P(MemoryAccountingTest, APairLeavesNothing) {
  const uint64_t before = Live();
  MemoryAccount* const account = NoteAllocated(kKind, 1000);
  EXPECT_EQ(Live(), before + 1000);
  NoteFreed(account, kKind, 1000);
  EXPECT_EQ(Live(), before);
}

TEST_P(MemoryAccountingTest, TheModeMayChangeWhileMemoryLives) {
  const uint64_t before = Live();
  MemoryAccount* const account = NoteAllocated(kKind, 1000);
  SetMemoryAccountingAtomic(!GetParam());
  MemoryAccount* const other = NoteAllocated(kKind, 10);
  EXPECT_NE(account, other);
  NoteFreed(account, kKind, 1000);
  SetMemoryAccountingAtomic(GetParam());
  EXPECT_EQ(Live(), before + 10);
  NoteFreed(other, kKind, 10);
  EXPECT_EQ(Live(), before);
}

TEST(MemoryAccountingByThreadTest, OwnAndForeignFreesAreApart) {
  MemoryAccount* account = nullptr;
  std::latch allocated(1);
  std::latch freed(1);
  int64_t id = 0;
  std::thread owner([&] {
    pthread_setname_np(pthread_self(), "the-owner");
    id = gettid();
    account = NoteAllocated(kKind, 500);
    NoteFreed(account, kKind, 100);
    allocated.count_down();
    freed.wait();
  });
  allocated.wait();
  NoteFreed(account, kKind, 50);
  std::string name;
  MemoryCounts counts = CountsOf(id, false, &name);
  EXPECT_EQ(name, "the-owner");
  EXPECT_EQ(counts.allocated, 500u);
  EXPECT_EQ(counts.freed, 100u);
  EXPECT_EQ(counts.freed_by_others, 50u);
  EXPECT_NE(DescribeMemoryByThread().find("the-owner"), std::string::npos);
  freed.count_down();
  owner.join();
  // Its balance stays until all of it is freed.
  counts = CountsOf(id, true, &name);
  EXPECT_EQ(name, "the-owner");
  EXPECT_EQ(counts.live(), 350u);
  NoteFreed(account, kKind, 350);
  EXPECT_EQ(CountsOf(id, true).allocated, 0u);
}

TEST(MemoryAccountingByThreadTest, AnAccountIsTakenOverWhenNothingOfItLives) {
  MemoryCounts kinds_before[kMemoryKinds];
  MemoryByKind(kinds_before);
  const uint64_t before = Live();
  MemoryAccount* held = nullptr;
  std::thread([&held] { held = NoteAllocated(kKind, 7); }).join();
  MemoryAccount* last = nullptr;
  size_t changes = 0;
  for (int i = 0; i < 100; i++) {
    std::thread([&] {
      MemoryAccount* const account = NoteAllocated(kKind, 11);
      EXPECT_NE(account, held);
      changes += account != last;
      last = account;
      NoteFreed(account, kKind, 11);
    }).join();
  }
  EXPECT_EQ(changes, 1u);
  EXPECT_EQ(Live(), before + 7);
  MemoryCounts kinds[kMemoryKinds];
  MemoryByKind(kinds);
  const int k = static_cast<int>(kKind);
  EXPECT_EQ(kinds[k].allocated, kinds_before[k].allocated + 7 + 100 * 11);
  NoteFreed(held, kKind, 7);
  EXPECT_EQ(Live(), before);
}

// Threads come and go, and free what others, also past ones, allocated.
TEST_P(MemoryAccountingTest, TotalsAreExactWhateverThreadsDo) {
  constexpr int kGenerations = 5;
  constexpr int kThreads = 4;
  constexpr int kSteps = 20000;
  const auto before = LiveByKind();
  std::mutex mutex;
  std::vector<Piece> shared;
  const uint32_t seed = TestSeed();
  std::array<std::atomic<int64_t>, kMemoryKinds> expected = {};
  for (int generation = 0; generation < kGenerations; generation++) {
    test::RunThreads(kThreads, [&](int t) {
      std::minstd_rand random(seed +
                              static_cast<uint32_t>(generation * kThreads + t));
      std::vector<Piece> own;
      const auto free_last = [&expected](std::vector<Piece>* pieces) {
        const Piece piece = pieces->back();
        pieces->pop_back();
        NoteFreed(piece.account, piece.kind, piece.bytes);
        expected[static_cast<size_t>(piece.kind)] -=
            static_cast<int64_t>(piece.bytes);
      };
      for (int i = 0; i < kSteps; i++) {
        const uint64_t choice = random() % 4;
        if (choice <= 1) {
          const auto kind = static_cast<MemoryKind>(random() % kMemoryKinds);
          const size_t bytes = random() % 5000;
          own.push_back({NoteAllocated(kind, bytes), kind, bytes});
          expected[static_cast<size_t>(kind)] += static_cast<int64_t>(bytes);
        } else if (choice == 2) {
          if (!own.empty()) free_last(&own);
        } else {
          const std::lock_guard<std::mutex> lock(mutex);
          if (!own.empty()) {
            shared.push_back(own.back());
            own.pop_back();
          }
          if (shared.size() > 100) {
            std::swap(shared[random() % shared.size()], shared.back());
            free_last(&shared);
            free_last(&shared);
          }
        }
      }
      const std::lock_guard<std::mutex> lock(mutex);
      shared.insert(shared.end(), own.begin(), own.end());
    });
    const auto live = LiveByKind();
    for (size_t k = 0; k < kMemoryKinds; k++) {
      EXPECT_EQ(static_cast<int64_t>(live[k] - before[k]), expected[k])
          << MemoryKindName(static_cast<MemoryKind>(k));
    }
  }
  for (const Piece& piece : shared) {
    NoteFreed(piece.account, piece.kind, piece.bytes);
  }
  EXPECT_EQ(LiveByKind(), before);
}

// A concurrent report never shows less than the live memory.
TEST_P(MemoryAccountingTest, AReportNeverFallsBelowLiveMemory) {
  const uint64_t before = Live();
  MemoryAccount* const held = NoteAllocated(kKind, 1 << 20);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&stop] {
      while (!stop) {
        MemoryAccount* const account = NoteAllocated(kKind, 100);
        NoteFreed(account, kKind, 100);
      }
    });
  }
  for (int i = 0; i < 2000; i++) {
    const uint64_t live = Live() - before;
    ASSERT_GE(live, uint64_t{1} << 20);
    ASSERT_LE(live, (uint64_t{1} << 20) + (uint64_t{100} << 32));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  NoteFreed(held, kKind, 1 << 20);
  EXPECT_EQ(Live(), before);
}

TEST(MemoryAccountingByThreadTest, TheTextHasARowForEachKind) {
  const std::string text = DescribeMemory();
  for (int k = 0; k < kMemoryKinds; k++) {
    EXPECT_NE(text.find(MemoryKindName(static_cast<MemoryKind>(k))),
              std::string::npos);
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), kMemoryKinds + 2);
}

}  // namespace
}  // namespace varve
