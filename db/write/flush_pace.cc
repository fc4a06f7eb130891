// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/flush_pace.h"

#include <algorithm>

namespace varve {

namespace {

// Until this part of the entries is written, the last flush gives the better
// estimate. Without a last flush, a smaller part suffices.
constexpr uint64_t kFirstPart = 64;
constexpr uint64_t kLeastPart = 512;

// A last flush of so many times fewer entries gives no estimate: most of its
// time did not depend on them.
constexpr uint64_t kMostTimes = 8;

// This part of the buffer is a reserve for a flush that takes longer than
// estimated. In the reserve every write has the longest pause.
constexpr uint64_t kReservePart = 64;

// A shorter rest of a flush needs no pauses.
constexpr uint64_t kShortUs = 2000;

// The time between two pauses, if the buffer lasts that long.
constexpr double kStepUs = 500;

// The largest part of the remaining space between two pauses.
constexpr uint64_t kStepPart = 64;

}  // namespace

void FlushPace::Begin(uint64_t entries, uint64_t now_us) {
  // relaxed, both: see Advance.
  done_.store(0, std::memory_order_relaxed);
  written_us_.store(0, std::memory_order_relaxed);
  entries_ = entries;
  begin_us_ = now_us;
  free_at_us_ = now_us;
}

void FlushPace::End(uint64_t now_us) {
  // relaxed: see Advance.
  const uint64_t written_us = written_us_.load(std::memory_order_relaxed);
  if (entries_ > 0 && begin_us_ < written_us && written_us <= now_us) {
    last_entries_ = entries_;
    micros_per_entry_ = static_cast<double>(written_us - begin_us_) /
                        static_cast<double>(entries_);
    finish_us_ = now_us - written_us;
  }
  entries_ = 0;
}

uint64_t FlushPace::RemainingMicros(uint64_t now_us) const {
  if (entries_ == 0 || now_us < begin_us_) return 0;
  const uint64_t elapsed_us = now_us - begin_us_;
  // relaxed, both: see Advance.
  const uint64_t written_us = written_us_.load(std::memory_order_relaxed);
  if (written_us != 0) {
    // The sync and the MANIFEST remain. A long wait so far predicts a long
    // rest.
    const uint64_t waited_us = now_us - std::min(written_us, now_us);
    return std::max(waited_us, finish_us_ - std::min(waited_us, finish_us_));
  }
  // relaxed: see Advance.
  const uint64_t done = done_.load(std::memory_order_relaxed);
  const double per_entry_us =
      entries_ / kMostTimes <= last_entries_ ? micros_per_entry_ : 0;
  const uint64_t part = per_entry_us > 0 ? kFirstPart : kLeastPart;
  const auto entries = static_cast<double>(entries_);
  const double all_us = done <= entries_ / part
                            ? entries * per_entry_us
                            : static_cast<double>(elapsed_us) * entries /
                                  static_cast<double>(std::min(done, entries_));
  if (all_us <= 0) return 0;
  return finish_us_ + static_cast<uint64_t>(std::max(
                          all_us - static_cast<double>(elapsed_us), 0.0));
}

FlushPace::Step FlushPace::Charge(uint64_t bytes, uint64_t space_bytes,
                                  uint64_t buffer_bytes, uint64_t now_us) {
  Step step;
  step.bytes = space_bytes / kStepPart;
  const uint64_t remaining_us = RemainingMicros(now_us);
  if (remaining_us < kShortUs || space_bytes >= buffer_bytes) {
    free_at_us_ = now_us;
    return step;
  }
  // While much space is left, allow a higher rate than the exact one. The flush
  // may be faster than estimated, and lost time cannot be regained.
  const uint64_t reserve = buffer_bytes / kReservePart;
  const double space =
      space_bytes > reserve ? static_cast<double>(space_bytes - reserve) : 1;
  const double bytes_per_us = space / static_cast<double>(remaining_us) *
                              (1 + space / static_cast<double>(buffer_bytes));
  step.bytes =
      std::min(step.bytes, static_cast<uint64_t>(bytes_per_us * kStepUs));
  // Earlier slow writes give no credit, and the debt is bounded.
  const double due_us = static_cast<double>(free_at_us_) +
                        static_cast<double>(bytes) / bytes_per_us;
  free_at_us_ = static_cast<uint64_t>(
      std::clamp(due_us, static_cast<double>(now_us),
                 static_cast<double>(now_us + kMaxPauseUs)));
  const uint64_t wait_us = free_at_us_ - now_us;
  if (wait_us >= kMinPauseUs) step.pause_us = wait_us;
  return step;
}

}  // namespace varve
