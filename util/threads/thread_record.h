// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// One record per thread of the process. The thread finds its record by one
// thread-local load. Other threads find it in one list. The record carries the
// state of read-side critical sections (util/threads/epoch.h) and the thread's
// slots (util/threads/thread_slots.h). A record is never freed: when its thread
// ends, a later thread takes it over. Walking the list therefore needs no lock.
// A child created by fork() cannot use its parent's records.

#include <atomic>
#include <cstdint>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"

namespace varve {

class ThreadArena;

// See util/threads/thread_slots.h. `number` tells whether `pointer` is current.
// It is never 0 in a full slot.
struct ThreadSlot {
  std::atomic<void*> pointer{nullptr};
  std::atomic<uint64_t> number{0};
};

struct alignas(64) ThreadRecord {
  static constexpr uint32_t kInlineSlots = 8;
  // Enough for every 32-bit id: chunk i holds kInlineSlots << i slots.
  static constexpr uint32_t kSlotChunks = 29;
  static constexpr int kMaxPathCounters = 16;
  static constexpr int kArenaKinds = 2;
  // See util/threads/striped_refs.h.
  static constexpr uint16_t kStripes = 16;

  // Written by the thread. Odd while it is inside a read-side critical section.
  std::atomic<uint64_t> sequence{0};

  // Owned by the thread.
  uint32_t depth = 0;  // Of nested read-side critical sections.

  // Set by installers, cleared by the thread: at the end of its outermost
  // section the thread must look for stale slots. See
  // util/threads/thread_slots.h.
  std::atomic<bool> unchecked_slots{false};

  // Immutable once the record is in the list.
  // EpochFenced(). A copy in each record, so that T1 and T2 read no other
  // cache line.
  bool fenced = false;
  uint16_t stripe = 0;  // Less than kStripes.
  ThreadRecord* next_record = nullptr;

  // Guarded by ThreadRegistryMutex().
  ThreadRecord* next_free = nullptr;

  // Owned by the thread; see util/threads/thread_arena.h.
  struct KeptArenas {
    ThreadArena* newest = nullptr;
    uint32_t count = 0;
  };
  KeptArenas arenas[kArenaKinds];

  // Contents: see util/threads/thread_slots.h. Chunks are added by the thread
  // alone, and stay.
  alignas(64) ThreadSlot inline_slots[kInlineSlots];
  std::atomic<ThreadSlot*> slot_chunks[kSlotChunks] = {};

  // Written by the thread; see util/threads/path_counter.h.
  std::atomic<uint64_t> path_counters[kMaxPathCounters] = {};
};

// Guards the registry: the assignment of records to threads and of slots to
// owners. It is taken before any mutex of a slot owner, never after.
// Never destroyed.
Mutex& ThreadRegistryMutex();

// The record of the calling thread; null before its first use.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadRecord*
    current_thread_record;

// Newest first. For ForEachThreadRecord.
extern std::atomic<ThreadRecord*> thread_records;

// The slow path of CurrentThreadRecord. Takes ThreadRegistryMutex().
[[gnu::noinline, gnu::cold]] ThreadRecord* RegisterThread();

// Returns the calling thread's record, from its first use to its end. A later
// use (in the destructor of another thread-local) gets a record again.
// The first use takes ThreadRegistryMutex(). REQUIRES: the caller then holds
// neither this nor a slot owner's mutex.
// Do not keep the pointer where the code may continue on another thread.
inline ThreadRecord* CurrentThreadRecord() {
  ThreadRecord* record = current_thread_record;
  if (record == nullptr) [[unlikely]]
    record = RegisterThread();
  return record;
}

// Calls function(ThreadRecord*) for each record, including records without a
// thread. Takes no mutex. It may miss a record that is added during the call.
template <typename Function>
void ForEachThreadRecord(Function function) {
  // acquire: pairs with the release in RegisterThread that adds a record.
  ThreadRecord* record = thread_records.load(std::memory_order_acquire);
  for (; record != nullptr; record = record->next_record) function(record);
}

}  // namespace varve
