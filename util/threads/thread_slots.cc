// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_slots.h"

#include <cstddef>
#include <vector>

#include "util/base/process_wide.h"

namespace varve {

namespace {

// By id; null where the id is free.
std::vector<SlotOwner*>& Owners() VARVE_REQUIRES(ThreadRegistryMutex()) {
  static constinit ProcessWide<std::vector<SlotOwner*>> owners;
  return owners.Get();
}

// Calls function(owner, record, slot) for each slot that the thread has of a
// live owner.
template <typename Function>
void ForEachSlot(ThreadRecord* record, Function function)
    VARVE_REQUIRES(ThreadRegistryMutex()) {
  const std::vector<SlotOwner*>& owners = Owners();
  for (size_t id = 0; id < owners.size(); id++) {
    if (owners[id] == nullptr) continue;
    ThreadSlot* slot = FindSlot(record, static_cast<uint32_t>(id));
    if (slot != nullptr) function(owners[id], record, slot);
  }
}

void ReleaseSlot(SlotOwner* owner, ThreadRecord* record, ThreadSlot* slot) {
  void* pointer = TakeSlotPointer(slot);
  if (pointer != nullptr) owner->ReleaseSlotPointer(record, pointer);
}

void ReleaseStaleSlot(SlotOwner* owner, ThreadRecord* record,
                      ThreadSlot* slot) {
  // relaxed: if a scrape is emptying the slot, it takes the pointer, too.
  const uint64_t number = slot->number.load(std::memory_order_relaxed);
  if (!owner->IsCurrent(number)) ReleaseSlot(owner, record, slot);
}

}  // namespace

uint32_t RegisterSlotOwner(SlotOwner* owner) {
  MutexLock lock(&ThreadRegistryMutex());
  std::vector<SlotOwner*>& owners = Owners();
  size_t id = 0;
  while (id < owners.size() && owners[id] != nullptr) id++;
  if (id == owners.size()) owners.push_back(nullptr);
  owners[id] = owner;
  return static_cast<uint32_t>(id);
}

void UnregisterSlotOwner(uint32_t id) {
  const EpochGuard section;  // B19
  MutexLock lock(&ThreadRegistryMutex());
  SlotOwner* owner = Owners()[id];
  ForEachThreadRecord([owner, id](ThreadRecord* record) {
    ThreadSlot* slot = FindSlot(record, id);
    if (slot != nullptr) ReleaseSlot(owner, record, slot);  // T16
  });
  Owners()[id] = nullptr;
}

uint64_t NewSlotNumber() {
  static constinit std::atomic<uint64_t> last_number{0};
  // relaxed: only the uniqueness of the value counts.
  return last_number.fetch_add(1, std::memory_order_relaxed) + 1;
}

void ReleaseThreadSlots(ThreadRecord* record) {
  ForEachSlot(record, ReleaseSlot);  // T15
}

void DropStaleSlots(ThreadRecord* record) {
  VARVE_DCHECK(record->depth == 0);
  // acquire: pairs with the release in ScrapeSlots.
  while (record->unchecked_slots.exchange(false, std::memory_order_acquire)) {
    EpochGuard::Enter(record);  // B19
    {
      MutexLock lock(&ThreadRegistryMutex());
      ForEachSlot(record, ReleaseStaleSlot);  // T14
    }
    EpochGuard::Exit(record);
  }
}

ThreadSlot* AddSlotChunk(ThreadRecord* record, uint32_t id) {
  if (id < ThreadRecord::kInlineSlots) return FindSlot(record, id);
  const uint32_t first_id = std::bit_floor(id);
  ThreadSlot* chunk = new ThreadSlot[first_id];  // Up to twice the first id.
  // release: pairs with the acquire in FindSlot.
  record->slot_chunks[SlotChunkIndex(id)].store(chunk,
                                                std::memory_order_release);
  return chunk + (id - first_id);
}

}  // namespace varve
