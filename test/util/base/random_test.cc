// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the same numbers for the same seed, within bounds, and evenly spread.
// Method: known first values, counts over many draws with wide margins.
#include "util/base/random.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(RandomTest, GivesKnownNumbersForSeed) {
  // The first values of SplitMix64 from 1234567.
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
}

TEST(RandomTest, SpreadsEvenly) {
  constexpr uint64_t kBuckets = 10;
  constexpr int kDraws = 100000;
  Random random(1);
  int counts[kBuckets] = {};
  for (int i = 0; i < kDraws; i++) {
    const uint64_t value = random.Uniform(kBuckets);
    ASSERT_LT(value, kBuckets);
    counts[value]++;
  }
  for (const int count : counts) {
    EXPECT_GT(count, 9500);
    EXPECT_LT(count, 10500);
  }
  EXPECT_EQ(random.Uniform(1), 0u);
}

TEST(RandomTest, IsTrueOnceInSoMany) {
  Random random(2);
  int hits = 0;
  for (int i = 0; i < 100000; i++) hits += random.OneIn(100) ? 1 : 0;
  EXPECT_GT(hits, 850);
  EXPECT_LT(hits, 1150);
  EXPECT_TRUE(random.OneIn(1));
}

}  // namespace
}  // namespace varve
