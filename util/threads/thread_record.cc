// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_record.h"

#include "util/base/process_wide.h"
#include "util/threads/epoch.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_arena.h"
#include "util/threads/thread_exit.h"
#include "util/threads/thread_slots.h"

namespace varve {

constinit std::atomic<ThreadRecord*> thread_records{nullptr};
constinit thread_local ThreadRecord* current_thread_record = nullptr;

namespace {

constinit ThreadRecord* free_records VARVE_GUARDED_BY(ThreadRegistryMutex()) =
    nullptr;
constinit uint32_t record_count VARVE_GUARDED_BY(ThreadRegistryMutex()) = 0;

void HandBack(void* thread_record) {
  ThreadRecord* record = static_cast<ThreadRecord*>(thread_record);
  ThreadArena::FreeKept(record);
  // B19: inside a section. B6: if in one already, its stack no longer exists.
  if (record->depth == 0) EpochGuard::Enter(record);
  record->depth = 1;
  MutexLock lock(&ThreadRegistryMutex());
  ReleaseThreadSlots(record);
  EpochGuard::Exit(record);
  // relaxed: no slot that could be stale remains.
  record->unchecked_slots.store(false, std::memory_order_relaxed);
  current_thread_record = nullptr;
  record->next_free = free_records;
  free_records = record;
}

ThreadRecord* TakeRecord() {
  MutexLock lock(&ThreadRegistryMutex());
  ThreadRecord* record = free_records;
  if (record != nullptr) {
    free_records = record->next_free;
    return record;
  }
  record = new ThreadRecord;
  record->stripe =
      static_cast<uint16_t>(record_count++ % ThreadRecord::kStripes);
  // The first call asks the kernel, before any thread relies on the answer.
  record->fenced = EpochFenced();
  // relaxed: all threads that add hold the mutex.
  record->next_record = thread_records.load(std::memory_order_relaxed);
  // T6. release: pairs with the acquire in ForEachThreadRecord; acquire: pairs
  // with the fetch_add of HeavyBarrier under ThreadSanitizer.
  thread_records.exchange(record, std::memory_order_acq_rel);
  return record;
}

}  // namespace

namespace {

struct RegistryMutex final : private ForkWatch {
  void InForkedChild() override {
    // A thread of the parent may have held it at the moment of the fork.
    MakeFree(&mu);
    // B8: others may have been inside sections.
    ForEachThreadRecord([](ThreadRecord* record) {
      if (record == current_thread_record) return;
      // relaxed, both: the child has one thread.
      const uint64_t sequence =
          record->sequence.load(std::memory_order_relaxed);
      if (sequence % 2 == 0) return;
      // relaxed: as above.
      record->sequence.store(sequence + 1, std::memory_order_relaxed);
      record->depth = 0;
    });
  }

  Mutex mu;
  Registration fork_watch{this};  // Last: see ForkWatch.
};

}  // namespace

Mutex& ThreadRegistryMutex() {
  static constinit ProcessWide<RegistryMutex> mutex;
  return mutex.Get().mu;
}

ThreadRecord* RegisterThread() {
  ThreadRecord* record = TakeRecord();
  current_thread_record = record;
  // If the system gives up after some rounds of destructors, the record stays
  // with the dead thread. The next install or the owner's end empties its
  // slots, and its memory is lost.
  CallAtThreadExit(&HandBack, record);
  return record;
}

}  // namespace varve
