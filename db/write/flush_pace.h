// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Spreads the wait for a flush over the writes before it. It applies to the
// last write buffer that may be filled. If its writers fill it before the flush
// of the previous one is done, one of them waits for the rest of that flush. So
// short pauses slow the writers down, until the rest of the buffer lasts as
// long as the rest of the flush.
//
// Thread-safety: guarded by the DB mutex, except Advance and Written.

#include <atomic>
#include <cstdint>

namespace varve {

class FlushPace {
 public:
  // The bounds of a pause. A shorter pause would cost more than it regulates.
  static constexpr uint64_t kMaxPauseUs = 1000;
  static constexpr uint64_t kMinPauseUs = 200;

  // The next step of a writer.
  struct Step {
    uint64_t pause_us = 0;  // How long to wait first.
    uint64_t bytes = 0;     // How much to write before the next call of Charge.
  };

  // Records that a flush of `entries` entries begins, or will begin soon.
  void Begin(uint64_t entries, uint64_t now_us);
  // Records that `entries` of them have been written. Called by the thread that
  // flushes.
  void Advance(uint64_t entries) {
    // relaxed: used only for an estimate.
    done_.store(entries, std::memory_order_relaxed);
  }
  // Records that all entries are written, but not yet synced. Called by the
  // thread that flushes.
  void Written(uint64_t now_us) {
    // relaxed: used only for an estimate.
    written_us_.store(now_us, std::memory_order_relaxed);
  }
  // Records that the flush has ended.
  void End(uint64_t now_us);

  // Returns the next step of a writer. `bytes` were written to the buffer since
  // the last call or Begin. `space_bytes` of its `buffer_bytes` are left.
  Step Charge(uint64_t bytes, uint64_t space_bytes, uint64_t buffer_bytes,
              uint64_t now_us);

  // Returns the estimated rest of the flush, or 0 if it is unknown.
  uint64_t RemainingMicros(uint64_t now_us) const;

 private:
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> written_us_{0};  // 0 before Written.
  uint64_t entries_ = 0;
  uint64_t begin_us_ = 0;
  uint64_t last_entries_ = 0;    // Of the last flush.
  double micros_per_entry_ = 0;  // Last flush, from Begin to Written.
  uint64_t finish_us_ = 0;       // Last flush, from Written to End.
  uint64_t free_at_us_ = 0;
};

}  // namespace varve
