// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Distributed reference counts with asymmetric fences. They count references to
// numbered objects. A thread counts the references that it takes and gives back
// in its own cells. In the fast path, taking a reference stores to no cache
// line that another thread reads or writes. To end an object, its owner first
// prevents new references, and then adds up all counts.
// Thread-safety: thread-safe.
//
// States
//   For each object the owner has a word `target`, a pointer to it or null. It
//   is stored with the owner's mutex held. For each thread and index there are
//   two counts, `taken` and `given`. Only that thread writes them, and they
//   only grow. When a thread ends, its counts are passed unchanged to a new
//   thread.
// Transitions
//   T1 take: taken + 1; LightBarrier(); load target. If it is null, T2 and the
//      slow path: T1 with the owner's mutex held, in a state of the object in
//      which the owner does not end it.
//   T2 give: given + 1, release; by any thread, in its own counts.
//   T3 end: with the owner's mutex held, target becomes null and the state one
//      in which no thread takes a reference. Then HeavyBarrier(). Then Count():
//      all `given` (acquire), and after that all `taken`. If the sums are
//      equal, the object can be destroyed. Otherwise target is restored, or
//      Count is called again later.
// Invariants
//   I1 If T3 finds equal sums, no thread has a reference or will get one.
//   I2 A count is changed by one thread only.
// Why each order is needed
//   T1 stores `taken` and loads target. T3 stores target and loads `taken`. The
//      two barriers (util/threads/epoch.h) ensure that at least one of the two
//      sees the other's store. So T3 counts the T1, or the T1 sees null. With
//      the mutex held, T1 and T3 are ordered by the mutex. `given` is stored
//      with release and loaded with acquire. So every use of the object happens
//      before its end. The `taken` that belongs to a `given` is visible when
//      the `given` is, even if another thread stored it: a thread that gives a
//      reference got it from the thread that took it. `taken` is summed last,
//      so no reference is counted as given but not as taken. The sums are
//      therefore equal only if each reference counted as taken was given back.
//      For these reasons `taken` is stored and loaded relaxed.
// Bad interleavings prevented
//   B1 A reader loads target; the owner sets it to null and counts; the reader
//      counts itself. The reader counts itself before it loads, and the
//      barriers keep this order.
//   B2 A takes, hands over to B, and B gives. The sum includes B's `given`, but
//      A's counts as they were before. `given` is summed first, with acquire.
//   B3 A's take is summed. A hands over to B, whose counts were summed before,
//      and B gives. The sums differ, which is safe.
//   B4 A T1 that finds null is between its two counts. Safe as in B3.
//   B5 A thread ends with a reference that it has not given back. Its counts
//      pass to another thread, and the reference is given elsewhere. Only the
//      sums matter.
//   B6 The index gets a new object while the counts of the former one are
//      unequal. The owner must prevent it: it reuses an index only after I1
//      holds. A late T1 of the former object finds its target null, as in B4.
// Freshness and progress
//   Count may see more references than exist (B3, B4), and never fewer. No
//   thread waits.
// Reclamation
//   The owner keeps the memory of target for threads in T1. Counts are freed
//   with this object. Slots are those in util/threads/thread_slots.h. Their
//   number never changes, so no slot becomes stale, and T13 never happens.
//   Therefore a nested section may fill an empty slot too, and a slot is valid
//   outside of sections.

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

  // Returns the counts of the calling thread, which owns `record`, or null if
  // it has none for the index yet. REQUIRES: index < kMaxIndexes.
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

  // Returns the counts, and creates them if necessary. REQUIRES: the caller
  // holds no mutex of the engine.
  Counts* FindOrMake(ThreadRecord* record, uint32_t index) {
    Counts* const counts = Find(record, index);
    return counts != nullptr ? counts : Make(record, index);
  }

  // Returns T3's sums.
  Sums Count(uint32_t index);

  void ReleaseSlotPointer(ThreadRecord* record, void* pointer) override;
  bool IsCurrent(uint64_t number) const override { return number == number_; }

 private:
  static constexpr uint32_t kChunk = 256;

  struct alignas(64) Chunk {
    Counts counts[kChunk];
  };
  // The counts of a thread.
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
