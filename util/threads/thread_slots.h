// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Slots: what an object (the owner, such as an open database) keeps in each
// thread: a counted pointer to its current state, and the number of that state,
// by which the thread knows without asking anybody that it is still current.
// The owner's `current` is an atomic number that only its installer writes, and
// the owner has a mutex. A read looks like this:
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
// and an install, with the owner's mutex held: store the new number,
// ScrapeSlots, release what that finds.
// Thread-safety: as each function says. Numbering continues that of
// util/threads/epoch.h.
//
// Words and states
//   A slot {pointer, number}: empty {null, 0}, or full, with one reference to
//   what the pointer leads to. Full and number == current: valid.
//   Each record's flag `unchecked_slots`: some slot may be stale, and the
//   thread itself has to see to it.
// Transitions
//   T11 fill: by the thread, with the owner's mutex held, in an outermost
//       section.
//   T12 use: by the thread, in a section, after number == current.
//   T13 scrape: by the installer, with the owner's mutex held, after it has
//       published a new number: it sets the flag of each record whose slot is
//       full (release), then T3; then, of each record whose sequence is even,
//       it takes the pointer by an exchange.
//   T14 drop: by the thread, right after T2, if the flag is set: clears it by
//       an exchange (acquire) and, with the registry's mutex held, takes the
//       pointer of each slot whose number is not current by an exchange; then
//       looks at the flag again.
//   T15 thread exit: the registry's mutex held, takes all pointers.
//   T16 unregister: the registry's mutex held, takes the pointer of every
//       record; the owner is in no call.
// Invariants
//   I11 a reference in a slot is released by the one whose exchange found it.
//   I12 what T12 uses is not released before the thread's T2.
//   I13 a slot that is full and not valid, once T13 is over: its thread is in a
//       section or on its way to T14, and its flag is set or T14 under way.
// Why each order is needed
//   T13 reads the sequence after T3. If it is even, the thread is outside, and
//   any T1 that comes is later than T3, so it sees the new number: it will not
//   use the pointer, but go for the mutex, which the installer holds, and find
//   the slot empty. If it is odd, the slot is left alone: T2 is later than T3,
//   hence what the thread loads after T2 is the flag that is set, and it does
//   T14.
//   T13 loads the sequence by acquire: pairs with the release of T2, so that
//   the reads by T12 happen before the release of what they read.
//   T14 clears the flag before it reads numbers. Either the installer sets it
//   later, and it stays set for the next look; or the exchange reads what the
//   installer stored, and so sees the number published before. A plain store
//   could wipe out a flag whose number T14 has not seen.
//   T14 and T15 without the owner's mutex may meet T13: each takes by an
//   exchange, so one of them gets the pointer, and both leave the slot empty.
//   The late store of number 0 hits no newer value, since T11 is done by the
//   same thread as T14 and T15, and excluded from T13 by the mutex.
//   A slot's number is loaded relaxed in T12: the thread itself stored it, or
//   else it is 0, which is never current. So is the owner's: T3 alone decides
//   what it may be, and coherence makes it new for who knows of the install.
//   FillSlot stores the pointer by release, which pairs with the acquire in
//   TakeSlotPointer: T16 may find it without the owner's mutex.
// Bad interleavings prevented
//   B11 the installer sees even, the thread enters and uses the pointer, the
//       installer takes and releases it: a T1 after T3 sees the new number.
//   B12 the installer sees odd; the thread leaves without a look, and an idle
//       thread pins an old state for ever: the flag is set before T3.
//   B13 the thread is on its way to T14 when T13 takes the pointer: exchange.
//   B14 the thread ends in the midst of a scrape (T15): exchange.
//   B15 an owner closes, another gets its id, and a slot of the former passes
//       for the latter's: T16 empties it, and a number is never given twice.
//   B16 a nested read finds the slot stale and refills it, and releases what
//       the outer read still uses: T11 is for outermost sections only.
//   B17 the installer sees odd because of a section that has nothing to do with
//       its owner, and the thread, at its end, looks only at the slot that it
//       used: the flag is the record's, T14 looks at all slots, and the end of
//       every outermost section looks at the flag.
//   B18 a slot moves, as its thread needs more of them, under T13: slots never
//       move.
//   B19 an owner enters a section while it releases a pointer, the end of that
//       finds the flag, and T14 goes for the registry's mutex, which the thread
//       holds: T14 to T16 call owners inside a section, so that those of owners
//       are nested.
// Freshness and progress
//   A read that starts after an install returned uses the new state. Neither
//   waits for the other. An install costs one T3, and a look at each record.
// Reclamation
//   Whoever takes a pointer releases its reference, as the owner defines it.

#include <atomic>
#include <bit>
#include <cstdint>

#include "util/base/thread_annotations.h"
#include "util/threads/epoch.h"
#include "util/threads/thread_record.h"

namespace varve {

// Who keeps something in the threads' slots. Both functions are called by any
// thread, with ThreadRegistryMutex() held and without the owner's mutex, which
// they may take, and so are ordered after it. They may enter sections and
// retire; they must not register or unregister an owner, nor fill a slot.
class SlotOwner {
 public:
  // Releases the reference that a slot held on `pointer`.
  virtual void ReleaseSlotPointer(void* pointer) = 0;
  // Whether a slot with `number` is valid; 0 never is.
  virtual bool IsCurrent(uint64_t number) const = 0;

 protected:
  ~SlotOwner() = default;
};

// Gives `owner` the lowest free id. Takes ThreadRegistryMutex().
// REQUIRES: `owner` is complete; other threads may call IsCurrent at once.
uint32_t RegisterSlotOwner(SlotOwner* owner)
    VARVE_EXCLUDES(ThreadRegistryMutex());

// Empties the slots of `id` in all threads by ReleaseSlotPointer; the id may
// then be given to another. Takes ThreadRegistryMutex().
// REQUIRES: every call that used a slot of `id` happened before this one.
void UnregisterSlotOwner(uint32_t id) VARVE_EXCLUDES(ThreadRegistryMutex());

// A number for an owner's new state: not 0, and never given twice in a process.
uint64_t NewSlotNumber();

// T15, for the registry of threads.
void ReleaseThreadSlots(ThreadRecord* record)
    VARVE_REQUIRES(ThreadRegistryMutex());

// T14. Takes ThreadRegistryMutex(), and the mutexes that owners take.
// REQUIRES: `record` is the calling thread's, which is in no section.
[[gnu::noinline, gnu::cold]] void DropStaleSlots(ThreadRecord* record);

// Where a slot that is not inline stands: in the chunk of all ids with the same
// highest bit. REQUIRES: id >= ThreadRecord::kInlineSlots.
inline uint32_t SlotChunkIndex(uint32_t id) {
  constexpr int kFirstWidth = std::bit_width(ThreadRecord::kInlineSlots);
  return static_cast<uint32_t>(std::bit_width(id) - kFirstWidth);
}

// Null if the slot is in a chunk that the thread never used. Any thread may
// ask.
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

// The slot of the owner `id`, for ever at the same address.
// REQUIRES: `record` is the calling thread's.
inline ThreadSlot* SlotOf(ThreadRecord* record, uint32_t id) {
  ThreadSlot* slot = FindSlot(record, id);
  if (slot == nullptr) [[unlikely]]
    slot = AddSlotChunk(record, id);
  return slot;
}

// Empties the slot (T13 to T16) and returns what was in it, whose reference is
// now the caller's; null if it was empty.
inline void* TakeSlotPointer(ThreadSlot* slot) {
  // relaxed: if it is not null, the exchange looks again; if it is, nobody but
  // the caller or one whom the caller excludes could fill it.
  if (slot->pointer.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // relaxed: 0 is never current, so whoever sees it early or late uses nothing.
  slot->number.store(0, std::memory_order_relaxed);
  // acquire: pairs with the release in FillSlot. I11: one taker gets it.
  return slot->pointer.exchange(nullptr, std::memory_order_acquire);
}

// T11. `pointer` comes with a reference, which the slot now holds. Returns what
// was in the slot, as TakeSlotPointer does.
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

// T13. Calls release(void*) for each pointer that it takes; slots of threads
// inside a section are left to these.
// REQUIRES: the owner's mutex is held, and the new number stored before.
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
    if (pointer != nullptr) release(pointer);
  });
}

}  // namespace varve
