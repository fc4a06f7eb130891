// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: a histogram's counts are exact and its percentiles are off by at most
// 1/64. Method: compare with the sorted list of the same values, over widely
// spread random ones and over the edges of the buckets.
#include "monitoring/histogram.h"

#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

TEST(HistogramTest, IsAllZeroWhenEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.Count(), 0u);
  EXPECT_EQ(histogram.Sum(), 0u);
  EXPECT_EQ(histogram.Min(), 0u);
  EXPECT_EQ(histogram.Max(), 0u);
  EXPECT_EQ(histogram.Average(), 0);
  EXPECT_EQ(histogram.Percentile(50), 0u);
}

TEST(HistogramTest, IsExactForSmallValues) {
  Histogram histogram;
  for (uint64_t value = 0; value < 128; ++value) histogram.Add(value);
  for (uint64_t value = 0; value < 128; ++value) {
    const double percent = 100 * static_cast<double>(value + 1) / 128;
    EXPECT_EQ(histogram.Percentile(percent), value);
  }
  EXPECT_EQ(histogram.Sum(), 127u * 64);
  EXPECT_EQ(histogram.Average(), 63.5);
}

TEST(HistogramTest, KeepsTheErrorBoundAtTheEdgesOfBuckets) {
  for (int shift = 6; shift < 64; ++shift) {
    for (const int64_t offset : {-1, 0, 1}) {
      const uint64_t value =
          (uint64_t{1} << shift) + static_cast<uint64_t>(offset);
      Histogram histogram;
      histogram.Add(value);
      histogram.Add(UINT64_MAX);
      const double found = static_cast<double>(histogram.Percentile(50));
      const double expected = static_cast<double>(value);
      EXPECT_LE(std::abs(found - expected), expected / 64) << value;
      EXPECT_EQ(histogram.Min(), value);
      EXPECT_EQ(histogram.Max(), UINT64_MAX);
    }
  }
}

TEST(HistogramTest, KeepsTheErrorBoundForRandomValues) {
  constexpr uint64_t kSeed = 20240517;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  Histogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(random.Next() >> random.Uniform(64));
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {0.0, 1.0, 25.0, 50.0, 75.0, 99.0, 99.9, 100.0}) {
    const double rank =
        std::ceil(percent / 100 * static_cast<double>(values.size()));
    const size_t index = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
    const double expected = static_cast<double>(values[index]);
    const double found = static_cast<double>(histogram.Percentile(percent));
    EXPECT_LE(std::abs(found - expected), expected / 64) << percent;
  }
  EXPECT_EQ(histogram.Percentile(100), values.back());
}

TEST(HistogramTest, ClampsPercentOutOfBounds) {
  Histogram histogram;
  histogram.Add(3);
  histogram.Add(5);
  EXPECT_EQ(histogram.Percentile(-1), 3u);
  EXPECT_EQ(histogram.Percentile(200), 5u);
}

TEST(HistogramTest, MergesLikeOneThatSawAllValues) {
  Histogram first;
  Histogram second;
  Histogram both;
  for (uint64_t value = 1; value < 100000; value += 7) {
    (value % 2 == 0 ? first : second).Add(value * value);
    both.Add(value * value);
  }
  first.Merge(second);
  first.Merge(Histogram());
  EXPECT_EQ(first.ToString(), both.ToString());
  EXPECT_EQ(first.Sum(), both.Sum());
  first.Clear();
  EXPECT_EQ(first.Count(), 0u);
}

TEST(HistogramTest, SaturatesInsteadOfOverflowing) {
  Histogram histogram;
  histogram.Add(UINT64_MAX);
  histogram.Add(2);
  EXPECT_EQ(histogram.Sum(), UINT64_MAX);
  Histogram other;
  other.AddToBucket(3, UINT64_MAX);
  other.AddToBucket(3, 5);
  EXPECT_EQ(other.Count(), UINT64_MAX);
  other.Merge(histogram);
  EXPECT_EQ(other.Count(), UINT64_MAX);
  EXPECT_EQ(other.Sum(), UINT64_MAX);
  EXPECT_EQ(other.Percentile(50), 3u);
  EXPECT_EQ(other.Percentile(100), UINT64_MAX);
}

TEST(HistogramTest, FindsTheSumFromItsLowestBits) {
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{129}, uint64_t{1} << 40,
        (uint64_t{1} << 50) + 12345, uint64_t{1} << 58}) {
    for (const uint64_t count : {1, 50, 70}) {
      Histogram expected;
      for (uint64_t i = 0; i < count; ++i) expected.Add(value);
      Histogram histogram;
      histogram.AddToBucket(Histogram::BucketOf(value), count);
      histogram.SetSummary(value * count, value, value);
      EXPECT_EQ(histogram.ToString(), expected.ToString());
      EXPECT_EQ(histogram.Sum(), expected.Sum());
    }
  }
}

// Values are in their bucket before they are in the sum that was read.
TEST(HistogramTest, TakesALaggingSumForTheLeast) {
  Histogram histogram;
  for (int i = 0; i < 3; ++i) histogram.Add(5);
  histogram.SetSummary(10, 5, 5);
  EXPECT_EQ(histogram.Sum(), 15u);
}

TEST(HistogramTest, PrintsInUnits) {
  Histogram histogram;
  histogram.Add(1000);
  histogram.Add(3000);
  EXPECT_EQ(histogram.ToString(1000),
            "Count: 2 Average: 2.0000\n"
            "Min: 1.00 Median: 1.0040 Max: 3.00\n"
            "Percentiles: P50: 1.00 P75: 3.00 P95: 3.00 P99: 3.00 P99.9: 3.00 "
            "P99.99: 3.00\n");
}

}  // namespace
}  // namespace varve
