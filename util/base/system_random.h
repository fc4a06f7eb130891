// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

namespace varve {

// Returns 64 random bits of the operating system, for names that must differ
// between processes and machines. Not for secrets: without the system call,
// they come from the clock. Thread-safety: thread-safe.
uint64_t SystemRandom();

}  // namespace varve
