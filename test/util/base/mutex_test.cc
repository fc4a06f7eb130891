// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the wrappers exclude, wake and time out as the standard ones do, and
// know their owner. Method: counters and hand-shakes between threads.
#include "util/base/mutex.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

struct Counter {
  Mutex mu;
  CondVar cv;
  int value VARVE_GUARDED_BY(mu) = 0;
};

TEST(MutexTest, ExcludesOtherThreads) {
  Counter counter;
  test::RunThreads(4, [&counter](int) {
    for (int round = 0; round < 10000; round++) {
      MutexLock lock(&counter.mu);
      counter.value++;
    }
  });
  MutexLock lock(&counter.mu);
  EXPECT_EQ(counter.value, 40000);
}

TEST(MutexTest, MayBeReleasedInsideScope) {
  Counter counter;
  MutexLock lock(&counter.mu);
  counter.mu.Unlock();
  std::thread([&counter] {
    MutexLock inner(&counter.mu);
    counter.value = 1;
  }).join();
  counter.mu.Lock();
  EXPECT_EQ(counter.value, 1);
}

TEST(MutexTest, RefusesTryLockWhenHeld) {
  Mutex mu;
  bool taken = false;
  {
    MutexLock lock(&mu);
    std::thread([&] {
      if (!mu.TryLock()) return;
      taken = true;
      mu.Unlock();
    }).join();
    EXPECT_FALSE(taken);
  }
  if (mu.TryLock()) {
    taken = true;
    mu.AssertHeld();
    mu.Unlock();
  }
  EXPECT_TRUE(taken);
}

TEST(MutexTest, WakesWaiterWhenSignalled) {
  Counter counter;
  std::thread other([&counter] {
    MutexLock lock(&counter.mu);
    while (counter.value != 1) counter.cv.Wait(&counter.mu);
    counter.mu.AssertHeld();
    counter.value = 2;
    counter.cv.SignalAll();
  });
  {
    MutexLock lock(&counter.mu);
    counter.value = 1;
    counter.cv.Signal();
    // Signal wakes this thread too if it waits first; hence the loops.
    while (counter.value != 2) {
      counter.cv.SignalAll();
      counter.cv.Wait(&counter.mu);
    }
    counter.mu.AssertHeld();
  }
  other.join();
}

TEST(MutexTest, ReturnsFromWaitWhenTimeIsUp) {
  Counter counter;
  MutexLock lock(&counter.mu);
  while (counter.cv.WaitFor(&counter.mu, 1000)) {
    // Woken for no reason.
  }
  counter.mu.AssertHeld();
}

TEST(MutexTest, WaitsAnyTimeForSignal) {
  Counter counter;
  MutexLock lock(&counter.mu);
  std::thread other([&counter] {
    MutexLock inner(&counter.mu);
    counter.value = 1;
    counter.cv.Signal();
  });
  while (counter.value != 1) {
    EXPECT_TRUE(counter.cv.WaitFor(&counter.mu, UINT64_MAX));
  }
  counter.mu.Unlock();
  other.join();
  counter.mu.Lock();
}

#ifndef NDEBUG
// `mu` may be held or not. The analysis does not know.
void AssertHeldUnseen(Mutex* mu) VARVE_NO_THREAD_SAFETY_ANALYSIS {
  mu->AssertHeld();
}

TEST(MutexDeathTest, StopsWhenNotHeldByCaller) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Mutex mu;
        AssertHeldUnseen(&mu);
      },
      "");
  EXPECT_DEATH(
      {
        Mutex mu;
        MutexLock lock(&mu);
        std::thread([&mu] { AssertHeldUnseen(&mu); }).join();
      },
      "");
}
#endif

}  // namespace
}  // namespace varve
