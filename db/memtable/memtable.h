// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
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
#include "util/bytes/hash.h"

namespace varve {

class WriteBufferAccount;

// Holds updates in memory until a flush writes them to a table. An ordered
// structure, by default a B-link tree, holds the entries. If user keys are
// ordered bytewise, a hash index answers point reads. Range deletions are kept
// separately.
//
// Thread-safety: any threads may call Add and Find and use iterators
// concurrently.
// Lifetime: reference-counted. SuperVersions and iterators hold references.
class MemTable {
 public:
  // `comparator` must outlive the memtable. `wal_number` is the first log that
  // may have its updates. `write_buffer_size` is the size in bytes at which it
  // counts as full.
  // `new_order`, if not null, creates the structure that replaces the tree
  // (ablation memtable, or a filter of prefixes). `account`, if not null,
  // counts the memory; see db/memtable/write_buffer_budget.h. The memtable
  // begins with blocks and an index for `expected_bytes`, which are at most
  // write_buffer_size, or for what its share of the budget allows if that is
  // less.
  MemTable(const InternalKeyComparator* comparator, uint64_t wal_number,
           size_t write_buffer_size,
           const std::function<NewMemTableOrder>& new_order = nullptr,
           const std::shared_ptr<WriteBufferAccount>& account = nullptr,
           size_t expected_bytes = SIZE_MAX);
  ~MemTable();
  MemTable(const MemTable&) = delete;
  MemTable& operator=(const MemTable&) = delete;

  // Adds a reference. A new memtable has one.
  void Ref() {
    // relaxed: the caller holds a reference already.
    refs_.fetch_add(1, std::memory_order_relaxed);
  }
  // Releases a reference. Returns true if it was the last one. The caller must
  // then delete the memtable.
  [[nodiscard]] bool Unref() {
    // acq_rel pairs with itself: all uses happen before the deletion.
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // Adds an update. For a range deletion, the key is the range's begin and the
  // value is its end.
  // REQUIRES: the sequence number was not used for this key before.
  void Add(SequenceNumber sequence, ValueType type, const Slice& user_key,
           const Slice& value) {
    Add(sequence, type, user_key, value, PreviewXxh3(user_key));
  }
  // `hash` is PreviewXxh3 of the key.
  void Add(SequenceNumber sequence, ValueType type, const Slice& user_key,
           const Slice& value, uint64_t hash);

  struct Update {
    MemTable* memtable;
    SequenceNumber sequence;
    ValueType type;  // Not kRangeDeletion.
    Slice user_key;
    Slice value;
  };
  static constexpr size_t kMaxUpdates = BlinkTree::kMaxInsertions;
  // Adds up to kMaxUpdates updates to their memtables, as Add would. It takes
  // less time, since their cache misses overlap. REQUIRES: as Add for each;
  // count > 0.
  static void AddMany(const Update* updates, size_t count);

  // Finds the newest update of the user key at or before `sequence`. A range
  // deletion that covers the key counts as an update. `hash` is the user key's
  // PreviewXxh3. If the result is kFound, sets *value to the memtable's bytes,
  // which are valid for the memtable's lifetime.
  // REQUIRES: the caller is inside a read-side critical section.
  LookupState Find(const Slice& user_key, SequenceNumber sequence,
                   uint64_t hash, Slice* value) const;
  // Returns the sequence number of the newest update of the user key, or 0. A
  // range deletion that covers the key counts as an update. `hash` is as for
  // Find. REQUIRES: as Find.
  SequenceNumber NewestSequence(const Slice& user_key, uint64_t hash) const;
  // Adds the key's versions up to `sequence`, newest first, until *versions
  // needs no more. REQUIRES: as Find.
  void ReadVersions(const Slice& user_key, SequenceNumber sequence,
                    MergeOperands* versions) const;
  // Prefetches the memory that Find reads first for the hash.
  void Prefetch(uint64_t hash) const {
    if (!NeverAdded()) index_.Prefetch(hash);
  }

  // Adds a number, modulo 2^56, to the sequence numbers of all entries.
  // REQUIRES: no other thread uses the memtable; it has no range deletions.
  void AddToSequences(SequenceNumber addend);

  // Returns an iterator over all entries, including those that range deletions
  // hide. It must not outlive the memtable. `memory` may be null.
  std::unique_ptr<InternalIterator> NewIterator(
      ThreadArena* memory = nullptr) const;
  // Returns false if no entry that is visible to the caller has the prefix that
  // `extractor` gives, whose PreviewXxh3 is `hash`. REQUIRES: the caller has
  // loaded its sequence number.
  bool MayHavePrefix(const SliceTransform& extractor, uint64_t hash) const {
    return other_order_ == nullptr ||
           other_order_->MayHavePrefix(extractor, hash);
  }
  const RangeTombstoneMemTable& tombstones() const { return tombstones_; }
  // Returns whether an update affects a key in [*begin, *end], or in
  // [*begin, *end) with `end_is_exclusive`. A null bound is open. Updates
  // before `oldest` do not count.
  bool Overlaps(const Slice* begin, const Slice* end,
                bool end_is_exclusive = false, SequenceNumber oldest = 0) const;

  // Returns the bytes taken from the system: the arenas' blocks, range
  // deletions, and the pages of the point index that the entries so far can
  // have touched.
  size_t ApproximateMemoryUsage() const {
    return arena_.MemoryUsage() + node_arena_.MemoryUsage() +
           index_.MemoryUsage() + tombstones_.MemoryUsage();
  }
  // Returns the memory at which a memtable is full. Positions in an arena have
  // the bits for 32 GiB, so a memtable takes no further batch above 8 GiB.
  static size_t FullBytes(size_t write_buffer_size) {
    return std::min(write_buffer_size, size_t{8} << 30);
  }
  bool IsFull(size_t write_buffer_size) const {
    return ApproximateMemoryUsage() > FullBytes(write_buffer_size);
  }
  // Report to the account: see WriteBufferCharge. They do nothing without one.
  // Any thread may call them.
  void MarkImmutable();
  void MarkHeld();
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
  // REQUIRES: the memtable is empty, or no family's yet; the DB mutex is held
  // by the leader of the write queue.
  void SetWalNumber(uint64_t number) { wal_number_ = number; }
  // Returns a sequence number that no update of the memtable exceeds. REQUIRES:
  // the memtable is immutable.
  SequenceNumber largest_sequence() const { return largest_sequence_; }
  // REQUIRES: the leader of the write queue is about to make it immutable.
  void SetLargestSequence(SequenceNumber sequence) {
    largest_sequence_ = sequence;
  }
  // Returns whether the memtable has updates that are in no log. The leader of
  // the write queue sets it before it adds them. A reader that has found one of
  // them sees it.
  // relaxed, both: a reader is ordered after the additions that it sees.
  bool has_unlogged() const {
    return has_unlogged_.load(std::memory_order_relaxed);
  }
  void SetHasUnlogged() {
    // relaxed, both: see above. Stored once, so that the line stays clean.
    if (!has_unlogged()) has_unlogged_.store(true, std::memory_order_relaxed);
  }

 private:
  // Counts the memory of a memtable with an account.
  class Counter;
  struct Sizes;

  MemTable(const InternalKeyComparator* comparator, uint64_t wal_number,
           const Sizes& sizes, const std::function<NewMemTableOrder>& new_order,
           std::unique_ptr<Counter> counter);

  // Returns true until the first Add begins.
  bool NeverAdded() const {
    // relaxed: a reader that must see an entry is ordered after its Add, and so
    // it also sees false here.
    return never_added_.load(std::memory_order_relaxed);
  }
  // Writes an entry into the memory of the ordered structure.
  struct NewEntry;
  template <bool kDeletion>
  NewEntry Encode(SequenceNumber sequence, ValueType type,
                  const Slice& user_key, const Slice& value);
  // Adds a value, a merge operand, or a point deletion.
  template <bool kDeletion>
  void AddPoint(SequenceNumber sequence, ValueType type, const Slice& user_key,
                const Slice& value, uint64_t hash);
  // Adds anything but a value.
  [[gnu::noinline]] void AddOther(SequenceNumber sequence, ValueType type,
                                  const Slice& user_key, const Slice& value,
                                  uint64_t hash);
  // Returns the first entry at or after the internal key, or null.
  const char* LowerBound(const Slice& internal_key) const;
  // Looks the key up in the ordered structure. `cover` is the sequence number
  // of the newest visible range deletion that covers the key.
  [[gnu::noinline]] LookupState FindOrdered(const Slice& user_key,
                                            SequenceNumber sequence,
                                            SequenceNumber cover,
                                            Slice* value) const;

  // Immutable after construction, but for the numbers: see SetWalNumber and
  // SetLargestSequence.
  // The counter is null without an account. It is destroyed last, when the
  // memory has been freed.
  const std::unique_ptr<Counter> counter_;
  const InternalKeyComparator* const comparator_;
  uint64_t wal_number_;
  SequenceNumber largest_sequence_ = kMaxSequenceNumber;

  // Read by every lookup and rarely written, except inside the entries' memory.
  Arena arena_;
  Arena node_arena_;
  // Empty if another structure is used. Not on the cache line that node_arena_
  // writes when it grows: each search of the tree reads its members.
  alignas(64) std::optional<BlinkTree> tree_;
  std::unique_ptr<MemTableOrder> other_order_;
  // From here to the list of tombstones_, a lookup of an absent key reads one
  // cache line.
  alignas(64) PointIndex index_;
  std::atomic<bool> never_added_{true};
  RangeTombstoneMemTable tombstones_;

  // Atomic (writers: every Add, Ref and Unref), so on a cache line that lookups
  // do not read.
  alignas(64) std::atomic<uint64_t> entry_count_{0};
  std::atomic<uint64_t> deletion_count_{0};
  std::atomic<int> refs_{1};
  std::atomic<bool> has_unlogged_{false};
};

}  // namespace varve
