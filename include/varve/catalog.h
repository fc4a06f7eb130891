// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A catalog holds many databases under one directory and finds them by name. A
// database is opened on first use. All share a block cache, statistics,
// background threads, a budget for write buffers and a limit on open table
// files.
//
// The databases have no column families beside the default one.
//
// Names are case-insensitive. Names that fold to the same text (see
// KeyCase::kInsensitive) name the same database. A name is UTF-8. After folding
// it has 1 to 80 bytes. It has no control characters, none of / \ : * ? " < >
// |, no two dots in a row, and no dot or space at either end. It must not be a
// Windows device name: con, prn, aux, nul, com1 to com9 or lpt1 to lpt9, alone
// or followed by a dot and more. Any other name returns InvalidArgument.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/db.h"
#include "varve/export.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

struct CatalogEntry;

// A reference to an open database of a catalog. While it exists, the database
// is neither closed nor dropped. Holding a reference costs other threads
// nothing. It may be moved to another thread and released there.
//
// Destroy iterators, snapshots and pinned values of the database before the
// reference. Thread-safety: thread-compatible. The DB itself is thread-safe.
// One reference per thread is cheaper than one that threads pass around.
// Lifetime: shorter than the catalog's.
class VARVE_EXPORT DatabaseRef {
 public:
  DatabaseRef() = default;
  DatabaseRef(DatabaseRef&& other) noexcept
      : db_(std::exchange(other.db_, nullptr)), entry_(other.entry_) {}
  DatabaseRef& operator=(DatabaseRef&& other) noexcept {
    if (this != &other) {
      Reset();
      db_ = std::exchange(other.db_, nullptr);
      entry_ = other.entry_;
    }
    return *this;
  }
  ~DatabaseRef() { Reset(); }

  // Returns the database, or null if the reference is empty.
  DB* get() const { return db_; }
  DB* operator->() const { return db_; }
  DB& operator*() const { return *db_; }
  explicit operator bool() const { return db_ != nullptr; }

  // Releases the reference. *this is then empty.
  void Reset() {
    if (db_ != nullptr) GiveBack();
  }

 private:
  friend class CatalogImpl;

  void GiveBack();

  DB* db_ = nullptr;
  CatalogEntry* entry_ = nullptr;
};

struct VARVE_USES_CONTAINERS CatalogOptions {
  // Options of each database. create_if_missing and error_if_exists are
  // ignored. If block_cache and statistics are null, the catalog creates shared
  // ones. If write_buffer_manager is null, the catalog creates one for all
  // databases. Its budget is four times write_buffer_size, at least 64 MiB, and
  // writes wait while it is exceeded. For databases without a common budget,
  // set a WriteBufferManager of size 0. max_open_files limits the table files
  // of all databases together. max_background_jobs applies to all databases of
  // an Env together.
  Options options;

  // Create the catalog's directory if it does not exist. Its parent must exist.
  // Default: false.
  bool create_if_missing = false;

  // Entries of the name cache. A name that is requested again with the same
  // bytes is found in the cache without folding. [4, 1 Mi]. Default: 4096.
  size_t max_cached_names = 4096;

  // How long Drop waits until references are released, in microseconds.
  // Default: one second.
  uint64_t drop_timeout_us = 1000000;
};

// Thread-safety: thread-safe, except destruction. A Comparator, FilterPolicy,
// Logger, Env or EventListener of a database in the catalog must not call the
// catalog. Some calls wait for running reads and background work.
class VARVE_EXPORT Catalog {
 public:
  // Current counts.
  struct Counts {
    size_t databases = 0;
    size_t open = 0;
    size_t cached_names = 0;      // In the name cache.
    size_t open_table_files = 0;  // Of all databases.
    // Bytes of memtables that the write buffer manager counts, and its budget.
    size_t memtable_bytes = 0;
    size_t memtable_budget_bytes = 0;
  };

  // Opens the catalog in the directory `root`, and none of its databases.
  // Returns InvalidArgument if an option is out of bounds, or if the directory
  // does not exist and create_if_missing is false. Returns Busy if a catalog
  // has it open, in this process or another.
  static Status Open(const CatalogOptions& options, const std::string& root,
                     std::unique_ptr<Catalog>* catalog);

  Catalog() = default;
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;
  // Closes the catalog and ignores the status. REQUIRES: there are no
  // references.
  virtual ~Catalog() = default;

  // Sets *ref to a reference to the database of that name. Opens the database
  // if it is not open. Releases the previous reference in *ref. A name that was
  // requested with the same bytes before is usually found without a lock.
  // Returns NotFound if there is no such database, or the error of DB::Open.
  // *ref is then empty, and the next call tries again.
  virtual Status Find(const Slice& name, DatabaseRef* ref) = 0;

  // Creates an empty database and opens it. Returns InvalidArgument if the name
  // exists. After OK, the database survives a power failure. After IOError,
  // there is no such database and the call may be repeated. However, an empty
  // one may appear after a power failure or the next Open.
  virtual Status Create(const Slice& name) = 0;

  // Removes a database and its files. During the call no new references are
  // given out. It waits at most drop_timeout_us until all references are
  // released. Returns NotFound if there is no such database. Returns Busy if a
  // reference, an iterator or a snapshot still exists; the database is then
  // unchanged. After IOError, the database is unchanged, or it is removed but
  // may reappear after a power failure. It can reappear until a Drop or Create
  // of that name, or the next Open, has returned OK. Files that cannot be
  // removed are removed by the next Open.
  virtual Status Drop(const Slice& name) = 0;

  // Closes the open databases that have no references and were not requested
  // since a call of this function at least idle_us microseconds ago. With 0,
  // closes all databases without references. *closed is set to their number; it
  // may be null. Returns the first error of a DB::Close. Closed databases are
  // reopened on request. The catalog also closes databases itself if
  // descriptors run out.
  virtual Status CloseIdle(uint64_t idle_us, size_t* closed) = 0;

  // Returns the folded names in bytewise order.
  virtual void List(std::vector<std::string>* names) = 0;

  // Returns current counts. Takes the mutex; for monitoring.
  virtual Counts GetCounts() = 0;

  // Closes all databases. Calls of other threads must have returned. Returns
  // Busy if references, iterators or snapshots still exist. Their databases
  // then stay open. After OK only the destructor may be called.
  virtual Status Close() = 0;
};

}  // namespace varve
