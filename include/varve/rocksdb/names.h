// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's names of classes that Varve has with the same calls, and of small
// types; see varve/rocksdb.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/cache.h"
#include "varve/column_family.h"
#include "varve/compaction_filter.h"
#include "varve/comparator.h"
#include "varve/db.h"
#include "varve/env.h"
#include "varve/filter_policy.h"
#include "varve/iterator.h"
#include "varve/perf_context.h"
#include "varve/pinnable_slice.h"
#include "varve/rate_limiter.h"
#include "varve/slice.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_manager.h"
#include "varve/status.h"
#include "varve/write_buffer_manager.h"

#ifndef VARVE_ROCKSDB_NAMESPACE
/** The namespace of RocksDB's names. */
#define VARVE_ROCKSDB_NAMESPACE rocksdb
#ifndef ROCKSDB_NAMESPACE
/** RocksDB's macro for it. */
#define ROCKSDB_NAMESPACE rocksdb
#endif
#endif

namespace VARVE_ROCKSDB_NAMESPACE {

using varve::BytewiseComparator;
using varve::Cache;
using varve::ColumnFamilyHandle;
using varve::CompactionFilter;
using varve::CompactionFilterFactory;
using varve::Comparator;
using varve::Env;
using varve::FilterPolicy;
using varve::GetMergeOperandsOptions;
using varve::IOStatsContext;
using varve::Iterator;
using varve::kDefaultColumnFamilyName;
using varve::Logger;
using varve::PerfContext;
using varve::PerfLevel;
using varve::PinnableSlice;
using varve::RateLimiter;
using varve::ReadTier;
using varve::ReverseBytewiseComparator;
using varve::SetPerfLevel;
using varve::Slice;
using varve::Snapshot;
using varve::SstFileManager;
using varve::Status;
using varve::TableFileCreationReason;
using varve::WriteBufferManager;
using SequenceNumber = uint64_t;

inline constexpr ReadTier kReadAllTier = ReadTier::kReadAllTier;
inline constexpr ReadTier kBlockCacheTier = ReadTier::kBlockCacheTier;
inline constexpr ReadTier kPersistedTier = ReadTier::kPersistedTier;

inline constexpr PerfLevel kDisable = PerfLevel::kDisable;
inline constexpr PerfLevel kEnableCount = PerfLevel::kEnableCount;
inline constexpr PerfLevel kEnableTimeExceptForMutex =
    PerfLevel::kEnableTimeExceptForMutex;
inline constexpr PerfLevel kEnableTime = PerfLevel::kEnableTime;

inline PerfContext* get_perf_context() { return varve::GetPerfContext(); }
inline IOStatsContext* get_iostats_context() {
  return varve::GetIOStatsContext();
}

// RocksDB returns a pointer that the caller owns. Tables are removed whole.
inline std::shared_ptr<SstFileManager> NewSstFileManager(
    Env* env, std::shared_ptr<Logger> /*info_log*/ = nullptr,
    const std::string& /*trash_dir*/ = "", int64_t rate_bytes_per_sec = 0,
    bool /*delete_existing_trash*/ = true, Status* status = nullptr,
    double max_trash_db_ratio = 0.25,
    uint64_t /*bytes_max_delete_chunk*/ = 64 << 20) {
  if (status != nullptr) *status = Status::OK();
  return varve::NewSstFileManager(env, rate_bytes_per_sec, max_trash_db_ratio);
}

struct Range {
  Range() = default;
  Range(const Slice& its_start, const Slice& its_limit)
      : start(its_start), limit(its_limit) {}

  Slice start;
  Slice limit;
};

enum CompressionType : unsigned char {
  kNoCompression = 0,
  kSnappyCompression = 1,
  kZlibCompression = 2,
  kBZip2Compression = 3,
  kLZ4Compression = 4,
  kLZ4HCCompression = 5,
  kZSTD = 7,
  // Of ColumnFamilyOptions::bottommost_compression: not set.
  kDisableCompressionOption = 0xff,
};

// Only `capacity` and `strict_capacity_limit` have an effect.
struct LRUCacheOptions {
  size_t capacity = 0;
  int num_shard_bits = -1;
  bool strict_capacity_limit = false;
  double high_pri_pool_ratio = 0.5;
  double low_pri_pool_ratio = 0;

  std::shared_ptr<Cache> MakeSharedCache() const {
    varve::CacheOptions options;
    options.capacity_bytes = capacity;
    options.strict_capacity_limit = strict_capacity_limit;
    return varve::NewBlockCache(options);
  }
};
struct HyperClockCacheOptions : LRUCacheOptions {
  explicit HyperClockCacheOptions(size_t its_capacity,
                                  size_t /*estimated_entry_charge*/ = 0) {
    capacity = its_capacity;
  }
};
inline std::shared_ptr<Cache> NewLRUCache(const LRUCacheOptions& options) {
  return options.MakeSharedCache();
}
inline std::shared_ptr<Cache> NewLRUCache(size_t capacity,
                                          int num_shard_bits = -1,
                                          bool strict_capacity_limit = false,
                                          double high_pri_pool_ratio = 0.5) {
  return NewLRUCache(LRUCacheOptions{
      capacity, num_shard_bits, strict_capacity_limit, high_pri_pool_ratio});
}

namespace internal {

// RocksDB's functions return raw pointers to what Varve shares.
class FilterPolicyPointer final : public FilterPolicy {
 public:
  explicit FilterPolicyPointer(std::shared_ptr<const FilterPolicy> policy)
      : policy_(std::move(policy)) {}
  const char* Name() const override { return policy_->Name(); }
  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    policy_->CreateFilter(keys, filter);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return policy_->KeyMayMatch(key, filter);
  }
  double BuiltinBloomBitsPerKey() const override {
    return policy_->BuiltinBloomBitsPerKey();
  }

 private:
  const std::shared_ptr<const FilterPolicy> policy_;
};

class RateLimiterPointer final : public RateLimiter {
 public:
  explicit RateLimiterPointer(std::shared_ptr<RateLimiter> limiter)
      : limiter_(std::move(limiter)) {}
  void Request(uint64_t bytes, Priority priority) override {
    limiter_->Request(bytes, priority);
  }
  void SetBytesPerSecond(uint64_t bytes_per_second) override {
    limiter_->SetBytesPerSecond(bytes_per_second);
  }
  uint64_t GetBytesPerSecond() const override {
    return limiter_->GetBytesPerSecond();
  }
  uint64_t GetTotalBytesThrough(Priority priority) const override {
    return limiter_->GetTotalBytesThrough(priority);
  }
  uint64_t GetTotalRequests(Priority priority) const override {
    return limiter_->GetTotalRequests(priority);
  }

 private:
  const std::shared_ptr<RateLimiter> limiter_;
};

}  // namespace internal

// Both create a Bloom filter. The caller owns the result.
inline const FilterPolicy* NewBloomFilterPolicy(
    double bits_per_key = 10, bool /*use_block_based_builder*/ = false) {
  return new internal::FilterPolicyPointer(
      varve::NewBloomFilterPolicy(bits_per_key));
}
inline const FilterPolicy* NewRibbonFilterPolicy(
    double bloom_equivalent_bits_per_key, int /*bloom_before_level*/ = 0) {
  return NewBloomFilterPolicy(bloom_equivalent_bits_per_key);
}

// The caller owns the result.
inline RateLimiter* NewGenericRateLimiter(int64_t rate_bytes_per_sec,
                                          int64_t refill_period_us = 100000,
                                          int32_t fairness = 10) {
  return new internal::RateLimiterPointer(
      varve::NewGenericRateLimiter(static_cast<uint64_t>(rate_bytes_per_sec),
                                   static_cast<uint64_t>(refill_period_us),
                                   static_cast<uint32_t>(fairness)));
}

// Maps keys to prefixes. InRange is never called.
class SliceTransform : public varve::SliceTransform {
 public:
  virtual bool InRange(const Slice& /*dst*/) const { return false; }
};

namespace internal {

class EngineTransform final : public SliceTransform {
 public:
  explicit EngineTransform(std::shared_ptr<const varve::SliceTransform> rep)
      : rep_(std::move(rep)) {}
  const char* Name() const override { return rep_->Name(); }
  Slice Transform(const Slice& key) const override {
    return rep_->Transform(key);
  }
  bool InDomain(const Slice& key) const override { return rep_->InDomain(key); }
  bool FullLengthEnabled(size_t* length) const override {
    return rep_->FullLengthEnabled(length);
  }
  bool SameResultWhenAppended(const Slice& prefix) const override {
    return rep_->SameResultWhenAppended(prefix);
  }

 private:
  const std::shared_ptr<const varve::SliceTransform> rep_;
};

}  // namespace internal

// The caller owns the results.
inline const SliceTransform* NewFixedPrefixTransform(size_t prefix_len) {
  return new internal::EngineTransform(
      varve::NewFixedPrefixTransform(prefix_len));
}
inline const SliceTransform* NewCappedPrefixTransform(size_t cap_len) {
  return new internal::EngineTransform(
      varve::NewCappedPrefixTransform(cap_len));
}
inline const SliceTransform* NewNoopTransform() {
  return new internal::EngineTransform(varve::NewNoopTransform());
}

}  // namespace VARVE_ROCKSDB_NAMESPACE
