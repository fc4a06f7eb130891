// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/arena.h"

#include <algorithm>
#include <new>

namespace varve {

Arena::Arena(size_t block_bytes, MemoryKind kind)
    : block_bytes_(std::max(block_bytes, kMinBlockBytes)), kind_(kind) {}

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
  MutexLock lock(&mu_);
  // relaxed: stored only under mu_, which this thread holds.
  Block* block = current_.load(std::memory_order_relaxed);
  if (block != nullptr) {
    // Another thread may have added a block while this one waited (B1).
    if (char* result = block->Take(bytes, alignment)) return result;
  }
  const size_t capacity = block_bytes_ - sizeof(Block);
  // The memory after a block's header is always aligned for 8 bytes.
  const size_t padding = alignment > kAlignment ? alignment - kAlignment : 0;
  if (bytes + padding > capacity / 4) {
    return AddBlock(bytes + padding)->Take(bytes, alignment);
  }
  block = AddBlock(capacity);
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
