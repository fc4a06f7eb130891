// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: a walk finds all that was appended before it, each once and in order,
// while the array grows. Method: by one thread step by step, then with walkers
// beside the appender; what was replaced is poisoned by the allocator of
// sanitizer builds.

#include "util/threads/published_array.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

std::vector<int> Items(const PublishedArray<int>& array) {
  std::vector<int> items;
  const EpochGuard section;
  array.ForEach([&items](int* item) { items.push_back(*item); });
  return items;
}

TEST(PublishedArrayTest, HasAppendedBytesInOrder) {
  std::vector<int> numbers(1000);
  PublishedArray<int> array;
  EXPECT_EQ(array.size(), 0u);
  EXPECT_TRUE(Items(array).empty());
  std::vector<int> expected;
  for (int i = 0; i < 1000; i++) {
    numbers[static_cast<size_t>(i)] = i;
    array.Append(&numbers[static_cast<size_t>(i)]);
    expected.push_back(i);
    EXPECT_EQ(array.size(), expected.size());
    if (i % 97 == 0 || i < 40) {
      EXPECT_EQ(Items(array), expected);
    }
  }
  array.Clear();
  EXPECT_EQ(array.size(), 0u);
  EXPECT_TRUE(Items(array).empty());
  array.Append(&numbers[7]);
  EXPECT_EQ(Items(array), std::vector<int>{7});
  TEST_DrainRetired();
}

TEST(PublishedArrayTest, IsWalkedWhileItGrows) {
  constexpr int kRounds = 30;
  constexpr int kCount = 2000;
  std::vector<int> numbers(kCount);
  for (int i = 0; i < kCount; i++) numbers[static_cast<size_t>(i)] = i;
  for (int round = 0; round < kRounds; round++) {
    PublishedArray<int> array;
    std::atomic<int> appended{0};
    std::vector<std::thread> walkers;
    for (int w = 0; w < 2; w++) {
      walkers.emplace_back([&] {
        while (true) {
          const int before = appended.load();
          const std::vector<int> items = Items(array);
          ASSERT_GE(static_cast<int>(items.size()), before);
          for (size_t i = 0; i < items.size(); i++) {
            ASSERT_EQ(items[i], static_cast<int>(i));
          }
          if (before == kCount) return;
        }
      });
    }
    for (int i = 0; i < kCount; i++) {
      array.Append(&numbers[static_cast<size_t>(i)]);
      appended.store(i + 1);
    }
    for (std::thread& walker : walkers) walker.join();
  }
  TEST_DrainRetired();
}

}  // namespace
}  // namespace varve
