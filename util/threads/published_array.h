// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An array of pointers to which one thread at a time appends, and which others
// walk meanwhile without a lock, with the next pointers prefetched. It only
// grows: what is behind the pointers says whether it is in use.
//
// Words and states
//   `body_` leads to {count, capacity, items}. Items below `count` are written
//   and never change; the others are the appender's.
// Transitions
//   T31 append with capacity: the item, then `count` + 1 (release).
//   T32 append without: a body of twice the capacity gets a copy of the items
//       and the new one, then takes the place of the old one (release), which
//       is retired through the read-side critical sections.
//   T33 walk, in a read-side critical section: `body_` (acquire), `count`
//      (acquire), items.
// Invariants
//   I31 a walk sees all items whose append happened before it, each once.
// Why each order is needed
//   The releases of T31 and T32 pair with the acquires of T33: a walker that
//   finds an item finds what it points to as it was when appended.
// Bad interleavings prevented
//   B31 a walker still reads the body that T32 replaces: it is retired, and
//       the walker is in a section.
// Freshness and progress
//   A walk may miss what is being appended, and waits for nobody.
// Reclamation
//   Bodies by the limbo list; the last one by the destructor.

#include <atomic>
#include <cstddef>
#include <memory>

#include "util/threads/epoch.h"

namespace varve {

template <typename T>
class PublishedArray {
 public:
  PublishedArray() = default;
  PublishedArray(const PublishedArray&) = delete;
  PublishedArray& operator=(const PublishedArray&) = delete;
  // REQUIRES: nobody walks it any more.
  // relaxed: see above.
  ~PublishedArray() { Body::Delete(body_.load(std::memory_order_relaxed)); }

  // REQUIRES: one caller at a time. May free what others have retired.
  void Append(T* item) {
    // relaxed, both: only appenders write them.
    Body* const body = body_.load(std::memory_order_relaxed);
    const size_t count =
        body == nullptr ? 0 : body->count.load(std::memory_order_relaxed);
    if (body != nullptr && count < body->capacity) {
      body->items[count] = item;
      // release: pairs with the acquire in ForEach (T31).
      body->count.store(count + 1, std::memory_order_release);
      return;
    }
    Body* const grown = new Body(count == 0 ? 8 : 2 * count);
    for (size_t i = 0; i < count; ++i) grown->items[i] = body->items[i];
    grown->items[count] = item;
    // relaxed: published by the next store.
    grown->count.store(count + 1, std::memory_order_relaxed);
    // release: pairs with the acquire in ForEach (T32).
    body_.store(grown, std::memory_order_release);
    if (body != nullptr) Retire(body, &Body::Delete);
  }

  // Makes it empty. REQUIRES: as Append.
  void Clear() {
    // acq_rel pairs with ForEach; T32 with nothing in the place of the body.
    Body* const body = body_.exchange(nullptr, std::memory_order_acq_rel);
    if (body != nullptr) Retire(body, &Body::Delete);
  }

  // Calls function(T*) for each item.
  // REQUIRES: inside a read-side critical section, or no append comes
  // meanwhile.
  template <typename Function>
  void ForEach(Function function) const {
    constexpr size_t kAhead = 16;
    // acquire: pairs with the release of T32.
    const Body* const body = body_.load(std::memory_order_acquire);
    if (body == nullptr) return;
    // acquire: pairs with the release of T31.
    const size_t count = body->count.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) __builtin_prefetch(body->items[i + kAhead]);
      function(body->items[i]);
    }
  }

  // Items, for the appender.
  size_t size() const {
    // relaxed, both: only appenders write them.
    const Body* const body = body_.load(std::memory_order_relaxed);
    return body == nullptr ? 0 : body->count.load(std::memory_order_relaxed);
  }

  // Of the body, about.
  size_t MemoryUsage() const {
    // relaxed: only appenders write it.
    const Body* const body = body_.load(std::memory_order_relaxed);
    return body == nullptr ? 0 : sizeof(Body) + body->capacity * sizeof(T*);
  }

 private:
  struct Body {
    explicit Body(size_t its_capacity)
        : capacity(its_capacity), items(new T*[its_capacity]()) {}
    static void Delete(void* body) { delete static_cast<Body*>(body); }

    std::atomic<size_t> count{0};
    const size_t capacity;
    const std::unique_ptr<T*[]> items;
  };

  std::atomic<Body*> body_{nullptr};
};

}  // namespace varve
