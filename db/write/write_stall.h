// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Flow control: computes how far writers are slowed down or stopped so that
// flushes and compactions can keep up.

#include <cstdint>

#include "varve/options.h"
#include "varve/statistics.h"

namespace varve {

enum class WritePressure : uint8_t { kNone, kSlow, kStop };

enum class StallCause : uint8_t {
  kNone,
  kLevel0,
  kPendingBytes,
  kMemTables,
  kLogs,  // They have reached their bound. Counted as kMemTables.
};

struct WriteStallState {
  WritePressure pressure = WritePressure::kNone;
  StallCause cause = StallCause::kNone;
  // Bytes per second that all writers together may write; 0 unless kSlow.
  uint64_t rate = 0;
};

// The work that waits for flushes and compactions.
struct WriteDebt {
  int level0_files = 0;
  uint64_t pending_bytes = 0;
  int immutable_memtables = 0;
  // Whether no memtable can be written to until one is flushed.
  bool no_memtable = false;
};

// The measured rates at which flushes and compactions drain their debts, in
// bytes of user data per second.
struct DrainRates {
  double flushes = 0;
  double compactions = 0;
};

// Slowed-down writers begin at the drain rate of the debt that is the cause.
// The rate decreases exponentially, by this factor until writers are stopped.
// As long as there is no drain rate, it is kUnknownRate.
constexpr double kSlowestPart = 1.0 / 64;
constexpr uint64_t kUnknownRate = uint64_t{1} << 60;

// Returns the pressure, its cause and the rate for the debt.
WriteStallState ComputeWriteStall(const Options& options, const WriteDebt& debt,
                                  const DrainRates& rates);

// Returns a name for messages, such as "level-0 files".
const char* StallCauseName(StallCause cause);
// Returns the ticker of the writes that were slowed down or stopped for
// `cause`.
Ticker StallTicker(StallCause cause, WritePressure pressure);

// Spreads slowed-down writes over time.
// Thread-safety: guarded by the DB mutex.
class WriteDelay {
 public:
  // The longest wait of one write.
  static constexpr uint64_t kMaxSleepUs = 1000000;

  // Returns how many microseconds a writer of `bytes` should sleep, at `rate`
  // bytes per second. Short sleeps are accumulated, so it is usually 0. A
  // writer that would have to sleep and may not does not write, so it is not
  // charged.
  uint64_t Charge(uint64_t bytes, uint64_t rate, uint64_t now_us,
                  bool may_sleep = true);

 private:
  uint64_t free_at_us_ = 0;
};

}  // namespace varve
