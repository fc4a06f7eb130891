// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A hash index beside a memtable's ordered structure: from a user key to the
// newest version of it that was inserted. A lookup of an absent key costs one
// cache miss, and about once in 16 per key that shares the bucket a second.
//
// The first array of buckets fits the write buffer. One batch may be much
// larger than that: an insert that meets a long chain in an array with more
// than kMaxLoad entries per bucket puts a new array, kGrowthFactor times as
// large, in front of the older ones. No entry moves. Inserts go to the newest
// array, lookups ask all arrays: N entries take log(N) / log(kGrowthFactor)
// arrays.
//
// Thread-safety: Insert, Find and Prefetch may run at once in any threads.
// Readers take no lock and write nothing; writers of one bucket take turns.
//
// *Words and states.* Two kinds of word have one layout:
//
//   bits 63..48         47..3                          0
//   Bloom of the chain  link word of the first entry   locked
//
// A *bucket word* begins the chain of all keys that hash to the bucket; the
// *link word* right before each entry's bytes leads to the rest of the chain.
// A word's Bloom is of the keys from where it points to the end: one bit, of
// 16, for each. 0 is the empty chain. Only bucket words are ever locked; a
// thread that locks a bucket owns the words of its chain until it unlocks.
// `newest_` points to the newest array of buckets, each array to the next older
// one. `only_words_` are the buckets of the first array while it is the only
// one, and null afterwards. `growing_` is true while a thread adds an array.
//
// *Transitions.*
// T1 lock: fetch_or sets the locked bit, acquire; who finds it set waits.
// T2 new key: its link gets the old bucket word, then the bucket word is
//    stored with the entry's address and its Bloom bit, unlocked, release.
// T3 newer version: its link gets a copy of the old version's link; then the
//    word that led to the old version is stored with the new address, release.
//    If that is the bucket word, the same store unlocks.
// T4 unlock: the bucket word as it was is stored unlocked, release: after a T3
//    further down, or when the version to insert is older than the one there,
//    or when the chain is so long that the insert looks at growing first.
// T5 read: bucket word, then link words one by one, acquire. Readers ignore
//    the locked bit.
// T6 grow: a thread that changes `growing_` from false to true, acquire, and
//    finds the newest array still full, makes an array that points to the
//    newest one; stores null in `only_words_`, relaxed; stores the new array in
//    `newest_`, release; stores false in `growing_`, release. It holds no
//    bucket.
// T7 choose: an insert loads `only_words_`, relaxed, and `newest_`, acquire, if
//    the former is null or the chain there is long. It does T1 to T4 in the
//    array found, and in no other one; after a T4 without an insert it loads
//    `newest_` again.
// T8 look up: a reader loads `only_words_`, relaxed, and does T5 there if it is
//    not null. Else it loads `newest_`, acquire, does T5 in that array and in
//    all older ones, and takes the entry of the highest sequence number.
//
// *Invariants.*
// I1 The keys of a chain keep their order for good: a new one comes in front,
//    a version takes the place of an older one. So a link, even of an entry
//    that was replaced, leads to some version of one fixed key or is 0.
// I2 At each place of a chain the sequence numbers only rise.
// I3 A link's Bloom never changes, as by I1 the keys behind it never do; a
//    bucket's only gains bits.
// I4 Arrays are only added, in front: whoever reaches one reaches all that are
//    older. Each entry is in the chains of one array, or was replaced there by
//    a newer version. I1 to I3 hold in each array by itself.
// I5 `only_words_` becomes null once, before `newest_` leaves the first array.
//
// *Why each order is needed.* T2 and T3 pair with T5: who reads an address
// sees the entry's bytes and its link, written before. The release of T2, T3
// and T4 pairs with the acquire of T1: the next writer sees the chain as the
// last one left it, and may read its words relaxed. T1 needs no release: it
// publishes nothing, and as a read-modify-write it stays in the release
// sequence of the store before it, so that a reader who loads the locked word
// still pairs with that store. The store of `newest_` in T6 pairs with T7 and
// T8: who loads an array's address sees its fields and, by I5, that
// `only_words_` is null, as does whoever comes after that thread. So accesses
// of `only_words_` may be relaxed: the words that it points to at first are as
// old as the index. `growing_` pairs with itself: the next thread to grow sees
// the array that was added before.
//
// *Bad interleavings prevented.*
// B1 Two new keys get the same bucket word as their link and both store the
//    bucket: one is lost. T1 lets one of them wait.
// B2 Two versions of a key are inserted at once; each sees the same older one
//    and the older of the two stores last. T1 again, and the comparison of
//    sequence numbers under it.
// B3 Of neighbours P, X in a chain both get newer versions at once: P' copies
//    P's link to X, then X' is stored in P's link, which nobody follows any
//    more. T1 covers the whole chain, not one word.
// B4 A reader stands on P when P' replaces it. P's link stays as it is and by
//    I1 leads to all keys behind; the memory stays until the arena goes.
// B5 A reader sees the Bloom of one moment and the address of another, and
//    misses a key. Both are one word.
// B6 A reader finds a version newer than its snapshot. The index does not know
//    the one before; the caller asks the ordered structure, into which every
//    update at or before that snapshot was inserted before it was visible.
// B7 A thread chooses an array and is suspended; another one grows, and inserts
//    a version of the same key into the new array; the first one goes on and
//    inserts a newer version into the old array. A reader that stops at the
//    first array with the key returns the older version: T8 asks all arrays.
// B8 Two threads find the array full and both add one in front of it: one of
//    them is lost with its entries, or the second is needlessly large.
//    `growing_` lets one thread pass, which looks again whether the newest
//    array is full.
// B9 A thread that grows is suspended between its two stores, of `newest_` and
//    then `only_words_`; another one finds a long chain in the first array,
//    loads `newest_` and inserts into the second array; a reader that comes
//    after it loads `only_words_`, which is not null yet, and misses that
//    entry: I5, by the other order of the stores. Between them all threads use
//    the first array by way of `newest_`.
//
// *Freshness and progress.* A lookup that starts after an Insert returned
// (happens-before) finds that version or a newer one. Say the insert of X' was
// complete at moment M. The bucket word read is of M or later, so it leads to
// an entry that was in the chain at M or came later; the link of such an entry,
// read now, is of M or later too; and so on to the place of X' by I1, where by
// I2 stands X' or a newer one. A reader may miss inserts that run while it
// does, and may see one key's and miss an earlier one of another key; sequence
// numbers hide both. A writer that is suspended in a bucket delays the writers
// of that bucket, never a reader.
// With several arrays: T8 asks the first array in any case. If that Insert
// chose another one, it loaded `newest_`, so that the null of I5 and that array
// happen before the lookup: by coherence T8 loads null, and from `newest_` that
// array or a later one. By I4 it asks that array, where the paragraph above
// holds; an entry of another array is returned in its place only if its
// sequence number is higher. A thread that grows maps memory and touches none
// of it, and delays nobody: the others insert into the array they find.
//
// *Reclamation.* None before the index goes: it owns the buckets only; replaced
// entries live in the memtable's arena like all others.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "util/threads/memory_account.h"
#include "varve/slice.h"

namespace varve {

class PointIndex {
 public:
  // What the index needs right before each entry, at an address that is a
  // multiple of it.
  static constexpr size_t kLinkBytes = 8;

  // A fitting number of buckets to begin with for a memtable of so many bytes.
  static size_t BucketCountFor(size_t write_buffer_size);

  // `bucket_count` is a power of two, or 0 for an index that is not to be used.
  // The system provides the buckets' memory page by page as they are used.
  // `insert_count` is about how many Inserts have returned; it must outlive
  // the index.
  PointIndex(size_t bucket_count, const std::atomic<uint64_t>* insert_count);
  // REQUIRES: no other thread uses the index any more.
  ~PointIndex();
  PointIndex(const PointIndex&) = delete;
  PointIndex& operator=(const PointIndex&) = delete;

  // False if there are no buckets: none were requested or the system had no
  // memory. Then Insert and Prefetch have no effect.
  bool usable() const { return first_.words != nullptr; }

  // The entry begins with a length-prefixed internal key, whose bytes are
  // `key`, has its kLinkBytes before it, and must outlive the index. `hash` is
  // of its user key, which keys are told apart by bytewise.
  // REQUIRES: no entry of equal internal key was inserted.
  void Insert(char* entry, Slice key, uint64_t hash);

  // The entry of the highest sequence number of the user key; null if there is
  // none. Nothing if the index is not usable.
  std::optional<const char*> Find(const Slice& user_key, uint64_t hash) const {
    // T8. relaxed: see T6.
    const Word* const words = only_words_.load(std::memory_order_relaxed);
    if (words == nullptr) [[unlikely]]
      return FindInAll(user_key, hash);
    // T5. acquire pairs with the release of T2 and T3.
    const uint64_t word = words[hash & mask_].load(std::memory_order_acquire);
    if ((word & BloomBit(hash)) == 0) return nullptr;
    return FindInChain(word, user_key, hash);
  }

  // Brings what Find or Insert reads first for the hash into the cache.
  void Prefetch(uint64_t hash) const {
    // relaxed: only the address is used.
    const Word* const words = only_words_.load(std::memory_order_relaxed);
    if (words == nullptr) [[unlikely]]
      return PrefetchInArrays(hash, SIZE_MAX);
    __builtin_prefetch(&words[hash & mask_]);
  }
  void PrefetchForInsert(uint64_t hash) const {
    // relaxed: only the address is used.
    const Word* const words = only_words_.load(std::memory_order_relaxed);
    if (words == nullptr) [[unlikely]]
      return PrefetchInArrays(hash, 1);
    __builtin_prefetch(&words[hash & mask_]);
  }

  // The most that the system can have provided for buckets so far: a page of
  // kPageBytes for each insert into an array, until there are all.
  size_t MemoryUsage() const;

  // Inserts into the array that is `age` steps older than the newest one, as a
  // thread does that was suspended right after T7.
  void TEST_InsertInto(size_t age, char* entry, Slice key, uint64_t hash);
  // Does the first store of T6 alone.
  void TEST_BeginGrowth();
  size_t TEST_ArrayCount() const;

 private:
  using Word = std::atomic<uint64_t>;

  static constexpr size_t kPageBytes = 4096;
  // An array that has more entries per bucket is full. Memtables that are no
  // larger than their write buffer do not get there.
  static constexpr uint64_t kMaxLoad = 4;
  static constexpr size_t kGrowthFactor = 8;
  // An insert that passes so many entries looks whether the array is full.
  static constexpr size_t kLongChain = 16;

  // An array of buckets. Immutable once it is published.
  struct Array {
    Word* words = nullptr;
    uint64_t mask = 0;
    size_t bytes = 0;
    size_t page_count = 0;
    uint64_t inserts_before = 0;  // Into older arrays, about.
    size_t older_bytes = 0;       // Of all older arrays.
    Array* older = nullptr;
    MemoryAccount* account = nullptr;
  };

  // Bucket and Bloom bit are of opposite ends of the hash.
  static uint64_t BloomBit(uint64_t hash) {
    return uint64_t{1} << (48 + (hash >> 60));
  }
  // False if the system has no memory.
  static bool Map(size_t bucket_count, Array* array);
  static void Unmap(const Array& array);
  // False, and nothing is changed, if the key is not among the first
  // `max_steps` entries of its chain and there are more.
  static bool InsertInto(Word* bucket, size_t max_steps, char* entry, Slice key,
                         uint64_t hash);
  static const char* FindInChain(uint64_t word, const Slice& user_key,
                                 uint64_t hash);
  [[gnu::noinline]] void InsertOrGrow(char* entry, Slice key, uint64_t hash);
  bool IsFull(const Array& array) const;
  void Grow();
  [[gnu::noinline]] std::optional<const char*> FindInAll(const Slice& user_key,
                                                         uint64_t hash) const;
  // Of the newest arrays, so many at most.
  [[gnu::noinline]] void PrefetchInArrays(uint64_t hash, size_t count) const;

  // Immutable after construction, but for the pages of the words.
  Array first_;
  const uint64_t mask_;
  const std::atomic<uint64_t>* const insert_count_;

  std::atomic<Word*> only_words_{nullptr};
  std::atomic<Array*> newest_{&first_};
  std::atomic<bool> growing_{false};
};

}  // namespace varve
