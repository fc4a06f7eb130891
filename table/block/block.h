// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A data block in memory, and an iterator over its entries.
//
// In a file, each key shares bytes with the key before it, which saves space.
// In memory, each entry can be read by itself: the prefix that all keys have in
// common is stored once, and each entry has the rest of its key.
//
//   control line     pins and the place in the cache; readers do not touch it
//   header, 24 bytes; fingerprints, one byte an entry: a hash of its user key
//   samples: of every fourth entry, four bytes of the key
//   offsets of the entries, two bytes each, or four in a large block
//   the common prefix of all user keys
//   entries: varint size of the rest of the user key, varint size of the
//            value, rest of the user key, trailer, value
//
// A point lookup reads the header with fingerprints and offsets, which are
// adjacent cache lines and are fetched together. It then reads one entry, which
// is almost always the right one. A seek uses the samples to narrow the range
// to three entries, which are also fetched together. A binary search over all
// entries would wait for each in turn.
//
// Block::Create decodes and checks every entry once, and rejects damaged ones.
// Readers then check nothing and cannot fail. Only the order of keys is not
// checked: disorder can give wrong answers but no invalid accesses.
// Verification checks the order.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "util/bytes/byte_match.h"
#include "util/bytes/coding.h"
#include "util/bytes/short_copy.h"
#include "util/threads/memory_account.h"
#include "util/threads/thread_arena.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class DeadWalk;
class DeletionBatch;

// The uncompressed body of a block other than a data block.
struct BlockContents {
  ArenaBuffer buffer;
  size_t size = 0;

  Slice AsSlice() const { return Slice(buffer.data(), size); }
};

struct BlockBuildOptions {
  // Replaces the sequence number of each key, if not 0.
  SequenceNumber global_sequence = 0;
  // Keys are in bytewise order, so a common prefix may be removed.
  bool bytewise = true;
  // Build fingerprints for point lookups, and samples for seeks. REQUIRES:
  // bytewise.
  bool fingerprints = true;
  // Allocate the block on huge pages, if available.
  bool huge_pages = false;
};

// Thread-safety: immutable, except for the counts of its control line and the
// mark for the cache.
class alignas(64) Block {
 public:
  // Builds a block from a block's body in its file's format. Corruption says
  // which entry is damaged; NotSupported names the feature that an entry needs.
  // The caller adds file and offset. The new block has one pin, which the
  // caller owns.
  static Status Create(const Slice& contents, const BlockBuildOptions& options,
                       Block** block);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint32_t EntryCount() const { return entry_count_; }
  // Returns the bytes of memory of the whole block.
  size_t ApproximateMemoryUsage() const { return allocated_bytes_; }
  // Returns the bytes before keys and values, which serve to find them.
  size_t TEST_HeaderBytes() const { return prefix_at_; }

  // A decoded entry. The user key is the block's prefix followed by `rest`.
  struct Entry {
    Slice rest;
    uint64_t trailer;
    Slice value;
  };
  // REQUIRES: i < EntryCount().
  Entry EntryAt(uint32_t i) const { return Decode(base() + Offset(i)); }
  Slice Prefix() const { return Slice(base() + prefix_at_, prefix_size_); }

  // ---- Point lookup, for blocks with fingerprints ----

  bool has_fingerprints() const { return has_fingerprints_; }
  // Prefetches the lines that FindCandidate and LowerBound will read.
  void PrefetchHeader() const {
    __builtin_prefetch(base() + 64);
    __builtin_prefetch(base() + 128);
    __builtin_prefetch(base() + 192);
  }
  // Returns the first entry from `from` on whose fingerprint matches the hash,
  // or EntryCount().
  uint32_t FindCandidate(uint64_t hash, uint32_t from) const;
  // Prefetches an entry.
  void PrefetchEntry(uint32_t i) const {
    const char* entry = base() + Offset(i);
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + 64);
  }
  static uint8_t Fingerprint(uint64_t hash) {
    return static_cast<uint8_t>(hash >> 56);
  }

  // ---- Ordered lookup ----

  // Returns the first entry at or after the internal key, or EntryCount().
  uint32_t LowerBound(const InternalKeyComparator& comparator,
                      const Slice& user_key, uint64_t trailer) const;
  // The two steps of LowerBound. The first one prefetches the entries that the
  // second one compares.
  struct Range {
    Slice rest;          // Of the user key, after the block's prefix.
    uint32_t begin = 0;  // The result is from begin to end, both included.
    uint32_t end = 0;
  };
  Range Narrow(const Slice& user_key) const;
  uint32_t LowerBoundIn(const Range& range,
                        const InternalKeyComparator& comparator,
                        uint64_t trailer) const;
  // Prefetches the lines that a pin and Narrow access first. The block may be
  // freed; then prefetching its memory has no visible effect.
  static void PrefetchForSeek(const Block* block) {
    const char* const line = reinterpret_cast<const char*>(block);
    __builtin_prefetch(line, 1);
    for (size_t i = 1; i < kHeaderLinesOfSeek; ++i) {
      __builtin_prefetch(line + 64 * i);
    }
  }

  // ---- Use ----

  // Marks the block as used, for the cache. Stores only if it is not marked
  // yet.
  void Touch() {
    // relaxed: a hint for eviction.
    if (referenced_.load(std::memory_order_relaxed) == 0) {
      referenced_.store(1, std::memory_order_relaxed);
    }
  }
  // Returns whether the block was marked, and clears the mark.
  bool TakeReferenced() {
    // relaxed: a hint for eviction. No exchange is needed: a mark lost to a
    // race costs at most one block a turn of the clock.
    if (referenced_.load(std::memory_order_relaxed) == 0) return false;
    referenced_.store(0, std::memory_order_relaxed);
    return true;
  }

  // Prevents the block from being freed. REQUIRES: the caller has a pin
  // already, or found the block in a slot inside a read-side critical section
  // that has not ended.
  void Pin() {
    // relaxed: the caller's pin or section keeps the block; nothing is
    // published.
    refs_.fetch_add(kPin, std::memory_order_relaxed);
  }
  // Releases a pin. The signature is a PinnableSlice's cleanup function.
  static void Unpin(void* block) { static_cast<Block*>(block)->Drop(kPin); }
  bool IsPinned() const {
    // relaxed: the answer may be outdated when it is returned.
    return refs_.load(std::memory_order_relaxed) >= kPin;
  }
  // Adds the cache's own hold. There is at most one.
  void Hold() {
    // relaxed: like Pin.
    refs_.fetch_add(kHold, std::memory_order_relaxed);
  }
  // Drops the cache's hold. The signature is a deleter for retired blocks.
  static void DropHold(void* block) { static_cast<Block*>(block)->Drop(kHold); }

 private:
  friend class BlockIterator;
  friend class ClockBlockCache;

  static constexpr uint32_t kHold = 1;
  static constexpr uint32_t kPin = 2;

  Block() = default;
  ~Block() = default;

  // Entries for each sample.
  static constexpr uint32_t kSampleStep = 4;
  static constexpr uint32_t kSamplesPerGroup = 16 / kSampleStep;
  static constexpr size_t kSeekPrefetchLines = 12;
  static constexpr size_t kHeaderLinesOfSeek = 8;

  const char* base() const { return reinterpret_cast<const char*>(this); }
  // Returns the first bytes of the rest of a user key as a number with the same
  // order.
  static uint32_t SampleOf(const Slice& rest) {
    uint32_t bytes = 0;
    if (rest.size() >= sizeof(bytes)) [[likely]] {
      memcpy(&bytes, rest.data(), sizeof(bytes));
    } else if (!rest.empty()) {
      memcpy(&bytes, rest.data(), rest.size());
    }
    return __builtin_bswap32(bytes);
  }
  // Narrows the range of entries from the samples.
  void NarrowBySamples(Range* range) const;
  uint32_t Offset(uint32_t i) const {
    const char* offsets = base() + offsets_at_;
    return wide_offsets_ ? DecodeFixed32(offsets + 4 * size_t{i})
                         : DecodeFixed16(offsets + 2 * size_t{i});
  }
  static Entry Decode(const char* p) {
    uint32_t rest_size = static_cast<uint8_t>(p[0]);
    uint32_t value_size = static_cast<uint8_t>(p[1]);
    if (((rest_size | value_size) & 0x80) == 0) {
      p += 2;
    } else {
      p = GetVarint32Ptr(p, p + kMaxVarint32Bytes, &rest_size);
      p = GetVarint32Ptr(p, p + kMaxVarint32Bytes, &value_size);
    }
    const char* trailer = p + rest_size;
    return Entry{Slice(p, rest_size), DecodeFixed64(trailer),
                 Slice(trailer + kTrailerSize, value_size)};
  }
  void Drop(uint32_t what) {
    // acq_rel pairs with itself: every use happens before the free.
    if (refs_.fetch_sub(what, std::memory_order_acq_rel) == what) Free();
  }
  void Free();

  // ---- Control line ----
  std::atomic<uint32_t> refs_{kPin};
  uint32_t ring_index_ = 0;              // Both belong to the cache,
  std::atomic<Block*>* slot_ = nullptr;  // guarded by its shard's mutex.
  size_t allocated_bytes_ = 0;
  MemoryAccount* account_ = nullptr;  // Charged with these bytes.
  Block* next_evicted_ = nullptr;     // Belongs to the thread that evicted it.

  // ---- Header; immutable, but for the mark ----
  alignas(64) uint32_t entry_count_ = 0;
  uint32_t prefix_size_ = 0;
  uint32_t prefix_at_ = 0;           // Offset from the beginning of the block.
  uint32_t offsets_at_ = 0;          // Offset of the offsets.
  uint16_t fingerprint_groups_ = 0;  // Each of 16 bytes, at kFingerprintsAt.
  bool has_fingerprints_ = false;
  bool wide_offsets_ = false;
  bool huge_pages_ = false;
  std::atomic<uint8_t> referenced_{0};
  static constexpr size_t kFingerprintsAt = 64 + 24;
};

// Releases a block's pin at the end of a scope, or transfers it.
class BlockRef {
 public:
  BlockRef() = default;
  // Calls release(argument) when the ref is reset or destroyed.
  BlockRef(const Block* block, void (*release)(void*), void* argument)
      : block_(block), release_(release), argument_(argument) {}
  // Takes ownership of a pin.
  explicit BlockRef(Block* block) : BlockRef(block, &Block::Unpin, block) {}
  BlockRef(BlockRef&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        release_(other.release_),
        argument_(other.argument_) {}
  BlockRef& operator=(BlockRef&& other) noexcept {
    if (this != &other) {
      Reset();
      block_ = std::exchange(other.block_, nullptr);
      release_ = other.release_;
      argument_ = other.argument_;
    }
    return *this;
  }
  ~BlockRef() { Reset(); }

  void Reset() {
    if (std::exchange(block_, nullptr) != nullptr) release_(argument_);
  }
  explicit operator bool() const { return block_ != nullptr; }
  const Block* get() const { return block_; }
  const Block* operator->() const { return block_; }

  // Returns the release function and its argument, and transfers the duty to
  // call it to the caller.
  using Release = void (*)(void*);
  std::pair<Release, void*> Detach() {
    block_ = nullptr;
    return {release_, argument_};
  }

 private:
  const Block* block_ = nullptr;
  Release release_ = nullptr;
  void* argument_ = nullptr;
};

// Iterates over the entries of a block. It is not virtual, since a table's
// iterator contains one. The block and the comparator must outlive its use.
// Thread-safety: owned by one thread at a time.
// Cost: no allocation for keys of up to kInlineKeySize bytes.
class BlockIterator {
 public:
  static constexpr size_t kInlineKeySize = 128;

  // `memory`, for long keys, may be null.
  explicit BlockIterator(ThreadArena* memory = nullptr) : large_(memory) {}
  BlockIterator(const BlockIterator&) = delete;
  BlockIterator& operator=(const BlockIterator&) = delete;

  // Attaches a block. The iterator is not valid until it is positioned.
  void Reset(const Block* block, const InternalKeyComparator* comparator);
  // Detaches the block, which may then be freed.
  void Leave() {
    position_.valid = false;
    index_ = count_ = 0;
  }
  // Detaches the block and frees heap memory.
  void ResetForReuse() {
    Leave();
    if (!large_.Trim()) return;
    buffer_ = inline_;
    buffer_size_ = kInlineKeySize;
  }

  bool Valid() const { return position_.valid; }
  void SeekToFirst() { LoadAt(0); }
  void SeekToLast() { LoadAt(count_ - 1); }  // Without entries: past the end.
  // Moves to the first entry at or after the internal key.
  void Seek(const Slice& internal_key) {
    LoadAt(block_->LowerBound(*comparator_, ExtractUserKey(internal_key),
                              ExtractTrailer(internal_key)));
  }
  // Seek in two steps, as Block has them. REQUIRES: the iterator is attached to
  // the same block in both, and the key's memory is unchanged.
  void PrepareSeek(const Slice& internal_key) {
    range_ = block_->Narrow(ExtractUserKey(internal_key));
  }
  void FinishSeek(const Slice& internal_key) {
    LoadAt(block_->LowerBoundIn(range_, *comparator_,
                                ExtractTrailer(internal_key)));
  }
  // Moves to the last entry at or before the internal key.
  void SeekForPrev(const Slice& internal_key);
  // REQUIRES for all of these: Valid().
  void Next() {
    if (++index_ < count_) [[likely]] {
      Load(position_.value.end());
    } else {
      position_.valid = false;
    }
  }
  void Prev() { LoadAt(index_ == 0 ? count_ : index_ - 1); }
  // Move over dead entries, as InternalIterator's functions do. At the end, and
  // backward before the first entry, the iterator is not valid.
  void SkipDeadForward(DeadWalk* walk);
  void SkipDeadBackward(DeadWalk* walk);
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk);
  void CollectDeletions(const DeadWalk& walk, DeletionBatch* deletions) const;
  // Valid until the iterator moves.
  Slice key() const { return position_.key; }
  // Valid as long as the block.
  Slice value() const { return position_.value; }
  const IteratorPosition* position() const { return &position_; }
  // Lets another iterator store its entries here while this iterator has no
  // block. Next then makes the position invalid, as at the end of a block.
  IteratorPosition* shared_position() { return &position_; }
  // Returns the offset in the block of the end of the current entry.
  size_t offset() const {
    return static_cast<size_t>(position_.value.end() - block_->base());
  }

 private:
  void LoadAt(uint32_t i) {
    index_ = i;
    position_.valid = i < count_;
    if (position_.valid) Load(block_->base() + block_->Offset(i));
  }
  void Load(const char* p) {
    const Block::Entry entry = Block::Decode(p);
    position_.value = entry.value;
    const size_t size = entry.rest.size() + kTrailerSize;
    if (prefix_size_ == 0) {
      position_.key = Slice(entry.rest.data(), size);
      return;
    }
    if (prefix_size_ + size > buffer_size_) Grow(prefix_size_ + size);
    ShortCopy(buffer_ + prefix_size_, entry.rest.data(), size);
    position_.key = Slice(buffer_, prefix_size_ + size);
  }
  void Grow(size_t size);
  // Moves to entry i, whose address is p, or to the end.
  void MoveTo(uint32_t i, const char* p) {
    index_ = i;
    position_.valid = i < count_;
    if (position_.valid) Load(p);
  }
  // Splits an internal key at the block's prefix. Returns <0, 0 or >0 if its
  // user key is before, among or after all keys with the prefix. Then 0 sets
  // *rest.
  int SplitAtPrefix(const Slice& user_key, Slice* rest) const;

  const Block* block_ = nullptr;
  const InternalKeyComparator* comparator_ = nullptr;
  uint32_t index_ = 0;
  uint32_t count_ = 0;
  Block::Range range_;  // Of the seek between its two steps.
  // The key points into the block if the block has it in full. Otherwise it
  // points into the buffer, which begins with the block's prefix.
  IteratorPosition position_;
  size_t prefix_size_ = 0;
  char* buffer_ = inline_;
  size_t buffer_size_ = kInlineKeySize;
  ArenaBuffer large_;
  char inline_[kInlineKeySize];
};

inline uint32_t Block::FindCandidate(uint64_t hash, uint32_t from) const {
  const char* fingerprints = base() + kFingerprintsAt;
  const uint8_t wanted = Fingerprint(hash);
  uint32_t group = from / 16;
  // Masks out the entries before `from` in its group.
  uint32_t mask_from = ~uint32_t{0} << (from % 16);
  for (; group < fingerprint_groups_; ++group, mask_from = ~uint32_t{0}) {
    const uint32_t mask =
        MatchByte16(fingerprints + 16 * size_t{group}, wanted) & mask_from;
    if (mask != 0) {
      const uint32_t i =
          16 * group + static_cast<uint32_t>(__builtin_ctz(mask));
      // Zero bytes follow the last fingerprint.
      return i < entry_count_ ? i : entry_count_;
    }
  }
  return entry_count_;
}

}  // namespace varve
