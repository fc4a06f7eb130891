// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a thread that ends an object misses no reference to it, whichever
// threads took, hold or returned the reference, and whichever of them have
// ended. Method: the interleavings that catalog/distributed_ref_counts.h names,
// step by step; and many threads that pass references on while another one
// counts.
#include "catalog/distributed_ref_counts.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"

namespace varve::test {
namespace {

void Take(DistributedRefCounts* references, uint32_t index) {
  references->FindOrMake(CurrentThreadRecord(), index)->Take();
}
void Give(DistributedRefCounts* references, uint32_t index) {
  references->FindOrMake(CurrentThreadRecord(), index)->Give();
}
uint64_t Out(DistributedRefCounts* references, uint32_t index) {
  const DistributedRefCounts::Sums sums = references->Count(index);
  EXPECT_GE(sums.taken, sums.given);
  return sums.taken - sums.given;
}

TEST(DistributedRefCountsTest, CountsEachIndexForItself) {
  DistributedRefCounts references;
  const uint32_t indexes[] = {
      0, 1, 255, 256, 70000, DistributedRefCounts::kMaxIndexes - 1};
  for (const uint32_t index : indexes) {
    // They are made for many indexes at once.
    EXPECT_EQ(references.Find(CurrentThreadRecord(), index) == nullptr,
              index != 1 && index != 255)
        << index;
    Take(&references, index);
    Take(&references, index);
    Give(&references, index);
  }
  for (const uint32_t index : indexes) {
    EXPECT_EQ(Out(&references, index), 1u);
    Give(&references, index);
    EXPECT_EQ(Out(&references, index), 0u);
  }
  EXPECT_EQ(Out(&references, 5000), 0u);
}

// B1: the reader at each of its steps when the owner counts.
TEST(DistributedRefCountsTest, TheEnderSeesTheTakerOrIsSeen) {
  for (const int steps_before : {0, 1, 2}) {
    DistributedRefCounts references;
    int thing = 0;
    std::atomic<int*> target = &thing;
    Actor reader;
    int* seen = nullptr;
    const auto step = [&](int i) {
      ThreadRecord* const record = CurrentThreadRecord();
      if (i == 0) {
        references.FindOrMake(record, 3)->Take();
        LightBarrier(record);
      } else {
        seen = target.load();
        if (seen == nullptr) references.FindOrMake(record, 3)->Give();
      }
    };
    for (int i = 0; i < steps_before; ++i) reader.Do([&] { step(i); });
    target = nullptr;
    HeavyBarrier();
    EXPECT_EQ(Out(&references, 3), steps_before > 0 ? 1u : 0u);
    for (int i = steps_before; i < 2; ++i) reader.Do([&] { step(i); });
    EXPECT_EQ(seen, steps_before == 2 ? &thing : nullptr);
    EXPECT_EQ(Out(&references, 3), seen != nullptr ? 1u : 0u);
  }
}

// B1, with concurrent steps: at least one sees the other.
TEST(DistributedRefCountsTest, NoTakerIsMissedWhileItIsEnded) {
  constexpr int kRounds = 2000;
  DistributedRefCounts references;
  int thing = 0;
  std::atomic<int*> target = nullptr;
  std::atomic<int> round = 0;
  std::thread taker([&] {
    ThreadRecord* const record = CurrentThreadRecord();
    DistributedRefCounts::Counts* const counts =
        references.FindOrMake(record, 3);
    for (int i = 1; i <= kRounds; ++i) {
      while (round != i) std::this_thread::yield();
      int* seen;
      do {
        counts->Take();
        LightBarrier(record);
        // acquire: pairs with the release below.
        seen = target.load(std::memory_order_acquire);
        if (seen != nullptr) *seen = i;
        counts->Give();
      } while (seen != nullptr);
      round = -i;
    }
  });
  int ended = 0;
  for (int i = 1; i <= kRounds; ++i) {
    // release: pairs with the acquire above.
    target.store(&thing, std::memory_order_release);
    round = i;
    if (i % 2 == 0) std::this_thread::yield();
    // relaxed: the barrier follows.
    target.store(nullptr, std::memory_order_relaxed);
    HeavyBarrier();
    const DistributedRefCounts::Sums sums = references.Count(3);
    if (sums.given == sums.taken) {
      thing = -1;  // No other thread may touch it: a race if one does.
      ++ended;
    }
    while (round != -i) std::this_thread::yield();
  }
  taker.join();
  EXPECT_EQ(Out(&references, 3), 0u);
  printf("%d of %d ended at the first count\n", ended, kRounds);
}

// B2, B5.
TEST(DistributedRefCountsTest, AReferenceIsGivenBackByAnyThread) {
  DistributedRefCounts references;
  auto taker = std::make_unique<Actor>();
  taker->Do([&] { Take(&references, 1); });
  Actor owner;
  owner.Do([&] { Take(&references, 1); });
  EXPECT_EQ(Out(&references, 1), 2u);
  taker.reset();
  EXPECT_EQ(Out(&references, 1), 2u);
  owner.Do([&] { Give(&references, 1); });
  EXPECT_EQ(Out(&references, 1), 1u);
  // It may reuse the counts of the thread that has ended.
  Actor another;
  another.Do([&] { Give(&references, 1); });
  EXPECT_EQ(Out(&references, 1), 0u);
}

TEST(DistributedRefCountsTest, CountsOfEndedThreadsAreUsedAgain) {
  DistributedRefCounts references;
  for (int i = 0; i < 500; ++i) {
    std::thread([&] { Take(&references, 9); }).join();
    EXPECT_EQ(Out(&references, 9), 1u);
    std::thread([&] { Give(&references, 9); }).join();
    EXPECT_EQ(Out(&references, 9), 0u);
  }
}

TEST(DistributedRefCountsTest, ASectionMayTakeTheFirstOne) {
  DistributedRefCounts references;
  Actor reader;
  reader.Do([&] {
    const EpochGuard outer;
    const EpochGuard inner;
    Take(&references, 1);
  });
  EXPECT_EQ(Out(&references, 1), 1u);
  reader.End();
  Give(&references, 1);
  EXPECT_EQ(Out(&references, 1), 0u);
}

// B2, B3: no count is ever too low.
TEST(DistributedRefCountsTest, NoReferenceIsMissedWhileTheyAreHandedAround) {
  constexpr int kThreads = 4;
  constexpr int kCounts = 3000;
  constexpr uint64_t kAlwaysOut = 2;
  DistributedRefCounts references;
  const uint64_t seed = TestSeed();
  Mutex mutex;
  std::deque<int> on_their_way;  // References that nobody has at the moment.
  std::atomic<bool> stop = false;
  for (uint64_t i = 0; i < kAlwaysOut; ++i) Take(&references, 7);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(seed + static_cast<uint64_t>(t));
      while (!stop) {
        const bool mine = rng.OneIn(2);
        if (mine) Take(&references, 7);
        MutexLock lock(&mutex);
        if (mine) on_their_way.push_back(t);
        if (on_their_way.empty() || rng.OneIn(2)) continue;
        on_their_way.pop_front();
        mutex.Unlock();
        Give(&references, 7);
        mutex.Lock();
      }
    });
  }
  for (int i = 0; i < kCounts; ++i) {
    EXPECT_GE(Out(&references, 7), kAlwaysOut);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Out(&references, 7), kAlwaysOut + on_their_way.size());
}

}  // namespace
}  // namespace varve::test
