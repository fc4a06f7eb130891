// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/point_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "util/base/check.h"
#include "util/bytes/short_copy.h"

namespace varve {

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

constexpr size_t kLineBytes = 64;
constexpr size_t kMinBuckets = 8;
constexpr size_t kMaxBuckets = size_t{512} << 10;
// About the size of eight entries with small key and value, so that few buckets
// have keys for a further one.
constexpr size_t kBytesPerBucket = 1280;

// An array of at most this size comes from the heap: the system calls and the
// faults of a mapping take longer than clearing it.
constexpr size_t kMaxHeapBytes = 4 << 10;

// Allocates memory that is all zero, as free buckets are.
void* NewBuckets(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes <= kMaxHeapBytes) {
    void* const memory = aligned_alloc(kLineBytes, bytes);
    return memory == nullptr ? nullptr : memset(memory, 0, bytes);
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void DeleteBuckets(void* memory, size_t bytes) {
  if (bytes <= kMaxHeapBytes) {
    free(memory);
  } else {
    munmap(memory, bytes);
  }
}

[[gnu::noinline]] void AwaitUnlock(const std::atomic<uint32_t>& word,
                                   uint32_t locked) {
  // The owner needs a few dozen instructions, unless it is not running.
  // relaxed: T1 checks it again.
  do {
    std::this_thread::yield();
  } while ((word.load(std::memory_order_relaxed) & locked) != 0);
}

}  // namespace

struct PointIndex::Insertion {
  uint32_t entry;
  Slice key;
  Slice user_key;
  uint64_t tag;
  uint64_t tag_in_each_byte;
  // A further bucket that has the entry in its first slot, or 0.
  uint32_t further;

  Insertion(const ArenaPlace& place, const Slice& internal_key, uint64_t hash)
      : entry(place.position),
        key(internal_key),
        user_key(ExtractUserKey(internal_key)),
        tag(TagOf(hash)),
        tag_in_each_byte(TagInEachByte(hash)),
        further(0) {}
};

size_t PointIndex::BucketCountFor(size_t write_buffer_size) {
  return std::clamp(write_buffer_size / kBytesPerBucket, kMinBuckets,
                    kMaxBuckets);
}

bool PointIndex::Map(size_t bucket_count, Array* array) {
  array->bytes = bucket_count * sizeof(Bucket);
  array->buckets = static_cast<Bucket*>(NewBuckets(array->bytes));
  if (array->buckets == nullptr) return false;
  array->count = bucket_count;
  array->page_count = (array->bytes + kPageBytes - 1) / kPageBytes;
  array->account = NoteAllocated(MemoryKind::kMemTable, array->bytes);
  return true;
}

void PointIndex::Unmap(const Array& array) {
  DeleteBuckets(array.buckets, array.bytes);
  NoteFreed(array.account, MemoryKind::kMemTable, array.bytes);
}

PointIndex::PointIndex(size_t bucket_count, Arena* arena,
                       const std::atomic<uint64_t>* insert_count)
    : bucket_count_(bucket_count), arena_(arena), insert_count_(insert_count) {
  VARVE_DCHECK(bucket_count <= UINT32_MAX);
  if (bucket_count == 0 || !Map(bucket_count, &first_)) return;
  // relaxed: any thread that learns of the index sees it constructed.
  only_buckets_.store(first_.buckets, std::memory_order_relaxed);
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

// Locks the bucket and returns its unlocked `more_tags`. The first access is a
// write. A read of new memory would map the system's page of zeros. The write
// after it would fault again and flush that page from the other processors'
// TLBs.
[[gnu::always_inline]] inline uint32_t PointIndex::Lock(Bucket* bucket) {
  // T1. acquire pairs with the release of T4.
  while ((bucket->more_tags.fetch_or(kLocked, std::memory_order_acquire) &
          kLocked) != 0) [[unlikely]] {
    AwaitUnlock(bucket->more_tags, kLocked);
  }
  // relaxed: the bucket is locked.
  return bucket->more_tags.load(std::memory_order_relaxed) & ~kLocked;
}

// If a slot of a word of tags has the insertion's user key, does T3, or nothing
// if the version there is newer. Otherwise returns false. REQUIRES: the bucket
// is locked.
[[gnu::always_inline]] inline bool PointIndex::Replace(
    uint64_t tags, std::atomic<uint32_t>* entries,
    const Insertion& insertion) const {
  for (uint64_t matches = MatchesOf(tags, insertion.tag_in_each_byte);
       matches != 0; matches &= matches - 1) {
    const Slice key = KeyAt(entries, matches);
    if (!ShortEqual(ExtractUserKey(key), insertion.user_key)) continue;
    if (ExtractTrailer(key) < ExtractTrailer(insertion.key)) {
      // T3. release pairs with the acquire of T5.
      entries[IndexOf(matches)].store(insertion.entry,
                                      std::memory_order_release);
    }
    return true;
  }
  return false;
}

// Inlined into the callers, so that the common insert tests no result.
[[gnu::always_inline]] inline bool PointIndex::InsertInto(
    Bucket* bucket, const Insertion& insertion) {
  const uint32_t more_tags = Lock(bucket);
  // relaxed: the bucket is locked.
  const uint64_t tags = bucket->tags.load(std::memory_order_relaxed);
  if (!Replace(tags, bucket->entries, insertion)) {
    if (AreUsed(tags)) {
      return InsertFurther(bucket, more_tags, insertion);
    }
    const size_t free = UsedCount(tags);
    // relaxed: the next store publishes it.
    bucket->entries[free].store(insertion.entry, std::memory_order_relaxed);
    // T2. release pairs with the acquire of T5.
    bucket->tags.store(tags | insertion.tag << (8 * free),
                       std::memory_order_release);
  }
  // T4. release pairs with the acquire of T1.
  bucket->more_tags.store(more_tags, std::memory_order_release);
  return true;
}

// Does InsertInto if the bucket's first slots are all used, none by the user
// key. The bucket is locked, and has these `more_tags`.
[[gnu::noinline]] bool PointIndex::InsertFurther(Bucket* bucket,
                                                 uint32_t more_tags,
                                                 const Insertion& insertion) {
  bool is_done = true;
  uint32_t unlocked = more_tags;
  for (Bucket* at = bucket;;) {
    std::atomic<uint32_t>* const more_entries = at->entries + kFirstTags;
    if (Replace(more_tags, more_entries, insertion)) break;
    if (more_tags >> 24 == 0) {
      const size_t free = UsedCount(more_tags);
      // relaxed: the store of the tag publishes it.
      more_entries[free].store(insertion.entry, std::memory_order_relaxed);
      more_tags |= static_cast<uint32_t>(insertion.tag << (8 * free));
      if (at == bucket) {
        unlocked = more_tags;  // T4 stores it.
      } else {
        // T2. release pairs with the acquire of T5.
        at->more_tags.store(more_tags, std::memory_order_release);
      }
      break;
    }
    // relaxed: the bucket is locked.
    const uint32_t next = at->next.load(std::memory_order_relaxed);
    if (next == 0) {
      // T2. release pairs with the acquire of T5.
      at->next.store(insertion.further, std::memory_order_release);
      is_done = insertion.further != 0;
      break;
    }
    at = reinterpret_cast<Bucket*>(arena_->At(next));
    // relaxed: the bucket is locked.
    const uint64_t tags = at->tags.load(std::memory_order_relaxed);
    if (Replace(tags, at->entries, insertion)) break;
    if (!AreUsed(tags)) {
      const size_t free = UsedCount(tags);
      // relaxed: the next store publishes it.
      at->entries[free].store(insertion.entry, std::memory_order_relaxed);
      // T2. release pairs with the acquire of T5.
      at->tags.store(tags | insertion.tag << (8 * free),
                     std::memory_order_release);
      break;
    }
    // relaxed: the bucket is locked.
    more_tags = at->more_tags.load(std::memory_order_relaxed);
  }
  // T2 and T4. release pairs with the acquire of T5 and T1.
  bucket->more_tags.store(unlocked, std::memory_order_release);
  return is_done;
}

void PointIndex::Insert(const ArenaPlace& entry, const Slice& key,
                        uint64_t hash) {
  // T7. relaxed: see T6.
  Bucket* const buckets = only_buckets_.load(std::memory_order_relaxed);
  if (buckets == nullptr || !InsertInto(&buckets[BucketOf(hash, bucket_count_)],
                                        Insertion(entry, key, hash)))
      [[unlikely]] {
    InsertOrGrow(entry, key, hash);
  }
}

void PointIndex::InsertOrGrow(const ArenaPlace& entry, const Slice& key,
                              uint64_t hash) {
  if (!usable()) return;
  Insertion insertion(entry, key, hash);
  bool may_grow = true;
  for (;;) {
    // T7. acquire pairs with T6.
    Array* const newest = newest_.load(std::memory_order_acquire);
    Bucket* const bucket = &newest->buckets[BucketOf(hash, newest->count)];
    if (InsertInto(bucket, insertion)) return;
    if (may_grow && IsFull(*newest)) {
      Grow();
      // Only once. Otherwise it might not end if there is no memory, or while
      // the thread that adds the array is not running.
      may_grow = false;
    } else {
      insertion.further = NewFurther(insertion);
    }
  }
}

// Returns a further bucket that has the entry in its first slot.
uint32_t PointIndex::NewFurther(const Insertion& insertion) {
  const ArenaPlace place = arena_->Allocate(sizeof(Bucket), kLineBytes);
  auto* const bucket = new (place.data) Bucket{};
  // relaxed, both: T2 publishes them.
  bucket->entries[0].store(insertion.entry, std::memory_order_relaxed);
  bucket->tags.store(insertion.tag, std::memory_order_relaxed);
  return place.position;
}

bool PointIndex::IsFull(const Array& array) const {
  // relaxed: an estimate suffices.
  return insert_count_->load(std::memory_order_relaxed) >
         array.inserts_before + array.count * kMaxLoad;
}

void PointIndex::Grow() {
  // T6. acquire pairs with the release below.
  if (growing_.exchange(true, std::memory_order_acquire)) return;  // B8
  // relaxed: the value of the last thread that grew, or later.
  Array* const newest = newest_.load(std::memory_order_relaxed);
  if (IsFull(*newest)) {
    auto* const array = new Array;
    if (Map(newest->count * kGrowthFactor, array)) {
      // relaxed: an estimate.
      array->inserts_before = insert_count_->load(std::memory_order_relaxed);
      array->older = newest;
      array->older_bytes = newest->older_bytes + newest->bytes;
      // T6. relaxed: the next store publishes it, in this order for B9.
      only_buckets_.store(nullptr, std::memory_order_relaxed);
      // T6. release pairs with T7 and T8.
      newest_.store(array, std::memory_order_release);
    } else {
      delete array;
    }
  }
  // T6. release pairs with the acquire above.
  growing_.store(false, std::memory_order_release);
}

[[gnu::always_inline]] inline Slice PointIndex::FindAmong(
    uint64_t tags, const std::atomic<uint32_t>* entries, const Slice& user_key,
    uint64_t tag_in_each_byte) const {
  for (uint64_t matches = MatchesOf(tags, tag_in_each_byte); matches != 0;
       matches &= matches - 1) {
    const Slice key = KeyAt(entries, matches);
    if (ShortEqual(ExtractUserKey(key), user_key)) return key;
  }
  return Slice();
}

Slice PointIndex::FindInChain(const Bucket& bucket, const Slice& user_key,
                              uint64_t hash) const {
  // T5. acquire pairs with the release of T2.
  const uint64_t tags = bucket.tags.load(std::memory_order_acquire);
  const Slice key =
      FindAmong(tags, bucket.entries, user_key, TagInEachByte(hash));
  if (!key.empty() || !AreUsed(tags)) return key;
  return FindFurther(bucket, user_key, hash);
}

Slice PointIndex::FindFurther(const Bucket& bucket, const Slice& user_key,
                              uint64_t hash) const {
  const uint64_t tag = TagInEachByte(hash);
  for (const Bucket* at = &bucket;;) {
    // T5. acquire pairs with the release of T2 and T4.
    const uint32_t more_tags =
        at->more_tags.load(std::memory_order_acquire) & ~kLocked;
    Slice key = FindAmong(more_tags, at->entries + kFirstTags, user_key, tag);
    if (!key.empty()) return key;
    // T5. acquire pairs with the release of T2.
    const uint32_t next = at->next.load(std::memory_order_acquire);
    if (next == 0) return Slice();
    at = reinterpret_cast<const Bucket*>(arena_->At(next));
    // T5. acquire pairs with the release of T2.
    key = FindAmong(at->tags.load(std::memory_order_acquire), at->entries,
                    user_key, tag);
    if (!key.empty()) return key;
  }
}

bool PointIndex::FindInAll(const Slice& user_key, uint64_t hash,
                           Slice* key) const {
  if (!usable()) return false;
  *key = Slice();
  // T8. acquire pairs with T6. All of them: B7.
  for (const Array* array = newest_.load(std::memory_order_acquire);
       array != nullptr; array = array->older) {
    const Slice found = FindInChain(
        array->buckets[BucketOf(hash, array->count)], user_key, hash);
    if (found.empty()) continue;
    if (!key->empty() && ExtractTrailer(found) < ExtractTrailer(*key)) continue;
    *key = found;
  }
  return true;
}

void PointIndex::PrefetchInArrays(uint64_t hash, size_t count) const {
  if (!usable()) return;
  // acquire pairs with T6.
  for (const Array* array = newest_.load(std::memory_order_acquire);
       array != nullptr && count > 0; array = array->older, --count) {
    __builtin_prefetch(&array->buckets[BucketOf(hash, array->count)]);
  }
}

void PointIndex::TEST_InsertInto(size_t age, const ArenaPlace& entry,
                                 const Slice& key, uint64_t hash) {
  // acquire pairs with T6.
  const Array* array = newest_.load(std::memory_order_acquire);
  for (; age > 0; --age) array = array->older;
  Insertion insertion(entry, key, hash);
  Bucket* const bucket = &array->buckets[BucketOf(hash, array->count)];
  if (InsertInto(bucket, insertion)) return;
  insertion.further = NewFurther(insertion);
  static_cast<void>(InsertInto(bucket, insertion));
}

void PointIndex::TEST_BeginGrowth() {
  // relaxed: as in T6.
  only_buckets_.store(nullptr, std::memory_order_relaxed);
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
