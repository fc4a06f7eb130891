// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "db/skiplist.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/table.h"
#include "util/arena.h"
#include "varve/pinnable_slice.h"

namespace varve {

// Updates in memory, until they are flushed to a table.
// Thread-safety: Add, Get and iterators may run at once in any threads.
// Lifetime: counted; SuperVersions and iterators hold references.
class MemTable {
 public:
  // `comparator` must outlive it. `wal_number` is the first log that holds
  // its updates. `write_buffer_size` bytes are what it is meant to hold.
  MemTable(const InternalKeyComparator* comparator, uint64_t wal_number,
           size_t write_buffer_size);
  MemTable(const MemTable&) = delete;
  MemTable& operator=(const MemTable&) = delete;

  // Starts with one reference.
  void Ref() {
    // relaxed: the caller holds a reference already.
    refs_.fetch_add(1, std::memory_order_relaxed);
  }
  // True if that was the last one: the caller deletes it.
  [[nodiscard]] bool Unref() {
    // acq_rel pairs with itself: all uses come before the deletion.
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // REQUIRES: the sequence number was not used for this key before.
  void Add(SequenceNumber sequence, ValueType type, const Slice& user_key,
           const Slice& value);

  // The newest update of the key at or behind the lookup key.
  LookupState Get(const LookupKey& key, PinnableSlice* value) const;

  // Must not outlive the memtable.
  std::unique_ptr<InternalIterator> NewIterator() const;

  // Bytes taken from the system.
  size_t ApproximateMemoryUsage() const { return arena_.MemoryUsage(); }
  uint64_t EntryCount() const {
    // relaxed: a statistic.
    return entry_count_.load(std::memory_order_relaxed);
  }
  uint64_t DeletionCount() const {
    // relaxed: a statistic.
    return deletion_count_.load(std::memory_order_relaxed);
  }
  bool empty() const { return EntryCount() == 0; }
  uint64_t wal_number() const { return wal_number_; }

 private:
  const InternalKeyComparator* const comparator_;
  Arena arena_;
  SkipList list_;
  const uint64_t wal_number_;
  std::atomic<uint64_t> entry_count_{0};
  std::atomic<uint64_t> deletion_count_{0};
  std::atomic<int> refs_{1};
};

}  // namespace varve
