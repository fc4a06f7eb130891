// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Flow control: how far writers have to hold back for flushes and compactions.

#include <cstdint>

#include "varve/options.h"
#include "varve/statistics.h"

namespace varve {

enum class WritePressure : uint8_t { kNone, kSlow, kStop };

enum class StallCause : uint8_t { kNone, kLevel0, kPendingBytes, kMemTables };

struct WriteStallState {
  WritePressure pressure = WritePressure::kNone;
  StallCause cause = StallCause::kNone;
  // Bytes a second that writers may write together; 0 unless kSlow.
  uint64_t rate = 0;
};

// What waits for flush and compaction.
struct WriteDebt {
  int level0_files = 0;
  uint64_t pending_bytes = 0;
  int immutable_memtables = 0;
  // There is none to write to before one of them is flushed.
  bool no_memtable = false;
};

// The rate that slowed-down writers begin with, and what it falls to as the
// debt rises to where writers are stopped: in equal ratios for equal steps.
constexpr uint64_t kMaxDelayedWriteRate = 16 << 20;
constexpr uint64_t kMinDelayedWriteRate = 256 << 10;

WriteStallState ComputeWriteStall(const Options& options,
                                  const WriteDebt& debt);

// Such as "level-0 files".
const char* StallCauseName(StallCause cause);
// What counts the writes that were slowed down, or stopped, for that.
Ticker StallTicker(StallCause cause, WritePressure pressure);

// Spreads slowed-down writes over time.
// Thread-safety: guarded by the DB mutex.
class WriteDelay {
 public:
  // No single write waits longer.
  static constexpr uint64_t kMaxSleepUs = 1000000;

  // Microseconds that a writer of `bytes` should sleep, given the rate and the
  // time now; small debts are collected first, so it is mostly 0.
  uint64_t Charge(uint64_t bytes, uint64_t rate, uint64_t now_us);

 private:
  uint64_t free_at_us_ = 0;
};

}  // namespace varve
