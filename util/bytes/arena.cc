// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/arena.h"

#include <algorithm>
#include <new>

namespace varve {

Arena::Arena(size_t block_bytes, MemoryKind kind, const ArenaGrowth& growth)
    : block_bytes_(std::max(block_bytes, kMinBlockBytes)),
      kind_(kind),
      observer_(growth.observer),
      next_block_bytes_(growth.first_block_bytes == 0
                            ? block_bytes_
                            : std::clamp(growth.first_block_bytes,
                                         kMinBlockBytes, block_bytes_)) {}

Arena::~Arena() {
  MutexLock lock(&mu_);
  while (blocks_ != nullptr) {
    Block* block = blocks_;
    blocks_ = block->next;
    NoteFreed(block->account, kind_, sizeof(Block) + block->capacity);
    block->~Block();
    ::operator delete(block);
  }
}

char* Arena::AllocateSlow(size_t bytes, size_t alignment) {
  bool grew = false;
  char* result;
  {
    MutexLock lock(&mu_);
    result = AllocateLocked(bytes, alignment, &grew);
  }
  if (grew && observer_ != nullptr) observer_->OnGrowth();
  return result;
}

char* Arena::AllocateLocked(size_t bytes, size_t alignment, bool* grew) {
  // relaxed: stored only under mu_, which this thread holds.
  Block* block = current_.load(std::memory_order_relaxed);
  if (block != nullptr) {
    // Another thread may have added a block while this one waited (B1).
    if (char* result = block->Take(bytes, alignment)) return result;
  }
  *grew = true;
  // The memory after a block's header is always aligned for 8 bytes.
  const size_t padding = alignment > kAlignment ? alignment - kAlignment : 0;
  const size_t needed = bytes + padding;
  // Small first blocks grow, so that they hold several allocations.
  while (needed > LargestShared(next_block_bytes_) &&
         next_block_bytes_ < block_bytes_) {
    next_block_bytes_ = std::min(2 * next_block_bytes_, block_bytes_);
  }
  if (needed > LargestShared(next_block_bytes_)) {
    return AddBlock(needed)->Take(bytes, alignment);
  }
  block = AddBlock(next_block_bytes_ - sizeof(Block));
  next_block_bytes_ = std::min(2 * next_block_bytes_, block_bytes_);
  char* result = block->Take(bytes, alignment);
  // release: pairs with the acquire load in AllocateWith (A1).
  current_.store(block, std::memory_order_release);
  return result;
}

Arena::Block* Arena::AddBlock(size_t capacity) {
  const size_t total_bytes = sizeof(Block) + capacity;
  blocks_ = new (::operator new(total_bytes))
      Block{blocks_, capacity, {}, NoteAllocated(kind_, total_bytes)};
  // relaxed: see MemoryUsage.
  memory_usage_bytes_.fetch_add(total_bytes, std::memory_order_relaxed);
  return blocks_;
}

}  // namespace varve
