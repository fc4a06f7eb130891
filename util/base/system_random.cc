// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/base/system_random.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "util/base/random.h"

namespace varve {

// std::random_device reads the processor's generator, which takes a
// microsecond for 32 bits on some machines.
uint64_t SystemRandom() {
  uint64_t bits = 0;
  ssize_t size = 0;
  do {
    size = getrandom(&bits, sizeof(bits), 0);
  } while (size < 0 && errno == EINTR);
  if (size == sizeof(bits)) return bits;
  struct timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto seed = static_cast<uint64_t>(now.tv_sec) * 1000000000 +
                    static_cast<uint64_t>(now.tv_nsec);
  return Random(seed ^ static_cast<uint64_t>(getpid()) << 40).Next();
}

}  // namespace varve
