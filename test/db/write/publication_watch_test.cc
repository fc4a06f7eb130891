// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Tags: threads
//
// Goal: a waiter of PublicationWatch sleeps only if a later leader wakes it,
// and a leader does nothing if nobody waits. Method: leaders that are made by
// hand, the interleavings that the header names, and many threads.

#include "db/write/publication_watch.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

using Outcome = PublicationWatch::Outcome;

constexpr uint64_t kLongUs = 60 * 1000 * 1000;

class PublicationWatchTest : public ::testing::Test {
 public:
  // Does what a write does.
  void Write() {
    bool wakes = false;
    {
      const WriteQueue::Exclusive leader(&queue_);
      wakes = !gate_.LetsLeaderPass() && gate_.TakeWakeRequest();
      published_.fetch_add(1, std::memory_order_release);
    }
    if (wakes) {
      ++wakes_;
      watch_.Wake();
    }
  }
  void WriteAt(PublicationWatch::Step step) {
    ++(step == PublicationWatch::Step::kRest ? rests_ : arms_);
    Write();
  }

 protected:
  WriteQueue queue_;
  WriteGate gate_;
  PublicationWatch watch_{&queue_, &gate_};
  std::atomic<SequenceNumber> published_{0};
  std::atomic<int> wakes_{0};
  int rests_ = 0;
  int arms_ = 0;
};

TEST_F(PublicationWatchTest, ReturnsAtOnceIfItIsPublished) {
  Write();
  EXPECT_EQ(watch_.Await(published_, 1, kLongUs), Outcome::kPublished);
  Write();
  EXPECT_EQ(wakes_, 0);
}

TEST_F(PublicationWatchTest, ReturnsAfterTheTime) {
  EXPECT_EQ(watch_.Await(published_, 1, 0), Outcome::kTimeout);
  EXPECT_EQ(watch_.Await(published_, 1, 1000), Outcome::kTimeout);
}

TEST_F(PublicationWatchTest, ReturnsAtTheEnd) {
  std::thread ender([this] { watch_.End(); });
  EXPECT_EQ(watch_.Await(published_, 1, kLongUs), Outcome::kEnded);
  ender.join();
  EXPECT_EQ(watch_.Await(published_, 1, kLongUs), Outcome::kEnded);
}

// The write comes between the request and the look.
TEST_F(PublicationWatchTest, SeesAWriteBeforeItSleeps) {
  watch_.TEST_SetHook(
      [](void* test, PublicationWatch::Step /*step*/) {
        static_cast<PublicationWatchTest*>(test)->Write();
      },
      this);
  EXPECT_EQ(watch_.Await(published_, 1, kLongUs), Outcome::kPublished);
  EXPECT_EQ(wakes_, 1);
}

// B1: the leader has tested the gate, and publishes after the waiter's request.
// The waiter cannot make it before the leader has left.
TEST_F(PublicationWatchTest, ALeaderThatHasPassedTheGateIsSeen) {
  constexpr int kYields = 20000;
  std::atomic<bool> armed{false};
  watch_.TEST_SetHook(
      [](void* flag, PublicationWatch::Step /*step*/) {
        *static_cast<std::atomic<bool>*>(flag) = true;
      },
      &armed);
  std::thread waiter;
  {
    const WriteQueue::Exclusive leader(&queue_);
    ASSERT_TRUE(gate_.LetsLeaderPass());
    waiter = std::thread([this] {
      EXPECT_EQ(watch_.Await(published_, 1, kLongUs), Outcome::kPublished);
    });
    for (int i = 0; i < kYields && !armed; ++i) std::this_thread::yield();
    EXPECT_FALSE(armed);
    published_.store(1, std::memory_order_release);
  }
  waiter.join();
}

// B2: a leader clears the bit of one waiter, and another one arms.
TEST_F(PublicationWatchTest, TwoWaitersWakeForOneWrite) {
  std::thread waiters[2];
  for (std::thread& waiter : waiters) {
    waiter = std::thread([this] {
      EXPECT_EQ(watch_.Await(published_, 1, kLongUs), Outcome::kPublished);
    });
  }
  Write();
  for (std::thread& waiter : waiters) waiter.join();
}

// Whenever a waiter arms or is about to arm later, there is a write.
TEST_F(PublicationWatchTest, WritesThatComeAllTheTimeWakeNobody) {
  constexpr int kAwaits = 20;
  watch_.TEST_SetHook(
      [](void* argument, PublicationWatch::Step step) {
        static_cast<PublicationWatchTest*>(argument)->WriteAt(step);
      },
      this);
  const auto await = [this] {
    return watch_.Await(published_, published_ + 1, kLongUs);
  };
  // The first one is woken, and the next ones too, if they come late.
  while (rests_ == 0) ASSERT_EQ(await(), Outcome::kPublished);
  const int arms = arms_;
  for (int i = 0; i < kAwaits; ++i) ASSERT_EQ(await(), Outcome::kPublished);
  EXPECT_EQ(arms_, arms);
  EXPECT_EQ(rests_, 1 + kAwaits);
  EXPECT_EQ(wakes_, arms);
}

TEST_F(PublicationWatchTest, NoWakeUpIsLost) {
  constexpr SequenceNumber kWrites = 20000;
  constexpr int kWriters = 3;
  constexpr int kWaiters = 3;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWaiters; ++i) {
    threads.emplace_back([this] {
      for (SequenceNumber next = 1; next <= kWrites; ++next) {
        ASSERT_EQ(watch_.Await(published_, next, kLongUs), Outcome::kPublished);
        next = std::max(next, published_.load());
      }
    });
  }
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([this] {
      for (int n = 0; published_.load(std::memory_order_relaxed) < kWrites;
           ++n) {
        Write();
        // So that waiters sleep now and then.
        if (n % 64 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace varve
