// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a thread gets the same object again and again, unless it is in use.
// Method: objects that count themselves.

#include "util/threads/thread_scratch.h"

#include <gtest/gtest.h>

#include <thread>

namespace varve::test {
namespace {

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  static thread_local int alive;
  int value = 0;
};
thread_local int Counted::alive = 0;

struct Tag;
using Scratch = ThreadScratch<Counted, Tag>;

TEST(ThreadScratchTest, IsTheSameObjectEachTime) {
  std::thread([] {
    for (int i = 0; i < 3; ++i) {
      const Scratch scratch;
      EXPECT_EQ(scratch->value, i);
      ++scratch->value;
      EXPECT_EQ(Counted::alive, 1);
    }
    EXPECT_EQ(Counted::alive, 1);
  }).join();
}

TEST(ThreadScratchTest, NestedScopesHaveObjectsOfTheirOwn) {
  std::thread([] {
    {
      const Scratch outer;
      outer->value = 1;
      {
        const Scratch inner;
        EXPECT_EQ(inner->value, 0);
        inner->value = 2;
        const Scratch innermost;
        EXPECT_EQ(innermost->value, 0);
        EXPECT_EQ(Counted::alive, 3);
      }
      EXPECT_EQ(outer->value, 1);
      const Scratch again;
      EXPECT_NE(&*again, &*outer);
    }
    EXPECT_EQ(Counted::alive, 1);
  }).join();
}

// Its destructor runs after the destructors of the thread's kept objects.
struct LateUser {
  ~LateUser() {
    const Scratch scratch;
    late_value = scratch->value;
  }
  static int late_value;
};
int LateUser::late_value = -1;

TEST(ThreadScratchTest, WorksWhileTheThreadEnds) {
  std::thread([] {
    static thread_local LateUser late;
    static_cast<void>(late);
    const Scratch scratch;
    scratch->value = 5;
  }).join();
  EXPECT_EQ(LateUser::late_value, 0);
}

}  // namespace
}  // namespace varve::test
