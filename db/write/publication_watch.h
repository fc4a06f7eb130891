// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Waits for the next write. Writers do nothing for it as long as nobody waits:
// the request is a bit of the word that each leader of the write queue tests
// anyway (WriteGate).
//
// *Words and states.*
//   `published`: the last sequence number that is visible. A leader stores it,
//   or a thread to which publication_order.h gives the turn.
//   `awaited`: the bit of the gate. A waiter sets it; a leader that is about to
//   write clears it, and wakes all waiters after its write.
//   `round_`: the number of wake-ups, under mutex_.
// *Transitions.*
//   T1 arm: a waiter loads `round_`, then leads the write queue and waits until
//      all earlier groups are visible. Then it sets `awaited`, and leaves.
//   T2 look: it loads `published`. If that suffices, it does not sleep.
//   T3 sleep: under mutex_, as long as `round_` is what T1 loaded.
//   T4 take: a leader that is about to write tests and clears `awaited`.
//   T5 publish: `published` is stored, and the leader leaves the queue, in
//      either order.
//   T6 wake: if T4 found the bit, the leader adds one to `round_` under mutex_
//      and signals. A leader that publishes in another way than by a write also
//      does T6, always.
// *Invariants.*
//   I1 All T1 and T4 are done by leaders of the queue, so they have an order,
//      and the later leader sees what the earlier one stored (write_queue.h,
//      T6 and T1 there).
//   I2 A leader that cleared the bit does T6, whether its write succeeds or
//   not.
// *Why no wake-up is lost.* A leader is before or after a waiter's T1. If it is
//   before, its T5 is before the end of T1 and so before T2, which sees its
//   number. If after, it finds the bit at T4, unless a leader in between has
//   cleared it; the first one after T1 that writes does T6, after T1 has loaded
//   `round_`. So T3 does not begin, or ends.
// *Bad interleavings prevented.*
//   B1 A leader tests the gate, the waiter arms and looks, the leader publishes
//      and does not know of the waiter. The waiter arms as a leader, when the
//      other one's updates are visible.
//   B2 A leader clears the bit for one waiter, another waiter arms and looks,
//      and the leader's T6 comes. The second waiter's bit is set again, and it
//      wakes for nothing.
//   B3 A leader clears the bit and its condition fails, so it does not write.
//      It sets the bit again as the leader (DBImpl::PassQueue).
// *Freshness and progress.* A wake-up costs a writer some microseconds. So
// waiters arm only some time after the last wake-up. If a write came in that
// time, the next one waits for that time again before it arms: writes that
// come all the time wake nobody, and are seen once per that time. A waiter that
// arms leads the queue for a moment. It does that between two writes if it can,
// because a writer would have to wait until it has woken.
//
// Thread-safety: thread-safe.

#include <atomic>
#include <cstdint>

#include "db/write/write_gate.h"
#include "db/write/write_queue.h"
#include "table/block/internal_key.h"
#include "util/base/mutex.h"

namespace varve {

class PublicationWatch {
 public:
  enum class Outcome : uint8_t {
    kPublished,  // The sequence number is visible.
    kTimeout,
    kEnded,  // End was called.
  };

  // Both must outlive this object.
  PublicationWatch(WriteQueue* queue, WriteGate* gate)
      : queue_(queue), gate_(gate) {}
  PublicationWatch(const PublicationWatch&) = delete;
  PublicationWatch& operator=(const PublicationWatch&) = delete;

  // Waits until *published is at least `sequence`, for `timeout_us` at most
  // (UINT64_MAX: no limit). REQUIRES: the caller holds no mutex that a leader
  // takes.
  Outcome Await(const std::atomic<SequenceNumber>& published,
                SequenceNumber sequence, uint64_t timeout_us);
  // Wakes all waiters. For a leader, after it has published.
  void Wake();
  // Makes all calls of Await return, also later ones.
  void End();

  // Called before an Await arms later, where it must not call this object, and
  // between T1 and T2. For tests.
  enum class Step : uint8_t { kRest, kArmed };
  using Hook = void (*)(void*, Step);
  void TEST_SetHook(Hook hook, void* argument) {
    hook_ = hook;
    hook_argument_ = argument;
  }

 private:
  // Returns false if the time is over.
  bool Sleep(uint64_t deadline_us, uint64_t until_us) VARVE_REQUIRES(mutex_);
  void Arm();  // T1.

  WriteQueue* const queue_;
  WriteGate* const gate_;
  Mutex mutex_;
  CondVar woken_;
  uint64_t round_ VARVE_GUARDED_BY(mutex_) = 0;
  uint64_t last_wake_us_ VARVE_GUARDED_BY(mutex_) = 0;
  // The last waiter that waited found a write without being woken.
  bool writes_come_ VARVE_GUARDED_BY(mutex_) = false;
  bool ended_ VARVE_GUARDED_BY(mutex_) = false;
  Hook hook_ = nullptr;
  void* hook_argument_ = nullptr;
};

}  // namespace varve
