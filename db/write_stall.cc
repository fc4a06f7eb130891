// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write_stall.h"

#include "db/compaction_picker.h"

namespace varve {

namespace {

// Sleeps shorter than this cost more than they regulate.
constexpr uint64_t kMinSleepUs = 1000;
// No single write waits longer.
constexpr uint64_t kMaxSleepUs = 1000000;

}  // namespace

WriteStallState ComputeWriteStall(const Options& options,
                                  const Version& version) {
  if (options.disable_auto_compactions) return {};
  const int level0 = version.NumFiles(0);
  const uint64_t pending = EstimatePendingCompactionBytes(options, version);
  const uint64_t hard = options.hard_pending_compaction_bytes_limit;
  const uint64_t soft = options.soft_pending_compaction_bytes_limit;
  if (level0 >= options.level0_stop_writes_trigger) {
    return {WritePressure::kStop, "level-0 files"};
  }
  if (hard != 0 && pending >= hard) {
    return {WritePressure::kStop, "pending compaction bytes"};
  }
  if (level0 >= options.level0_slowdown_writes_trigger) {
    return {WritePressure::kSlow, "level-0 files"};
  }
  if (soft != 0 && pending >= soft) {
    return {WritePressure::kSlow, "pending compaction bytes"};
  }
  return {};
}

uint64_t WriteDelay::Charge(uint64_t bytes, uint64_t now_us) {
  if (free_at_us_ < now_us) free_at_us_ = now_us;
  free_at_us_ += bytes * 1000000 / kDelayedWriteRate;
  const uint64_t wait_us = free_at_us_ - now_us;
  if (wait_us < kMinSleepUs) return 0;
  return wait_us < kMaxSleepUs ? wait_us : kMaxSleepUs;
}

}  // namespace varve
