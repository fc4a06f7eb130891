// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Many databases under one directory, found by name. They are opened when they
// are first asked for, and share a block cache, statistics, background threads
// and a bound on open table files.
//
// Names are case-insensitive: those that fold to the same text (see
// KeyCase::kInsensitive) name the same database. A name is UTF-8; folded, it
// has 1 to 80 bytes, no control characters, none of / \ : * ? " < > |, no two
// dots in a row, no dot or space at either end, and is no device of Windows
// (con, prn, aux, nul, com1 to com9, lpt1 to lpt9, nor with a dot and more
// behind). Any other name is InvalidArgument.

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

// An open database of a catalog. While the reference lives, the database is
// neither closed nor dropped. To hold one costs other threads nothing; it may
// be moved to another thread and given back there.
//
// Iterators, snapshots and pinned values of the database must be gone before
// it. Thread-safety: thread-compatible. The DB itself is thread-safe, and a
// reference for each thread is cheaper than one that they hand around.
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

  // Null if it is empty.
  DB* get() const { return db_; }
  DB* operator->() const { return db_; }
  DB& operator*() const { return *db_; }
  explicit operator bool() const { return db_ != nullptr; }

  // Gives the reference back; *this is then empty.
  void Reset() {
    if (db_ != nullptr) GiveBack();
  }

 private:
  friend class CatalogImpl;

  void GiveBack();

  DB* db_ = nullptr;
  CatalogEntry* entry_ = nullptr;
};

struct CatalogOptions {
  // Of each database. create_if_missing and error_if_exists are of no account.
  // block_cache and statistics are shared if they are given, and else made for
  // the catalog. max_open_files bounds the table files of all databases
  // together. max_background_jobs is that of all databases of an Env, as ever.
  Options options;

  // Make the catalog's directory if it is missing (its parent must exist).
  // Default: false.
  bool create_if_missing = false;

  // Entries of the name cache. A name that is requested again with the same
  // bytes is found there and is not folded. [4, 1 Mi]. Default: 4096.
  size_t max_cached_names = 4096;

  // How long Drop waits for references that are out, in microseconds.
  // Default: one second.
  uint64_t drop_timeout_us = 1000000;
};

// Thread-safety: thread-safe; no outside lock is needed for anything but
// destruction. A Comparator, FilterPolicy, Logger, Env or EventListener that a
// database of the catalog uses must not call it: some calls wait for reads and
// background work that are under way.
class VARVE_EXPORT Catalog {
 public:
  // How many there are at the moment.
  struct Counts {
    size_t databases = 0;
    size_t open = 0;
    size_t cached_names = 0;      // In the name cache.
    size_t open_table_files = 0;  // Of all databases.
  };

  // Opens the catalog in the directory `root`, and none of its databases.
  // InvalidArgument: an option out of its bounds; a missing directory without
  // create_if_missing. Busy: a catalog has it open, in this process or another.
  static Status Open(const CatalogOptions& options, const std::string& root,
                     std::unique_ptr<Catalog>* catalog);

  Catalog() = default;
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;
  // Closes, losing the status. REQUIRES: no reference is out.
  virtual ~Catalog() = default;

  // Makes *ref a reference to the database of that name, which is opened if it
  // is not; whatever it was before, it is given back. A name that was asked for
  // with these bytes before is found without a lock.
  // NotFound: there is none. Others: it could not be opened, see DB::Open; the
  // next call tries again. *ref is then empty.
  virtual Status Find(const Slice& name, DatabaseRef* ref) = 0;

  // Makes a new, empty database, and opens it. InvalidArgument if there is one
  // of that name. It survives a power cut once this has returned OK. IOError:
  // there is none, and this may be called again; but an empty one may be there
  // after a power cut or the next Open.
  virtual Status Create(const Slice& name) = 0;

  // Removes a database and its files. New references are not given out
  // meanwhile; those that are out are waited for, at most drop_timeout_us.
  // Busy: one of them, or an iterator or snapshot, is still out; the database
  // is then as it was. NotFound: there is none. IOError: it is as it was, or
  // gone but may come back after a power cut, until a Drop or Create of that
  // name, or the next Open, has returned OK. Files that cannot be removed go at
  // the next Open.
  virtual Status Drop(const Slice& name) = 0;

  // Closes the open databases that nobody has a reference to, and that nobody
  // asked for since a call of this at least idle_us microseconds ago; with 0,
  // all that nobody has a reference to. *closed says how many; may be null.
  // Returns the first error of a DB::Close. Closed databases are opened again
  // when asked for. The catalog does so itself if descriptors run short.
  virtual Status CloseIdle(uint64_t idle_us, size_t* closed) = 0;

  // The names, folded, in bytewise order.
  virtual void List(std::vector<std::string>* names) = 0;

  // Takes the mutex; for observation.
  virtual Counts GetCounts() = 0;

  // Closes all databases. Calls of other threads must have returned. Busy if
  // references, iterators or snapshots are still out: the databases that have
  // any stay open then. After OK only the destructor may be called.
  virtual Status Close() = 0;
};

}  // namespace varve
