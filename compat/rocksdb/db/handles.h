// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The objects of an open database in RocksDB's C interface, and the checks of
// arguments that are such objects.

#include <rocksdb/c.h>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compat/rocksdb/base.h"
#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/db_ttl.h"
#include "varve/env.h"
#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"

namespace varve::rocksdb_c {

struct TransactionSupport;

}  // namespace varve::rocksdb_c

// A handle of a database. See db/lifetime.h.
struct rocksdb_t {
  // Null after the handle was closed. Reads and writes need only this.
  varve::DB* db = nullptr;
  // The same database, with all objects that it uses. Objects that can outlive
  // the handle keep a weak reference.
  std::shared_ptr<varve::DB> owned;
  // The database's LOG. Null if it has none.
  std::shared_ptr<varve::Logger> log;
  std::string path;
  varve::Env* env = nullptr;
  bool is_read_only = false;
  // The same database if its entries expire; otherwise null.
  varve::DBWithTTL* with_ttl = nullptr;
  // Of a database with transactions; otherwise null. See transaction/handles.h.
  std::shared_ptr<varve::rocksdb_c::TransactionSupport> transactions;
  // The handle of the same database without locks of keys. Null if there is
  // none. That handle is not closed by itself, and has no families.
  std::unique_ptr<rocksdb_t> base;
  // The handle that owns the database: this one, or the one that has `base`.
  rocksdb_t* main = this;
  std::shared_ptr<varve::ColumnFamilyHandle> default_family;
  // Iterators ask filters for prefixes only if their options say so.
  bool prefix_seek_opt_in_only = false;
  // Manual compactions do nothing while this is above 0.
  std::atomic<int> manual_compaction_pauses{0};
  std::mutex mutex;
  // All families but the default one, until they are dropped. Guarded by
  // `mutex`.
  std::vector<std::shared_ptr<varve::ColumnFamilyHandle>> families;
};

struct rocksdb_column_family_handle_t {
  // The main handle. Compared only, since it can be gone.
  const rocksdb_t* db = nullptr;
  // Iterators share it. The engine accepts a handle that outlives its database,
  // and then returns an error from all calls.
  std::shared_ptr<varve::ColumnFamilyHandle> rep;
  uint32_t id = 0;
  std::string name = varve::kDefaultColumnFamilyName;
};

struct rocksdb_snapshot_t {
  // Null if it is of a transaction that has none.
  const varve::Snapshot* rep;
  // Releases it; see db/lifetime.h. Null if it is a transaction's.
  varve::DB* db;
};

namespace varve::rocksdb_c {

// Memory of the bounds of iterators.
struct KeptBounds {
  std::string lower;
  std::string upper;
  Slice lower_slice;
  Slice upper_slice;
};

}  // namespace varve::rocksdb_c

struct rocksdb_iterator_t {
  varve::DB* db = nullptr;  // Null if there was an error.
  std::shared_ptr<varve::ColumnFamilyHandle> family;  // Null: the default one.
  varve::ReadOptions options;
  // The bounds to which `options` points. Null without bounds.
  std::shared_ptr<varve::rocksdb_c::KeptBounds> bounds;
  // It also shows the updates of a batch or a transaction.
  bool shows_batch = false;
  std::shared_ptr<void> batch;  // Keeps that batch alive.
  std::unique_ptr<varve::Iterator> rep;
};

struct rocksdb_pinnableslice_t {
  varve::PinnableSlice rep;
};

struct rocksdb_checkpoint_t {
  std::weak_ptr<varve::DB> db;
};

namespace varve::rocksdb_c {

// An open database.
struct Open {
  const rocksdb_t* db;
  static constexpr const char* name = "db";

  bool ok() const { return db != nullptr && db->db != nullptr; }
  const char* Problem() const {
    return db == nullptr ? "is NULL" : "was closed";
  }
};

// A column family of the database that has the handle `main`.
struct FamilyOfMain {
  const rocksdb_column_family_handle_t* family;
  const rocksdb_t* main;
  static constexpr const char* name = "column_family";

  bool ok() const { return family != nullptr && family->db == main; }
  const char* Problem() const {
    return family == nullptr ? "is NULL" : "belongs to another database";
  }
};

// The same, of the database of a handle that another argument checks. It may be
// null.
struct FamilyOf {
  const rocksdb_column_family_handle_t* family;
  const rocksdb_t* db;
  static constexpr const char* name = FamilyOfMain::name;

  bool ok() const { return Checked().ok(); }
  const char* Problem() const { return Checked().Problem(); }
  FamilyOfMain Checked() const {
    return {family, db == nullptr ? nullptr : db->main};
  }
};

}  // namespace varve::rocksdb_c
