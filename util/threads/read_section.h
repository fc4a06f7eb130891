// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Read sections: how a thread reads shared structures without writing a cache
// line that another thread writes. What a thread finds inside a section through
// shared pointers stays alive until it leaves, provided that whoever unlinks it
// hands it to Retire(). Entering and leaving are one plain store each; the
// other side pays, with one HeavyBarrier() per batch of retired objects.
// Thread-safety: all functions are thread-safe.
//
// Words and states
//   One `sequence` per ThreadRecord, written by its thread alone: even, the
//   thread is outside; odd, inside. It only grows, and goes on growing when a
//   later thread takes the record over. `depth`, plain and the thread's own,
//   counts nested sections. A retired object is in one batch of the limbo list:
//   open, arming (its barrier is under way), waiting, running (its deleters
//   are). `fenced`, the same in each record and for the life of the process,
//   says which of two forms T1 to T3 have: true where the kernel has no
//   private expedited membarrier.
// Transitions
//   T1 enter (outermost): sequence + 1, release; compiler barrier; full fence
//      if fenced.
//   T2 leave (outermost): the same. What is loaded next, still by the same
//      thread, is loaded outside.
//   T3 barrier, HeavyBarrier(): whatever stores the caller made before it are
//      seen by every section whose T1, and after every T2, that the caller
//      cannot see after it. Form: membarrier(2), by which each running thread
//      of the process executes a full fence; if fenced, a full fence here,
//      which meets those of T1 and T2.
//   T4 retire: the caller has unlinked the object, and puts it in the open
//      batch. The 64th closes it: T3, then the sequences that are odd are
//      noted (acquire) as the batch's blockers.
//   T5 free: once each blocker's sequence differs from the one noted (acquire),
//      the deleters run, without a mutex.
//   T6 add a record: into the list (release) before its first T1.
//   ThreadSanitizer models no fences. Under it T1 and T2 are exchanges, T6 adds
//   by an exchange, and T3 is a fetch_add(0) on the head of the list and on
//   each sequence: two read-modify-writes of one word are ordered, and the
//   later one synchronizes with the earlier.
// Invariants
//   I1 an object is freed only after every section that could have found it.
//   I2 the thread alone changes its sequence, by one.
// Why each order is needed
//   T1's store must not move below the loads that follow, nor T3's stores below
//   its loads of sequences: store-buffering. T3 makes both halves, since a
//   fence hits the thread either before its T1 (then its loads see what T3
//   published) or after (then T3 sees odd). Only the compiler could still
//   reorder: hence its barrier in T1. The same for T2 and what is loaded after
//   it (util/threads/thread_slots.h relies on that).
//   T2 is a release and the loads of T4 and T5 acquire, so that the section's
//   reads happen before the deleter's writes. T1 is one too: T5 may see the
//   next T1 rather than T2, and a later store of the same thread carries no
//   earlier release with it. On x86-64 both are plain stores.
// Bad interleavings prevented
//   B1 the reader loads the shared pointer; the writer unlinks the object,
//      scans while T1 is still in the reader's store buffer, and frees it: T3.
//   B2 a reader leaves and enters again between two looks at its sequence, and
//      so delays a batch for ever: T5 compares with the sequence noted, not
//      with odd.
//   B3 the end of a nested section ends the outer one: only depth 0 is T2.
//   B4 a thread whose record T4's scan misses, since it is just being added,
//      still uses the object: T6 precedes T1, hence T3 also orders these two.
//   B5 a blocker's thread ends, and a new thread parks inside a section of the
//      same record: the sequence has moved on, as in B2.
//   B6 a thread ends inside a section (pthread_exit in a callback) and blocks
//      all batches for ever: its end leaves the section, as its stack is gone.
//   B7 a deleter retires further objects, whose deleters run inside it, and so
//      on until the stack is full: T4 inside a deleter frees nothing, the
//      outermost T5 goes on.
// Freshness and progress
//   A section may see what was unlinked just before it began. Nobody waits for
//   a reader but TEST_DrainRetired(). A reader that stays inside keeps all
//   objects that are retired before it leaves. Fewer than 64 objects stay in
//   limbo until more come, or until FreeRetired() or TEST_DrainRetired().
// Reclamation
//   Of objects: T5. Records are never freed; nothing here is destroyed at the
//   end of the process.

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

// The calling thread is inside a section while an object of this class lives.
// Sections nest. A section ends on the thread on which it began.
// REQUIRES: an outermost section ends while the thread holds no mutex that a
// slot owner takes to release a pointer, nor ThreadRegistryMutex(): the end may
// drop stale slots (util/threads/thread_slots.h).
class ReadSection {
 public:
  ReadSection() : ReadSection(CurrentThreadRecord()) {}
  // REQUIRES: `record` is the calling thread's.
  explicit ReadSection(ThreadRecord* record) : record_(record) {
    Enter(record);
  }
  ~ReadSection() {
    if (Exit(record_)) CheckSlots(record_);
  }
  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;

  ThreadRecord* record() const { return record_; }

  // The same by hand. What is loaded after an Exit that returned true is loaded
  // outside; such an Exit is followed by CheckSlots.
  static void Enter(ThreadRecord* record) {
    if (record->depth++ == 0) Step(record);  // T1
  }
  // Whether this left the outermost section.
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

// What a thread stores before this comes before what it loads after it, for
// whoever calls HeavyBarrier between a store and a load of its own: the cheap
// side of a store-buffering pair, outside of sections too. No instruction at
// all if sections are not fenced. REQUIRES: `record` is the calling thread's.
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

// T3. Costs some microseconds and an interrupt on each processor where a thread
// of this process runs. Takes no mutex.
void HeavyBarrier();

// Has deleter(object) called once no section that might know `object` is left:
// by this call, a later one of any thread, or TEST_DrainRetired(). Never waits
// for a reader; may be called inside a section and by a deleter. Deleters run
// on threads that call Retire, with the mutexes that these hold: a deleter must
// take none of them. REQUIRES: no shared pointer leads to `object` any more.
void Retire(void* object, void (*deleter)(void*));

// Frees what was retired and no section can know any more, as Retire does with
// every 64th object: for those who cannot wait for the other 63. Costs a T3 if
// something was retired since the last one.
void FreeRetired();

// Objects retired and not yet freed.
size_t TEST_RetiredCount();

// Returns when all that was retired before the call is freed, but not what the
// deleters themselves retire. Waits for readers.
// REQUIRES: not called inside a section or by a deleter; the caller holds no
// mutex that is ever taken inside a section.
void TEST_DrainRetired();

// Whether each section executes a full fence of its own at both ends: where the
// kernel has no private expedited membarrier, and under ThreadSanitizer. Never
// changes.
bool ReadSectionFenced();

// How often HeavyBarrier has run.
uint64_t TEST_HeavyBarrierCount();

}  // namespace varve
