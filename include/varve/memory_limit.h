// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "varve/export.h"

namespace varve {

// Returns the memory in bytes that this process may use: the least of the
// machine's memory, the limits of its control groups (cgroup v1 and v2, with
// all groups around them), and its RLIMIT_AS and RLIMIT_DATA. Sizes of caches
// and buffers can be a part of it. It is read at the first call, and later
// calls return the same value. Never 0. Thread-safety: thread-safe.
VARVE_EXPORT uint64_t MemoryLimit();

}  // namespace varve
