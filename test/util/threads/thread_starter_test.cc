// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a thread inherits from the thread of the best priority that has asked
// for that, and not from its starter; without such a thread, and in a forked
// child, it inherits from its starter. Method: threads that report their nice
// value and timer slack, started by threads with others, in child processes.

#include "util/threads/thread_starter.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/testing/forked.h"
#include "test/testing/sanitizers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/mutex.h"
#include "util/threads/thread_pool.h"

namespace varve {
namespace {

// A nice value that a thread adds to its own, and its timer slack in ns.
constexpr int kNice = 4;
constexpr int kSlack = 77000;

int OwnNice() { return getpriority(PRIO_PROCESS, 0); }
int OwnSlack() { return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); }

void RunNicer(const std::function<void()>& run) {
  std::thread([&run] {
    EXPECT_EQ(setpriority(PRIO_PROCESS, 0, OwnNice() + kNice), 0);
    EXPECT_EQ(prctl(PR_SET_TIMERSLACK, kSlack, 0, 0, 0), 0);
    run();
  }).join();
}

struct Report {
  int nice = 0;
  int slack = 0;
};

Report StartOne() {
  Report report;
  const auto run = [](void* argument) -> void* {
    *static_cast<Report*>(argument) = {OwnNice(), OwnSlack()};
    return nullptr;
  };
  pthread_t thread;
  EXPECT_EQ(ThreadStarter::Get().Start(&thread, run, &report), 0);
  pthread_join(thread, nullptr);
  return report;
}

int Forked(const std::function<void()>& body) {
  return test::RunForked([&body] {
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
}

TEST(ThreadStarterTest, ThreadsInheritFromTheThreadThatAsked) {
  EXPECT_EQ(Forked([] {
              const int nice = OwnNice();
              const int slack = OwnSlack();
              ThreadStarter& starter = ThreadStarter::Get();
              RunNicer([&] {
                EXPECT_EQ(StartOne().nice, nice + kNice);
                starter.InheritFromThisThread();
                EXPECT_EQ(StartOne().nice, nice + kNice);
              });
              EXPECT_EQ(StartOne().nice, nice + kNice);
              EXPECT_EQ(StartOne().slack, kSlack);
              const uint64_t generation = starter.Generation();
              starter.InheritFromThisThread();
              EXPECT_GT(starter.Generation(), generation);
              RunNicer([&] {
                EXPECT_EQ(StartOne().nice, nice);
                EXPECT_EQ(StartOne().slack, slack);
                starter.InheritFromThisThread();
                EXPECT_EQ(StartOne().nice, nice);
              });
              EXPECT_EQ(starter.Generation(), generation + 1);
            }),
            0);
}

// The thread sanitizer starts no threads in a child of a process with threads.
#if !defined(VARVE_TEST_THREAD_SANITIZED)
TEST(ThreadStarterTest, WorksInAForkedChild) {
  EXPECT_EQ(Forked([] {
              const int nice = OwnNice();
              ThreadStarter::Get().InheritFromThisThread();
              EXPECT_EQ(
                  Forked([nice] {
                    RunNicer([&] { EXPECT_EQ(StartOne().nice, nice + kNice); });
                    ThreadStarter::Get().InheritFromThisThread();
                    RunNicer([&] { EXPECT_EQ(StartOne().nice, nice); });
                  }),
                  0);
            }),
            0);
}

#endif

TEST(ThreadStarterTest, StartsForManyThreadsAtOnce) {
  EXPECT_EQ(Forked([] {
              const int nice = OwnNice();
              ThreadStarter::Get().InheritFromThisThread();
              test::RunThreads(4, [nice](int) {
                for (int round = 0; round < 50; ++round) {
                  EXPECT_EQ(StartOne().nice, nice);
                  ThreadStarter::Get().InheritFromThisThread();
                }
              });
            }),
            0);
}

// The threads of a pool are replaced while they run jobs and while they wait.
TEST(ThreadStarterTest, PoolsReplaceTheirThreads) {
  EXPECT_EQ(Forked([] {
              const int nice = OwnNice();
              Mutex mu;
              CondVar changed;
              bool may_end = false;
              std::vector<int> nices;
              const auto note = [&] {
                MutexLock lock(&mu);
                nices.push_back(OwnNice());
                changed.SignalAll();
              };
              ThreadPool pool;
              pool.SetThreads(2);
              RunNicer([&] {
                ThreadStarter::Get().InheritFromThisThread();
                EXPECT_TRUE(pool.Schedule([&] {
                                  note();
                                  MutexLock lock(&mu);
                                  while (!may_end) changed.Wait(&mu);
                                })
                                .ok());
                EXPECT_TRUE(pool.Schedule(note).ok());
                MutexLock lock(&mu);
                while (nices.size() < 2) changed.Wait(&mu);
              });
              EXPECT_EQ(nices, std::vector<int>(2, nice + kNice));
              nices.clear();
              ThreadStarter::Get().InheritFromThisThread();
              for (int i = 0; i < 4; ++i) {
                EXPECT_TRUE(pool.Schedule(note).ok());
              }
              {
                MutexLock lock(&mu);
                while (nices.size() < 4) changed.Wait(&mu);
                may_end = true;
                changed.SignalAll();
              }
              pool.WaitForIdle();
              EXPECT_EQ(nices, std::vector<int>(4, nice));
            }),
            0);
}

}  // namespace
}  // namespace varve
