// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "db/version.h"
#include "varve/options.h"

namespace varve {

// How far writers have to hold back for flushes and compactions.
enum class WritePressure : uint8_t { kNone, kSlow, kStop };

struct WriteStallState {
  WritePressure pressure = WritePressure::kNone;
  const char* reason = "";
};

// What the version and the memtables waiting for flush demand.
WriteStallState ComputeWriteStall(const Options& options,
                                  const Version& version);

// Bytes a second that slowed-down writers may write together.
constexpr uint64_t kDelayedWriteRate = 16 << 20;

// Spreads slowed-down writes over time.
// Thread-safety: guarded by the DB mutex.
class WriteDelay {
 public:
  // Microseconds that a writer of `bytes` should sleep, given the time now;
  // small debts are collected first, so it is mostly 0.
  uint64_t Charge(uint64_t bytes, uint64_t now_us);

 private:
  uint64_t free_at_us_ = 0;
};

}  // namespace varve
