// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no handler of the embedding program runs on a thread of the library,
// and faults there still reach a crash reporter. Method: the mask of such a
// thread, and of the thread that starts it.

#include "util/threads/background_thread.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>

namespace varve {
namespace {

std::set<int> BlockedSignals() {
  sigset_t mask;
  EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  std::set<int> blocked;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&mask, signal) == 1) blocked.insert(signal);
  }
  return blocked;
}

void* Report(void* blocked) {
  *static_cast<std::set<int>*>(blocked) = BlockedSignals();
  return nullptr;
}

TEST(BackgroundThreadTest, BlocksAllSignalsButThoseOfItsFaults) {
  const std::set<int> before = BlockedSignals();
  std::set<int> blocked;
  pthread_t thread;
  ASSERT_EQ(StartBackgroundThread(&thread, &Report, &blocked), 0);
  EXPECT_EQ(BlockedSignals(), before);
  pthread_join(thread, nullptr);
  const std::set<int> faults = {SIGSEGV, SIGBUS,  SIGFPE,
                                SIGILL,  SIGTRAP, SIGSYS};
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    // The C library keeps two for itself.
    if (signal >= 32 && signal < SIGRTMIN) continue;
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    EXPECT_EQ(blocked.count(signal), 1 - faults.count(signal)) << signal;
  }
}

TEST(BackgroundThreadTest, InheritsTheSignalsThatItsStarterBlocked) {
  sigset_t mask;
  sigset_t before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGSYS);
  pthread_sigmask(SIG_BLOCK, &mask, &before);
  std::set<int> blocked;
  pthread_t thread;
  ASSERT_EQ(StartBackgroundThread(&thread, &Report, &blocked), 0);
  pthread_join(thread, nullptr);
  EXPECT_EQ(BlockedSignals().count(SIGSYS), 1u);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(blocked.count(SIGSYS), 1u);
}

}  // namespace
}  // namespace varve
