// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace varve {

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    buckets_[i] = SaturatingAdd(buckets_[i], other.buckets_[i]);
  }
  count_ = SaturatingAdd(count_, other.count_);
  sum_ = SaturatingAdd(sum_, other.sum_);
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::SetSummary(uint64_t sum_modulo, uint64_t min, uint64_t max) {
  min_ = min;
  max_ = max;
  // The sum is the first number with these lowest bits that is not below the
  // minimum total of the buckets. A sum that is a little below was read while
  // values were recorded: the buckets include them and the sum does not.
  __extension__ using Wide = unsigned __int128;
  Wide least = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    if (buckets_[i] != 0) least += Wide{buckets_[i]} * FirstOf(i);
  }
  Wide sum = (least >> 64 << 64) + sum_modulo;
  if (sum < least) {
    sum = least - sum > Wide{1} << 63 ? sum + (Wide{1} << 64) : least;
  }
  sum_ = sum > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(sum);
}

double Histogram::Average() const {
  if (count_ == 0) return 0;
  return static_cast<double>(sum_) / static_cast<double>(count_);
}

uint64_t Histogram::FirstOf(size_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const size_t shift = bucket / kSubBuckets - 1;
  return uint64_t{bucket - shift * kSubBuckets} << shift;
}

uint64_t Histogram::LastOf(size_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const size_t shift = bucket / kSubBuckets - 1;
  return FirstOf(bucket) + ((uint64_t{1} << shift) - 1);
}

uint64_t Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const double share = std::clamp(percent, 0.0, 100.0) / 100;
  const double position = std::ceil(share * static_cast<double>(count_));
  const uint64_t rank =
      position >= static_cast<double>(count_)
          ? count_
          : std::max<uint64_t>(1, static_cast<uint64_t>(position));
  // The ends are known exactly. A bucket's middle may be outside them.
  if (rank == count_) return max_;
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen = SaturatingAdd(seen, buckets_[bucket]);
    if (seen < rank) continue;
    const uint64_t middle =
        FirstOf(bucket) + (LastOf(bucket) - FirstOf(bucket) + 1) / 2;
    return std::clamp(middle, min_, max_);
  }
  return max_;
}

std::string Histogram::ToString(double unit) const {
  const auto in_units = [unit](uint64_t value) {
    return static_cast<double>(value) / unit;
  };
  char text[400];
  snprintf(text, sizeof(text),
           "Count: %llu Average: %.4f\n"
           "Min: %.2f Median: %.4f Max: %.2f\n"
           "Percentiles: P50: %.2f P75: %.2f P95: %.2f P99: %.2f P99.9: %.2f "
           "P99.99: %.2f\n",
           static_cast<unsigned long long>(count_), Average() / unit,
           in_units(Min()), in_units(Percentile(50)), in_units(Max()),
           in_units(Percentile(50)), in_units(Percentile(75)),
           in_units(Percentile(95)), in_units(Percentile(99)),
           in_units(Percentile(99.9)), in_units(Percentile(99.99)));
  return text;
}

}  // namespace varve
