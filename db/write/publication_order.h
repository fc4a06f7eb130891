// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Makes groups of updates visible in the order of their sequence numbers,
// although they are inserted side by side. A leader of the write queue takes a
// ticket and hands its leadership over before it inserts. So the next group is
// logged and inserted meanwhile. The order is a queue of the kind of an MCS
// lock (Mellor-Crummey and Scott, 1991). The first ticket in it has the turn:
// once its updates are inserted, its number becomes visible, and the turn goes
// to the next ticket. A thread whose ticket is inserted before it has the turn
// waits, and the thread with the turn publishes that number too.
//
// *Words and states.*
//   `tail_`: the ticket that was issued last; null if all are published.
//   `next` of a ticket: the ticket issued directly after it; null until that
//   one is linked.
//   `state` of a ticket: kPending; kTurn, all tickets before it are published;
//   kInserted, its updates are in the memtables, and it has not had the turn;
//   kAsleep, the same, and its thread is in the kernel; kPublished; kAbandoned,
//   its updates will never be visible.
//   `published`: the last visible sequence number.
// *Transitions.*
//   T1 issue: the leader exchanges `tail_`, acq_rel. If the old value is null,
//      the ticket has the turn.
//   T2 link: the leader stores the ticket in the old value's `next`, release.
//   T3 inserted: the ticket's thread exchanges `state` for kInserted, acq_rel.
//      If the old value is kTurn, it goes on with T4, else it waits for T7.
//   T4 publish: the thread with the turn stores the ticket's number in
//      `published`, release.
//   T5 end: if the ticket is `tail_`, compare-and-swap `tail_` to null,
//      release. Otherwise wait for `next`.
//   T6 pass: compare-and-swap `state` of `next` from kPending to kTurn,
//      acq_rel. If it is kInserted or kAsleep, the same thread goes on with T4
//      for that ticket.
//   T7 answer: exchange of the ticket's `state` for kPublished or kAbandoned,
//      acq_rel, after its T5 or T6.
// *Invariants.*
//   I1 One ticket has the turn, or none is queued. It gets it by T1 on an empty
//      queue, or by T6 of the ticket before it.
//   I2 T1 and T2 are done by the leader, of which there is one. So the log, the
//      sequence numbers and the tickets have one order.
//   I3 Nobody accesses a ticket after its T7, but for its address, or after the
//      T5 or T6 that its own thread did.
// *Why each order is needed.*
//   A reader that loads `published` (acquire) sees all inserts up to it. The
//   inserts of a ticket come before its T4 in the thread that did T3, or before
//   the release of T3, which T6 acquires. Earlier tickets had their T4 before
//   T6 of the same thread, and the next ticket's T3 acquires that.
//   T5 is a release and T1 an acquire, so that a new ticket on an empty queue
//   sees all inserts, and the leader sees that nobody inserts (IsIdle).
// *Bad interleavings prevented.*
//   B1 A ticket is inserted first and published first, so that a reader sees it
//      without the one before it. It does not have the turn: T3 finds kPending.
//   B2 A ticket is inserted while the thread before it passes the turn: one of
//      them must publish it. T3 and T6 change one word. The later of the two
//      finds the earlier one's value.
//   B3 A ticket is issued while the last one ends. T5 fails, because `tail_`
//      has changed, and waits for T2.
//   B4 A ticket is answered between its thread's last load of `state` and its
//      sleep. It sleeps only if it replaced kInserted by kAsleep, and T7 then
//      finds kAsleep.
//   B5 A ticket's thread returns, and its memory is used again, while another
//      thread reads its `next`. T7 comes after T5 or T6.
//   B6 A leader loads `published`, finds then that all tickets are published,
//      and gives out the numbers of the last ones again. LastIssued returns the
//      last ticket's number also when that is published.
//   B7 An insert failed, and later tickets become visible without it, or their
//      numbers are given out again. A ticket that failed sets `failed_` when it
//      has the turn. From then on T4 stores nothing, and T7 gives kAbandoned.
//      Nothing takes that back: the database has to be opened again.
// *Freshness and progress.* A thread that is suspended while it inserts delays
// the answers of the threads after it, but not their inserts. A leader
// suspended between T1 and T2 delays the end of the ticket before it. The
// thread with the turn returns when it meets a ticket that is not inserted, or
// the last one. Until then it publishes for others.
// *Reclamation.* None: tickets are on their threads' stacks. A wake-up may come
// late and reach a later user of the address (util/base/futex.h).

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "table/block/internal_key.h"

namespace varve {

// Thread-safety: Complete is thread-safe; the other functions are for the
// leader of the write queue.
class PublicationOrder {
 public:
  struct Ticket {
    SequenceNumber last = 0;  // The number of its last update.
    bool failed = false;      // Set before Complete: not all are inserted.

   private:
    friend class PublicationOrder;
    std::atomic<Ticket*> next_{nullptr};
    std::atomic<uint32_t> state_{0};  // kPending.
  };

  PublicationOrder() = default;
  PublicationOrder(const PublicationOrder&) = delete;
  PublicationOrder& operator=(const PublicationOrder&) = delete;

  // Returns whether all tickets are published.
  bool IsIdle() const {
    // acquire: pairs with T5.
    return tail_.load(std::memory_order_acquire) == nullptr;
  }
  // Returns the number of the last update that has one. `published` was the
  // last visible one at any moment since the caller became the leader.
  SequenceNumber LastIssued(SequenceNumber published) const {
    return std::max(published, last_issued_);
  }
  // Takes a ticket for the updates up to `last`. Complete must be called for
  // it, by any thread.
  void Issue(Ticket* ticket, SequenceNumber last) {
    Issue(ticket, last, [] {});
  }
  // Calls `between` between T1 and T2. For tests.
  template <typename Between>
  void Issue(Ticket* ticket, SequenceNumber last, Between between) {
    ticket->last = last;
    last_issued_ = last;
    // T1. release, so that the next ticket's leader may link to this one.
    Ticket* const before = tail_.exchange(ticket, std::memory_order_acq_rel);
    between();
    if (before == nullptr) {
      // relaxed: the thread that completes the ticket is this one, or is told
      // of it by this one.
      ticket->state_.store(kTurn, std::memory_order_relaxed);
    } else {
      // T2. release pairs with the acquire of T5.
      before->next_.store(ticket, std::memory_order_release);
    }
  }
  // Publishes the number of a ticket whose updates are in the memtables, once
  // all tickets before it are published. Waits for that. Returns false if it
  // will never be visible, because it failed, or one before it.
  bool Complete(Ticket* ticket, std::atomic<SequenceNumber>* published);
  // Waits until all tickets are published or abandoned.
  void AwaitIdle();
  // Returns whether updates are lost for readers: a ticket has failed.
  // REQUIRES: AwaitIdle, since the caller leads.
  bool has_failed() const { return failed_; }
  // Does what a failed ticket does. REQUIRES: as has_failed.
  void Fail() { failed_ = true; }

  // Returns whether the ticket's thread sleeps until it is published.
  static bool TEST_IsAsleep(const Ticket& ticket) {
    // relaxed: the test waits for it.
    return ticket.state_.load(std::memory_order_relaxed) == kAsleep;
  }

 private:
  enum State : uint32_t {
    kPending = 0,
    kTurn,
    kInserted,
    kAsleep,
    kPublished,
    kAbandoned
  };

  // T4 to T7 for the ticket that has the turn and its inserted successors.
  void Publish(Ticket* ticket, std::atomic<SequenceNumber>* published);

  std::atomic<Ticket*> tail_{nullptr};
  // Of the last ticket. Owned by the leader.
  SequenceNumber last_issued_ = 0;
  // Owned by the thread with the turn; by the leader if the queue is empty.
  bool failed_ = false;
};

}  // namespace varve
