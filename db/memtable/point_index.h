// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A chained hash table with lock-free readers, a lock bit per bucket, and a
// small Bloom filter in each chain pointer. It maps a user key to the newest
// version of it that was inserted, beside a memtable's ordered structure. A
// lookup of an absent key costs one cache miss. With a probability of about
// 1 in 16 for each other key in the bucket, it costs a second one.
//
// The first array of buckets is sized for the write buffer, but one batch may
// be much larger. If an insert finds a long chain in an array that has more
// than kMaxLoad entries per bucket, it adds a new array, kGrowthFactor times as
// large, in front of the older ones. No entry moves. Inserts use the newest
// array, and lookups search all arrays. N entries need
// log(N) / log(kGrowthFactor) arrays.
//
// Thread-safety: any threads may call Insert, Find and Prefetch concurrently.
// Readers take no lock and write nothing. Writers of one bucket exclude each
// other.
//
// *Words and states.* Two kinds of word have one layout:
//
//   bits 63..48         47..3                          0
//   Bloom of the chain  link word of the first entry   locked
//
// A *bucket word* begins the chain of all keys that hash to the bucket. The
// *link word* directly before each entry's bytes leads to the rest of the
// chain. A word's Bloom has one bit, of 16, for each key in the chain from the
// word's target to the end. The word 0 is the empty chain. Only bucket words
// are ever locked. A thread that locks a bucket owns the words of its chain
// until it unlocks the bucket. `newest_` points to the newest array of buckets,
// and each array points to the next older one. `only_words_` points to the
// buckets of the first array while that is the only one, and is null
// afterwards. `growing_` is true while a thread adds an array.
//
// *Transitions.*
// T1 lock: fetch_or sets the locked bit, acquire. A thread that finds it set
//    waits.
// T2 new key: store the old bucket word in the key's link. Then store the
//    bucket word with the entry's address and its Bloom bit, unlocked, release.
// T3 newer version: store a copy of the old version's link in the new link.
//    Then store the new address in the word that led to the old version,
//    release. If that is the bucket word, the same store unlocks.
// T4 unlock: store the old bucket word unlocked, release. This is done after a
//    T3 in a link word; if the version to insert is older than the present one;
//    or if the chain is so long that the insert first checks whether to grow.
// T5 read: load the bucket word, then link words one by one, acquire. Readers
//    ignore the locked bit.
// T6 grow: a thread changes `growing_` from false to true, acquire. If the
//    newest array is still full, it creates an array that points to the newest
//    one. It stores null in `only_words_`, relaxed, then the new array in
//    `newest_`, release. It stores false in `growing_`, release. It holds no
//    bucket.
// T7 choose: an insert loads `only_words_`, relaxed. If it is null, or the
//    chain there is long, the insert loads `newest_`, acquire. It does T1 to T4
//    only in the array that it found. After a T4 without an insert it loads
//    `newest_` again.
// T8 look up: a reader loads `only_words_`, relaxed. If it is not null, the
//    reader does T5 there. Otherwise it loads `newest_`, acquire, does T5 in
//    that array and in all older ones, and takes the entry with the highest
//    sequence number.
//
// *Invariants.*
// I1 The keys of a chain never change their order. A new key goes to the front,
//    and a version takes the place of an older one. So a link, even in an entry
//    that was replaced, leads to some version of one fixed key or is 0.
// I2 At each place of a chain the sequence numbers only rise.
// I3 A link's Bloom never changes, because by I1 the keys after it never
//    change. A bucket's Bloom only gains bits.
// I4 Arrays are only added, in front. A thread that reaches an array reaches
//    all older ones. Each entry is in the chains of one array, or was replaced
//    there by a newer version. I1 to I3 hold in each array separately.
// I5 `only_words_` becomes null once, before `newest_` leaves the first array.
//
// *Why each order is needed.*
// T2 and T3 pair with T5: a thread that reads an address sees the entry's bytes
//    and its link, which were written before.
// The release of T2, T3 and T4 pairs with the acquire of T1: the next writer
//    sees the chain as the last one left it, and may read its words relaxed.
// T1 needs no release. It publishes nothing, and as a read-modify-write it
//    stays in the release sequence of the store before it. So a reader that
//    loads the locked word still pairs with that store.
// The store of `newest_` in T6 pairs with T7 and T8: a thread that loads an
//    array's address sees the array's fields. By I5 it also sees that
//    `only_words_` is null, as does any thread that is ordered after it. So
//    accesses of `only_words_` may be relaxed. The words that it first points
//    to are as old as the index.
// `growing_` pairs with itself: the next thread to grow sees the array that was
//    added before.
//
// *Bad interleavings prevented.*
// B1 Two new keys get the same bucket word as their link, both store the
//    bucket, and one key is lost. T1 makes one of them wait.
// B2 Two versions of a key are inserted concurrently. Each sees the same older
//    one, and the older of the two is stored last. Prevented by T1, and by the
//    comparison of sequence numbers with the bucket locked.
// B3 P and its successor X in a chain both get newer versions concurrently. P'
//    copies P's link to X, then X' is stored in P's link, which is no longer in
//    the chain. T1 covers the whole chain, not one word.
// B4 A reader is at P when P' replaces it. P's link does not change, and by I1
//    leads to all keys after it. The arena keeps the memory.
// B5 A reader sees the Bloom of one moment and the address of another, and
//    misses a key. Both are in one word.
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
//    first `newest_` and then `only_words_`. Another thread finds a long chain
//    in the first array, loads `newest_` and inserts into the second array. A
//    reader ordered after it loads `only_words_`, which is not null yet, and
//    misses that entry. I5 prevents it by the opposite order of the stores.
//    Between them all threads use the first array by way of `newest_`.
//
// *Freshness and progress.* A lookup that starts after an Insert returned
// (happens-before) finds that version or a newer one. Let the insert of X' be
// complete at moment M. The bucket word that the lookup reads is from M or
// later. So it leads to an entry that was in the chain at M or was added later.
// The link of such an entry, read now, is also from M or later. By I1 this
// continues to the place of X', which by I2 has X' or a newer version. A reader
// may miss concurrent inserts. It may also see the insert of one key and miss
// an earlier insert of another key. Sequence numbers hide both. A writer that
// is suspended with a locked bucket delays the writers of that bucket, but
// never a reader.
//
// With several arrays, T8 always searches the first one. If that Insert chose
// another array, it loaded `newest_`, so that the null of I5 and that array
// happen before the lookup. By coherence T8 loads null, and loads that array or
// a later one from `newest_`. By I4 it searches that array, where the paragraph
// above holds. It returns an entry of another array instead only if that has a
// higher sequence number. A thread that grows maps memory and does not touch
// it. It delays no thread: the others insert into the array they find.
//
// *Reclamation.* None before the index is destroyed. It owns only the buckets.
// All entries, also replaced ones, are in the memtable's arena.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "util/base/check.h"
#include "util/bytes/short_copy.h"
#include "util/threads/memory_account.h"
#include "varve/slice.h"

namespace varve {

class PointIndex {
 public:
  // The number of bytes that the index needs directly before each entry. Their
  // address must be a multiple of this number.
  static constexpr size_t kLinkBytes = 8;

  // Returns the initial number of buckets for a memtable of that size in bytes.
  static size_t BucketCountFor(size_t write_buffer_size);

  // Creates an index. `bucket_count` is a power of two, or 0 for an index that
  // is not used. The system provides the buckets' memory page by page when they
  // are used. `insert_count` is the approximate number of Inserts that have
  // returned, and must outlive the index.
  PointIndex(size_t bucket_count, const std::atomic<uint64_t>* insert_count);
  // REQUIRES: no other thread uses the index any more.
  ~PointIndex();
  PointIndex(const PointIndex&) = delete;
  PointIndex& operator=(const PointIndex&) = delete;

  // Returns false if there are no buckets: none were requested, or the system
  // had no memory. Then Insert and Prefetch have no effect.
  bool usable() const { return first_.words != nullptr; }

  // Inserts the entry. It begins with a length-prefixed internal key, whose
  // bytes are `key`. Its kLinkBytes are directly before it. It must outlive the
  // index. `hash` is the hash of its user key. User keys are compared bytewise.
  // REQUIRES: no entry with an equal internal key was inserted.
  void Insert(char* entry, Slice key, uint64_t hash);

  // Returns the user key's entry with the highest sequence number, or null.
  // REQUIRES: usable().
  const char* Find(const Slice& user_key, uint64_t hash) const {
    // T8. relaxed: see T6.
    const Word* const words = only_words_.load(std::memory_order_relaxed);
    if (words == nullptr) [[unlikely]]
      return FindInAll(user_key, hash);
    // T5. acquire pairs with the release of T2 and T3.
    const uint64_t word = words[hash & mask_].load(std::memory_order_acquire);
    if ((word & BloomBit(hash)) == 0) return nullptr;
    return FindInChain(word, user_key, hash);
  }

  // Prefetches the memory that Find reads first for the hash.
  void Prefetch(uint64_t hash) const {
    // relaxed: only the address is used.
    const Word* const words = only_words_.load(std::memory_order_relaxed);
    if (words == nullptr) [[unlikely]]
      return PrefetchInArrays(hash, SIZE_MAX);
    __builtin_prefetch(&words[hash & mask_]);
  }
  // Prefetches the memory that Insert accesses first for the hash.
  void PrefetchForInsert(uint64_t hash) const {
    // relaxed: only the address is used.
    const Word* const words = only_words_.load(std::memory_order_relaxed);
    if (words == nullptr) [[unlikely]]
      return PrefetchInArrays(hash, 1);
    __builtin_prefetch(&words[hash & mask_]);
  }

  // Returns the most bytes that the system can have provided for buckets so
  // far: one page of kPageBytes for each insert into an array, up to all its
  // pages.
  size_t MemoryUsage() const;

  // Inserts into the array that is `age` steps older than the newest one, like
  // a thread that was suspended directly after T7.
  void TEST_InsertInto(size_t age, char* entry, Slice key, uint64_t hash);
  // Does only the first store of T6.
  void TEST_BeginGrowth();
  size_t TEST_ArrayCount() const;

 private:
  using Word = std::atomic<uint64_t>;

  static constexpr uint64_t kAddressMask = (uint64_t{1} << 48) - kLinkBytes;
  static constexpr size_t kPageBytes = 4096;
  // An array with more entries per bucket is full. A memtable that is not
  // larger than its write buffer does not reach this.
  static constexpr uint64_t kMaxLoad = 4;
  static constexpr size_t kGrowthFactor = 8;
  // An insert that passes this many entries checks whether the array is full.
  static constexpr size_t kLongChain = 16;

  // An array of buckets. Immutable once it is published.
  struct Array {
    Word* words = nullptr;
    uint64_t mask = 0;
    size_t bytes = 0;
    size_t page_count = 0;
    uint64_t inserts_before = 0;  // Approximate inserts into older arrays.
    size_t older_bytes = 0;       // Bytes of all older arrays.
    Array* older = nullptr;
    MemoryAccount* account = nullptr;
  };

  // The bucket and the Bloom bit use opposite ends of the hash.
  static uint64_t BloomBit(uint64_t hash) {
    return uint64_t{1} << (48 + (hash >> 60));
  }
  // Returns false if the system has no memory.
  static bool Map(size_t bucket_count, Array* array);
  static void Unmap(const Array& array);
  // Inserts the entry into the bucket's chain. Returns false and changes
  // nothing if the key is not among the first `max_steps` entries of a longer
  // chain.
  static bool InsertInto(Word* bucket, size_t max_steps, char* entry, Slice key,
                         uint64_t hash);
  static uint64_t WordOf(uint64_t bloom, const Word* link) {
    const auto address = reinterpret_cast<uintptr_t>(link);
    // The supported systems return addresses of more than 48 bits only on
    // request.
    VARVE_DCHECK((address & ~kAddressMask) == 0);
    return bloom | address;
  }
  // REQUIRES for both: the word has a Bloom bit, and so it has an address.
  static Word* LinkAt(uint64_t word) {
    return reinterpret_cast<Word*>(word & kAddressMask);
  }
  static const char* EntryAt(uint64_t word) {
    return reinterpret_cast<const char*>(LinkAt(word) + 1);
  }
  // REQUIRES: the word has the hash's Bloom bit.
  static const char* FindInChain(uint64_t word, const Slice& user_key,
                                 uint64_t hash) {
    const uint64_t bloom_bit = BloomBit(hash);
    do {
      const char* const entry = EntryAt(word);
      if (ShortEqual(ExtractUserKey(EntryKey(entry)), user_key)) return entry;
      // T5. acquire pairs with the release of T2 and T3.
      word = LinkAt(word)->load(std::memory_order_acquire);
    } while ((word & bloom_bit) != 0);
    return nullptr;
  }
  [[gnu::noinline]] void InsertOrGrow(char* entry, Slice key, uint64_t hash);
  bool IsFull(const Array& array) const;
  void Grow();
  [[gnu::noinline]] const char* FindInAll(const Slice& user_key,
                                          uint64_t hash) const;
  // Prefetches in up to `count` of the newest arrays.
  [[gnu::noinline]] void PrefetchInArrays(uint64_t hash, size_t count) const;

  // Immutable after construction, except for the pages of the words.
  Array first_;
  const uint64_t mask_;
  const std::atomic<uint64_t>* const insert_count_;

  std::atomic<Word*> only_words_{nullptr};
  std::atomic<Array*> newest_{&first_};
  std::atomic<bool> growing_{false};
};

}  // namespace varve
