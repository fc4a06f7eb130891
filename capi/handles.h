// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the types of varve/c.h are, and what all its functions have in common.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "util/base/mutex.h"
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

struct varve_checkpoint_t;

// A database that the handle owns, or a reference of a catalog. See
// capi/lifetime.h.
struct varve_t {
  // Never null: ClosedDb() once the handle was closed.
  varve::DB* db = nullptr;
  std::unique_ptr<varve::DB> owned;
  varve::DatabaseRef reference;
  // The handle was closed while objects of the database were out.
  std::atomic<bool> closing{false};
  // Held while such an object goes.
  varve::Mutex mutex;
  std::vector<varve_checkpoint_t*> checkpoints;
};

struct varve_checkpoint_t {
  // ClosedDb() once its handle was closed.
  varve::DB* db;
  varve_t* handle;  // Null once its handle was closed.
};

struct varve_snapshot_t {
  const varve::Snapshot* rep;
  varve::DB* db;   // Where it is released.
  varve_t* owner;  // See OwnerOf.
  // Of a read transaction: not to be released on its own.
  bool borrowed;
};

struct varve_iterator_t {
  varve_t* owner = nullptr;  // See OwnerOf.
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

  ~varve_comparator_t() override {
    if (destructor != nullptr) destructor(state);
  }
  int Compare(const varve::Slice& a, const varve::Slice& b) const override {
    return compare(state, a.data(), a.size(), b.data(), b.size());
  }
  // An empty name is refused when a database is opened.
  const char* Name() const override {
    const char* const given = name(state);
    return given != nullptr ? given : "";
  }
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

// Of iterators.
struct varve_bound_t {
  std::string key;
  bool is_set = false;
  bool is_usable = true;
};

struct varve_readoptions_t {
  varve::ReadOptions rep;
  varve_bound_t lower;
  varve_bound_t upper;
};

struct varve_writeoptions_t {
  varve::WriteOptions rep;
};

namespace varve::capi {

// Never null for want of bytes; null if there is no memory.
inline char* CopyBytes(const Slice& bytes) {
  auto* const copy = static_cast<char*>(malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

// Puts an error in *errptr in place of an earlier one. `errptr` may be null,
// which loses the error.
[[gnu::cold, gnu::noinline]] void ReplaceError(char** errptr,
                                               const Status& status);

// Whether it is an error, which is then in *errptr.
inline bool SaveError(char** errptr, const Status& status) {
  if (status.ok()) [[likely]]
    return false;
  ReplaceError(errptr, status);
  return true;
}

// The value for varve_get and its like: null if it was not found or failed.
inline char* TakeValue(const Status& status, const Slice& value, size_t* size,
                       char** errptr) {
  *size = 0;
  if (!status.ok()) [[unlikely]] {
    if (!status.IsNotFound()) ReplaceError(errptr, status);
    return nullptr;
  }
  char* const copy = CopyBytes(value);
  if (copy == nullptr) [[unlikely]] {
    ReplaceError(errptr, Status::Aborted("no memory for a value of",
                                         std::to_string(value.size())));
    return nullptr;
  }
  *size = value.size();
  return copy;
}

// One of the enum of varve/c.h; any other number becomes a type that DB::Open
// refuses.
inline CompressionType ToCompression(int type) {
  constexpr int kUnknown = 0xff;
  return static_cast<CompressionType>(type >= 0 && type < kUnknown ? type
                                                                   : kUnknown);
}

// Sets a field of options. Does nothing if these are null: the call that the
// options are given to has an error for that.
template <typename Handle, typename Options, typename T>
void Set(Handle* handle, T Options::*field, std::type_identity_t<T> value) {
  if (handle != nullptr) handle->rep.*field = std::move(value);
}

}  // namespace varve::capi
