// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Epoch-based reclamation with asymmetric fences (membarrier). A thread reads
// shared structures inside a read-side critical section (a "section" below) and
// writes no cache line that another thread writes. An object that a thread
// finds inside a section through shared pointers stays alive until the thread
// leaves, provided that the thread that unlinks it passes it to Retire().
// Entering and leaving cost one plain store each. The reclaiming side pays with
// one HeavyBarrier() per batch of retired objects.
// Thread-safety: all functions are thread-safe.
//
// Words and states
//   One `sequence` per ThreadRecord, written by its thread alone. Even: the
//   thread is outside. Odd: inside. It only grows, and continues to grow when a
//   later thread takes the record over. `depth` counts nested sections. It is
//   plain and owned by the thread. A retired object is in one batch of the
//   limbo list. A batch is open, arming (its barrier runs), waiting, or running
//   (its deleters run). `fenced` selects one of two forms of T1 to T3. It is
//   the same in each record and never changes. It is true if the kernel has no
//   private expedited membarrier.
// Transitions
//   T1 enter (outermost): sequence + 1, release; compiler barrier; full fence
//      if fenced.
//   T2 leave (outermost): same steps as T1. Later loads of the same thread are
//      outside the section.
//   T3 barrier, HeavyBarrier(): the caller's earlier stores are visible in
//      every section whose T1 the caller cannot see after T3, and after every
//      T2 that it cannot see after T3. Form: membarrier(2), which makes each
//      running thread of the process execute a full fence. If fenced: a full
//      fence here, which pairs with the fences of T1 and T2.
//   T4 retire: the caller has unlinked the object, and adds it to the open
//      batch. The 64th object closes the batch: T3, then the odd sequences are
//      recorded (acquire) as the batch's blockers.
//   T5 free: when each blocker's sequence differs from the recorded value
//      (acquire), the deleters run, without a mutex.
//   T6 add a record: into the list (release) before its first T1.
//   ThreadSanitizer models no fences. Under it T1 and T2 are exchanges, T6 adds
//   by an exchange, and T3 is a fetch_add(0) on the head of the list and on
//   each sequence. Two read-modify-writes of one word are ordered, and the
//   later one synchronizes with the earlier one.
// Invariants
//   I1 an object is freed only after every section that could have found it.
//   I2 only the thread itself changes its sequence, by one. (But B8.)
// Why each order is needed
//   T1's store must not move below the loads that follow it, nor T3's stores
//   below T3's loads of sequences (store buffering). T3 enforces both. Its
//   fence reaches the thread either before T1, so that the section's loads see
//   the stores that T3 published, or after T1, so that T3 sees an odd sequence.
//   Only the compiler could still reorder, so T1 has a compiler barrier. The
//   same argument covers T2 and the loads after it (util/threads/thread_slots.h
//   relies on that).
//   T2 is a release and the loads of T4 and T5 are acquires, so the section's
//      reads happen before the deleter's writes. T1 is a release too: T5 may
//      see the next T1 instead of T2, and a later store of the same thread does
//      not carry the earlier release. On x86-64 both are plain stores.
// Bad interleavings prevented
//   B1 the reader loads the shared pointer; the writer unlinks the object,
//      scans while T1 is still in the reader's store buffer, and frees it: T3.
//   B2 a reader leaves and enters again between two reads of its sequence, and
//      so delays a batch forever: T5 compares with the recorded sequence and
//      does not test for odd.
//   B3 the end of a nested section ends the outer one: only depth 0 is T2.
//   B4 a thread still uses the object, but T4's scan misses its record, which
//      is just being added: T6 precedes T1, so T3 also orders these two.
//   B5 a blocker's thread ends, and a new thread stays inside a section of the
//      same record: the sequence has advanced, as in B2.
//   B6 a thread ends inside a section (pthread_exit in a callback) and blocks
//      all batches forever: thread exit leaves the section, since the stack no
//      longer exists.
//   B7 a deleter retires further objects, whose deleters run inside it, and so
//      on until the stack overflows: T4 inside a deleter frees nothing, and the
//      outermost T5 continues.
//   B8 a thread is inside a section when another one forks, and in the child
//      blocks all batches forever: the child leaves the sections of threads
//      that it does not have, as in B6. A batch that one of them was arming or
//      running is never freed there.
// Freshness and progress
//   A section may see an object that was unlinked just before it began. Only
//   TEST_DrainRetired() waits for readers. A reader that stays inside a section
//   keeps every object that is retired during it. Fewer than 64 objects stay in
//   limbo until more are retired, or until FreeRetired() or
//   TEST_DrainRetired().
// Reclamation
//   Objects: T5. Records are never freed. Nothing here is destroyed at process
//   exit.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "util/base/check.h"
#include "util/threads/thread_record.h"

namespace varve {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// See util/threads/thread_slots.h.
void DropStaleSlots(ThreadRecord* record);

// Keeps the calling thread inside a section while the guard lives. Sections
// nest. A section ends on the thread on which it began.
// REQUIRES: an outermost section ends while the thread holds no mutex that a
// slot owner takes to release a pointer, nor ThreadRegistryMutex(). The end may
// drop stale slots (util/threads/thread_slots.h).
class EpochGuard {
 public:
  EpochGuard() : EpochGuard(CurrentThreadRecord()) {}
  // REQUIRES: `record` is the calling thread's.
  explicit EpochGuard(ThreadRecord* record) : record_(record) { Enter(record); }
  ~EpochGuard() {
    if (Exit(record_)) CheckSlots(record_);
  }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

  ThreadRecord* record() const { return record_; }

  // Enters by hand, without a guard. Loads after an Exit that returned true are
  // outside the section. Such an Exit must be followed by CheckSlots.
  static void Enter(ThreadRecord* record) {
    if (record->depth++ == 0) Step(record);  // T1
  }
  // Returns true if this left the outermost section.
  static bool Exit(ThreadRecord* record) {
    VARVE_DCHECK(record->depth > 0);
    if (--record->depth != 0) return false;  // B3
    Step(record);                            // T2
    return true;
  }
  static void CheckSlots(ThreadRecord* record) {
    // relaxed: DropStaleSlots looks again. See T14.
    if (record->unchecked_slots.load(std::memory_order_relaxed)) [[unlikely]] {
      DropStaleSlots(record);
    }
  }

 private:
  static void Step(ThreadRecord* record) {
    // relaxed: this thread alone writes it.
    const uint64_t next = record->sequence.load(std::memory_order_relaxed) + 1;
    if constexpr (kThreadSanitizer) {
      // acq_rel: pairs with the fetch_add of HeavyBarrier, either way round.
      record->sequence.exchange(next, std::memory_order_acq_rel);
    } else {
      // release: pairs with the acquire loads of T4 and T5.
      record->sequence.store(next, std::memory_order_release);
      // seq_cst for the compiler alone; T3 makes it true of the processor.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (record->fenced) [[unlikely]] {
        // seq_cst: the store above comes before the loads of the section.
        std::atomic_thread_fence(std::memory_order_seq_cst);
      }
    }
  }

  ThreadRecord* const record_;
};

// Orders the thread's earlier stores before its later loads, as seen by a
// thread that calls HeavyBarrier between a store and a load of its own. It is
// the cheap side of a store-buffering pair, and works outside of sections too.
// Compiles to no instruction if sections are not fenced. REQUIRES: `record` is
// the calling thread's.
inline void LightBarrier(ThreadRecord* record) {
  if constexpr (kThreadSanitizer) {
    // acq_rel: pairs with the fetch_add of HeavyBarrier, either way round.
    record->sequence.fetch_add(0, std::memory_order_acq_rel);
  } else {
    // seq_cst for the compiler alone; T3 makes it true of the processor.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (record->fenced) [[unlikely]] {
      // seq_cst: the stores before come before the loads after.
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
}

// T3. Costs some microseconds, and an interrupt on each processor that runs a
// thread of this process. Takes no mutex.
void HeavyBarrier();

// Calls deleter(object) once no section that might know `object` remains. The
// call is made by this function, by a later Retire of any thread, or by
// TEST_DrainRetired(). Never waits for a reader. May be called inside a section
// and by a deleter. Deleters run on threads that call Retire, which may hold
// mutexes: a deleter must take none of these. REQUIRES: no shared pointer leads
// to `object` any more.
void Retire(void* object, void (*deleter)(void*));

// Frees the retired objects that no section can know any more. Retire does that
// only for every 64th object. Costs a T3 if an object was retired since the
// last one.
void FreeRetired();
// The same, but frees at most 128 objects. Retire does not free more in one
// call either. For the path of a read, which must not pay for all that a slow
// reader has kept.
void FreeSomeRetired();

// Returns the number of objects that are retired and not yet freed.
size_t TEST_RetiredCount();

// Waits for readers until every object that was retired before the call is
// freed. Does not cover objects that the deleters themselves retire.
// REQUIRES: not called inside a section or by a deleter. The caller holds no
// mutex that is ever taken inside a section.
void TEST_DrainRetired();

// Returns true if each section executes a full fence at both ends. That is so
// if the kernel has no private expedited membarrier, and under ThreadSanitizer.
// Never changes.
bool EpochFenced();

// Returns the number of HeavyBarrier calls so far.
uint64_t TEST_HeavyBarrierCount();

}  // namespace varve
