// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Spreads the wait for a flush over the writes before it. When the last write
// buffer that may be filled is being filled, its writers should not get to its
// end before the flush of the one before is done, or one of them would wait for
// all that is left of it. So they are slowed down, by short pauses, to the
// speed at which the rest of the buffer lasts as long as the rest of the flush.
//
// Thread-safety: guarded by the DB mutex, but for Advance and
// Written.

#include <atomic>
#include <cstdint>

namespace varve {

class FlushPace {
 public:
  // No pause is longer; a shorter one than kMinPauseUs costs more than it
  // regulates.
  static constexpr uint64_t kMaxPauseUs = 1000;
  static constexpr uint64_t kMinPauseUs = 200;

  // What a writer has to do now.
  struct Step {
    uint64_t pause_us = 0;  // Wait,
    uint64_t bytes = 0;     // write so much, and ask again.
  };

  // A flush of so many entries begins, or will soon.
  void Begin(uint64_t entries, uint64_t now_us);
  // So many of them have been written. For the thread that flushes.
  void Advance(uint64_t entries) {
    // relaxed: an estimate is made of it.
    done_.store(entries, std::memory_order_relaxed);
  }
  // And now all are, but nothing is synced. For the same.
  void Written(uint64_t now_us) {
    // relaxed: as above.
    written_us_.store(now_us, std::memory_order_relaxed);
  }
  void End(uint64_t now_us);

  // Since the last call, or Begin, `bytes` were written to the buffer, and of
  // its `buffer_bytes` `space_bytes` are left.
  Step Charge(uint64_t bytes, uint64_t space_bytes, uint64_t buffer_bytes,
              uint64_t now_us);

  // How long the flush will go on; 0 if nobody knows.
  uint64_t RemainingMicros(uint64_t now_us) const;

 private:
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> written_us_{0};  // 0 before.
  uint64_t entries_ = 0;
  uint64_t begin_us_ = 0;
  double micros_per_entry_ = 0;  // Of the last flush, until Written,
  uint64_t finish_us_ = 0;       // and what it took after that.
  uint64_t free_at_us_ = 0;
};

}  // namespace varve
