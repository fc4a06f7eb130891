// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "catalog/distributed_ref_counts.h"

namespace varve {

DistributedRefCounts::Block::~Block() {
  // relaxed: no thread uses it any more.
  for (auto& chunk : chunks) delete chunk.load(std::memory_order_relaxed);
}

DistributedRefCounts::DistributedRefCounts() {
  slot_id_ = RegisterSlotOwner(this);
}

DistributedRefCounts::~DistributedRefCounts() { UnregisterSlotOwner(slot_id_); }

void DistributedRefCounts::ReleaseSlotPointer(ThreadRecord* /*record*/,
                                              void* pointer) {
  MutexLock lock(&mutex_);
  free_blocks_.push_back(static_cast<Block*>(pointer));
}

DistributedRefCounts::Counts* DistributedRefCounts::Make(ThreadRecord* record,
                                                         uint32_t index) {
  VARVE_DCHECK(index < kMaxIndexes);
  const EpochGuard section(record);
  ThreadSlot* const slot = SlotOf(record, slot_id_);
  // relaxed: as in Find.
  if (slot->number.load(std::memory_order_relaxed) != number_) {
    MutexLock lock(&mutex_);
    if (free_blocks_.empty()) {
      blocks_.push_back(std::make_unique<Block>());
      free_blocks_.push_back(blocks_.back().get());
    }
    void* const old = FillSlot(slot, free_blocks_.back(), number_);
    free_blocks_.pop_back();
    VARVE_DCHECK(old == nullptr);
    static_cast<void>(old);
  }
  // relaxed: as in Find.
  auto* const block =
      static_cast<Block*>(slot->pointer.load(std::memory_order_relaxed));
  std::atomic<Chunk*>& chunk = block->chunks[index / kChunk];
  // relaxed: this thread alone stores it.
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    // release: pairs with Count.
    chunk.store(new Chunk, std::memory_order_release);
  }
  return Find(record, index);
}

DistributedRefCounts::Sums DistributedRefCounts::Count(uint32_t index) {
  Sums sums;
  MutexLock lock(&mutex_);
  const auto for_each = [&](auto add) {
    for (const auto& block : blocks_) {
      // acquire: pairs with Make.
      const Chunk* const chunk =
          block->chunks[index / kChunk].load(std::memory_order_acquire);
      if (chunk != nullptr) add(chunk->counts[index % kChunk]);
    }
  };
  // acquire: pairs with Give.
  for_each([&](const Counts& counts) {
    sums.given += counts.given.load(std::memory_order_acquire);
  });
  // relaxed: see the class.
  for_each([&](const Counts& counts) {
    sums.taken += counts.taken.load(std::memory_order_relaxed);
  });
  return sums;
}

}  // namespace varve
