// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "util/base/pause.h"

namespace varve {

namespace {

// Most waits take some microseconds, and sleeping costs both sides more than
// that. Yielding the processor without sleeping gives it to any other thread,
// for a long time.
constexpr int kSpins = 200;

timespec ToTimespec(uint64_t nanos) {
  timespec time;
  time.tv_sec = static_cast<time_t>(nanos / 1000000000);
  time.tv_nsec = static_cast<long>(nanos % 1000000000);
  return time;
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

uint32_t AwaitChange(std::atomic<uint32_t>* word, uint32_t from,
                     uint32_t asleep, bool for_long, uint64_t deadline_ns) {
  uint32_t now = from;
  for (int i = for_long ? kSpins : 0; i < kSpins; ++i) {
    // acquire: pairs with the release of the thread that changes the word.
    now = word->load(std::memory_order_acquire);
    if (now != from) return now;
    PauseProcessor();
  }
  // acquire, as above, if the word has changed. It is not needed otherwise.
  if (!word->compare_exchange_strong(now, asleep, std::memory_order_acquire,
                                     std::memory_order_acquire)) {
    return now;
  }
  // An absolute time, as in AwaitZeroUntil.
  const timespec until = ToTimespec(deadline_ns);
  const timespec* const limit = deadline_ns == UINT64_MAX ? nullptr : &until;
  bool in_time = true;
  do {
    in_time = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, asleep, limit,
                      nullptr, FUTEX_BITSET_MATCH_ANY) == 0 ||
              errno != ETIMEDOUT;
    // acquire, as above.
    now = word->load(std::memory_order_acquire);
  } while (now == asleep && in_time);
  return now;
}

uint64_t FutexClockNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 +
         static_cast<uint64_t>(now.tv_nsec);
}

bool AwaitZeroUntil(std::atomic<uint32_t>* word, uint64_t deadline_ns) {
  // An absolute time on the clock of FUTEX_WAIT_BITSET, so that a second wait
  // after a change of the word does not extend the limit.
  const timespec until = ToTimespec(deadline_ns);
  for (;;) {
    // relaxed: see the declaration. Nothing is read that another thread wrote
    // before.
    const uint32_t now = word->load(std::memory_order_relaxed);
    if (now == 0) return true;
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, now, &until,
                nullptr, FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno == ETIMEDOUT) {
      return false;
    }
  }
}

void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace varve
