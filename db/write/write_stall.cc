// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/write_stall.h"

#include <algorithm>
#include <cmath>

#include "db/options/options_check.h"

namespace varve {

namespace {

// Sleeps shorter than this cost more than they regulate.
constexpr uint64_t kMinSleepUs = 1000;

// With fewer write buffers, one that waits for a flush is normal.
constexpr int kMemTablesToSlowDown = 4;

// Returns the position of `value` from `low` (0) to `high` (1). Negative below
// `low`.
double Progress(double value, double low, double high) {
  if (value < low) return -1;
  return high > low ? (value - low) / (high - low) : 1;
}

}  // namespace

WriteStallState ComputeWriteStall(const Options& options, const WriteDebt& debt,
                                  const DrainRates& rates) {
  if (debt.no_memtable) {
    return {WritePressure::kStop, StallCause::kMemTables, 0};
  }
  double worst = -1;
  StallCause cause = StallCause::kNone;
  const auto consider = [&](double progress, StallCause its_cause) {
    if (progress < 0 || progress <= worst) return;
    worst = progress;
    cause = its_cause;
  };
  if (!options.disable_auto_compactions) {
    const StallBounds bounds = WriterBounds(options);
    const uint64_t soft = bounds.pending_slowdown;
    const uint64_t hard = bounds.pending_stop;
    if (debt.level0_files >= bounds.level0_stop) {
      return {WritePressure::kStop, StallCause::kLevel0, 0};
    }
    if (hard != 0 && debt.pending_bytes >= hard) {
      return {WritePressure::kStop, StallCause::kPendingBytes, 0};
    }
    consider(
        Progress(debt.level0_files, bounds.level0_slowdown, bounds.level0_stop),
        StallCause::kLevel0);
    if (soft != 0) {
      const auto low = static_cast<double>(soft);
      // Without a stop, the lowest rate is at four times the limit.
      const double high = hard != 0 ? static_cast<double>(hard) : 4 * low;
      consider(Progress(static_cast<double>(debt.pending_bytes), low, high),
               StallCause::kPendingBytes);
    }
  }
  // Writers stop when no memtable has space. One memtable before that is the
  // middle of the range.
  if (options.max_write_buffer_number >= kMemTablesToSlowDown &&
      debt.immutable_memtables >= options.max_write_buffer_number - 1) {
    consider(0.5, StallCause::kMemTables);
  }
  if (cause == StallCause::kNone) return {};
  const double drain_rate =
      cause == StallCause::kMemTables ? rates.flushes : rates.compactions;
  if (drain_rate <= 0) return {WritePressure::kSlow, cause, kUnknownRate};
  const double rate = drain_rate * std::pow(kSlowestPart, std::min(worst, 1.0));
  return {WritePressure::kSlow, cause,
          static_cast<uint64_t>(std::clamp(rate, 1.0, 1e18))};
}

const char* StallCauseName(StallCause cause) {
  switch (cause) {
    case StallCause::kNone:
      return "none";
    case StallCause::kLevel0:
      return "level-0 files";
    case StallCause::kPendingBytes:
      return "pending compaction bytes";
    case StallCause::kLogs:
      return "logs that wait for flushes";
    case StallCause::kMemTables:
      return "memtables waiting for flush";
  }
  return "";
}

Ticker StallTicker(StallCause cause, WritePressure pressure) {
  const bool stop = pressure == WritePressure::kStop;
  switch (cause) {
    case StallCause::kLevel0:
      return stop ? Ticker::kStallLevel0Stops : Ticker::kStallLevel0Delays;
    case StallCause::kPendingBytes:
      return stop ? Ticker::kStallPendingStops : Ticker::kStallPendingDelays;
    default:
      return stop ? Ticker::kStallMemTableStops : Ticker::kStallMemTableDelays;
  }
}

uint64_t WriteDelay::Charge(uint64_t bytes, uint64_t rate, uint64_t now_us,
                            bool may_sleep) {
  // No debt can be that late, so the Env's clock was set back.
  if (free_at_us_ > now_us + kMaxSleepUs) free_at_us_ = now_us;
  free_at_us_ = std::max(free_at_us_, now_us);
  // In floating point, so that no batch size overflows.
  const double cost_us =
      static_cast<double>(bytes) * 1e6 / static_cast<double>(rate);
  const uint64_t wait_us =
      free_at_us_ - now_us +
      static_cast<uint64_t>(std::min(cost_us, double{kMaxSleepUs}));
  if (!may_sleep && wait_us >= kMinSleepUs) return wait_us;
  // A debt beyond that is forgiven, because later writers would pay it.
  free_at_us_ = now_us + std::min(wait_us, kMaxSleepUs);
  if (wait_us < kMinSleepUs) return 0;
  return std::min(wait_us, kMaxSleepUs);
}

}  // namespace varve
