// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/publication_order.h"

#include <sched.h>

#include "util/base/futex.h"

namespace varve {

bool PublicationOrder::Complete(Ticket* ticket,
                                std::atomic<SequenceNumber>* published) {
  // T3. release: the inserts. acquire: earlier tickets' inserts, after kTurn.
  if (ticket->state_.exchange(kInserted, std::memory_order_acq_rel) == kTurn) {
    const bool failed = failed_ || ticket->failed;
    Publish(ticket, published);
    return !failed;
  }
  return AwaitChange(&ticket->state_, kInserted, kAsleep) == kPublished;
}

void PublicationOrder::Publish(Ticket* const own,
                               std::atomic<SequenceNumber>* published) {
  for (Ticket* ticket = own;;) {
    // Not stored otherwise: other processors keep their copies of the line.
    if (ticket->failed) [[unlikely]]
      failed_ = true;
    const bool failed = failed_;
    // T4. release pairs with the acquire of readers.
    if (!failed) published->store(ticket->last, std::memory_order_release);
    // acquire: pairs with T2.
    Ticket* next = ticket->next_.load(std::memory_order_acquire);
    if (next == nullptr) {
      // T5. release pairs with T1 and IsIdle; relaxed if it fails: `next` is
      // loaded with acquire below.
      Ticket* expected = ticket;
      if (!tail_.compare_exchange_strong(expected, nullptr,
                                         std::memory_order_release,
                                         std::memory_order_relaxed)) {
        // B3. acquire pairs with T2.
        while ((next = ticket->next_.load(std::memory_order_acquire)) ==
               nullptr) {
          sched_yield();
        }
      }
    }
    bool ends = next == nullptr;
    if (!ends) {
      // T6. release: the published tickets. acquire: what `next` inserted.
      uint32_t state = kPending;
      ends = next->state_.compare_exchange_strong(
          state, kTurn, std::memory_order_acq_rel, std::memory_order_acquire);
    }
    if (ticket != own) {
      std::atomic<uint32_t>* const state = &ticket->state_;
      // T7. release: the published number, for the ticket's thread. acquire is
      // not needed. After this only the address may be used.
      if (state->exchange(failed ? kAbandoned : kPublished,
                          std::memory_order_acq_rel) == kAsleep) {
        FutexWake(state);
      }
    }
    if (ends) return;
    ticket = next;
  }
}

void PublicationOrder::AwaitIdle() {
  if (!IsIdle()) {
    // A ticket without updates. The thread that answers it has published all,
    // and nobody can have issued another.
    Ticket ticket;
    Issue(&ticket, last_issued_);
    // T3. acquire: all inserts, after kTurn. release: not needed.
    if (ticket.state_.exchange(kInserted, std::memory_order_acq_rel) == kTurn) {
      // T5 of the last ticket: all are published. relaxed: read by leaders.
      tail_.store(nullptr, std::memory_order_relaxed);
    } else {
      AwaitChange(&ticket.state_, kInserted, kAsleep);
    }
  }
}

}  // namespace varve
