// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bump allocator with lock-free allocation. An Arena allocates memory that
// lives as long as the arena. It takes blocks from the system and allocates
// from their front. There is no free.
//
// Any number of threads may allocate at once. An allocation is one
// compare-and-swap on the block in use. Only a thread that finds the block too
// full takes the mutex, to add a new block.
//
// Words and states. `current_` points to the block in use. It is null before
// the first, and changes only under `mu_`. `Block::used` counts the allocated
// bytes of the block. It only grows and never passes `capacity`.
// Why each order is enough. A block's fields are written before `current_` is
// stored with release, and threads load `current_` with acquire: A1. `used`
// needs no order. The compare-and-swap alone makes the allocated ranges
// disjoint, and a thread that shares the memory publishes its contents by its
// own means.
// Bad interleavings. B1: two threads find the block full at once; the second
// looks again once it has the mutex, and uses the block that the first added.
// B2: a thread holds a block that was replaced concurrently. It may still
// allocate from it, since blocks live until the arena is destroyed.

#include <atomic>
#include <cstddef>
#include <cstdint>

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

class Arena {
 public:
  static constexpr size_t kDefaultBlockBytes = size_t{256} << 10;
  static constexpr size_t kMinBlockBytes = size_t{4} << 10;

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

  // Returns `bytes` uninitialized bytes, valid until the arena is destroyed. An
  // allocation of more than a quarter of a block that does not fit the block in
  // use gets a block of its own, so that little is wasted.
  char* Allocate(size_t bytes) { return AllocateWith(bytes, 1); }
  // Returns an address that is a multiple of `alignment`, a power of two.
  char* AllocateAligned(size_t bytes, size_t alignment = kAlignment) {
    return AllocateWith(bytes, alignment);
  }

  // Returns the bytes allocated from the system so far, including block
  // headers.
  size_t MemoryUsage() const {
    // relaxed: a figure for limits and reports; it orders nothing.
    return memory_usage_bytes_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kAlignment = 8;

  // At the start of its memory. The bytes to allocate follow it.
  struct Block {
    Block* next;
    size_t capacity;
    std::atomic<size_t> used;
    MemoryAccount* account;  // For this header and `capacity` bytes.

    // Returns null if fewer than `bytes` bytes are left.
    char* Take(size_t bytes, size_t alignment);
  };
  static_assert(sizeof(Block) % kAlignment == 0);

  // Returns the largest allocation that does not get a block of its own.
  static size_t LargestShared(size_t block_bytes) {
    return (block_bytes - sizeof(Block)) / 4;
  }

  char* AllocateWith(size_t bytes, size_t alignment) {
    // acquire: pairs with the release store in AllocateLocked (A1).
    Block* block = current_.load(std::memory_order_acquire);
    if (block != nullptr) {
      if (char* result = block->Take(bytes, alignment)) return result;
    }
    return AllocateSlow(bytes, alignment);
  }
  char* AllocateSlow(size_t bytes, size_t alignment) VARVE_EXCLUDES(mu_);
  // Sets *grew if it takes a block from the system.
  char* AllocateLocked(size_t bytes, size_t alignment, bool* grew)
      VARVE_REQUIRES(mu_);
  Block* AddBlock(size_t capacity) VARVE_REQUIRES(mu_);

  // Immutable after construction.
  const size_t block_bytes_;
  const MemoryKind kind_;
  ArenaObserver* const observer_;

  // Atomic (written under mu_, read by all).
  std::atomic<Block*> current_{nullptr};
  std::atomic<size_t> memory_usage_bytes_{0};

  // Guarded by mu_.
  Mutex mu_;
  size_t next_block_bytes_ VARVE_GUARDED_BY(mu_);
  Block* blocks_ VARVE_GUARDED_BY(mu_) = nullptr;  // All of them, newest first.
};

inline char* Arena::Block::Take(size_t bytes, size_t alignment) {
  // relaxed, here and below: see "Why each order is enough".
  size_t old_used = used.load(std::memory_order_relaxed);
  const auto base = reinterpret_cast<uintptr_t>(this + 1);
  size_t start;
  do {
    start = ((base + old_used + alignment - 1) & ~(alignment - 1)) - base;
    if (start > capacity || capacity - start < bytes) return nullptr;
    // relaxed: as above.
  } while (!used.compare_exchange_weak(old_used, start + bytes,
                                       std::memory_order_relaxed));
  return reinterpret_cast<char*>(this + 1) + start;
}

}  // namespace varve
