// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Distributed reference counts of numbered things. A thread counts what it
// takes and gives in cells of its own: to take one stores to no line that
// another thread reads or writes while all goes well. Whoever wants to end a
// thing adds the counts up, after it has seen to it that no new reference is
// taken.
// Thread-safety: thread-safe.
//
// Words and states
//   For each thing a word `target` of its owner, which leads to it or is null,
//   and is stored with the owner's mutex held. For each thread and index two
//   counts, `taken` and `given`, which that thread alone writes and which only
//   grow. The counts of a thread that has ended, as they are, go to a new one.
// Transitions
//   T1 take: taken + 1; LightBarrier(); load target. If it is null, T2, and the
//      slow way: T1 with the owner's mutex held, in a state of the thing in
//      which the owner does not end it.
//   T2 give: given + 1, release; by any thread, in its own counts.
//   T3 end: with the owner's mutex held target becomes null and the state one
//      in which nobody takes. Then HeavyBarrier(); then Count(): all `given`
//      (acquire), after that all `taken`. If the sums are equal, the thing can
//      go; else target is put back, or Count is asked again later.
// Invariants
//   I1 if T3 finds equal sums, nobody has a reference, nor will have.
//   I2 a count is changed by one thread.
// Why each order is needed
//   T1 stores `taken` and loads target, T3 stores target and loads `taken`: of
//   such a pair the two barriers (util/threads/epoch.h) let one, at
//   least, see what the other has stored. So T3 counts the T1, or the T1 sees
//   null. With the mutex, T1 and T3 come one after the other. `given` is stored
//   by release and loaded by acquire: what was done with the thing happens
//   before it goes, and the `taken` that belongs to a `given` is visible when
//   that is, though it may be another thread's: whoever gives has the reference
//   from the one who took it. As `taken` is summed last, no reference is seen
//   given and not taken, so the sums are equal only if each one that was seen
//   taken was given back. `taken` is stored and loaded relaxed, for these
//   reasons.
// Bad interleavings prevented
//   B1 a reader loads target; the owner nulls it and counts; the reader counts
//      itself: it does so before it loads, and the barriers keep it so.
//   B2 A takes, hands over to B, B gives: the sum sees B's `given`, but A's
//      counts as they were before: given is summed first, and acquired.
//   B3 A's take is summed, then A hands over to B, whose counts were summed
//      before, and B gives: the sums differ, which is on the safe side.
//   B4 a T1 that finds null is between its two counts: as B3.
//   B5 the thread ends with a reference out, its counts go to another thread,
//      and the reference is given elsewhere: only the sums matter.
//   B6 the index gets a new thing while counts of the former one are not
//      equal: REQUIRES of the owner, I1 is what it has before it reuses one. A
//      T1 of the former thing that comes late finds its target null: as B4.
// Freshness and progress
//   Count may see more than are out (B3, B4) and never fewer. Nobody waits.
// Reclamation
//   Where target lies is the owner's to keep for whoever is in T1. Counts are
//   freed with the object. Slots as in util/threads/thread_slots.h: the
//   number is the same for ever, so no slot turns stale, and T13 never happens;
//   that is why a nested section may fill an empty slot, too, and why a slot is
//   good outside of sections.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "util/base/mutex.h"
#include "util/threads/thread_slots.h"

namespace varve {

class DistributedRefCounts final : public SlotOwner {
 public:
  static constexpr uint32_t kMaxIndexes = 1 << 18;

  struct Counts {
    std::atomic<uint64_t> taken{0};
    std::atomic<uint64_t> given{0};

    // The first step of T1.
    void Take() {
      // relaxed, both: this thread alone writes it; see above.
      taken.store(taken.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
    }
    // T2.
    void Give() {
      // relaxed: this thread alone writes it. release: pairs with Count.
      given.store(given.load(std::memory_order_relaxed) + 1,
                  std::memory_order_release);
    }
  };

  struct Sums {
    uint64_t given = 0;
    uint64_t taken = 0;
  };

  DistributedRefCounts();
  DistributedRefCounts(const DistributedRefCounts&) = delete;
  DistributedRefCounts& operator=(const DistributedRefCounts&) = delete;
  // REQUIRES: all calls have returned.
  ~DistributedRefCounts();

  // The counts of the calling thread, whose record it is; null if it has none
  // for the index yet. REQUIRES: index < kMaxIndexes.
  Counts* Find(ThreadRecord* record, uint32_t index) const {
    const ThreadSlot* const slot = FindSlot(record, slot_id_);
    // relaxed, both: this thread stored them. See T12 in
    // util/threads/thread_slots.h.
    if (slot == nullptr ||
        slot->number.load(std::memory_order_relaxed) != number_) [[unlikely]] {
      return nullptr;
    }
    // relaxed, both: as above.
    const auto* const block = static_cast<const Block*>(
        slot->pointer.load(std::memory_order_relaxed));
    Chunk* const chunk =
        block->chunks[index / kChunk].load(std::memory_order_relaxed);
    return chunk == nullptr ? nullptr : &chunk->counts[index % kChunk];
  }

  // The same after they are made. REQUIRES: the caller holds no mutex of the
  // engine.
  Counts* FindOrMake(ThreadRecord* record, uint32_t index) {
    Counts* const counts = Find(record, index);
    return counts != nullptr ? counts : Make(record, index);
  }

  // T3's sums.
  Sums Count(uint32_t index);

  void ReleaseSlotPointer(void* pointer) override;
  bool IsCurrent(uint64_t number) const override { return number == number_; }

 private:
  static constexpr uint32_t kChunk = 256;

  struct alignas(64) Chunk {
    Counts counts[kChunk];
  };
  // A thread's.
  struct Block {
    std::atomic<Chunk*> chunks[kMaxIndexes / kChunk] = {};
    ~Block();
  };

  [[gnu::noinline]] Counts* Make(ThreadRecord* record, uint32_t index);

  // Immutable after construction.
  const uint64_t number_ = NewSlotNumber();
  uint32_t slot_id_ = 0;

  Mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;  // Guarded by mutex_.
  std::vector<Block*> free_blocks_;             // Guarded by mutex_.
};

}  // namespace varve
