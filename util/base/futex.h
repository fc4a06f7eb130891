// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// To wait for another thread to change a word, first awake, then in the
// kernel. Thread-safety: thread-safe.

#include <atomic>
#include <cstdint>

namespace varve {

// Waits until the word is neither `from` nor `asleep`, and returns what it is.
// The caller spins for some microseconds, or not if it knows that it has to
// wait for long, then marks the word as `asleep`, if
// it still is `from`, and sleeps. Whoever changes the word calls FutexWake if
// it was `asleep`. What was written before the change is seen after the return,
// if the change was a release.
uint32_t AwaitChange(std::atomic<uint32_t>* word, uint32_t from,
                     uint32_t asleep, bool for_long = false);

// Wakes the thread that sleeps on the word, if any. The word is not accessed
// and may be gone; a thread that sleeps on another word in its place wakes
// for nothing, which AwaitChange, mutexes and condition variables all allow.
void FutexWake(std::atomic<uint32_t>* word);

// Waits until the word is 0; false if it is not by then, on the clock of
// FutexClockNanos. Whoever makes it 0 calls FutexWake.
bool AwaitZeroUntil(std::atomic<uint32_t>* word, uint64_t deadline_ns);

// Never set back.
uint64_t FutexClockNanos();

}  // namespace varve
