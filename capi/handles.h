// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the types of varve/c.h are, and what all its functions have in common.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "varve/c.h"
#include "varve/cache.h"
#include "varve/catalog.h"
#include "varve/comparator.h"
#include "varve/compression_type.h"
#include "varve/db.h"
#include "varve/env.h"
#include "varve/filter_policy.h"
#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/rate_limiter.h"
#include "varve/statistics.h"
#include "varve/write_batch.h"

// A database that the handle owns, or a reference of a catalog.
struct varve_t {
  std::unique_ptr<varve::DB> owned;
  varve::DatabaseRef reference;
  varve::DB* db = nullptr;
};

struct varve_snapshot_t {
  const varve::Snapshot* rep;
  // Of a read transaction: not to be released on its own.
  bool borrowed;
};

struct varve_iterator_t {
  // What the iterator's bounds point to.
  std::string lower;
  std::string upper;
  varve::Slice lower_slice;
  varve::Slice upper_slice;
  std::unique_ptr<varve::Iterator> rep;
};

struct varve_writebatch_t {
  varve::WriteBatch rep;
};

struct varve_cache_t {
  std::shared_ptr<varve::Cache> rep;
};

struct varve_env_t {
  varve::Env* rep;
  std::unique_ptr<varve::Env> owned;
};

struct varve_logger_t {
  std::shared_ptr<varve::Logger> rep;
};

struct varve_filterpolicy_t {
  std::shared_ptr<const varve::FilterPolicy> rep;
  // Calls the destructor of a policy of the user's, which databases may still
  // point to; null for others.
  void (*retire)(const varve::FilterPolicy* policy);
};

struct varve_comparator_t final : varve::Comparator {
  void* state;
  void (*destructor)(void*);
  int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen);
  const char* (*name)(void*);

  ~varve_comparator_t() override { destructor(state); }
  int Compare(const varve::Slice& a, const varve::Slice& b) const override {
    return compare(state, a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override { return name(state); }
  void FindShortestSeparator(std::string* /*start*/,
                             const varve::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

struct varve_ratelimiter_t {
  std::shared_ptr<varve::RateLimiter> rep;
};

struct varve_statistics_t {
  std::shared_ptr<varve::Statistics> rep;
};

struct varve_options_t {
  varve::Options rep;
  // Whatever else points to the policy may be destroyed before these options.
  const varve_filterpolicy_t* filter_policy = nullptr;

  varve::Options ForUse() const {
    varve::Options options = rep;
    if (filter_policy != nullptr) options.filter_policy = filter_policy->rep;
    return options;
  }
};

struct varve_readoptions_t {
  varve::ReadOptions rep;
  std::string lower;
  std::string upper;
  bool has_lower = false;
  bool has_upper = false;
};

struct varve_writeoptions_t {
  varve::WriteOptions rep;
};

namespace varve::capi {

// `data` may be null if there are no bytes.
inline Slice ToSlice(const char* data, size_t size) {
  return size == 0 ? Slice() : Slice(data, size);
}

// Never null for want of bytes; null if there is no memory.
inline char* CopyBytes(const Slice& bytes) {
  auto* const copy = static_cast<char*>(malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

// Whether it is an error, which is then in *errptr in place of an earlier one.
inline bool SaveError(char** errptr, const Status& status) {
  if (status.ok()) return false;
  free(*errptr);
  *errptr = CopyBytes(status.ToString());
  return true;
}

// One of the enum of varve/c.h; any other number becomes a type that DB::Open
// refuses.
inline CompressionType ToCompression(int type) {
  constexpr int kUnknown = 0xff;
  return static_cast<CompressionType>(type >= 0 && type < kUnknown ? type
                                                                   : kUnknown);
}

// The value for varve_get and its like: null if it was not found or failed.
char* TakeValue(const Status& status, const Slice& value, size_t* size,
                char** errptr);

}  // namespace varve::capi
