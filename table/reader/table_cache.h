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

// A table file as the MANIFEST knows it.
struct TableFile {
  uint64_t number = 0;
  uint64_t size = 0;
  uint64_t tail_size = 0;  // Behind the data blocks; 0 if unknown.
  SequenceNumber largest_sequence = 0;
};

class FilePool;

// What a file's metadata remember of its table: the table itself, which then
// stays open as long as they do.
struct CachedTableHandle {
  CachedTableHandle() = default;
  // A copy of the metadata does not remember the table. noexcept, so that
  // metadata move when a vector of them grows.
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
  // It is known that the table has no range deletions. Accessed relaxed: who
  // does not see it yet opens the table and finds the same.
  std::atomic<bool> without_tombstones{false};
};

// The tables of a database. What a table knows of itself (index, filter,
// properties) stays in memory once it is read; its file is open only while it
// is one of the `max_open_files` (-1: all) that were read lately
// (table/reader/file_pool.h). Concurrent openers of one table share one open.
// Thread-safety: thread-safe.
class TableCache {
 public:
  // `base` is what all tables have in common; name, size and sequence are
  // filled in for each. With uncached_open among the file options, a table is
  // forgotten when its file is closed (ablation table_open=uncached).
  // With `charge_tables`, tables are charged to the block cache, and forgotten
  // when they would take more than half of it. A `shared_pool` of the same
  // Env and file options, whose bound then counts, must outlive this.
  TableCache(std::string db_path, Env* env, const FileOptions& file_options,
             const TableReaderOptions& base, int max_open_files,
             bool charge_tables = false, FilePool* shared_pool = nullptr);
  TableCache(const TableCache&) = delete;
  TableCache& operator=(const TableCache&) = delete;
  ~TableCache();

  // Opens the table if it is not, trying NNNNNN.sst, then NNNNNN.ldb. A file
  // that is shorter than the MANIFEST says is Corruption, as one that is
  // missing. The table stays usable while the pointer is held.
  Status Find(const TableFile& file, std::shared_ptr<Table>* table);

  // The table, found through what the file's metadata remember of it, if no
  // tables are forgotten: one load then. Else *owner keeps it.
  Status Find(const TableFile& file, CachedTableHandle* handle,
              const Table** table, std::shared_ptr<Table>* owner) {
    // acquire pairs with the release in Remember: the table is seen whole.
    *table = handle->table.load(std::memory_order_acquire);
    if (*table != nullptr) [[likely]]
      return Status();
    return FindAndCache(file, handle, table, owner);
  }

  // Never null; errors are in its status(). Keeps the table open, but by the
  // handle, if there is one: then it must not outlive the file's metadata.
  std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options, const TableFile& file,
      CachedTableHandle* handle = nullptr, ThreadArena* memory = nullptr);

  // See FilePool.
  void ExpectOtherWriters();
  // All tables were there: one that is missing from now on was removed by
  // another process, and is FilePool::Gone in place of Corruption.
  void ExpectRemovals();

  // Forgets a file that is about to be removed.
  void Evict(uint64_t file_number);

  // Bytes of what tables know of themselves.
  size_t ApproximateMemoryUsage() const;
  // Files that are open.
  size_t TEST_OpenFiles() const;

 private:
  Status FindAndCache(const TableFile& file, CachedTableHandle* handle,
                      const Table** table, std::shared_ptr<Table>* owner);

  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace varve
