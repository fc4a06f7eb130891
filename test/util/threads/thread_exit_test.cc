// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: what a thread has of the library goes back at its end, also where the
// system has no thread-specific key left, and if it is used while the thread
// ends. Method: counts of calls, of records and of accounts; processes that
// took all keys first.

#include "util/threads/thread_exit.h"

#include <pthread.h>
#include <unistd.h>

#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"
#include "util/threads/memory_account.h"
#include "util/threads/thread_arena.h"
#include "util/threads/thread_record.h"

namespace varve {
namespace {

void TakeAllKeys() {
  pthread_key_t key;
  while (pthread_key_create(&key, nullptr) == 0) {
  }
}

void Increment(void* count) { ++*static_cast<int*>(count); }

void NoteIn(void* order, int number) {
  static_cast<std::vector<int>*>(order)->push_back(number);
}

// The call requests two more.
void CallAgain(void* calls) {
  if (++*static_cast<int*>(calls) < 3) CallAtThreadExit(&CallAgain, calls);
}

bool CallsOnceForEachThread() {
  int count = 0;
  bool good = true;
  for (int i = 1; i <= 3; ++i) {
    std::thread([&] {
      CallAtThreadExit(&Increment, &count);
      good = good && count == i - 1;
    }).join();
    good = good && count == i;
  }
  return good;
}

bool CallsAgainWhileTheThreadEnds() {
  int calls = 0;
  std::thread([&] { CallAtThreadExit(&CallAgain, &calls); }).join();
  return calls == 3;
}

TEST(ThreadExitTest, CallsOnceForEachThread) {
  EXPECT_TRUE(CallsOnceForEachThread());
}

TEST(ThreadExitTest, CallsAgainWhileTheThreadEnds) {
  EXPECT_TRUE(CallsAgainWhileTheThreadEnds());
}

TEST(ThreadExitTest, CallsTheLastRequestFirst) {
  std::vector<int> order;
  std::thread([&] {
    CallAtThreadExit([](void* o) { NoteIn(o, 1); }, &order);
    CallAtThreadExit([](void* o) { NoteIn(o, 2); }, &order);
    CallAtThreadExit([](void* o) { NoteIn(o, 3); }, &order);
  }).join();
  EXPECT_EQ(order, (std::vector<int>{3, 2, 1}));
}

size_t CountRecords() {
  size_t count = 0;
  ForEachThreadRecord([&count](ThreadRecord*) { ++count; });
  return count;
}

size_t CountAccounts() {
  size_t count = 0;
  uint64_t past[kMemoryKinds];
  VisitMemoryAccounts(
      [](void* n, const MemoryAccount&) { ++*static_cast<size_t*>(n); }, &count,
      past);
  return count;
}

// Uses what a thread keeps.
void UseContext() {
  ThreadArena* const arena = ThreadArena::Take(ArenaKind::kIterator);
  (void)arena->Allocate(8000);
  arena->GiveBack();
}

// Ends after the library's call at the end of a thread without a key, for it
// is made before.
struct UsesAtItsEnd {
  ~UsesAtItsEnd() { UseContext(); }
};

// Ends the process with 0 if many threads, one after another, leave nothing.
[[noreturn]] void RunManyThreads(const std::function<void()>& run) {
  size_t records = 0;
  size_t accounts = 0;
  for (int i = 0; i < 300; ++i) {
    std::thread(run).join();
    if (i == 10) {
      records = CountRecords();
      accounts = CountAccounts();
    }
  }
  if (CountRecords() <= records && CountAccounts() <= accounts) _exit(0);
  fprintf(stderr, "%zu records, then %zu; %zu accounts, then %zu\n", records,
          CountRecords(), accounts, CountAccounts());
  _exit(1);
}

// Each in a process of its own, for the library's key is made once.
class ThreadExitDeathTest : public ::testing::Test {
 protected:
  ThreadExitDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ThreadExitDeathTest, TooManyCallsEndTheProcess) {
  EXPECT_DEATH(
      {
        int count = 0;
        for (int i = 0; i <= kMaxThreadExitCalls; ++i) {
          CallAtThreadExit(&Increment, &count);
        }
      },
      "");
}

TEST_F(ThreadExitDeathTest, CallsWithoutAKey) {
  EXPECT_EXIT(
      {
        TakeAllKeys();
        _exit(CallsOnceForEachThread() && CallsAgainWhileTheThreadEnds() ? 0
                                                                         : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(ThreadExitDeathTest, ThreadsLeaveNothingWithoutKeys) {
  EXPECT_EXIT(
      {
        TakeAllKeys();
        RunManyThreads(&UseContext);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(ThreadExitDeathTest, ThreadsLeaveNothingThatUseItWhileTheyEnd) {
  const auto run = [] {
    static thread_local UsesAtItsEnd object;
    (void)&object;
    UseContext();
  };
  EXPECT_EXIT(RunManyThreads(run), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        TakeAllKeys();
        RunManyThreads(run);
      },
      ::testing::ExitedWithCode(0), "");
}

// As when exit() is called in the midst of a call of the library.
TEST_F(ThreadExitDeathTest, TheMainThreadMayExitInsideAnEpoch) {
  EXPECT_EXIT(
      {
        TakeAllKeys();
        const EpochGuard section;
        exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace varve
