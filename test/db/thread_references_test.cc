// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: nobody who ends a thing overlooks a reference to it, whichever thread
// took it, has it or gave it back, and whichever of them has ended. Method:
// the interleavings that db/thread_references.h names, step by step; and many
// threads that hand references around while another one counts.
#include "db/thread_references.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "test/testing/actor.h"
#include "test/testing/seed.h"

namespace varve::test {
namespace {

void Take(ThreadReferences* references, uint32_t index) {
  references->FindOrMake(CurrentThreadRecord(), index)->Take();
}
void Give(ThreadReferences* references, uint32_t index) {
  references->FindOrMake(CurrentThreadRecord(), index)->Give();
}
uint64_t Out(ThreadReferences* references, uint32_t index) {
  const ThreadReferences::Sums sums = references->Count(index);
  EXPECT_GE(sums.taken, sums.given);
  return sums.taken - sums.given;
}

TEST(ThreadReferencesTest, CountsEachIndexForItself) {
  ThreadReferences references;
  const uint32_t indexes[] = {0,   1,     255,
                              256, 70000, ThreadReferences::kMaxIndexes - 1};
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

// B1: with the reader inside its section, before and after it has counted.
TEST(ThreadReferencesTest, WhoEndsItWaitsForTheSectionThatSawIt) {
  for (const bool counted_first : {false, true}) {
    ThreadReferences references;
    int thing = 0;
    std::atomic<int*> target = &thing;
    Actor reader;
    Actor ender;
    ThreadRecord* record = nullptr;
    int* seen = nullptr;
    const auto take = [&] {
      references.FindOrMake(record, 3)->Take();
      seen = target.load();
    };
    reader.Do([&] {
      record = CurrentThreadRecord();
      references.FindOrMake(record, 3);
      ReadSection::Enter(record);
      if (counted_first) take();
    });
    const uint64_t barriers = HeavyBarrierCount();
    uint64_t out = 0;
    ender.Start([&] {
      target = nullptr;
      ThreadReferences::AwaitSections();
      out = Out(&references, 3);
    });
    // It is behind its barrier now, and waits.
    while (HeavyBarrierCount() == barriers) std::this_thread::yield();
    reader.Do([&] {
      if (!counted_first) take();
      if (ReadSection::Exit(record)) ReadSection::CheckSlots(record);
    });
    ender.Wait();
    EXPECT_EQ(out, 1u);
    EXPECT_EQ(seen, counted_first ? &thing : nullptr);
    reader.Do([&] { Give(&references, 3); });
    EXPECT_EQ(Out(&references, 3), 0u);
  }
}

// B2, B5.
TEST(ThreadReferencesTest, AReferenceIsGivenBackByAnyThread) {
  ThreadReferences references;
  auto taker = std::make_unique<Actor>();
  taker->Do([&] { Take(&references, 1); });
  Actor giver;
  giver.Do([&] { Take(&references, 1); });
  EXPECT_EQ(Out(&references, 1), 2u);
  taker.reset();
  EXPECT_EQ(Out(&references, 1), 2u);
  giver.Do([&] { Give(&references, 1); });
  EXPECT_EQ(Out(&references, 1), 1u);
  // Its counts are perhaps those of the one that has ended.
  Actor another;
  another.Do([&] { Give(&references, 1); });
  EXPECT_EQ(Out(&references, 1), 0u);
}

TEST(ThreadReferencesTest, CountsOfEndedThreadsAreUsedAgain) {
  ThreadReferences references;
  for (int i = 0; i < 500; ++i) {
    std::thread([&] { Take(&references, 9); }).join();
    EXPECT_EQ(Out(&references, 9), 1u);
    std::thread([&] { Give(&references, 9); }).join();
    EXPECT_EQ(Out(&references, 9), 0u);
  }
}

TEST(ThreadReferencesTest, ASectionMayTakeTheFirstOne) {
  ThreadReferences references;
  Actor reader;
  reader.Do([&] {
    const ReadSection outer;
    const ReadSection inner;
    Take(&references, 1);
  });
  EXPECT_EQ(Out(&references, 1), 1u);
  reader.End();
  Give(&references, 1);
  EXPECT_EQ(Out(&references, 1), 0u);
}

// B2, B3: no count is ever too low.
TEST(ThreadReferencesTest, NoReferenceIsOverlookedWhileTheyAreHandedAround) {
  constexpr int kThreads = 4;
  constexpr int kCounts = 3000;
  constexpr uint64_t kAlwaysOut = 2;
  ThreadReferences references;
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
