// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A hash index beside a memtable's ordered structure: from a user key to the
// newest version of it that was inserted. A lookup of an absent key costs one
// cache miss, and about once in 16 per key that shares the bucket a second.
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
//
// *Transitions.*
// T1 lock: fetch_or sets the locked bit, acquire; who finds it set waits.
// T2 new key: its link gets the old bucket word, then the bucket word is
//    stored with the entry's address and its Bloom bit, unlocked, release.
// T3 newer version: its link gets a copy of the old version's link; then the
//    word that led to the old version is stored with the new address, release.
//    If that is the bucket word, the same store unlocks.
// T4 unlock: the bucket word as it was is stored unlocked, release: after a T3
//    further down, or when the version to insert is older than the one there.
// T5 read: bucket word, then link words one by one, acquire. Readers ignore
//    the locked bit.
//
// *Invariants.*
// I1 The keys of a chain keep their order for good: a new one comes in front,
//    a version takes the place of an older one. So a link, even of an entry
//    that was replaced, leads to some version of one fixed key or is 0.
// I2 At each place of a chain the sequence numbers only rise.
// I3 A link's Bloom never changes, as by I1 the keys behind it never do; a
//    bucket's only gains bits.
//
// *Why each order is needed.* T2 and T3 pair with T5: who reads an address
// sees the entry's bytes and its link, written before. The release of T2, T3
// and T4 pairs with the acquire of T1: the next writer sees the chain as the
// last one left it, and may read its words relaxed. T1 needs no release: it
// publishes nothing, and as a read-modify-write it stays in the release
// sequence of the store before it, so that a reader who loads the locked word
// still pairs with that store.
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
//
// *Reclamation.* None: the index owns the buckets only; replaced entries live
// in the memtable's arena like all others.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "util/memory_account.h"
#include "varve/slice.h"

namespace varve {

class PointIndex {
 public:
  // What the index needs right before each entry, at an address that is a
  // multiple of it.
  static constexpr size_t kLinkBytes = 8;

  // A fitting number of buckets for a memtable of so many bytes.
  static size_t BucketCountFor(size_t write_buffer_size);

  // `bucket_count` is a power of two, or 0 for an index that is not to be used.
  // The system provides the buckets' memory page by page as they are used.
  explicit PointIndex(size_t bucket_count);
  // REQUIRES: no other thread uses the index any more.
  ~PointIndex();
  PointIndex(const PointIndex&) = delete;
  PointIndex& operator=(const PointIndex&) = delete;

  // False if there are no buckets: none were asked for or the system had no
  // memory. Then nothing else may be called but MemoryUsage.
  bool usable() const { return buckets_ != nullptr; }

  // The entry begins with a length-prefixed internal key, has its kLinkBytes
  // before it, and must outlive the index. `hash` is of its user key, which
  // keys are told apart by bytewise.
  // REQUIRES: no entry of equal internal key was inserted.
  void Insert(char* entry, uint64_t hash);

  // The entry of the highest sequence number of the user key; null if none.
  const char* Find(const Slice& user_key, uint64_t hash) const {
    // T5. acquire pairs with the release of T2 and T3.
    const uint64_t word = Bucket(hash).load(std::memory_order_acquire);
    if ((word & BloomBit(hash)) == 0) return nullptr;
    return FindInChain(word, user_key, hash);
  }

  // Brings the hash's bucket into the cache.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&Bucket(hash)); }

  // The most that the system can have provided for buckets after so many
  // inserts: a page of kPageBytes for each, until there are all.
  size_t MemoryUsage(uint64_t insert_count) const;

 private:
  static constexpr size_t kPageBytes = 4096;

  // Bucket and Bloom bit are of opposite ends of the hash.
  std::atomic<uint64_t>& Bucket(uint64_t hash) const {
    return buckets_[hash & mask_];
  }
  static uint64_t BloomBit(uint64_t hash) {
    return uint64_t{1} << (48 + (hash >> 60));
  }
  const char* FindInChain(uint64_t word, const Slice& user_key,
                          uint64_t hash) const;

  // Immutable after construction.
  const uint64_t mask_;
  std::atomic<uint64_t>* const buckets_;
  MemoryAccount* account_ = nullptr;  // Of the buckets.
};

}  // namespace varve
