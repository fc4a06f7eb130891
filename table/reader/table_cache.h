// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "table/block/table_options.h"
#include "table/reader/table.h"
#include "varve/env.h"
#include "varve/options.h"

namespace varve {

// A table file as described by the MANIFEST.
struct TableFile {
  uint64_t number = 0;
  uint64_t size = 0;
  uint64_t tail_size = 0;  // After the data blocks; 0 if unknown.
  SequenceNumber largest_sequence = 0;
};

class FilePool;

// A cached table handle in a file's metadata. The table then stays open as long
// as the metadata exists.
struct CachedTableHandle {
  CachedTableHandle() = default;
  // A copy of the metadata does not keep the table. noexcept, so that metadata
  // is moved when a vector of it grows.
  CachedTableHandle(const CachedTableHandle& other) noexcept { *this = other; }
  CachedTableHandle& operator=(const CachedTableHandle& other) noexcept {
    // relaxed, both: see below.
    without_tombstones.store(
        other.without_tombstones.load(std::memory_order_relaxed),
        std::memory_order_relaxed);
    return *this;
  }

  std::atomic<const Table*> table{nullptr};
  std::shared_ptr<Table> owner;  // Guarded by the table cache's mutex.
  // The table is known to have no range deletions. Accessed relaxed: a thread
  // that does not see it yet opens the table and finds the same.
  std::atomic<bool> without_tombstones{false};
};

// The tables of a database. A table's metadata (index, filter, properties)
// stays in memory after it is read. Its file is open only while it is among the
// `max_open_files` (-1: no limit) most recently read files
// (table/reader/file_pool.h). Concurrent opens of one table are done once.
// Thread-safety: thread-safe.
class TableCache {
 public:
  // `base` has the options of all tables. Name, size and sequence are set for
  // each table. With uncached_open in the file options, a table is evicted when
  // its file is closed (ablation table_open=uncached). With `charge_tables`,
  // tables are charged to the block cache, and evicted when they would take
  // more than half of it. `shared_pool`, if not null, must have the same Env
  // and file options and must outlive this; its bound then applies.
  TableCache(std::string db_path, Env* env, const FileOptions& file_options,
             const TableReaderOptions& base, int max_open_files,
             bool charge_tables = false, FilePool* shared_pool = nullptr);
  TableCache(const TableCache&) = delete;
  TableCache& operator=(const TableCache&) = delete;
  ~TableCache();

  // Returns the table, and opens it if necessary: first NNNNNN.sst, then
  // NNNNNN.ldb. Returns Corruption if the file is missing or shorter than the
  // MANIFEST says. The table stays usable while the pointer is held.
  Status Find(const TableFile& file, std::shared_ptr<Table>* table);
  // Like Find, for callers that need only properties and range deletions. The
  // index and the filter of a large table may not be loaded
  // (Table::is_loaded). A table that has to be opened is opened without them.
  // `limits` is as in the last Find.
  Status FindDescription(const TableFile& file, std::shared_ptr<Table>* table,
                         const ReadOptions* limits = nullptr);
  // Like Find, but a large table may not be loaded. Then its index is read to
  // verify the checksum, and not kept. For checks of many tables, which may not
  // all be read soon. If `dead` is not null, it is set to the table's counts.
  Status Check(const TableFile& file, CachedTableHandle* handle,
               DeadEntries* dead = nullptr);

  // Returns the table through its cached handle. This is one load, unless
  // tables can be evicted. Otherwise *owner keeps the table. If `limits` is not
  // null, a table that must be opened may be refused; see MayReadFile.
  Status Find(const TableFile& file, CachedTableHandle* handle,
              const Table** table, std::shared_ptr<Table>* owner,
              const ReadOptions* limits = nullptr) {
    // acquire pairs with the release in Cache: the table is seen whole.
    *table = handle->table.load(std::memory_order_acquire);
    if (*table != nullptr) [[likely]]
      return Status();
    return FindAndCache(file, handle, table, owner, limits);
  }

  // Returns an iterator, never null. Errors are in its status(). The iterator
  // keeps the table open. With a handle, the handle does so, and the iterator
  // must not outlive the file's metadata.
  std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options, const TableFile& file,
      CachedTableHandle* handle = nullptr, ThreadArena* memory = nullptr);

  // See FilePool.
  void ExpectOtherWriters();
  // Declares that all tables were present. A table that is missing later was
  // removed by another process, and returns FilePool::RemovedError instead of
  // Corruption.
  void ExpectRemovals();

  // Evicts the table of a file that is about to be removed.
  void Evict(uint64_t file_number);
  // Evicts all tables. Those that nobody uses are closed.
  void EvictAll();

  // Returns the bytes of the tables' metadata.
  size_t ApproximateMemoryUsage() const;
  // Returns the number of open files.
  size_t TEST_OpenFiles() const;

 private:
  Status FindAndCache(const TableFile& file, CachedTableHandle* handle,
                      const Table** table, std::shared_ptr<Table>* owner,
                      const ReadOptions* limits);
  // Sets the table in the handle, if tables are not evicted.
  void Cache(CachedTableHandle* handle, const std::shared_ptr<Table>& table);

  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace varve
