// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/flush_pace.h"

#include <algorithm>

namespace varve {

namespace {

// Before this part of the entries is written, the last flush tells more; if
// there was none, even less will do.
constexpr uint64_t kFirstPart = 64;
constexpr uint64_t kLeastPart = 512;

// The sync and the MANIFEST at the end, as a part of the whole.
constexpr double kLastPart = 1.0 / 16;

// Not worth a pause.
constexpr uint64_t kShortUs = 2000;

// Between two pauses, if the buffer lasts that long.
constexpr double kStepUs = 500;

// And at most this part of the room that is left.
constexpr uint64_t kStepPart = 64;

}  // namespace

void FlushPace::Begin(uint64_t entries, uint64_t now_us) {
  // relaxed: see Advance.
  done_.store(0, std::memory_order_relaxed);
  entries_ = entries;
  begin_us_ = now_us;
  free_at_us_ = now_us;
}

void FlushPace::End(uint64_t now_us) {
  if (entries_ > 0 && now_us > begin_us_) {
    micros_per_entry_ =
        static_cast<double>(now_us - begin_us_) / static_cast<double>(entries_);
  }
  entries_ = 0;
}

uint64_t FlushPace::RemainingMicros(uint64_t now_us) const {
  if (entries_ == 0 || now_us < begin_us_) return 0;
  const auto elapsed_us = static_cast<double>(now_us - begin_us_);
  const auto entries = static_cast<double>(entries_);
  // relaxed: see Advance.
  const uint64_t done = done_.load(std::memory_order_relaxed);
  const uint64_t part = micros_per_entry_ > 0 ? kFirstPart : kLeastPart;
  const double all_us =
      done <= entries_ / part
          ? entries * micros_per_entry_
          : elapsed_us * (1 + kLastPart) * entries / static_cast<double>(done);
  if (all_us <= 0) return 0;
  // If it takes longer than thought, then for a while yet.
  return static_cast<uint64_t>(
      std::max(all_us - elapsed_us, elapsed_us * kLastPart));
}

FlushPace::Step FlushPace::Charge(uint64_t bytes, uint64_t room_bytes,
                                  uint64_t buffer_bytes, uint64_t now_us) {
  Step step;
  step.bytes = room_bytes / kStepPart;
  const uint64_t remaining_us = RemainingMicros(now_us);
  if (remaining_us < kShortUs || room_bytes >= buffer_bytes) {
    free_at_us_ = now_us;
    return step;
  }
  // As long as there is much room, more than what would do: the flush may be
  // faster than it seems, and time that is lost now does not come back.
  const double room = std::max(static_cast<double>(room_bytes), 1.0);
  const double bytes_per_us = room / static_cast<double>(remaining_us) *
                              (1 + room / static_cast<double>(buffer_bytes));
  step.bytes =
      std::min(step.bytes, static_cast<uint64_t>(bytes_per_us * kStepUs));
  // No credit for what was written slowly before; the debt is bounded too.
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
