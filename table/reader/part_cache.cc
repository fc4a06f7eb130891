// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/part_cache.h"

#include <algorithm>
#include <utility>

#include "table/reader/table_parts.h"
#include "util/threads/epoch.h"

namespace varve {

namespace {

// The charge is a multiple of this, or of a larger part of the cache: each
// change of it divides the block cache anew.
constexpr size_t kMinChargeStep = size_t{64} << 10;
constexpr size_t kChargeStepPart = 64;

// An insertion spares at most this many parts that were used since the hand's
// last visit.
constexpr int kMaxSpared = 32;

void RetireAll(std::vector<std::shared_ptr<TablePart>> parts) {
  for (std::shared_ptr<TablePart>& part : parts) {
    Retire(new std::shared_ptr<TablePart>(std::move(part)), [](void* object) {
      delete static_cast<std::shared_ptr<TablePart>*>(object);
    });
  }
}

}  // namespace

std::shared_ptr<TablePart> PartCache::Insert(PartSlot* slot,
                                             std::shared_ptr<TablePart> part) {
  Parts evicted;
  {
    MutexLock lock(&mutex_);
    // relaxed: it changes under the mutex only.
    TablePart* const other = slot->load(std::memory_order_relaxed);
    if (other != nullptr) return other->shared_from_this();
    part->ring_index_ = ring_.size();
    ring_.push_back({slot, part});
    bytes_ += part->bytes_;
    // T1. release pairs with the acquire of T2.
    slot->store(part.get(), std::memory_order_release);
    MakeSpace(part.get(), &evicted);
    Charge();
  }
  RetireAll(std::move(evicted));
  return part;
}

void PartCache::Erase(std::span<PartSlot> slots) {
  Parts evicted;
  {
    MutexLock lock(&mutex_);
    for (PartSlot& slot : slots) {
      // relaxed: it changes under the mutex only.
      const TablePart* const part = slot.load(std::memory_order_relaxed);
      if (part != nullptr) RemoveAt(part->ring_index_, &evicted);
    }
    Charge();
  }
  RetireAll(std::move(evicted));
}

void PartCache::MakeSpace(const TablePart* newest, Parts* evicted) {
  const size_t allowed_bytes = charged_->GetCapacity() / 2;
  int spared = 0;
  while (bytes_ > allowed_bytes && ring_.size() > 1) {
    if (hand_ >= ring_.size()) hand_ = 0;
    TablePart* const part = ring_[hand_].part.get();
    // relaxed: a mark that is seen late costs a read.
    if (part == newest || (part->is_used_.load(std::memory_order_relaxed) &&
                           spared < kMaxSpared)) {
      part->is_used_.store(false, std::memory_order_relaxed);
      ++spared;
      ++hand_;
      continue;
    }
    RemoveAt(hand_, evicted);
  }
}

void PartCache::RemoveAt(size_t place, Parts* evicted) {
  Entry entry = std::move(ring_[place]);
  // T3. relaxed: see above.
  entry.slot->store(nullptr, std::memory_order_relaxed);
  bytes_ -= entry.part->bytes_;
  if (place + 1 != ring_.size()) {
    ring_[place] = std::move(ring_.back());
    ring_[place].part->ring_index_ = place;
  }
  ring_.pop_back();
  evicted->push_back(std::move(entry.part));
}

void PartCache::Charge() {
  const size_t step =
      std::max(kMinChargeStep, charged_->GetCapacity() / kChargeStepPart);
  const size_t wanted = (bytes_ + step - 1) / step * step;
  if (wanted > charged_bytes_) {
    charged_->Reserve(wanted - charged_bytes_);
  } else if (wanted == 0 || wanted + step < charged_bytes_) {
    charged_->Unreserve(charged_bytes_ - wanted);
  } else {
    return;  // It would soon grow again.
  }
  charged_bytes_ = wanted;
}

size_t PartCache::ApproximateMemoryUsage() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace varve
