// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/cache/clock_block_cache.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "util/base/probe.h"
#include "util/threads/epoch.h"

namespace varve {

namespace {

// Bytes of retired blocks that readers may still use and that no cache counts.
// The sum is for all caches, because one reader delays the blocks that any of
// them evicts.
constinit std::atomic<size_t> retired_bytes{0};

// Retired bytes up to the larger of these two bounds, bytes and a fraction of
// the capacity, are normal: readers need a moment to finish.
constexpr size_t kUsualRetiredBytes = 4 << 20;
constexpr size_t kUsualRetiredPart = 4;

void FreeBlock(void* object) {
  auto* const block = static_cast<Block*>(object);
  // relaxed: see TooMuchIsRetired.
  retired_bytes.fetch_sub(block->ApproximateMemoryUsage(),
                          std::memory_order_relaxed);
  Block::DropHold(block);
}

bool TooMuchIsRetired(size_t capacity_bytes) {
  // relaxed: an approximate bound.
  return retired_bytes.load(std::memory_order_relaxed) >
         std::max(capacity_bytes / kUsualRetiredPart, kUsualRetiredBytes);
}

}  // namespace

ClockBlockCache::ClockBlockCache(const CacheOptions& options)
    : BlockCache(options),
      strict_(options.strict_capacity_limit),
      shard_count_(ShardCount(options.capacity_bytes)),
      shards_(std::make_unique<Shard[]>(shard_count_)) {
  ClockBlockCache::Divide(options.capacity_bytes);
}

// All tables are closed and have removed their blocks.
ClockBlockCache::~ClockBlockCache() = default;

ClockBlockCache::Shard* ClockBlockCache::ShardOf(const BlockSlot* slot) const {
  // Neighbouring slots go to different shards.
  const uint64_t number = reinterpret_cast<uintptr_t>(slot) / sizeof(*slot);
  return &shards_[number * 0x9E3779B97F4A7C15 >> 48 & (shard_count_ - 1)];
}

BlockRef ClockBlockCache::Lookup(const BlockPlace& place) {
  const EpochGuard section;
  // T2. acquire pairs with the release in Insert.
  Block* const block = place.slot->load(std::memory_order_acquire);
  if (block == nullptr) return BlockRef();
  // Before Pin, whose locked instruction delays all later loads.
  block->PrefetchHeader();
  block->Pin();
  block->Touch();
  return BlockRef(block);
}

bool ClockBlockCache::Admit(const BlockPlace& place) {
  // A reader that hangs delays the freeing of all evicted blocks. Then no block
  // is admitted, so none is evicted.
  if (TooMuchIsRetired(GetCapacity())) [[unlikely]] {
    FreeSomeRetired();
    if (TooMuchIsRetired(GetCapacity())) return false;
  }
  Shard* const shard = ShardOf(place.slot);
  Evicted evicted;
  MutexLock lock(&shard->mutex);
  // Blocks that were pinned when the capacity shrank may be evictable by now.
  MakeSpace(shard, 0, &evicted);
  return shard->admission.Admit(place.last_miss, place.handle().size,
                                shard->usage_bytes, shard->capacity_bytes);
}

BlockRef ClockBlockCache::Insert(const BlockPlace& place, BlockRef ref) {
  auto* const block = const_cast<Block*>(ref.get());
  const size_t charge = block->ApproximateMemoryUsage();
  Shard* const shard = ShardOf(place.slot);
  Evicted evicted;
  MutexLock lock(&shard->mutex);
  // relaxed: slots change under the mutex only.
  Block* const winner = place.slot->load(std::memory_order_relaxed);
  if (winner != nullptr) {
    winner->Pin();  // Evict needs the mutex.
    return BlockRef(winner);
  }
  // A block that never fits must not push out all others.
  if (charge > shard->capacity_bytes) return ref;
  MakeSpace(shard, charge, &evicted);
  if (strict_ && shard->usage_bytes + charge > shard->capacity_bytes) {
    return ref;
  }
  block->Hold();
  block->slot_ = place.slot;
  block->ring_index_ = static_cast<uint32_t>(shard->ring.size());
  shard->ring.push_back(block);
  shard->usage_bytes += charge;
  ++shard->filled_slots;
  VARVE_PROBE(cache_insert, charge, shard->usage_bytes);
  // T1. release pairs with the acquire of readers: they see the block.
  place.slot->store(block, std::memory_order_release);
  return ref;
}

void ClockBlockCache::RemoveFromRing(Shard* shard, Block* block) {
  Block* const last = shard->ring.back();
  shard->ring[block->ring_index_] = last;
  last->ring_index_ = block->ring_index_;
  shard->ring.pop_back();
  shard->usage_bytes -= block->ApproximateMemoryUsage();
}

void ClockBlockCache::Evict(Shard* shard, Block* block, Evicted* evicted) {
  VARVE_PROBE(cache_evict, block->ApproximateMemoryUsage(), shard->usage_bytes);
  // T3. release pairs with the acquire of EraseTable: after this store the
  // thread does not access the slot.
  block->slot_->store(nullptr, std::memory_order_release);
  RemoveFromRing(shard, block);
  evicted->Add(block);
}

void ClockBlockCache::Evicted::Add(Block* block) {
  block->next_evicted_ = first_;
  first_ = block;
}

ClockBlockCache::Evicted::~Evicted() {
  while (first_ != nullptr) {
    Block* const block = first_;
    first_ = block->next_evicted_;
    // relaxed: see TooMuchIsRetired.
    retired_bytes.fetch_add(block->ApproximateMemoryUsage(),
                            std::memory_order_relaxed);
    Retire(block, &FreeBlock);
  }
}

Block* ClockBlockCache::Look(Shard* shard) {
  ++shard->looks;
  if (shard->hand >= shard->ring.size()) shard->hand = 0;
  // If the block is evicted, the newest one, the ring's last, takes its place,
  // which the hand has passed. The hand reaches it after a whole turn.
  return shard->ring[shard->hand++];
}

void ClockBlockCache::MakeSpace(Shard* shard, size_t more_bytes,
                                Evicted* evicted) {
  size_t pinned_count = 0;
  size_t spared_count = 0;
  size_t evicted_count = 0;
  size_t evicted_bytes = 0;
  while (shard->usage_bytes + more_bytes > shard->capacity_bytes &&
         !shard->ring.empty()) {
    if (evicted_count >= kMaxEvicted && evicted_bytes >= more_bytes) return;
    Block* const block = Look(shard);
    if (block->IsPinned()) {
      if (++pinned_count >= kMaxPinned) return;
    } else if (spared_count < kMaxSpared && block->TakeReferenced()) {
      ++spared_count;
    } else {
      ++evicted_count;
      evicted_bytes += block->ApproximateMemoryUsage();
      Evict(shard, block, evicted);
    }
  }
}

void ClockBlockCache::Shrink(Shard* shard) {
  // Blocks lose their mark in the first turn and are evicted in the second.
  // After two turns without an eviction, all are pinned.
  size_t passed_count = 0;
  while (true) {
    Evicted evicted;
    MutexLock lock(&shard->mutex);
    for (size_t looks = 0; looks < kMaxLooks; ++looks) {
      if (shard->usage_bytes <= shard->capacity_bytes ||
          passed_count >= 2 * shard->ring.size()) {
        return;
      }
      Block* const block = Look(shard);
      if (block->IsPinned() || block->TakeReferenced()) {
        ++passed_count;
      } else {
        passed_count = 0;
        Evict(shard, block, &evicted);
      }
    }
  }
}

void ClockBlockCache::EraseTable(uint64_t /*table_id*/, BlockSlots slots) {
  for (IndexNode& node : slots) {
    for (BlockSlot& slot : node.slots) {
      // acquire pairs with the release of T3: B3.
      if (slot.load(std::memory_order_acquire) == nullptr) continue;
      Shard* const shard = ShardOf(&slot);
      Evicted evicted;
      MutexLock lock(&shard->mutex);
      // relaxed: slots change under the mutex only.
      Block* const block = slot.load(std::memory_order_relaxed);
      if (block != nullptr) Evict(shard, block, &evicted);
    }
  }
}

void ClockBlockCache::Divide(size_t block_bytes) {
  for (size_t i = 0; i < shard_count_; ++i) {
    Shard* const shard = &shards_[i];
    {
      MutexLock lock(&shard->mutex);
      shard->capacity_bytes = ShardPart(block_bytes, i, shard_count_);
    }
    Shrink(shard);
  }
}

size_t ClockBlockCache::GetUsage() const {
  size_t sum = ReservedBytes();
  for (size_t i = 0; i < shard_count_; ++i) {
    MutexLock lock(&shards_[i].mutex);
    sum += shards_[i].usage_bytes;
  }
  return sum;
}

uint64_t ClockBlockCache::PathCount() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < shard_count_; ++i) {
    MutexLock lock(&shards_[i].mutex);
    sum += shards_[i].filled_slots;
  }
  return sum;
}

uint64_t ClockBlockCache::TEST_Looks() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < shard_count_; ++i) {
    MutexLock lock(&shards_[i].mutex);
    sum += shards_[i].looks;
  }
  return sum;
}

size_t ClockBlockCache::GetPinnedUsage() const {
  size_t sum = 0;
  for (size_t i = 0; i < shard_count_; ++i) {
    const Shard& shard = shards_[i];
    // If blocks come and go between two parts, some may be missed.
    for (size_t j = 0;;) {
      MutexLock lock(&shard.mutex);
      const size_t end = std::min(j + kMaxLooks, shard.ring.size());
      if (j >= end) break;
      for (; j < end; ++j) {
        const Block* const block = shard.ring[j];
        if (block->IsPinned()) sum += block->ApproximateMemoryUsage();
      }
    }
  }
  return sum;
}

void ClockBlockCache::EraseUnreferenced() {
  for (size_t i = 0; i < shard_count_; ++i) {
    Shard* const shard = &shards_[i];
    bool done = false;
    for (size_t j = 0; !done;) {
      Evicted evicted;
      MutexLock lock(&shard->mutex);
      for (size_t looks = 0; looks < kMaxLooks; ++looks) {
        done = j >= shard->ring.size();
        if (done) break;
        Block* const block = shard->ring[j];
        if (block->IsPinned()) {
          ++j;
        } else {
          Evict(shard, block, &evicted);
        }
      }
    }
  }
}

}  // namespace varve
