// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tells writers, without a mutex, whether they may write at once. One word for
// all column families: a writer that does not find it clear takes the DB mutex
// and looks at the families that its batch updates.

#include <atomic>
#include <cstdint>

namespace varve {

// relaxed everywhere. A writer that sees a change late writes once more, as if
// it had come earlier. A leader's failure to write the log is not seen late: it
// is stored before that leader leaves the queue, which orders it before the
// next one. A failed insert may be, see publication_order.h, B7. No request is
// lost: RequestLook is called by a leader or with the DB mutex held, after the
// change that it is for. The leader that takes it locks that mutex after
// TakeRequest and before it looks.
//
// Thread-safety: readers need nothing. Update requires the DB mutex. Some
// functions are for the leader of the write queue.
class WriteGate {
 public:
  // Returns true if no family stops or slows down its writers.
  bool IsClear() const { return (Bits() & ~(kLook | kAwaited)) == 0; }
  bool HasError() const { return (Bits() & kError) != 0; }
  // For the leader. Returns true if it may write without a look at the families
  // under the mutex.
  bool LetsLeaderPass() const { return (Bits() & ~kSlow) == 0; }
  // Returns true if the leader must look at the families under the mutex.
  bool MakesLeaderLook() const { return (Bits() & ~(kSlow | kAwaited)) != 0; }

  void Update(bool has_error, bool stops, bool slows) {
    const uint32_t bits =
        (has_error ? kError : 0) | (stops ? kStop : 0) | (slows ? kSlow : 0);
    uint32_t old = Bits();
    // relaxed: as above.
    while (!bits_.compare_exchange_weak(old, bits | (old & (kLook | kAwaited)),
                                        std::memory_order_relaxed)) {
    }
  }
  // Makes the next leader that writes a group call PublicationWatch::Wake after
  // it. For the leader.
  void RequestWake() {
    // relaxed: as above.
    bits_.fetch_or(kAwaited, std::memory_order_relaxed);
  }
  // For the leader that is about to write. Returns whether that was requested.
  bool TakeWakeRequest() {
    if ((Bits() & kAwaited) == 0) return false;
    // relaxed: as above.
    return (bits_.fetch_and(~kAwaited, std::memory_order_relaxed) & kAwaited) !=
           0;
  }
  // Makes the next leader look at all families: one of their memtables is full,
  // or the log is. For the leader, or with the DB mutex held.
  void RequestLook() {
    // relaxed: as above.
    bits_.fetch_or(kLook, std::memory_order_relaxed);
  }
  // For the leader, before it looks. Returns whether that was requested.
  bool TakeRequest() {
    // relaxed: as above.
    return (bits_.fetch_and(~kLook, std::memory_order_relaxed) & kLook) != 0;
  }
  // Stops writes in a child created by fork(). Every writer then takes the
  // mutex.
  void StopInChild() {
    // relaxed: there is no other thread.
    bits_.store(kError, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kError = 1;
  static constexpr uint32_t kStop = 2;
  static constexpr uint32_t kSlow = 4;
  static constexpr uint32_t kLook = 8;
  static constexpr uint32_t kAwaited = 16;  // Somebody waits for a write.

  uint32_t Bits() const {
    return bits_.load(std::memory_order_relaxed);  // relaxed: as above.
  }

  std::atomic<uint32_t> bits_{0};
};

}  // namespace varve
