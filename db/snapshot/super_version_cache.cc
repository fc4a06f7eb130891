// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/snapshot/super_version_cache.h"

#include "monitoring/span.h"

namespace varve {

SuperVersionCache::SuperVersionCache(bool locks_reads, Mutex* mutex,
                                     SuperVersionDisposer* disposer,
                                     SnapshotRegistry* snapshots)
    : locks_reads_(locks_reads),
      mutex_(mutex),
      disposer_(disposer),
      snapshots_(snapshots) {
  slot_id_ = RegisterSlotOwner(this);
}

SuperVersion* SuperVersionCache::Reference() {
  // relaxed: a statistic.
  locked_acquires_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mutex());
  current_->refs.Ref();
  return current_;
}

void SuperVersionCache::Release(SuperVersion* super_version) {
  if (super_version->refs.Unref()) DisposeUnlocked(super_version);
}

void SuperVersionCache::DisposeUnlocked(SuperVersion* super_version) {
  MutexLock lock(mutex());
  disposer_->DisposeLocked(super_version);
  disposer_->FreeLaterLocked();
}

void SuperVersionCache::UnrefLocked(SuperVersion* super_version) {
  if (super_version != nullptr && super_version->refs.Unref()) {
    disposer_->DisposeLocked(super_version);
  }
}

void SuperVersionCache::UnrefSlotLocked(const ThreadRecord* record,
                                        void* pointer) {
  auto* const super_version = static_cast<SuperVersion*>(pointer);
  if (super_version != nullptr && super_version->refs.Unref(record->stripe)) {
    disposer_->DisposeLocked(super_version);
  }
}

SuperVersionCache::Read SuperVersionCache::BeginStale(ThreadRecord* record,
                                                      ThreadSlot* slot) {
  // A slot that is never filled is never current, so that with locks_reads_
  // every read comes here. For the depth, see B16.
  if (locks_reads_ || record->depth > 1) {
    return Read{Reference(), record, true};
  }
  const LocalSpan span("super version");
  // relaxed, both: statistics.
  locked_acquires_.fetch_add(1, std::memory_order_relaxed);
  filled_slots_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mutex());
  // It is not put in a slot, so that each read comes here and EndCounted
  // reports the close.
  if (current_->closed) {
    current_->refs.Ref();
    return Read{current_, record, true};
  }
  current_->refs.Ref(record->stripe);
  // relaxed: changed only with the mutex held.
  UnrefSlotLocked(record,
                  FillSlot(slot, current_,
                           current_number_.load(std::memory_order_relaxed)));
  // The slot's old SuperVersion may have held the last references to tables.
  disposer_->FreeLaterLocked();
  return Read{current_, record, false};
}

bool SuperVersionCache::EndCounted(const Read& read) {
  const bool open = !read.super_version->closed;
  Release(read.super_version);
  if (EpochGuard::Exit(read.record)) EpochGuard::CheckSlots(read.record);
  return open;
}

void SuperVersionCache::InstallLocked(SuperVersion* next) {
  mutex()->AssertHeld();
  SuperVersion* const old = current_;
  next->number = NewSlotNumber();
  current_ = next;
  // relaxed: ScrapeSlots begins with a barrier.
  current_number_.store(next->number, std::memory_order_relaxed);
  if (snapshots_ != nullptr) snapshots_->PublishLocked(next);
  if (!locks_reads_) {
    // Its barrier is also the barrier of T26.
    ScrapeSlots(slot_id_, [this](ThreadRecord* record, void* pointer) {
      mutex()->AssertHeld();
      UnrefSlotLocked(record, pointer);
    });
  } else {
    HeavyBarrier();
  }
  if (snapshots_ != nullptr) snapshots_->CountPinsLocked(old);
  UnrefLocked(old);
}

void SuperVersionCache::Abandon() {
  is_abandoned_ = true;
  UnregisterSlotOwner(slot_id_);
}

void SuperVersionCache::Close() {
  UnregisterSlotOwner(slot_id_);
  MutexLock lock(mutex());
  UnrefLocked(current_);
  current_ = nullptr;
}

}  // namespace varve
