// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a child created by fork() calls the objects that existed as a whole at
// the fork, and none that another thread was about to construct or destroy.
// Method: a thread that waits inside an object's constructor or destructor
// while the process forks.

#include "util/threads/fork_watch.h"

#include "test/testing/forked.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// Waits for its release wherever it is constructed or destroyed.
struct Gate {
  void Wait() {
    is_there = true;
    while (!is_open) std::this_thread::yield();
  }
  void AwaitThread() const {
    while (!is_there) std::this_thread::yield();
  }

  std::atomic<bool> is_there{false};
  std::atomic<bool> is_open{false};
};

// A member that is slow to construct, or to destroy.
struct SlowMember {
  SlowMember(Gate* at_begin, Gate* at_end) : end(at_end) {
    if (at_begin != nullptr) at_begin->Wait();
  }
  ~SlowMember() {
    if (end != nullptr) end->Wait();
  }
  SlowMember(const SlowMember&) = delete;
  SlowMember& operator=(const SlowMember&) = delete;

  Gate* const end;
};

class Watched final : private ForkWatch {
 public:
  Watched(Gate* at_begin, Gate* at_end) : slow_(at_begin, at_end) {}

  static inline int calls = 0;

 private:
  void InForkedChild() override { ++calls; }

  SlowMember slow_;
  Registration fork_watch_{this};
};

int CallsInChild() {
  return RunForked([] { return Watched::calls; }, 10);
}

TEST(ForkWatchTest, ObjectsThatExistAreCalledInTheChildOnly) {
  EXPECT_EQ(CallsInChild(), 0);
  {
    Watched first(nullptr, nullptr);
    std::optional<Watched> second(std::in_place, nullptr, nullptr);
    Watched third(nullptr, nullptr);
    EXPECT_EQ(CallsInChild(), 3);
    second.reset();
    EXPECT_EQ(CallsInChild(), 2);
  }
  EXPECT_EQ(CallsInChild(), 0);
  EXPECT_EQ(Watched::calls, 0);
}

TEST(ForkWatchTest, ObjectUnderConstructionIsNotCalled) {
  Gate begin;
  std::thread other([&] { Watched watched(&begin, nullptr); });
  begin.AwaitThread();
  EXPECT_EQ(CallsInChild(), 0);
  begin.is_open = true;
  other.join();
}

TEST(ForkWatchTest, ObjectUnderDestructionIsNotCalled) {
  Gate end;
  std::thread other([&] { Watched watched(nullptr, &end); });
  end.AwaitThread();
  EXPECT_EQ(CallsInChild(), 0);
  end.is_open = true;
  other.join();
}

}  // namespace
}  // namespace varve::test
