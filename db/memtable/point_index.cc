// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/point_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <thread>

#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "util/base/check.h"
#include "util/bytes/short_copy.h"

namespace varve {

namespace {

using Word = std::atomic<uint64_t>;
static_assert(sizeof(Word) == PointIndex::kLinkBytes);
static_assert(kEntryOwnerBytes == PointIndex::kLinkBytes);
static_assert(Word::is_always_lock_free);

constexpr uint64_t kLocked = 1;
constexpr uint64_t kBloomMask = ~uint64_t{0} << 48;

constexpr size_t kMinBuckets = 64;
constexpr size_t kMaxBuckets = size_t{4} << 20;
// About the size of an entry with small key and value, so that most chains have
// one key.
constexpr size_t kBytesPerBucket = 128;

// An array of at most this size comes from the heap: the system calls and the
// faults of a mapping take longer than clearing it.
constexpr size_t kMaxHeapBytes = 4 << 10;

// Allocates the buckets, all zero: the word of an empty chain.
Word* NewBuckets(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes <= kMaxHeapBytes) return static_cast<Word*>(calloc(1, bytes));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Word*>(memory);
}

void DeleteBuckets(Word* words, size_t bytes) {
  if (bytes <= kMaxHeapBytes) {
    free(words);
  } else {
    munmap(words, bytes);
  }
}

[[gnu::noinline]] void AwaitUnlock(const Word& bucket) {
  // The owner needs a few dozen instructions, unless it is not running.
  // relaxed: T1 checks it again.
  do {
    std::this_thread::yield();
  } while ((bucket.load(std::memory_order_relaxed) & kLocked) != 0);
}

// Locks the bucket and returns its unlocked word. The first access is a write.
// A read of new memory would map the system's page of zeros. The write after it
// would fault again and flush that page from the other processors' TLBs.
[[gnu::always_inline]] inline uint64_t Lock(Word* bucket) {
  // T1. acquire pairs with the release of T2, T3 and T4.
  while ((bucket->fetch_or(kLocked, std::memory_order_acquire) & kLocked) != 0)
      [[unlikely]] {
    AwaitUnlock(*bucket);
  }
  // relaxed: the bucket is locked.
  return bucket->load(std::memory_order_relaxed) & ~kLocked;
}

}  // namespace

size_t PointIndex::BucketCountFor(size_t write_buffer_size) {
  return std::bit_ceil(std::clamp(write_buffer_size / kBytesPerBucket,
                                  kMinBuckets, kMaxBuckets));
}

bool PointIndex::Map(size_t bucket_count, Array* array) {
  array->bytes = bucket_count * sizeof(Word);
  array->words = NewBuckets(array->bytes);
  if (array->words == nullptr) return false;
  array->mask = bucket_count - 1;
  array->page_count = (array->bytes + kPageBytes - 1) / kPageBytes;
  array->account = NoteAllocated(MemoryKind::kMemTable, array->bytes);
  return true;
}

void PointIndex::Unmap(const Array& array) {
  DeleteBuckets(array.words, array.bytes);
  NoteFreed(array.account, MemoryKind::kMemTable, array.bytes);
}

PointIndex::PointIndex(size_t bucket_count,
                       const std::atomic<uint64_t>* insert_count)
    : mask_(bucket_count - 1), insert_count_(insert_count) {
  VARVE_DCHECK(bucket_count == 0 || std::has_single_bit(bucket_count));
  if (bucket_count == 0 || !Map(bucket_count, &first_)) return;
  // relaxed: any thread that learns of the index sees it constructed.
  only_words_.store(first_.words, std::memory_order_relaxed);
}

PointIndex::~PointIndex() {
  if (!usable()) return;
  // relaxed: no other thread uses the index.
  Array* array = newest_.load(std::memory_order_relaxed);
  while (array != nullptr) {
    Array* const older = array->older;
    Unmap(*array);
    if (array != &first_) delete array;
    array = older;
  }
}

size_t PointIndex::MemoryUsage() const {
  // acquire pairs with T6.
  const Array* const newest = newest_.load(std::memory_order_acquire);
  // relaxed: a statistic.
  const uint64_t inserts =
      insert_count_->load(std::memory_order_relaxed) - newest->inserts_before;
  // The older arrays are full, so that each of their pages was used.
  return newest->older_bytes +
         (inserts < newest->page_count ? inserts * kPageBytes : newest->bytes);
}

// Inlined into both callers, so that the common insert tests no result.
[[gnu::always_inline]] inline bool PointIndex::InsertInto(
    Word* bucket, size_t max_steps, char* entry, Slice key, uint64_t hash) {
  const Slice user_key = ExtractUserKey(key);
  const uint64_t bloom_bit = BloomBit(hash);
  char* const link_bytes = entry - kLinkBytes;
  const uint64_t bucket_word = Lock(bucket);

  // `place` is the word that leads to the key's version, and `word` is its
  // value. Without the key's Bloom bit, the key is not in the rest of the
  // chain.
  Word* place = bucket;
  uint64_t word = bucket_word;
  Slice other_key;
  while ((word & bloom_bit) != 0) {
    other_key = EntryKey(EntryAt(word));
    if (ShortEqual(ExtractUserKey(other_key), user_key)) break;
    if (max_steps-- == 0) [[unlikely]] {
      // T4. release pairs with the acquire of T1.
      bucket->store(bucket_word, std::memory_order_release);
      return false;
    }
    place = LinkAt(word);
    // relaxed: the bucket is locked.
    word = place->load(std::memory_order_relaxed);
  }

  if ((word & bloom_bit) == 0) {
    // The next store publishes it.
    const Word* const link = new (link_bytes) Word(bucket_word);
    const uint64_t bloom = (bucket_word & kBloomMask) | bloom_bit;
    // T2. release pairs with the acquire of T5 and T1.
    bucket->store(WordOf(bloom, link), std::memory_order_release);
    return true;
  }
  if (ExtractTrailer(other_key) < ExtractTrailer(key)) {
    // relaxed: the bucket is locked. The next store publishes it.
    const Word* const link =
        new (link_bytes) Word(LinkAt(word)->load(std::memory_order_relaxed));
    // T3. release pairs with the acquire of T5 and T1.
    place->store(WordOf(word & kBloomMask, link), std::memory_order_release);
    if (place == bucket) return true;
  }
  // T4. release pairs with the acquire of T1.
  bucket->store(bucket_word, std::memory_order_release);
  return true;
}

void PointIndex::Insert(char* entry, Slice key, uint64_t hash) {
  // T7. relaxed: see T6.
  Word* const words = only_words_.load(std::memory_order_relaxed);
  if (words == nullptr || !InsertInto(&words[hash & mask_], kLongChain, entry,
                                      key, hash)) [[unlikely]] {
    InsertOrGrow(entry, key, hash);
  }
}

void PointIndex::InsertOrGrow(char* entry, Slice key, uint64_t hash) {
  if (!usable()) return;
  bool may_grow = true;
  for (;;) {
    // T7. acquire pairs with T6.
    Array* const newest = newest_.load(std::memory_order_acquire);
    const bool grow = may_grow && IsFull(*newest);
    if (InsertInto(&newest->words[hash & newest->mask],
                   grow ? kLongChain : SIZE_MAX, entry, key, hash)) {
      return;
    }
    Grow();
    // Only once. Otherwise it might not end if there is no memory, or while the
    // thread that adds the array is not running.
    may_grow = false;
  }
}

bool PointIndex::IsFull(const Array& array) const {
  // relaxed: an estimate suffices.
  return insert_count_->load(std::memory_order_relaxed) >
         array.inserts_before + (array.mask + 1) * kMaxLoad;
}

void PointIndex::Grow() {
  // T6. acquire pairs with the release below.
  if (growing_.exchange(true, std::memory_order_acquire)) return;  // B8
  // relaxed: the value of the last thread that grew, or later.
  Array* const newest = newest_.load(std::memory_order_relaxed);
  if (IsFull(*newest)) {
    auto* const array = new Array;
    if (Map((newest->mask + 1) * kGrowthFactor, array)) {
      // relaxed: an estimate.
      array->inserts_before = insert_count_->load(std::memory_order_relaxed);
      array->older = newest;
      array->older_bytes = newest->older_bytes + newest->bytes;
      // T6. relaxed: the next store publishes it, in this order for B9.
      only_words_.store(nullptr, std::memory_order_relaxed);
      // T6. release pairs with T7 and T8.
      newest_.store(array, std::memory_order_release);
    } else {
      delete array;
    }
  }
  // T6. release pairs with the acquire above.
  growing_.store(false, std::memory_order_release);
}

const char* PointIndex::FindInAll(const Slice& user_key, uint64_t hash) const {
  const char* entry = nullptr;
  uint64_t highest = 0;
  // T8. acquire pairs with T6. All of them: B7.
  for (const Array* array = newest_.load(std::memory_order_acquire);
       array != nullptr; array = array->older) {
    // T5. acquire pairs with the release of T2 and T3.
    const uint64_t word =
        array->words[hash & array->mask].load(std::memory_order_acquire);
    if ((word & BloomBit(hash)) == 0) continue;
    const char* const found = FindInChain(word, user_key, hash);
    if (found == nullptr) continue;
    const uint64_t trailer = ExtractTrailer(EntryKey(found));
    if (entry != nullptr && trailer < highest) continue;
    entry = found;
    highest = trailer;
  }
  return entry;
}

void PointIndex::PrefetchInArrays(uint64_t hash, size_t count) const {
  if (!usable()) return;
  // acquire pairs with T6.
  for (const Array* array = newest_.load(std::memory_order_acquire);
       array != nullptr && count > 0; array = array->older, --count) {
    __builtin_prefetch(&array->words[hash & array->mask]);
  }
}

void PointIndex::TEST_InsertInto(size_t age, char* entry, Slice key,
                                 uint64_t hash) {
  // acquire pairs with T6.
  const Array* array = newest_.load(std::memory_order_acquire);
  for (; age > 0; --age) array = array->older;
  static_cast<void>(InsertInto(&array->words[hash & array->mask], SIZE_MAX,
                               entry, key, hash));
}

void PointIndex::TEST_BeginGrowth() {
  // relaxed: as in T6.
  only_words_.store(nullptr, std::memory_order_relaxed);
}

size_t PointIndex::TEST_ArrayCount() const {
  size_t count = 0;
  // acquire pairs with T6.
  for (const Array* array = newest_.load(std::memory_order_acquire);
       array != nullptr; array = array->older) {
    ++count;
  }
  return count;
}

}  // namespace varve
