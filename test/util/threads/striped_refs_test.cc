// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: references in stripes, as the SuperVersion's readers use them. All
// orders of the steps: striped_refs_orders_test.cc.

#include "util/threads/striped_refs.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// Notes which words change.
struct NotingMemory {
  static inline std::set<const void*> changed;

  template <typename T>
  class Atomic {
   public:
    Atomic(T value) : value_(value) {}
    T fetch_add(T count, std::memory_order) {
      changed.insert(this);
      return std::exchange(value_, value_ + count);
    }
    T fetch_sub(T count, std::memory_order order) {
      return fetch_add(-count, order);
    }

   private:
    T value_;
  };
};

TEST(StripedRefsTest, FurtherReferencesChangeOneWord) {
  StripedRefsOf<NotingMemory, 4> refs;
  refs.Ref(1);
  EXPECT_EQ(NotingMemory::changed.size(), 2u);  // The stripe and the base.
  NotingMemory::changed.clear();
  for (int i = 0; i < 3; ++i) refs.Ref(1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(refs.Unref(1));
  EXPECT_EQ(NotingMemory::changed.size(), 1u);
  NotingMemory::changed.clear();
  refs.Ref(2);
  EXPECT_FALSE(refs.Unref());
  EXPECT_FALSE(refs.Unref(1));
  EXPECT_TRUE(refs.Unref(2));
  EXPECT_EQ(NotingMemory::changed.size(), 3u);
}

// The last of many threads frees it, with the real atomics.
TEST(StripedRefsTest, LastThreadSeesWhatTheOthersDid) {
  constexpr int kThreads = 6;
  for (int round = 0; round < 200; ++round) {
    StripedRefs refs;
    std::vector<int> written(kThreads, 0);
    std::atomic<int> last{0};
    for (int i = 1; i < kThreads; ++i) refs.Ref();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const uint32_t stripe = static_cast<uint32_t>(t) % 3;
        refs.Ref(stripe);
        bool freed = refs.Unref();
        for (int i = 0; i < 10; ++i) {
          refs.Ref(stripe);
          freed |= refs.Unref(stripe);
        }
        EXPECT_FALSE(freed);
        written[static_cast<size_t>(t)] = 1;
        if (!refs.Unref(stripe)) return;
        ++last;
        // Ordered after all other threads' stores.
        for (const int value : written) EXPECT_EQ(value, 1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(last, 1);
  }
}

}  // namespace
}  // namespace varve::test
