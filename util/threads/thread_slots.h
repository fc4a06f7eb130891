// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Per-thread cached references, scraped by the installer of a new state. An
// object (the owner, such as an open database) keeps one slot in each thread: a
// counted pointer to the owner's current state, and that state's number. By the
// number, a thread can tell without any shared write that its pointer is still
// current. The owner's `current` is an atomic number that only its installer
// writes. The owner has a mutex. A read looks like this:
//
//   ThreadRecord* record = CurrentThreadRecord();
//   EpochGuard section(record);
//   ThreadSlot* slot = SlotOf(record, id);
//   if (slot->number is not current) {
//     if (record->depth == 1) {
//       lock; FillSlot with a new reference; release what it returns; unlock
//     } else { use a counted reference, for this read alone }   // B16
//   }
//   ... use slot->pointer ...
//
// An install runs with the owner's mutex held. It stores the new number, calls
// ScrapeSlots, and releases the pointers that it returns.
// Thread-safety: see each function. The numbering continues from
// util/threads/epoch.h.
//
// Words and states
//   A slot {pointer, number} is empty {null, 0} or full. A full slot holds one
//   reference to the object that the pointer leads to. A full slot with number
//   == current is valid.
//   The flag `unchecked_slots` of a record: some slot may be stale, and the
//   thread itself must check.
// Transitions
//   T11 fill: by the thread, with the owner's mutex held, in an outermost
//       section.
//   T12 use: by the thread, in a section, after number == current.
//   T13 scrape: by the installer, with the owner's mutex held, after it has
//       published a new number. It sets the flag of each record whose slot is
//       full (release), then T3. Then, for each record whose sequence is even,
//       it takes the pointer by an exchange.
//   T14 drop: by the thread, right after T2, if the flag is set. It clears the
//       flag by an exchange (acquire). With the registry's mutex held, it takes
//       the pointer of each slot whose number is not current by an exchange.
//       Then it looks at the flag again.
//   T15 thread exit: takes all pointers, with the registry's mutex held.
//   T16 unregister: takes the pointer of every record, with the registry's
//       mutex held. No call into the owner is under way.
// Invariants
//   I11 a reference in a slot is released by the thread whose exchange found
//       it.
//   I12 a pointer that T12 uses is not released before the thread's T2.
//   I13 if a slot is full and not valid after T13, its thread is in a section
//       or on its way to T14, and its flag is set or T14 is under way.
// Why each order is needed
//   T13 reads the sequence after T3. If it is even, the thread is outside, and
//       any later T1 comes after T3 and sees the new number. The thread then
//       does not use the pointer. It waits for the mutex, which the installer
//       holds, and finds the slot empty. If the sequence is odd, the slot is
//       left alone. T2 is then later than T3, so the thread's loads after T2
//       see the flag set, and it does T14.
//   T13 loads the sequence by acquire, which pairs with the release of T2. So
//       the reads by T12 happen before the release of the state that they read.
//   T14 clears the flag before it reads numbers. If the installer sets it
//       later, it stays set for the next look. Otherwise the exchange reads the
//       installer's store, and so sees the number published before it. A plain
//       store could overwrite a flag whose number T14 has not seen.
//   T14 and T15 run without the owner's mutex and may meet T13. Each takes by
//       an exchange, so only one gets the pointer, and both leave the slot
//       empty. The late store of number 0 overwrites no newer value: T11 is
//       done by the same thread as T14 and T15, and the mutex excludes it from
//       T13.
//   T12 loads a slot's number relaxed. The thread itself stored it, or it is 0,
//       which is never current. The owner's number is loaded relaxed too. T3
//       alone decides which values it may have, and coherence makes it new for
//       a thread that knows of the install.
//   FillSlot stores the pointer by release, which pairs with the acquire in
//   TakeSlotPointer: T16 may find it without the owner's mutex.
// Bad interleavings prevented
//   B11 the installer sees even, the thread enters and uses the pointer, the
//       installer takes and releases it: a T1 after T3 sees the new number.
//   B12 the installer sees odd; the thread leaves without a look, and an idle
//       thread pins an old state forever: the flag is set before T3.
//   B13 the thread is on its way to T14 when T13 takes the pointer: exchange.
//   B14 the thread ends in the middle of a scrape (T15): exchange.
//   B15 an owner closes, another gets its id, and a slot of the first is
//       mistaken for a slot of the second: T16 empties it, and a number is
//       never reused.
//   B16 a nested read finds the slot stale, refills it, and releases the state
//       that the outer read still uses: T11 is for outermost sections only.
//   B17 the installer sees odd because of a section that belongs to another
//       owner, and at its end the thread checks only the slot that it used: the
//       flag belongs to the record, T14 checks all slots, and the end of every
//       outermost section checks the flag.
//   B18 a slot moves under T13 because its thread needs more slots: slots never
//       move.
//   B19 an owner enters a section while it releases a pointer, the end of that
//       section finds the flag, and T14 waits for the registry's mutex, which
//       the thread holds: T14 to T16 call owners inside a section, so that the
//       owners' sections are nested.
// Freshness and progress
//   A read that starts after an install returned uses the new state. Neither
//   side waits for the other. An install costs one T3, and a look at each
//   record.
// Reclamation
//   The thread that takes a pointer releases its reference, as the owner
//   defines it.

#include <atomic>
#include <bit>
#include <cstdint>

#include "util/base/thread_annotations.h"
#include "util/threads/epoch.h"
#include "util/threads/thread_record.h"

namespace varve {

// An object that keeps a pointer in the threads' slots. Any thread calls both
// functions, with ThreadRegistryMutex() held and without the owner's mutex.
// They may take the owner's mutex, which is therefore ordered after the
// registry's. They may enter sections and retire. They must not register or
// unregister an owner, nor fill a slot.
class SlotOwner {
 public:
  // Releases the reference that a slot of the record held on `pointer`.
  virtual void ReleaseSlotPointer(ThreadRecord* record, void* pointer) = 0;
  // Returns true if a slot with `number` is valid. 0 is never valid.
  virtual bool IsCurrent(uint64_t number) const = 0;

 protected:
  ~SlotOwner() = default;
};

// Gives `owner` the lowest free id. Takes ThreadRegistryMutex().
// REQUIRES: `owner` is complete; other threads may call IsCurrent at once.
uint32_t RegisterSlotOwner(SlotOwner* owner)
    VARVE_EXCLUDES(ThreadRegistryMutex());

// Empties the slots of `id` in all threads by ReleaseSlotPointer. The id may
// then be reused. Takes ThreadRegistryMutex().
// REQUIRES: every call that used a slot of `id` happened before this one.
void UnregisterSlotOwner(uint32_t id) VARVE_EXCLUDES(ThreadRegistryMutex());

// Returns a number for an owner's new state. It is not 0 and is never reused in
// a process.
uint64_t NewSlotNumber();

// T15, for the registry of threads.
void ReleaseThreadSlots(ThreadRecord* record)
    VARVE_REQUIRES(ThreadRegistryMutex());

// T14. Takes ThreadRegistryMutex(), and the mutexes that owners take.
// REQUIRES: `record` is the calling thread's, which is in no section.
[[gnu::noinline, gnu::cold]] void DropStaleSlots(ThreadRecord* record);

// Returns the index of the chunk of a slot that is not inline. A chunk holds
// all ids with the same highest bit. REQUIRES: id >=
// ThreadRecord::kInlineSlots.
inline uint32_t SlotChunkIndex(uint32_t id) {
  constexpr int kFirstWidth = std::bit_width(ThreadRecord::kInlineSlots);
  return static_cast<uint32_t>(std::bit_width(id) - kFirstWidth);
}

// Returns the slot, or null if it is in a chunk that the thread never used. Any
// thread may call this.
inline ThreadSlot* FindSlot(ThreadRecord* record, uint32_t id) {
  if (id < ThreadRecord::kInlineSlots) return &record->inline_slots[id];
  // acquire: pairs with the release in AddSlotChunk.
  ThreadSlot* chunk =
      record->slot_chunks[SlotChunkIndex(id)].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : chunk + (id - std::bit_floor(id));
}

// The slow path of SlotOf: FindSlot after allocating the chunk.
[[gnu::noinline, gnu::cold]] ThreadSlot* AddSlotChunk(ThreadRecord* record,
                                                      uint32_t id);

// Returns the slot of the owner `id`. Its address never changes.
// REQUIRES: `record` is the calling thread's.
inline ThreadSlot* SlotOf(ThreadRecord* record, uint32_t id) {
  ThreadSlot* slot = FindSlot(record, id);
  if (slot == nullptr) [[unlikely]]
    slot = AddSlotChunk(record, id);
  return slot;
}

// Empties the slot (T13 to T16) and returns its pointer, whose reference then
// belongs to the caller. Returns null if the slot was empty.
inline void* TakeSlotPointer(ThreadSlot* slot) {
  // relaxed: if it is not null, the exchange looks again. If it is null, only
  // the caller, or a thread that the caller excludes, could fill it.
  if (slot->pointer.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // relaxed: 0 is never current, so a thread that sees it early or late uses
  // nothing.
  slot->number.store(0, std::memory_order_relaxed);
  // acquire: pairs with the release in FillSlot. I11: one taker gets it.
  return slot->pointer.exchange(nullptr, std::memory_order_acquire);
}

// T11. `pointer` comes with a reference, which the slot then holds. Returns the
// slot's previous pointer, as TakeSlotPointer does.
// REQUIRES: the slot is the calling thread's, which is in its outermost section
// and holds the owner's mutex.
[[nodiscard]] inline void* FillSlot(ThreadSlot* slot, void* pointer,
                                    uint64_t number) {
  void* old = TakeSlotPointer(slot);
  // release: pairs with the acquire in TakeSlotPointer.
  slot->pointer.store(pointer, std::memory_order_release);
  // relaxed: read for its value by this thread alone; see T12.
  slot->number.store(number, std::memory_order_relaxed);
  return old;
}

// T13. Calls release(record, pointer) for each pointer that it takes. Threads
// inside a section drop their own slots.
// REQUIRES: the owner's mutex is held, and the new number is already stored.
template <typename Release>
void ScrapeSlots(uint32_t id, Release release) {
  ForEachThreadRecord([id](ThreadRecord* record) {
    ThreadSlot* slot = FindSlot(record, id);
    if (slot == nullptr) return;
    // relaxed: only T11 fills a slot, and the caller holds the mutex for that.
    if (slot->pointer.load(std::memory_order_relaxed) == nullptr) return;
    // release: pairs with the acquire in DropStaleSlots.
    record->unchecked_slots.store(true, std::memory_order_release);
  });
  HeavyBarrier();
  ForEachThreadRecord([id, &release](ThreadRecord* record) {
    // acquire: pairs with the release of T2.
    if (record->sequence.load(std::memory_order_acquire) % 2 != 0) return;
    ThreadSlot* slot = FindSlot(record, id);
    if (slot == nullptr) return;
    void* pointer = TakeSlotPointer(slot);
    if (pointer != nullptr) release(record, pointer);
  });
}

}  // namespace varve
