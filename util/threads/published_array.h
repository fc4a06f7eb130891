// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Append-only array with lock-free readers (copy on growth, reclaimed by
// epochs). One thread at a time appends pointers. Other threads walk the array
// concurrently without a lock, and prefetch the next pointers. The array only
// grows. The objects themselves tell whether they are in use.
//
// Words and states
//   `body_` points to {count, capacity, items}. Items below `count` are written
//   and never change. The others belong to the appender.
// Transitions
//   T31 append with capacity: the item, then `count` + 1 (release).
//   T32 append without: a body of twice the capacity gets a copy of the items
//       and the new one, then replaces the old body (release), which is retired
//       by epoch.h.
//   T33 walk, in a read-side critical section: `body_` (acquire), `count`
//       (acquire), items.
// Invariants
//   I31 a walk sees all items whose append happened before it, each once.
// Why each order is needed
//   The releases of T31 and T32 pair with the acquires of T33: a walker that
//   finds an item sees the object that it points to as it was when appended.
// Bad interleavings prevented
//   B31 a walker still reads the body that T32 replaces: it is retired, and the
//       walker is in a section.
// Freshness and progress
//   A walk may miss an item that is being appended. It waits for no thread.
// Reclamation
//   Replaced bodies by the limbo list; the last one by the destructor.

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
  // REQUIRES: no thread walks it any more.
  // relaxed: see above.
  ~PublishedArray() { Body::Delete(body_.load(std::memory_order_relaxed)); }

  // REQUIRES: one caller at a time. May free objects that other threads have
  // retired.
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
    // acq_rel pairs with ForEach; T32 with null instead of a new body.
    Body* const body = body_.exchange(nullptr, std::memory_order_acq_rel);
    if (body != nullptr) Retire(body, &Body::Delete);
  }

  // Calls function(T*) for each item.
  // REQUIRES: inside a read-side critical section, or no concurrent append.
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

  // Returns the approximate size of the body.
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
