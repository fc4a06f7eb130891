// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Defines the types of varve/c.h, and helpers for all its functions.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "util/base/mutex.h"
#include "varve/c.h"
#include "varve/cache.h"
#include "varve/catalog.h"
#include "varve/column_family.h"
#include "varve/compaction_filter.h"
#include "varve/comparator.h"
#include "varve/compression_type.h"
#include "varve/db.h"
#include "varve/env.h"
#include "varve/filter_policy.h"
#include "varve/iterator.h"
#include "varve/merge_operator.h"
#include "varve/metadata.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/rate_limiter.h"
#include "varve/statistics.h"
#include "varve/transaction.h"
#include "varve/transaction_db.h"
#include "varve/write_batch.h"
#include "varve/write_batch_with_index.h"
#include "varve/write_buffer_manager.h"

namespace varve::capi {

// An object of a handle that can outlive it, and then cannot be used. See
// AddDependent in capi/lifetime.h.
struct Dependent {
  Dependent(DB* its_db, varve_t* its_handle) : db(its_db), handle(its_handle) {}
  Dependent(const Dependent&) = delete;
  Dependent& operator=(const Dependent&) = delete;
  virtual ~Dependent() = default;
  // Called before the database is closed, which may fail as long as it has
  // objects.
  virtual void BeforeClose() {}
  // Releases what it has of the database.
  virtual void CutOff() {}

  // ClosedDb() after its handle is closed.
  DB* db;
  varve_t* handle;   // Null after its handle is closed.
  size_t place = 0;  // Among the dependents of the handle.
};

// The transactions that may be prepared and have an owner: a handle has begun
// to prepare them, or they have been returned as prepared. Others that are
// prepared were found by recovery, and belong to nobody.
//
// A transaction is destroyed with the mutex held, and leaves the map with it.
// So one that is in the map exists, also if its owners have just gone.
struct OwnedTransactions {
  varve::Mutex mutex;
  // Guarded by `mutex`.
  std::map<varve::Transaction*, std::weak_ptr<varve::Transaction>> owners;
};

}  // namespace varve::capi

// A handle of a database that it owns, or of a catalog's reference. See
// capi/lifetime.h.
struct varve_t {
  // Never null. ClosedDb() after the handle is closed.
  varve::DB* db = nullptr;
  std::unique_ptr<varve::DB> owned;
  varve::DatabaseRef reference;
  // The handle was closed while objects of the database existed.
  std::atomic<bool> closing{false};
  // Held while such an object is destroyed.
  varve::Mutex mutex;
  std::vector<varve::capi::Dependent*> dependents;
  // The database, if it has transactions of this kind.
  varve::TransactionDB* locking = nullptr;
  varve::OptimisticTransactionDB* optimistic = nullptr;
  const std::shared_ptr<varve::capi::OwnedTransactions> transactions =
      std::make_shared<varve::capi::OwnedTransactions>();
};

struct varve_checkpoint_t final : varve::capi::Dependent {
  using Dependent::Dependent;
};

struct varve_column_family_handle_t final : varve::capi::Dependent {
  using Dependent::Dependent;
  void CutOff() override { rep.reset(); }

  // Null for the default family, and after the handle of the database is
  // closed.
  std::unique_ptr<varve::ColumnFamilyHandle> rep;
  uint32_t id = 0;
  std::string name = varve::kDefaultColumnFamilyName;
};

// Tables of a database, or of an exported family.
struct varve_livefiles_t {
  std::vector<varve::LiveFileMetaData> tables;
};

struct varve_export_import_files_metadata_t {
  varve::ExportImportFilesMetaData rep;
};

// A transaction, shared with its iterators. Ends when its database is closed.
struct varve_transaction_t final : varve::capi::Dependent {
  varve_transaction_t(varve_t* its_handle,
                      std::shared_ptr<varve::Transaction> transaction)
      : Dependent(its_handle->db, its_handle), rep(std::move(transaction)) {}
  void BeforeClose() override { rep.reset(); }

  std::shared_ptr<varve::Transaction> rep;  // Null after its handle is closed.
};

struct varve_snapshot_t {
  const varve::Snapshot* rep;
  varve::DB* db;   // The database that releases it.
  varve_t* owner;  // See OwnerOf.
  // Part of a read transaction, so it is not released by itself.
  bool borrowed;
};

namespace varve::capi {

// Memory of the bounds of iterators.
struct KeptBounds {
  std::string lower;
  std::string upper;
  Slice lower_slice;
  Slice upper_slice;
};

}  // namespace varve::capi

struct varve_iterator_t {
  varve_t* owner = nullptr;  // See OwnerOf.
  varve::capi::KeptBounds bounds;
  // In place of `bounds`, if several iterators have the same.
  std::shared_ptr<varve::capi::KeptBounds> shared_bounds;
  // The batch or transaction whose updates it shows. Null if there is none.
  std::shared_ptr<void> updates;
  std::unique_ptr<varve::Iterator> rep;
};

struct varve_pinnableslice_t {
  varve::PinnableSlice rep;
};

struct varve_flushoptions_t {
  varve::FlushOptions rep;
};

struct varve_compactoptions_t {
  varve::CompactRangeOptions rep;
};

struct varve_writebatch_t {
  varve::WriteBatch rep;
};

struct varve_writebatch_wi_t {
  // Iterators share it. Never null.
  std::shared_ptr<varve::WriteBatchWithIndex> rep;
  // The error of the first update that was left out.
  varve::Status problem;
};

struct varve_transactiondb_options_t {
  varve::TransactionDBOptions rep;
};

struct varve_transaction_options_t {
  varve::TransactionOptions rep;
};

struct varve_optimistictransaction_options_t {
  varve::OptimisticTransactionOptions rep;
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
  // Calls the destructor of a user's policy, to which databases may still
  // point. Null for other policies.
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
  // DB::Open rejects an empty name.
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

struct varve_write_buffer_manager_t {
  std::shared_ptr<varve::WriteBufferManager> rep;
};

struct varve_statistics_t {
  std::shared_ptr<varve::Statistics> rep;
};

struct varve_mergeoperator_t {
  std::shared_ptr<varve::MergeOperator> rep;
};

struct varve_compactionfilter_t final : varve::CompactionFilter {
  using Decide = uint8_t (*)(void*, int level, const char* key,
                             size_t key_length, const char* existing_value,
                             size_t value_length, char** new_value,
                             size_t* new_value_length, uint8_t* value_changed);

  varve_compactionfilter_t(void* its_state, void (*its_destructor)(void*),
                           Decide its_filter, const char* its_name)
      : state(its_state),
        destructor(its_destructor),
        filter(its_filter),
        name(its_name) {}
  ~varve_compactionfilter_t() override {
    if (destructor != nullptr) destructor(state);
  }
  bool Filter(int level, const varve::Slice& key, const varve::Slice& value,
              std::string* new_value, bool* value_changed) const override;
  const char* Name() const override { return name.c_str(); }

  void* const state;
  void (*const destructor)(void*);
  const Decide filter;
  const std::string name;
};

struct varve_compactionfilterfactory_t {
  std::shared_ptr<varve::CompactionFilterFactory> rep;
};

struct varve_compactionfiltercontext_t {
  const varve::CompactionFilter::Context* rep;
};

struct varve_options_t {
  varve::Options rep;
  // The policy's handle. ForUse reads it, so it must exist when the options are
  // used. It may be destroyed before the options are destroyed.
  const varve_filterpolicy_t* filter_policy = nullptr;

  varve::Options ForUse() const {
    varve::Options options = rep;
    if (filter_policy != nullptr) options.filter_policy = filter_policy->rep;
    return options;
  }
};

// A bound of iterators.
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

// Returns a copy of the bytes, allocated with malloc and followed by a zero
// byte. Returns null only if memory is exhausted.
inline char* CopyBytes(const Slice& bytes) {
  auto* const copy = static_cast<char*>(malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

// Stores an error in *errptr and frees an earlier one. If `errptr` is null, the
// error is lost.
[[gnu::cold, gnu::noinline]] void ReplaceError(char** errptr,
                                               const Status& status);

// Returns whether the status is an error, and stores it in *errptr.
inline bool SaveError(char** errptr, const Status& status) {
  if (status.ok()) [[likely]]
    return false;
  ReplaceError(errptr, status);
  return true;
}

// Returns the value for varve_get and similar functions. Returns null if it was
// not found or the read failed.
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

// Converts a value of varve/c.h's enum. Any other number becomes a type that
// DB::Open rejects.
inline CompressionType ToCompression(int type) {
  constexpr int kUnknown = 0xff;
  return static_cast<CompressionType>(type >= 0 && type < kUnknown ? type
                                                                   : kUnknown);
}

// Sets a field of options. Does nothing if the options are null; the call that
// receives the options returns an error for that.
template <typename Handle, typename Options, typename T>
void Set(Handle* handle, T Options::*field, std::type_identity_t<T> value) {
  if (handle != nullptr) handle->rep.*field = std::move(value);
}

}  // namespace varve::capi
