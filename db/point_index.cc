// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/point_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <thread>

#include "db/memtable_entry.h"
#include "table/internal_key.h"
#include "util/check.h"

namespace varve {

namespace {

using Word = std::atomic<uint64_t>;
static_assert(sizeof(Word) == PointIndex::kLinkBytes);
static_assert(kEntryOwnerBytes == PointIndex::kLinkBytes);
static_assert(Word::is_always_lock_free);

constexpr uint64_t kLocked = 1;
constexpr uint64_t kAddressMask = (uint64_t{1} << 48) - PointIndex::kLinkBytes;
constexpr uint64_t kBloomMask = ~uint64_t{0} << 48;
static_assert((kAddressMask & (kBloomMask | kLocked)) == 0);

constexpr size_t kMinBuckets = 64;
constexpr size_t kMaxBuckets = size_t{4} << 20;
// About an entry of small key and value, so that chains are of one key.
constexpr size_t kBytesPerBucket = 128;

// REQUIRES for both: the word has a Bloom bit, so that it has an address.
Word* LinkAt(uint64_t word) {
  return reinterpret_cast<Word*>(word & kAddressMask);
}
const char* EntryAt(uint64_t word) {
  return reinterpret_cast<const char*>(LinkAt(word) + 1);
}

uint64_t WordOf(uint64_t bloom, const Word* link) {
  const auto address = reinterpret_cast<uintptr_t>(link);
  // The systems that Varve runs on give out addresses of more than 48 bits
  // only to programs that ask for them.
  VARVE_DCHECK((address & ~kAddressMask) == 0);
  return bloom | address;
}

// Fresh memory of the system is zero, which is the word of an empty chain.
Word* MapBuckets(size_t count) {
  if (count == 0) return nullptr;
  void* memory = mmap(nullptr, count * sizeof(Word), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Word*>(memory);
}

// Returns the bucket's word as it was. Its first access is a write: a read of
// fresh memory maps the system's page of zeros, and the write after it faults
// once more and has every other processor forget that page.
uint64_t Lock(Word* bucket) {
  // T1. acquire pairs with the release of T2, T3 and T4.
  while ((bucket->fetch_or(kLocked, std::memory_order_acquire) & kLocked) !=
         0) {
    // The owner needs a few dozen instructions, unless it is not running.
    // relaxed: T1 tells whether it is still so.
    do {
      std::this_thread::yield();
    } while ((bucket->load(std::memory_order_relaxed) & kLocked) != 0);
  }
  // relaxed: the bucket is locked.
  return bucket->load(std::memory_order_relaxed) & ~kLocked;
}

}  // namespace

size_t PointIndex::BucketCountFor(size_t write_buffer_size) {
  return std::bit_ceil(std::clamp(write_buffer_size / kBytesPerBucket,
                                  kMinBuckets, kMaxBuckets));
}

PointIndex::PointIndex(size_t bucket_count)
    : mask_(bucket_count - 1), buckets_(MapBuckets(bucket_count)) {
  VARVE_DCHECK(bucket_count == 0 || std::has_single_bit(bucket_count));
  if (buckets_ != nullptr) {
    account_ =
        NoteAllocated(MemoryKind::kMemTable, bucket_count * sizeof(Word));
  }
}

PointIndex::~PointIndex() {
  if (buckets_ == nullptr) return;
  const size_t bytes = (mask_ + 1) * sizeof(Word);
  munmap(buckets_, bytes);
  NoteFreed(account_, MemoryKind::kMemTable, bytes);
}

size_t PointIndex::MemoryUsage(uint64_t insert_count) const {
  if (buckets_ == nullptr) return 0;
  const size_t bytes = (mask_ + 1) * sizeof(Word);
  const size_t page_count = (bytes + kPageBytes - 1) / kPageBytes;
  return insert_count < page_count ? insert_count * kPageBytes : bytes;
}

void PointIndex::Insert(char* entry, uint64_t hash) {
  const Slice key = EntryKey(entry);
  const Slice user_key = ExtractUserKey(key);
  const uint64_t bloom_bit = BloomBit(hash);
  Word* const link = new (entry - kLinkBytes) Word(0);
  Word* const bucket = &Bucket(hash);
  const uint64_t bucket_word = Lock(bucket);

  // `place` is the word that leads to the key's version, `word` what it holds.
  // Without the key's Bloom bit the key is not behind it.
  Word* place = bucket;
  uint64_t word = bucket_word;
  Slice other_key;
  while ((word & bloom_bit) != 0) {
    other_key = EntryKey(EntryAt(word));
    if (ExtractUserKey(other_key) == user_key) break;
    place = LinkAt(word);
    // relaxed: the bucket is locked.
    word = place->load(std::memory_order_relaxed);
  }

  if ((word & bloom_bit) == 0) {
    // relaxed: the next store publishes it.
    link->store(bucket_word, std::memory_order_relaxed);
    const uint64_t bloom = (bucket_word & kBloomMask) | bloom_bit;
    // T2. release pairs with the acquire of T5 and T1.
    bucket->store(WordOf(bloom, link), std::memory_order_release);
    return;
  }
  if (ExtractTrailer(other_key) < ExtractTrailer(key)) {
    // relaxed, both: the bucket is locked, and the next store publishes it.
    link->store(LinkAt(word)->load(std::memory_order_relaxed),
                std::memory_order_relaxed);
    // T3. release pairs with the acquire of T5 and T1.
    place->store(WordOf(word & kBloomMask, link), std::memory_order_release);
    if (place == bucket) return;
  }
  // T4. release pairs with the acquire of T1.
  bucket->store(bucket_word, std::memory_order_release);
}

const char* PointIndex::FindInChain(uint64_t word, const Slice& user_key,
                                    uint64_t hash) const {
  const uint64_t bloom_bit = BloomBit(hash);
  do {
    const char* const entry = EntryAt(word);
    if (ExtractUserKey(EntryKey(entry)) == user_key) return entry;
    // T5. acquire pairs with the release of T2 and T3.
    word = LinkAt(word)->load(std::memory_order_acquire);
  } while ((word & bloom_bit) != 0);
  return nullptr;
}

}  // namespace varve
