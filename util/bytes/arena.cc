// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace varve {

namespace {

constexpr size_t kFirstSlots = 16;

}  // namespace

Arena::Arena(size_t block_bytes, MemoryKind kind, const ArenaGrowth& growth)
    : kind_(kind),
      observer_(growth.observer),
      block_bytes_(std::max(block_bytes, kMinBlockBytes)),
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

ArenaPlace Arena::AllocateSlow(size_t bytes, size_t alignment) {
  bool grew = false;
  ArenaPlace result;
  {
    MutexLock lock(&mu_);
    result = AllocateLocked(bytes, alignment, &grew);
  }
  if (grew && observer_ != nullptr) observer_->OnGrowth();
  return result;
}

ArenaPlace Arena::AllocateLocked(size_t bytes, size_t alignment, bool* grew) {
  // relaxed: stored only under mu_, which this thread holds.
  Block* block = current_.load(std::memory_order_relaxed);
  if (block != nullptr) {
    // Another thread may have added a block while this one waited (B1).
    const ArenaPlace place = block->Take(bytes, alignment);
    if (place.data != nullptr) return place;
  }
  *grew = true;
  // The memory after a block's header is always aligned for a unit.
  const size_t padding = alignment > kUnit ? alignment - kUnit : 0;
  const size_t needed = (bytes + kUnit - 1) / kUnit * kUnit + padding;
  // Small first blocks grow, so that they hold several allocations.
  while (needed > LargestShared(next_block_bytes_) &&
         next_block_bytes_ < block_bytes_) {
    next_block_bytes_ = std::min(2 * next_block_bytes_, block_bytes_);
  }
  if (++same_size_count_ == kBlocksOfASize) DoubleBlocks();
  if (needed > LargestShared(next_block_bytes_)) {
    // Its one position is in the first slot, also after the padding.
    return AddBlock(needed, kUnit)->Take(bytes, alignment);
  }
  const size_t capacity = next_block_bytes_ - sizeof(Block);
  block = AddBlock(capacity, capacity);
  next_block_bytes_ = std::min(2 * next_block_bytes_, block_bytes_);
  const ArenaPlace result = block->Take(bytes, alignment);
  // release: pairs with the acquire load in AllocateWith (A1).
  current_.store(block, std::memory_order_release);
  return result;
}

void Arena::DoubleBlocks() {
  same_size_count_ = 0;
  block_bytes_ =
      std::max(block_bytes_, std::min(2 * block_bytes_, kDefaultBlockBytes));
}

Arena::Block* Arena::AddBlock(size_t capacity, size_t used_bytes) {
  const size_t total_bytes = sizeof(Block) + capacity;
  blocks_ = new (::operator new(total_bytes))
      Block{blocks_, capacity, {}, NoteAllocated(kind_, total_bytes), 0};
  blocks_->position = AddSlots(reinterpret_cast<const char*>(blocks_ + 1),
                               (used_bytes + kSlotBytes - 1) / kSlotBytes);
  // relaxed: see MemoryUsage.
  memory_usage_bytes_.fetch_add(total_bytes, std::memory_order_relaxed);
  return blocks_;
}

uint32_t Arena::AddSlots(const char* base, size_t count) {
  if (slot_count_ + count > kMaxSlots) abort();
  if (slot_count_ + count > table_size_) {
    const size_t size = std::max(kFirstSlots, 2 * (slot_count_ + count));
    auto table = std::make_unique<uintptr_t[]>(size);
    if (!tables_.empty()) {
      std::copy_n(tables_.back().get(), slot_count_, table.get());
    }
    table_size_ = size;
    tables_.push_back(std::move(table));
    // release: pairs with the acquire load in At (A2).
    bases_.store(tables_.back().get(), std::memory_order_release);
  }
  const auto position = static_cast<uint32_t>(slot_count_ * kSlotUnits);
  // At adds the bytes of a whole position.
  const uintptr_t zero =
      reinterpret_cast<uintptr_t>(base) - size_t{position} * kUnit;
  std::fill_n(tables_.back().get() + slot_count_, count, zero);
  slot_count_ += count;
  return position;
}

}  // namespace varve
