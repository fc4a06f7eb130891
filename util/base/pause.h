// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

namespace varve {

// For a loop that waits for another thread's store: lets the processor's other
// hardware thread go first. It takes up to some fifty nanoseconds.
inline void PauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace varve
