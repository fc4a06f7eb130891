// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A Histogram counts values of any size, from nanoseconds to bytes, and reports
// their percentiles with a relative error of at most 1/64.
//
// Buckets are log-linear: each power of two is split into 64 buckets of equal
// width, and values below 128 have buckets of their own. Add takes a few
// instructions and never allocates. Counts and sum saturate.
// Thread-safety: thread-compatible; give each thread its own and Merge them.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace varve {

class Histogram {
  static constexpr int kSubBits = 6;
  static constexpr size_t kSubBuckets = size_t{1} << kSubBits;

 public:
  // 64 for the values below 64, and 64 for each of the other bit widths.
  static constexpr size_t kBuckets = kSubBuckets * (64 - kSubBits + 1);

  static size_t BucketOf(uint64_t value) {
    if (value < kSubBuckets) return static_cast<size_t>(value);
    const int shift = 63 - kSubBits - std::countl_zero(value);
    // The value's highest 7 bits, of which the first is always set.
    const size_t top = static_cast<size_t>(value >> shift);
    return static_cast<size_t>(shift) * kSubBuckets + top;
  }

  // Returns the smallest, and LastOf the largest, value of a bucket.
  static uint64_t FirstOf(size_t bucket);
  static uint64_t LastOf(size_t bucket);

  void Add(uint64_t value) {
    ++buckets_[BucketOf(value)];
    ++count_;
    sum_ = SaturatingAdd(sum_, value);
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }

  // Adds all counts of `other`.
  void Merge(const Histogram& other);
  void Clear() { *this = Histogram(); }

  // For a histogram that is stored elsewhere. Add all counts of the buckets
  // first, then the extremes and the sum. Only the lowest 64 bits of the sum
  // must be known: the buckets determine the rest.
  void AddToBucket(size_t bucket, uint64_t count) {
    buckets_[bucket] = SaturatingAdd(buckets_[bucket], count);
    count_ = SaturatingAdd(count_, count);
  }
  void SetSummary(uint64_t sum_modulo, uint64_t min, uint64_t max);

  uint64_t Count() const { return count_; }
  uint64_t Sum() const { return sum_; }
  // Exact. Returns 0 if nothing was added.
  uint64_t Min() const { return count_ == 0 ? 0 : min_; }
  uint64_t Max() const { return max_; }
  double Average() const;

  // Returns a value that at least `percent` % of the values do not exceed, to
  // within the bucket's width. `percent` is clamped to [0, 100]. Returns 0 if
  // nothing was added.
  uint64_t Percentile(double percent) const;

  // Returns three lines: count and average; minimum, median and maximum;
  // percentiles. All but the count are divided by `unit`: 1000 prints
  // nanoseconds as microseconds. REQUIRES: unit > 0.
  std::string ToString(double unit = 1) const;

 private:
  static uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
  }
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  // On the heap: 30 KB would be most of a small thread's stack.
  std::vector<uint64_t> buckets_ = std::vector<uint64_t>(kBuckets);
};

}  // namespace varve
