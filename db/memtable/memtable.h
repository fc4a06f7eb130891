// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "db/memtable/blink_tree.h"
#include "db/memtable/memtable_order.h"
#include "db/memtable/point_index.h"
#include "db/memtable/range_tombstone_memtable.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/reader/table.h"
#include "util/bytes/arena.h"

namespace varve {

// Updates in memory, until they are flushed to a table: an ordered structure
// of them, and beside it, if user keys are ordered bytewise, a hash index that
// answers point reads. Deletions of ranges are kept apart.
//
// Thread-safety: Add, Find and iterators may run at once in any threads.
// Lifetime: counted; SuperVersions and iterators hold references.
class MemTable {
 public:
  // `comparator` must outlive it. `wal_number` is the first log that holds
  // its updates. `write_buffer_size` bytes are what it is meant to hold.
  // `new_order` replaces the tree, for measurement.
  MemTable(const InternalKeyComparator* comparator, uint64_t wal_number,
           size_t write_buffer_size, NewMemTableOrder* new_order = nullptr);
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

  // A range deletion has its begin as the key, its end as the value.
  // REQUIRES: the sequence number was not used for this key before.
  void Add(SequenceNumber sequence, ValueType type, const Slice& user_key,
           const Slice& value);

  // The newest update of the user key at or before `sequence`; a deletion of a
  // range that the key is in is one. REQUIRES: inside a read-side critical
  // section. `hash` is the user key's PreviewXxh3. *value is set if kFound, and
  // valid as long as the memtable; it is not copied.
  LookupState Find(const Slice& user_key, SequenceNumber sequence,
                   uint64_t hash, Slice* value) const;
  // Brings what Find reads first for the hash into the cache.
  void Prefetch(uint64_t hash) const {
    if (!NeverAdded()) index_.Prefetch(hash);
  }

  // Shows what range deletions hide. Must not outlive the memtable.
  // `memory` may be null.
  std::unique_ptr<InternalIterator> NewIterator(
      ThreadArena* memory = nullptr) const;
  const RangeTombstoneMemTable& tombstones() const { return tombstones_; }
  // Whether an update is of keys in [*begin, *end]; null is before the first
  // and behind the last.
  bool Overlaps(const Slice* begin, const Slice* end) const;

  // Bytes taken from the system: the arenas' blocks, and of the point index
  // those pages that the entries so far can have touched, thus nothing for an
  // empty memtable and all of it soon.
  size_t ApproximateMemoryUsage() const {
    return arena_.MemoryUsage() + node_arena_.MemoryUsage() +
           index_.MemoryUsage() + tombstones_.MemoryUsage();
  }
  uint64_t EntryCount() const {
    // relaxed: a statistic.
    return entry_count_.load(std::memory_order_relaxed);
  }
  uint64_t DeletionCount() const {
    // relaxed: a statistic.
    return deletion_count_.load(std::memory_order_relaxed);
  }
  bool empty() const { return EntryCount() == 0 && tombstones_.empty(); }
  uint64_t wal_number() const { return wal_number_; }
  // Whether it has updates that are in no log. Set under the write queue's
  // lead; read under it, or once nobody writes any more.
  bool has_unlogged() const { return has_unlogged_; }
  void SetHasUnlogged() { has_unlogged_ = true; }

 private:
  // True until the first Add begins.
  bool NeverAdded() const {
    // relaxed: whoever must see an entry comes after its Add, and so sees this
    // false too.
    return never_added_.load(std::memory_order_relaxed);
  }
  // The first entry at or behind the internal key; null if there is none.
  const char* LowerBound(const Slice& internal_key) const;
  // `cover` is of the newest range deletion of the key that is visible.
  LookupState FindOrdered(const LookupKey& key, SequenceNumber cover,
                          Slice* value) const;

  // Immutable after construction.
  const InternalKeyComparator* const comparator_;
  const uint64_t wal_number_;

  // Read by every lookup, seldom written but for what is inside entries.
  Arena arena_;
  Arena node_arena_;
  std::optional<BlinkTree> tree_;  // Empty if there is a baseline.
  std::unique_ptr<MemTableOrder> baseline_;
  PointIndex index_;
  RangeTombstoneMemTable tombstones_;
  std::atomic<bool> never_added_{true};

  // Atomic (written by every Add and reference), so on a line that lookups do
  // not read.
  alignas(64) std::atomic<uint64_t> entry_count_{0};
  std::atomic<uint64_t> deletion_count_{0};
  std::atomic<int> refs_{1};
  bool has_unlogged_ = false;
};

}  // namespace varve
