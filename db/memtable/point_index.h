// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A hash table of buckets of one cache line, with lock-free readers, a lock bit
// per bucket, and a tag of 7 bits for each key. It maps a user key to the
// newest version of it that was inserted, beside a memtable's ordered
// structure. A lookup of an absent key costs one cache miss. With a probability
// of 1 in 127 for each other key in the bucket, it costs a second one.
//
// The first array of buckets is sized for the write buffer. A bucket has slots
// for 12 keys, and *further* buckets take those beyond. One batch may be much
// larger than the write buffer. If an insert finds all slots of a chain in use,
// in an array that has more than kMaxLoad entries per bucket, it adds a new
// array, kGrowthFactor times as large, in front of the older ones. No entry
// moves. Inserts use the newest array, and lookups search all arrays. N entries
// need log(N) / log(kGrowthFactor) arrays.
//
// Thread-safety: any threads may call Insert, Find and Prefetch concurrently.
// Readers take no lock and write nothing. Writers of one bucket exclude each
// other.
//
// *Words and states.* A bucket has these words:
//
//   tags        byte i: the tag of slot i, for 0 to 7
//   more_tags   byte i: the tag of slot 8 + i, for 0 to 3. Bit 31: locked
//   next        the position of a further bucket in the arena, or 0
//   entries     12 positions of entries in the arena
//
// A tag is 7 bits of the key's hash and never 0. A slot is *used* if its tag is
// not 0. Slots are used from the first one on. A *chain* is a bucket of an
// array with its further buckets. Only the first bucket of a chain is ever
// locked. A thread that locks it owns the words of the chain until it unlocks
// it. `newest_` points to the newest array of buckets, and each array points to
// the next older one. `only_buckets_` points to the buckets of the first array
// while that is the only one, and is null afterwards. `growing_` is true while
// a thread adds an array.
//
// *Transitions.*
// T1 lock: fetch_or sets the locked bit, acquire. A thread that finds it set
//    waits.
// T2 new key: store the entry's position in the chain's first free slot, and
//    then its tag, release. If there is no free slot, a thread that has brought
//    a further bucket with the entry stores the bucket's position in the last
//    `next`, release. Other threads do T4, create one, and begin anew.
// T3 newer version: store its position in the slot of the key, release.
// T4 unlock: store `more_tags` without the locked bit, release. This is done
//    after T2; after T3; if the version to insert is older than the present
//    one; or if a further bucket is needed.
// T5 read: load `tags`, acquire, and the entries of the slots with the key's
//    tag, acquire. Do so with `more_tags`, and then with the bucket at `next`,
//    all acquire, but if slot 7 is free that may be left out. Readers ignore
//    the locked bit.
// T6 grow: a thread changes `growing_` from false to true, acquire. If the
//    newest array is still full, it creates an array that points to the newest
//    one. It stores null in `only_buckets_`, relaxed, then the new array in
//    `newest_`, release. It stores false in `growing_`, release. It holds no
//    bucket.
// T7 choose: an insert loads `only_buckets_`, relaxed. If it is null, or the
//    chain there needs a further bucket, the insert loads `newest_`, acquire.
//    It does T1 to T4 only in the array that it found. After a T4 without an
//    insert it loads `newest_` again.
// T8 look up: a reader loads `only_buckets_`, relaxed. If it is not null, the
//    reader does T5 there. Otherwise it loads `newest_`, acquire, does T5 in
//    that array and in all older ones, and takes the entry with the highest
//    sequence number.
//
// *Invariants.*
// I1 The key of a used slot never changes, and slots stay used.
// I2 The sequence numbers in a slot only rise.
// I3 A slot is used only if all slots before it in the chain are.
// I4 Arrays are only added, in front. A thread that reaches an array reaches
//    all older ones. Each entry is in the chains of one array, or was replaced
//    there by a newer version. I1 to I3 hold in each array separately.
// I5 `only_buckets_` becomes null once, before `newest_` leaves the first
//    array.
//
// *Why each order is needed.*
// T2 and T3 pair with T5: a thread that reads a tag sees the slot's position,
//    and a thread that reads a position sees the entry's bytes. A thread that
//    reads `next` sees the bucket there.
// The release of T4 pairs with the acquire of T1: the next writer sees the
//    chain as the last one left it, and may read its words relaxed.
// T1 needs no release. It publishes nothing, and as a read-modify-write it
//    stays in the release sequence of the store before it. So a reader that
//    loads the locked word still pairs with that store.
// The store of `newest_` in T6 pairs with T7 and T8: a thread that loads an
//    array's address sees the array's fields. By I5 it also sees that
//    `only_buckets_` is null, as does any thread that is ordered after it. So
//    accesses of `only_buckets_` may be relaxed. The buckets that it first
//    points to are as old as the index.
// `growing_` pairs with itself: the next thread to grow sees the array that was
//    added before.
//
// *Bad interleavings prevented.*
// B1 Two new keys take the same slot, and one is lost. T1 makes one wait.
// B2 Two versions of a key are inserted concurrently. Each sees the same older
//    one, and the older of the two is stored last. Prevented by T1, and by the
//    comparison of sequence numbers with the bucket locked.
// B3 A thread that has replaced a version unlocks with the `more_tags` that it
//    loaded, while another thread has used a slot there since. That key is
//    lost. T1 covers the whole chain, not one slot.
// B4 A reader has the position of an entry that is replaced. The arena keeps
//    the memory. The entry was the newest version when the lookup began, or
//    later.
// B5 A reader finds slot 7 free and stops, but the key is in a slot after it.
//    By I3 slot 7 was used before the key was inserted, so its load of `tags`
//    is older than that insert.
// B6 A reader finds a version newer than its snapshot. The index does not have
//    the version before it. The caller searches the ordered structure. Each
//    update at or before that snapshot was inserted there before it was
//    visible.
// B7 A thread chooses an array and is suspended. Another thread grows, and
//    inserts a version of the same key into the new array. The first thread
//    continues and inserts a newer version into the old array. A reader that
//    stops at the first array with the key returns the older version. T8
//    searches all arrays.
// B8 Two threads find the array full, and both add one in front of it. One
//    array is lost with its entries, or the second is needlessly large.
//    `growing_` admits one thread, which checks again whether the newest array
//    is full.
// B9 A thread that grows is suspended between its two stores, if these were
//    first `newest_` and then `only_buckets_`. Another thread needs a further
//    bucket in the first array, loads `newest_` and inserts into the second
//    array. A reader ordered after it loads `only_buckets_`, which is not null
//    yet, and misses that entry. I5 prevents it by the opposite order of the
//    stores. Between them all threads use the first array by way of `newest_`.
// B10 Two threads need a further bucket of one chain. The second finds the one
//    that the first added, and a free slot. Its own bucket is left unused.
//
// *Freshness and progress.* A lookup that starts after an Insert returned
// (happens-before) finds that version or a newer one. Let the insert of X' be
// complete at moment M. The words that the lookup reads are from M or later. So
// the slot of X' is used, and by I3 all slots before it, and T5 gets to it. By
// I1 and I2 it has X' or a newer version. A reader may miss concurrent inserts.
// It may also see the insert of one key and miss an earlier insert of another
// key. Sequence numbers hide both. A writer that is suspended with a locked
// bucket delays the writers of that bucket, but never a reader.
//
// With several arrays, T8 always searches the first one. If that Insert chose
// another array, it loaded `newest_`, so that the null of I5 and that array
// happen before the lookup. By coherence T8 loads null, and loads that array or
// a later one from `newest_`. By I4 it searches that array, where the paragraph
// above holds. It returns an entry of another array instead only if that has a
// higher sequence number. A thread that grows maps memory and does not touch
// it. It delays no thread: the others insert into the array they find.
//
// *Reclamation.* None before the index is destroyed. It owns only the arrays.
// All entries, also replaced ones, and further buckets are in the memtable's
// arena.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "util/base/check.h"
#include "util/bytes/arena.h"
#include "util/bytes/short_copy.h"
#include "util/threads/memory_account.h"
#include "varve/slice.h"

namespace varve {

class PointIndex {
 public:
  // Returns the initial number of buckets for a memtable of that size in bytes.
  static size_t BucketCountFor(size_t write_buffer_size);

  // Creates an index. `bucket_count` is less than 2^32, or 0 for an index that
  // is not used. The system provides the buckets' memory page by page when they
  // are used. `arena` has the entries, and provides the memory of further
  // buckets. `insert_count` is the approximate number of Inserts that have
  // returned. Both must outlive the index.
  PointIndex(size_t bucket_count, Arena* arena,
             const std::atomic<uint64_t>* insert_count);
  // REQUIRES: no other thread uses the index any more.
  ~PointIndex();
  PointIndex(const PointIndex&) = delete;
  PointIndex& operator=(const PointIndex&) = delete;

  // Returns false if there are no buckets: none were requested, or the system
  // had no memory. Then Insert and Prefetch have no effect.
  bool usable() const { return first_.buckets != nullptr; }

  // Inserts the entry, which is in the arena. `key` is its internal key. `hash`
  // is the hash of its user key. User keys are compared bytewise. REQUIRES: no
  // entry with an equal internal key was inserted.
  void Insert(const ArenaPlace& entry, const Slice& key, uint64_t hash);

  // Sets *key to the user key's internal key with the highest sequence number,
  // in its entry, or to an empty slice. Returns false, and leaves *key alone,
  // if the index is not usable.
  [[gnu::always_inline]] bool Find(const Slice& user_key, uint64_t hash,
                                   Slice* key) const {
    // T8. relaxed: see T6.
    const Bucket* const buckets = only_buckets_.load(std::memory_order_relaxed);
    if (buckets == nullptr) [[unlikely]]
      return FindInAll(user_key, hash, key);
    const Bucket& bucket = buckets[BucketOf(hash, bucket_count_)];
    // T5. acquire pairs with the release of T2.
    const uint64_t tags = bucket.tags.load(std::memory_order_acquire);
    const uint64_t matches = MatchesOf(tags, TagInEachByte(hash));
    if (matches == 0) {
      // T5. acquire, both: pair with the release of T2. Not only if slot 7 is
      // used: in a full bucket that is hard to predict.
      const uint32_t more_tags =
          bucket.more_tags.load(std::memory_order_acquire) & ~kLocked;
      const bool has_more = (MatchesOf(more_tags, TagInEachByte(hash)) |
                             bucket.next.load(std::memory_order_acquire)) != 0;
      *key = has_more ? FindFurther(bucket, user_key, hash) : Slice();
      return true;
    }
    *key = KeyAt(bucket.entries, matches);
    if (!ShortEqual(ExtractUserKey(*key), user_key)) [[unlikely]] {
      *key = FindInChain(bucket, user_key, hash);
    }
    return true;
  }

  // Prefetches the memory that Find reads first for the hash.
  void Prefetch(uint64_t hash) const {
    // relaxed: only the address is used.
    const Bucket* const buckets = only_buckets_.load(std::memory_order_relaxed);
    if (buckets == nullptr) [[unlikely]]
      return PrefetchInArrays(hash, SIZE_MAX);
    __builtin_prefetch(&buckets[BucketOf(hash, bucket_count_)]);
  }
  // Prefetches the memory that Insert accesses first for the hash.
  void PrefetchForInsert(uint64_t hash) const {
    // relaxed: only the address is used.
    const Bucket* const buckets = only_buckets_.load(std::memory_order_relaxed);
    if (buckets == nullptr) [[unlikely]]
      return PrefetchInArrays(hash, 1);
    __builtin_prefetch(&buckets[BucketOf(hash, bucket_count_)]);
  }

  // Returns the most bytes that the system can have provided for arrays so far:
  // one page of kPageBytes for each insert into an array, up to all its pages.
  size_t MemoryUsage() const;

  // Inserts into the array that is `age` steps older than the newest one, like
  // a thread that was suspended directly after T7.
  void TEST_InsertInto(size_t age, const ArenaPlace& entry, const Slice& key,
                       uint64_t hash);
  // Does only the first store of T6.
  void TEST_BeginGrowth();
  size_t TEST_ArrayCount() const;

 private:
  static constexpr size_t kPageBytes = 4096;
  // An array with more entries per bucket is full. A memtable that is not
  // larger than its write buffer does not reach this.
  static constexpr uint64_t kMaxLoad = 32;
  static constexpr size_t kGrowthFactor = 8;
  static constexpr size_t kSlots = 12;
  static constexpr size_t kFirstTags = 8;  // The slots with a tag in `tags`.
  static constexpr uint32_t kLocked = uint32_t{1} << 31;

  struct Bucket {
    std::atomic<uint64_t> tags;
    std::atomic<uint32_t> more_tags;
    std::atomic<uint32_t> next;
    std::atomic<uint32_t> entries[kSlots];
  };
  static_assert(sizeof(Bucket) == 64);

  // An array of buckets. Immutable once it is published.
  struct Array {
    Bucket* buckets = nullptr;
    uint64_t count = 0;
    size_t bytes = 0;
    size_t page_count = 0;
    uint64_t inserts_before = 0;  // Approximate inserts into older arrays.
    size_t older_bytes = 0;       // Bytes of all older arrays.
    Array* older = nullptr;
    MemoryAccount* account = nullptr;
  };
  // The key and entry to insert.
  struct Insertion;

  // The bucket and the tag use opposite ends of the hash.
  static uint64_t BucketOf(uint64_t hash, uint64_t bucket_count) {
    return (hash >> 32) * bucket_count >> 32;
  }
  static uint64_t TagOf(uint64_t hash) {
    const uint64_t tag = hash & 0x7F;
    return tag + (tag == 0 ? 1 : 0);
  }
  static uint64_t TagInEachByte(uint64_t hash) {
    return TagOf(hash) * 0x0101010101010101;
  }
  // Returns a word whose bit 8 * i + 7 says whether byte i of `tags` is the
  // tag. Its other bits are 0. All bytes are below 128.
  static uint64_t MatchesOf(uint64_t tags, uint64_t tag_in_each_byte) {
    constexpr uint64_t kHigh = 0x8080808080808080;
    // 128 less a difference below 128. No byte borrows from the one above.
    return (kHigh - (tags ^ tag_in_each_byte)) & kHigh;
  }
  // Returns the index of the lowest match.
  static size_t IndexOf(uint64_t matches) {
    return static_cast<unsigned>(std::countr_zero(matches)) / 8;
  }
  // Returns how many slots of a word of tags are used.
  static size_t UsedCount(uint64_t tags) {
    return static_cast<unsigned>(std::bit_width(tags) + 7) / 8;
  }
  // Returns whether all slots of `tags` are used.
  static bool AreUsed(uint64_t tags) { return tags >> 56 != 0; }

  // Returns false if the system has no memory.
  static bool Map(size_t bucket_count, Array* array);
  static void Unmap(const Array& array);
  static uint32_t Lock(Bucket* bucket);
  // Inserts into the chain. Returns false and changes nothing if that needs a
  // further bucket and the insertion has none.
  bool InsertInto(Bucket* bucket, const Insertion& insertion);
  bool InsertFurther(Bucket* bucket, uint32_t more_tags,
                     const Insertion& insertion);
  bool Replace(uint64_t tags, std::atomic<uint32_t>* entries,
               const Insertion& insertion) const;
  [[gnu::noinline]] void InsertOrGrow(const ArenaPlace& entry, const Slice& key,
                                      uint64_t hash);
  uint32_t NewFurther(const Insertion& insertion);
  bool IsFull(const Array& array) const;
  void Grow();

  // Returns the internal key of the lowest match's entry.
  Slice KeyAt(const std::atomic<uint32_t>* entries, uint64_t matches) const {
    // T5. acquire pairs with the release of T2 and T3.
    return EntryKey(
        arena_->At(entries[IndexOf(matches)].load(std::memory_order_acquire)));
  }
  // Each returns the user key's internal key, or an empty slice: among the
  // entries of a word of tags; in the chain; in the chain after the first word
  // of tags.
  Slice FindAmong(uint64_t tags, const std::atomic<uint32_t>* entries,
                  const Slice& user_key, uint64_t tag_in_each_byte) const;
  [[gnu::noinline]] Slice FindInChain(const Bucket& bucket,
                                      const Slice& user_key,
                                      uint64_t hash) const;
  [[gnu::noinline]] Slice FindFurther(const Bucket& bucket,
                                      const Slice& user_key,
                                      uint64_t hash) const;
  [[gnu::noinline]] bool FindInAll(const Slice& user_key, uint64_t hash,
                                   Slice* key) const;
  // Prefetches in up to `count` of the newest arrays.
  [[gnu::noinline]] void PrefetchInArrays(uint64_t hash, size_t count) const;

  // Immutable after construction, except for the pages of the buckets.
  Array first_;
  const uint64_t bucket_count_;
  Arena* const arena_;
  const std::atomic<uint64_t>* const insert_count_;

  std::atomic<Bucket*> only_buckets_{nullptr};
  std::atomic<Array*> newest_{&first_};
  std::atomic<bool> growing_{false};
};

}  // namespace varve
