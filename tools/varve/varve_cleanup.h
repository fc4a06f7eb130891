// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Removes temporary files if a signal ends the program.
//
// SIGINT, SIGTERM and SIGHUP are blocked in all threads but one, which waits
// for them. That thread runs the cleanups, which may therefore call anything,
// and then lets the signal end the program as it would have. A database that is
// open at that moment is left as by a crash, which loses no write that was
// reported.

#include <functional>

#include "util/base/mutex.h"

namespace varve {

// Starts the thread that waits. Signals that the program was started to ignore
// stay ignored. REQUIRES: called once, before the program has other threads.
void StartSignalCleanup();

// A cleanup that runs if such a signal arrives before the destructor.
// Thread-safety: thread-safe.
class SignalCleanup {
 public:
  explicit SignalCleanup(std::function<void()> cleanup);
  SignalCleanup(const SignalCleanup&) = delete;
  SignalCleanup& operator=(const SignalCleanup&) = delete;
  ~SignalCleanup();

  // Cleanups run with this held. Hold it to change data that a cleanup uses,
  // and to create a file and record its name in one step.
  static Mutex* mutex();

 private:
  std::function<void()> cleanup_;
};

}  // namespace varve
