// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of a table whose partitions are read and evicted one by one. A part
// is a partition of the index and the partition of the filter for the same
// keys. It works like a table of its own, whose file is the table's. The table
// keeps only the separators and the handles of its parts; its own index is
// empty, and its filter answers "maybe", unless the filter has no partitions.
//
// A table has parts if its tables are charged to the block cache, if its index
// is partitioned, and if a partitioned filter is cut at the same keys, as
// RocksDB and Varve cut it. The partitions of other tables are all loaded at
// once (table_opener.h).
//
// Evicting a part also evicts its blocks, whose addresses are in its index.
//
// Thread-safety: thread-safe after Init.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table/block/format.h"
#include "table/index/table_index.h"
#include "table/reader/part_cache.h"
#include "table/reader/table.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class TablePart : public std::enable_shared_from_this<TablePart> {
 public:
  TablePart() = default;
  TablePart(const TablePart&) = delete;
  TablePart& operator=(const TablePart&) = delete;

  const Table& table() const { return table_; }
  // Marks it for the cache.
  void Touch() {
    // relaxed, both: see PartCache::MakeSpace. The store is avoided if
    // possible, so that readers share the line.
    if (!is_used_.load(std::memory_order_relaxed)) {
      is_used_.store(true, std::memory_order_relaxed);
    }
  }

 private:
  friend class PartCache;
  friend class TableParts;

  // Keeps the block cache for table_, which removes its blocks there.
  std::shared_ptr<PartCache> cache_;
  Table table_;
  size_t bytes_ = 0;
  std::atomic<bool> is_used_{true};
  size_t ring_index_ = 0;  // Guarded by the cache's mutex.
};

class TableParts {
 public:
  // `whole` is the table's; it must outlive this.
  TableParts(const TableCore* whole, std::shared_ptr<PartCache> cache);
  TableParts(const TableParts&) = delete;
  TableParts& operator=(const TableParts&) = delete;
  ~TableParts();

  // Takes the body of the block that names the partitions of the index.
  // Corruption does not name the file. REQUIRES: called once, first.
  Status Init(BlockContents index_names);
  // Takes the body of the block that names the partitions of the filter.
  // Returns false, and the parts have no filters, if they are not of the same
  // keys. Called before the table is shared.
  bool SetFilters(BlockContents filter_names);

  size_t size() const { return names_.size(); }
  // Returns the first part whose separator is at or after the key, or size().
  size_t Find(const Slice& internal_key) const {
    return names_.Search(internal_key);
  }
  // Returns whether parts after part i can contain this user key too.
  bool MayContinue(size_t i, const Slice& user_key) const {
    return names_.MayContinue(i, user_key);
  }
  // Returns the last user key of part i, or one just after it.
  Slice SeparatorUserKey(size_t i) const { return names_.SeparatorUserKey(i); }

  // Returns the part, and reads it if necessary. It stays valid until the
  // caller's read-side critical section ends. REQUIRES: the caller is inside
  // one.
  Status Get(const ReadOptions& options, size_t i, const Table** part) const;
  // Likewise, but the caller keeps the part.
  Status Pin(const ReadOptions& options, size_t i,
             std::shared_ptr<const TablePart>* part) const;
  // Reads the part anew, and does not keep it.
  Status Load(size_t i, std::shared_ptr<TablePart>* part) const;

  // ---- The steps of Get, for a PartBatch, which reads the bytes itself ----

  // Returns the part if it is in memory, or null. Valid as from Get.
  const Table* FindInMemory(size_t i) const {
    TablePart* const part = FindLoaded(i);
    return part == nullptr ? nullptr : &part->table();
  }
  // The bytes of a part in the file: one range if its two partitions are close
  // together or if there is no filter, else the filter and then the index.
  struct Range {
    uint64_t offset = 0;
    size_t size = 0;
  };
  struct Ranges {
    static constexpr size_t kMaxCount = 2;
    std::span<const Range> all() const { return {ranges, count}; }
    Range ranges[kMaxCount];
    size_t count = 0;
  };
  Ranges RangesOf(size_t i) const;
  // Makes the part from the bytes of its ranges, and keeps it. Bytes that are
  // missing are read again.
  Status Take(size_t i, const Ranges& ranges, const Slice* bytes,
              const Table** part) const;
  const RandomAccessFile& file() const { return *whole_.file; }

  // Returns the bytes without the parts.
  size_t ApproximateMemoryUsage() const;

 private:
  // Returns the part if it is in memory, or null.
  TablePart* FindLoaded(size_t i) const;
  Status LoadAndKeep(const ReadOptions& options, size_t i,
                     std::shared_ptr<TablePart>* part) const;
  // Makes the part. Its partitions may be in the buffers.
  Status Make(size_t i, ReadaheadBuffer* filter, ReadaheadBuffer* index,
              std::shared_ptr<TablePart>* part) const;
  Status ReadIndex(size_t i, ReadaheadBuffer* run, TableCore* core) const;
  Status ReadFilter(size_t i, ReadaheadBuffer* run, TableCore* core) const;

  const TableCore& whole_;
  const std::shared_ptr<PartCache> cache_;
  TableIndex names_;
  std::vector<BlockHandle> filters_;  // Empty if parts have none.
  std::unique_ptr<PartSlot[]> slots_;
};

}  // namespace varve
