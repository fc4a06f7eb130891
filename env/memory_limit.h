// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>

#include "varve/cache.h"

namespace varve {

// The places that MemoryLimit reads, so that a test can replace them.
struct MemoryLimitSources {
  // Before /proc/self/cgroup, /proc/self/mountinfo and the mount points.
  std::string root;
  // Also bounds the result. UINT64_MAX: no bound.
  uint64_t other_limit = UINT64_MAX;
};

// Reads the limits of the process's control groups. A text that cannot be read
// or understood is no limit. Thread-safety: thread-safe.
uint64_t ReadMemoryLimit(const MemoryLimitSources& sources);

}  // namespace varve
