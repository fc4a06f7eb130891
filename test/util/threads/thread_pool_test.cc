// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: all jobs run, in order with one thread, in parallel with several; none
// is lost when the pool goes. Method: jobs that meet at latches, so that a
// wrong number of threads shows as a count and not as a timing.
#include "util/threads/thread_pool.h"
#include "test/testing/test_headers.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace varve {
namespace {

// Jobs wait here until the test opens it.
class Latch {
 public:
  void Open() {
    MutexLock lock(&mu_);
    open_ = true;
    cv_.SignalAll();
  }
  void Pass() {
    MutexLock lock(&mu_);
    waiting_++;
    cv_.SignalAll();
    while (!open_) cv_.Wait(&mu_);
  }
  void AwaitWaiting(int count) {
    MutexLock lock(&mu_);
    while (waiting_ < count) cv_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar cv_;
  bool open_ VARVE_GUARDED_BY(mu_) = false;
  int waiting_ VARVE_GUARDED_BY(mu_) = 0;
};

TEST(ThreadPoolTest, RunsJobsInOrderWithOneThread) {
  std::vector<int> order;  // Touched by the one thread, read when idle.
  ThreadPool pool;
  for (int i = 0; i < 1000; i++) {
    ASSERT_TRUE(pool.Schedule([&order, i] { order.push_back(i); }).ok());
  }
  pool.WaitForIdle();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; i++) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ThreadPoolTest, NeedsNoThreadWhenUnused) {
  ThreadPool pool;
  pool.SetThreads(100);
  pool.WaitForIdle();
  EXPECT_EQ(pool.TEST_QueueLength(), 0u);
}

TEST(ThreadPoolTest, RunsAsManyAtOnceAsAllowed) {
  Latch latch;
  ThreadPool pool;
  pool.SetThreads(3);
  pool.SetThreads(2);  // Never fewer.
  pool.SetThreads(-1);
  for (int i = 0; i < 5; i++) {
    ASSERT_TRUE(pool.Schedule([&latch] { latch.Pass(); }).ok());
  }
  latch.AwaitWaiting(3);
  EXPECT_EQ(pool.TEST_QueueLength(), 2u);
  latch.Open();
  pool.WaitForIdle();
  EXPECT_EQ(pool.TEST_QueueLength(), 0u);
}

TEST(ThreadPoolTest, StartsWaitingJobsWhenMoreThreadsAreAllowed) {
  Latch latch;
  ThreadPool pool;
  for (int i = 0; i < 4; i++) {
    ASSERT_TRUE(pool.Schedule([&latch] { latch.Pass(); }).ok());
  }
  latch.AwaitWaiting(1);
  EXPECT_EQ(pool.TEST_QueueLength(), 3u);
  pool.SetThreads(4);
  latch.AwaitWaiting(4);
  EXPECT_EQ(pool.TEST_QueueLength(), 0u);
  latch.Open();
}

TEST(ThreadPoolTest, RunsQueuedJobsBeforeItEnds) {
  std::atomic<int> done{0};
  {
    Latch latch;
    ThreadPool pool;
    pool.SetThreads(2);
    for (int i = 0; i < 50; i++) {
      ASSERT_TRUE(pool.Schedule([&, i] {
                        if (i < 2) latch.Pass();
                        done++;
                        // A job may schedule others, even now.
                        EXPECT_TRUE(pool.Schedule([&done] { done++; }).ok());
                      })
                      .ok());
    }
    latch.AwaitWaiting(2);
    latch.Open();
  }
  EXPECT_EQ(done, 100);
}

TEST(ThreadPoolTest, StartsThreadsAgainAfterTheirEnd) {
  ThreadPool pool;
  std::atomic<int> ran{0};
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(pool.Schedule([&ran] { ++ran; }).ok());
    pool.EndThreads();
    EXPECT_EQ(ran, round);
    pool.EndThreads();
  }
}

TEST(ThreadPoolTest, DestroysTheJobBeforeTheThreadIsIdle) {
  ThreadPool pool;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  ASSERT_TRUE(pool.Schedule([held = std::move(held)] {}).ok());
  pool.WaitForIdle();
  EXPECT_TRUE(watch.expired());
}

TEST(ThreadPoolTest, NamesAndNicesItsThreads) {
  const int own_nice = getpriority(PRIO_PROCESS, 0);
  Latch latch;
  Mutex mu;
  std::set<std::string> names;
  std::set<int> nices;
  ThreadPool pool({.name = "varve:a-long-name", .lower_cpu_priority = true});
  pool.SetThreads(2);
  for (int i = 0; i < 2; i++) {
    ASSERT_TRUE(pool.Schedule([&] {
                      latch.Pass();
                      char name[16] = "";
                      pthread_getname_np(pthread_self(), name, sizeof(name));
                      MutexLock lock(&mu);
                      names.insert(name);
                      nices.insert(getpriority(PRIO_PROCESS,
                                               static_cast<id_t>(gettid())));
                    })
                    .ok());
  }
  latch.AwaitWaiting(2);
  latch.Open();
  pool.WaitForIdle();
  EXPECT_EQ(names,
            (std::set<std::string>{"varve:a-long-n0", "varve:a-long-n1"}));
  ASSERT_EQ(nices.size(), 1u);
  EXPECT_GE(*nices.begin(), own_nice);
  EXPECT_EQ(*nices.begin(), std::min(own_nice + 10, 19));
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), own_nice);
}

TEST(ThreadPoolTest, TakesJobsFromManyThreads) {
  std::atomic<int> done{0};
  ThreadPool pool;
  pool.SetThreads(3);
  ThreadPool producers;
  producers.SetThreads(3);
  for (int i = 0; i < 3; i++) {
    ASSERT_TRUE(producers
                    .Schedule([&] {
                      for (int round = 0; round < 2000; round++) {
                        EXPECT_TRUE(pool.Schedule([&done] { done++; }).ok());
                      }
                    })
                    .ok());
  }
  producers.WaitForIdle();
  pool.WaitForIdle();
  EXPECT_EQ(done, 6000);
}

}  // namespace
}  // namespace varve
