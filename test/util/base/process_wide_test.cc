// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: an object of the whole process is created once for all threads, and a
// child created by fork() waits for no thread that was about to create it.
// Method: threads that all wait inside their creation; a child of a process in
// which a thread does.

#include "util/base/process_wide.h"

#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"

namespace varve::test {
namespace {

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  static inline std::atomic<int> alive{0};
};

TEST(ProcessWideTest, ThreadsThatCreateAtOnceGetTheSameObject) {
  static constinit ProcessWide<Counted> object;
  constexpr int kThreads = 4;
  std::atomic<int> creating{0};
  std::vector<Counted*> found(kThreads);
  RunThreads(kThreads, [&](int i) {
    found[i] = &object.Get([&creating] {
      ++creating;
      while (creating < kThreads) std::this_thread::yield();
      return std::make_unique<Counted>();
    });
  });
  EXPECT_EQ(std::set<Counted*>(found.begin(), found.end()).size(), 1u);
  EXPECT_EQ(Counted::alive, 1);
  EXPECT_EQ(&object.Get(), found[0]);
}

TEST(ProcessWideTest, ChildWaitsForNoThreadOfTheParent) {
  static constinit ProcessWide<int> object;
  std::atomic<bool> is_creating{false};
  std::atomic<bool> waits{true};
  std::thread other([&] {
    object.Get([&] {
      is_creating = true;
      while (waits) std::this_thread::yield();
      return std::make_unique<int>(1);
    });
  });
  while (!is_creating) std::this_thread::yield();
  EXPECT_EQ(
      RunForked(
          [] { return object.Get([] { return std::make_unique<int>(2); }); },
          10),
      2);
  waits = false;
  other.join();
  EXPECT_EQ(object.Get(), 1);
}

}  // namespace
}  // namespace varve::test
