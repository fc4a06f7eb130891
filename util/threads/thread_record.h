// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the process knows of each of its threads: a record that the thread
// finds by one thread-local load and that other threads find in one list. It
// carries the state of read sections (util/threads/read_section.h) and the
// thread's slots (util/threads/thread_slots.h). A record is never freed: when
// its thread ends, a later thread takes it over, so whoever walks the list
// needs no lock. A child made by fork() cannot use the records of its parent.

#include <atomic>
#include <cstdint>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"

namespace varve {

class ContextMemory;

// See util/threads/thread_slots.h. `number` says what `pointer` is worth; it is
// never 0 in a slot that is full.
struct ThreadSlot {
  std::atomic<void*> pointer{nullptr};
  std::atomic<uint64_t> number{0};
};

struct alignas(64) ThreadRecord {
  static constexpr uint32_t kInlineSlots = 8;
  // Enough for every 32-bit id: chunk i holds kInlineSlots << i slots.
  static constexpr uint32_t kSlotChunks = 29;
  static constexpr int kMaxWitnesses = 16;
  static constexpr int kContextKinds = 2;

  // Written by the thread. Odd while it is inside a read section.
  std::atomic<uint64_t> sequence{0};

  // Owned by the thread.
  uint32_t depth = 0;  // Of nested read sections.

  // Set by installers, cleared by the thread: at the end of its outermost
  // section it has to look for stale slots. See util/threads/thread_slots.h.
  std::atomic<bool> unchecked_slots{false};

  // Immutable once the record is in the list.
  // ReadSectionFenced(). A copy in each record, so that T1 and T2 read no other
  // cache line.
  bool fenced = false;
  ThreadRecord* next_record = nullptr;

  // Guarded by ThreadRegistryMutex().
  ThreadRecord* next_free = nullptr;

  // Owned by the thread; see util/threads/context_memory.h.
  struct KeptContexts {
    ContextMemory* newest = nullptr;
    uint32_t count = 0;
  };
  KeptContexts contexts[kContextKinds];

  // Contents: see util/threads/thread_slots.h. Chunks are added by the thread
  // alone, and stay.
  alignas(64) ThreadSlot inline_slots[kInlineSlots];
  std::atomic<ThreadSlot*> slot_chunks[kSlotChunks] = {};

  // Written by the thread; see util/threads/witness.h.
  std::atomic<uint64_t> witnesses[kMaxWitnesses] = {};
};

// Guards the registry: which records have a thread, and who owns which slots.
// It is taken before any mutex of a slot owner, never after.
// Never destroyed.
Mutex& ThreadRegistryMutex();

// The record of the calling thread; null before its first use.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadRecord*
    current_thread_record;

// Newest first. For ForEachThreadRecord.
extern std::atomic<ThreadRecord*> thread_records;

// The slow path of CurrentThreadRecord. Takes ThreadRegistryMutex().
[[gnu::noinline, gnu::cold]] ThreadRecord* RegisterThread();

// The calling thread's record, from its first use to its end; a use still later
// (in the destructor of another thread-local) gets a record again. The first
// use takes ThreadRegistryMutex(): REQUIRES that the caller then holds neither
// this nor a slot owner's mutex.
// Do not keep the pointer where the code may continue on another thread.
inline ThreadRecord* CurrentThreadRecord() {
  ThreadRecord* record = current_thread_record;
  if (record == nullptr) [[unlikely]]
    record = RegisterThread();
  return record;
}

// Calls function(ThreadRecord*) for each record there is, also those that wait
// for a new thread. Takes no mutex; a record that is added meanwhile may be
// missed.
template <typename Function>
void ForEachThreadRecord(Function function) {
  // acquire: pairs with the release in RegisterThread that adds a record.
  ThreadRecord* record = thread_records.load(std::memory_order_acquire);
  for (; record != nullptr; record = record->next_record) function(record);
}

}  // namespace varve
