// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The clock of a lock table, and how its threads sleep. Tests derive from it to
// move the clock, and to wait without a thread.

#include <atomic>
#include <cstdint>

#include "varve/env.h"

namespace varve {

// A time that never comes.
inline constexpr uint64_t kNever = UINT64_MAX;

class LockParking {
 public:
  // The values of a word that a thread sleeps on.
  enum Word : uint32_t {
    kAwake,    // The thread waits, and looks at the word before it sleeps.
    kAsleep,   // The thread may be in the kernel: call Wake.
    kLook,     // The thread must look again what to wait for.
    kSettled,  // The wait is over.
  };

  explicit LockParking(Env* env) : env_(env) {}
  virtual ~LockParking() = default;
  LockParking(const LockParking&) = delete;
  LockParking& operator=(const LockParking&) = delete;

  // Returns Env::NowNanos().
  virtual uint64_t NowNanos();
  // Returns Env::NowMicros() in seconds.
  virtual int64_t NowSeconds();
  // Returns when the word is neither kAwake nor kAsleep, or at `wake_at_ns`. It
  // may also return earlier. Spins before it sleeps, unless `for_long`.
  virtual void Sleep(std::atomic<uint32_t>* word, uint64_t wake_at_ns,
                     bool for_long);
  // Wakes the thread that sleeps on the word, whose memory may be gone.
  virtual void Wake(std::atomic<uint32_t>* word);

 private:
  Env* const env_;
};

}  // namespace varve
