// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Waits for another thread to change a word, first spinning, then in the
// kernel.
// Thread-safety: thread-safe.

#include <atomic>
#include <cstdint>

namespace varve {

// Waits until the word is neither `from` nor `asleep`, and returns its value.
// The caller spins for some microseconds, or not at all if `for_long`. Then it
// sets the word to `asleep`, if it still is `from`, and sleeps. A thread that
// changes the word calls FutexWake if it was `asleep`. Stores before a change
// by release are visible after the return. Returns `asleep` if the word is
// still that at the deadline, on the clock of FutexClockNanos.
uint32_t AwaitChange(std::atomic<uint32_t>* word, uint32_t from,
                     uint32_t asleep, bool for_long = false,
                     uint64_t deadline_ns = UINT64_MAX);

// Wakes the thread that sleeps on the word, if any. The word is not accessed,
// and its memory may already be freed. A thread that sleeps on another word at
// that address then wakes up spuriously, which AwaitChange, mutexes and
// condition variables all allow.
void FutexWake(std::atomic<uint32_t>* word);

// Waits until the word is 0. Returns false if it is not 0 by the deadline, on
// the clock of FutexClockNanos. The thread that sets it to 0 calls FutexWake.
bool AwaitZeroUntil(std::atomic<uint32_t>* word, uint64_t deadline_ns);

// Returns the time of a clock that is never set back.
uint64_t FutexClockNanos();

}  // namespace varve
