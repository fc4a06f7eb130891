// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bump allocator with lock-free allocation. An Arena allocates memory that
// lives as long as the arena. It takes blocks from the system and allocates
// from their front. There is no free.
//
// Any number of threads may allocate at once. An allocation is one addition to
// the word of the block in use, so that nobody has to try again. If it is
// aligned, or may get a block of its own, it is a compare-and-swap, which
// changes nothing if the block is too full. Only a thread that finds the block
// too full takes the mutex, to add a new block.
//
// *Positions.* An allocation has an address, and a position of 32 bits that
// takes half the memory where many are kept. Positions count units of 8 bytes.
// The arena gives each block a range of them that begins at a multiple of
// kSlotUnits. A *slot* is one such multiple, and `bases_` has an address for
// each slot, from which its units are counted. A block with one allocation
// takes one slot, however large it is.
//
// Words and states. `current_` points to the block in use. It is null before
// the first, and changes only under `mu_`. `Block::used` counts the allocated
// bytes of the block. It only grows. Once it has passed `capacity`, the block
// is full. `bases_` points to the newest table of slots. A table is replaced by
// a larger copy, and the older ones are kept.
// Why each order is enough. A block's fields are written before `current_` is
// stored with release, and threads load `current_` with acquire: A1. `used`
// needs no order. The atomic change alone makes the allocated ranges
// disjoint, and a thread that shares the memory publishes its contents by its
// own means. `bases_` is stored with release and loaded with acquire, so that a
// thread sees what was copied into the table: A2. The entry of a slot is
// written before `current_` is stored, or before the allocation returns. So a
// thread that has learned of a position in the slot sees the entry, in this
// table or a newer one.
// Bad interleavings. B1: two threads find the block full at once; the second
// looks again once it has the mutex, and uses the block that the first added.
// B2: a thread holds a block that was replaced concurrently. It may still
// allocate from it, since blocks live until the arena is destroyed. B3: a
// thread holds a table that was replaced concurrently. The position that it
// looks up is older than that, so the table has the slot.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "util/threads/memory_account.h"

namespace varve {

// Is told when an arena takes memory from the system.
class ArenaObserver {
 public:
  // Called by the thread that allocates, after the arena's mutex is released.
  virtual void OnGrowth() = 0;

 protected:
  ~ArenaObserver() = default;
};

// The blocks of an arena that should be small at first.
struct ArenaGrowth {
  // Size of the first block. Each further block is twice as large, up to the
  // arena's block size. 0: all blocks have that size.
  size_t first_block_bytes = 0;
  ArenaObserver* observer = nullptr;  // May be null. Outlives the arena's use.
};

// An allocation: its address, and its position in the arena.
struct ArenaPlace {
  char* data;
  uint32_t position;  // Not 0.
};

class Arena {
 public:
  static constexpr size_t kDefaultBlockBytes = size_t{256} << 10;
  static constexpr size_t kMinBlockBytes = size_t{4} << 10;
  // Each allocation begins at a multiple of it.
  static constexpr size_t kUnit = 8;
  // Blocks of the default size have enough slots for 32 GiB, and larger
  // allocations for more.
  static constexpr size_t kMaxSlots = size_t{1} << 19;

  // Its memory is accounted, as `kind`, to the thread that allocates a block.
  // The first block is allocated at the first allocation. `block_bytes` is
  // raised to at least kMinBlockBytes.
  explicit Arena(size_t block_bytes = kDefaultBlockBytes,
                 MemoryKind kind = MemoryKind::kMemTable,
                 const ArenaGrowth& growth = {});
  // REQUIRES: no other thread uses the arena any more.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns `bytes` uninitialized bytes, valid until the arena is destroyed,
  // at a multiple of `alignment`. That is a power of two, at least kUnit. An
  // allocation of more than a quarter of a block that does not fit the block in
  // use gets a block of its own, so that little is wasted. REQUIRES: the arena
  // has fewer than kMaxSlots slots.
  ArenaPlace Allocate(size_t bytes, size_t alignment = kUnit) {
    // acquire: pairs with the release store in AllocateLocked (A1).
    Block* block = current_.load(std::memory_order_acquire);
    if (block != nullptr) {
      const ArenaPlace place = block->Take(bytes, alignment);
      if (place.data != nullptr) return place;
    }
    return AllocateSlow(bytes, alignment);
  }
  char* AllocateAligned(size_t bytes, size_t alignment) {
    return Allocate(bytes, alignment).data;
  }
  // Returns the address of the allocation with the position. REQUIRES: the
  // allocation happens before the call.
  char* At(uint32_t position) const {
    // acquire: pairs with the release store in AddSlots (A2).
    const uintptr_t* const bases = bases_.load(std::memory_order_acquire);
    return reinterpret_cast<char*>(bases[position / kSlotUnits] +
                                   size_t{position} * kUnit);
  }

  // Returns the bytes allocated from the system so far, including block
  // headers. The table of slots is not counted: it has 8 bytes for 64 KiB.
  size_t MemoryUsage() const {
    // relaxed: a figure for limits and reports; it orders nothing.
    return memory_usage_bytes_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kSlotUnits = 8 << 10;
  static constexpr size_t kSlotBytes = kUnit * kSlotUnits;
  // If so many blocks have the same size, the next ones are larger. So the
  // slots suffice for a memory of any size that positions have the bits for.
  static constexpr size_t kBlocksOfASize = 64;

  // At the start of its memory. The bytes to allocate follow it.
  struct Block {
    Block* next;
    size_t capacity;
    std::atomic<size_t> used;  // A multiple of kUnit.
    MemoryAccount* account;    // For this header and `capacity` bytes.
    uint32_t position;         // Where the allocations begin.

    // Each returns a null address if fewer than `bytes` bytes are left.
    // TakeFast then fills the block. TakeExactly leaves it as it is.
    ArenaPlace TakeFast(size_t bytes);
    ArenaPlace TakeExactly(size_t bytes, size_t alignment);
    // If a small piece does not fit, the block is replaced, so that it may be
    // filled.
    ArenaPlace Take(size_t bytes, size_t alignment) {
      return alignment <= kUnit && bytes <= capacity / 4
                 ? TakeFast(bytes)
                 : TakeExactly(bytes, alignment);
    }
  };
  static_assert(sizeof(Block) % kUnit == 0);

  // Returns the largest allocation that does not get a block of its own.
  static size_t LargestShared(size_t block_bytes) {
    return (block_bytes - sizeof(Block)) / 4;
  }

  ArenaPlace AllocateSlow(size_t bytes, size_t alignment) VARVE_EXCLUDES(mu_);
  // Sets *grew if it takes a block from the system.
  ArenaPlace AllocateLocked(size_t bytes, size_t alignment, bool* grew)
      VARVE_REQUIRES(mu_);
  // The first `used_bytes` of the capacity get positions.
  Block* AddBlock(size_t capacity, size_t used_bytes) VARVE_REQUIRES(mu_);
  // Returns the position at `base`, and gives it and the `count` slots from it
  // on to the block there.
  uint32_t AddSlots(const char* base, size_t count) VARVE_REQUIRES(mu_);
  void DoubleBlocks() VARVE_REQUIRES(mu_);

  // Immutable after construction.
  const MemoryKind kind_;
  ArenaObserver* const observer_;

  // Atomic (written under mu_, read by all).
  std::atomic<Block*> current_{nullptr};
  std::atomic<const uintptr_t*> bases_{nullptr};
  std::atomic<size_t> memory_usage_bytes_{0};

  // Guarded by mu_.
  Mutex mu_;
  size_t block_bytes_ VARVE_GUARDED_BY(mu_);
  size_t next_block_bytes_ VARVE_GUARDED_BY(mu_);
  size_t same_size_count_ VARVE_GUARDED_BY(mu_) = 0;
  // The newest table is the last one. Slot 0 is not used.
  std::vector<std::unique_ptr<uintptr_t[]>> tables_ VARVE_GUARDED_BY(mu_);
  size_t table_size_ VARVE_GUARDED_BY(mu_) = 0;
  size_t slot_count_ VARVE_GUARDED_BY(mu_) = 1;
  Block* blocks_ VARVE_GUARDED_BY(mu_) = nullptr;  // All of them, newest first.
};

inline ArenaPlace Arena::Block::TakeFast(size_t bytes) {
  bytes = (bytes + kUnit - 1) & ~(kUnit - 1);
  // relaxed: see "Why each order is enough".
  const size_t start = used.fetch_add(bytes, std::memory_order_relaxed);
  if (start + bytes > capacity) [[unlikely]]
    return {nullptr, 0};
  return {reinterpret_cast<char*>(this + 1) + start,
          position + static_cast<uint32_t>(start / kUnit)};
}

inline ArenaPlace Arena::Block::TakeExactly(size_t bytes, size_t alignment) {
  bytes = (bytes + kUnit - 1) & ~(kUnit - 1);
  // relaxed, here and below: see "Why each order is enough".
  size_t old_used = used.load(std::memory_order_relaxed);
  const auto base = reinterpret_cast<uintptr_t>(this + 1);
  size_t start;
  do {
    start = ((base + old_used + alignment - 1) & ~(alignment - 1)) - base;
    if (start > capacity || capacity - start < bytes) return {nullptr, 0};
    // relaxed: as above.
  } while (!used.compare_exchange_weak(old_used, start + bytes,
                                       std::memory_order_relaxed));
  return {reinterpret_cast<char*>(base + start),
          position + static_cast<uint32_t>(start / kUnit)};
}

}  // namespace varve
