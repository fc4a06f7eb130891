// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Queues the events for the listeners. An event is added under the DB mutex
// when it happens. Events are delivered in that order, without the mutex.
// Thread-safety: guarded by the DB mutex.

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/options/db_mutex.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "varve/listener.h"

namespace varve {

class EventQueue {
 public:
  using Event = std::function<void(EventListener*)>;

  EventQueue(std::vector<std::shared_ptr<EventListener>> listeners,
             Mutex* mutex)
      : listeners_(std::move(listeners)), mutex_(mutex) {}

  bool HasListeners() const { return !listeners_.empty(); }

  // Does nothing without listeners.
  void Add(Event event) {
    if (HasListeners()) events_.push_back(std::move(event));
  }

  bool IsDeliveringLocked() const VARVE_REQUIRES(kDbMutex) {
    return delivering_;
  }

  // Delivers all events, unless another thread is delivering. Releases the
  // mutex and reacquires it.
  void DeliverLocked() VARVE_REQUIRES(kDbMutex) {
    if (events_.empty() || delivering_) return;
    delivering_ = true;
    while (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      mutex()->Unlock();
      for (const auto& listener : listeners_) event(listener.get());
      mutex()->Lock();
    }
    delivering_ = false;
    delivered_.SignalAll();
  }

  // Delivers all events, and waits for another thread that is delivering them.
  // May release the mutex and reacquire it.
  void FinishLocked() VARVE_REQUIRES(kDbMutex) {
    DeliverLocked();
    while (delivering_) delivered_.Wait(mutex());
  }

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  const std::vector<std::shared_ptr<EventListener>> listeners_;
  Mutex* const mutex_;  // The DB's.
  std::deque<Event> events_;
  bool delivering_ = false;
  CondVar delivered_;
};

}  // namespace varve
