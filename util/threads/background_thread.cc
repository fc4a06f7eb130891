// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/background_thread.h"

#include <csignal>
#include <initializer_list>

#include "util/threads/stay_loaded.h"

namespace varve {

int StartBackgroundThread(pthread_t* thread, void* (*run)(void*),
                          void* argument) {
  StayLoaded();
  sigset_t blocked;
  sigfillset(&blocked);
  // If a fault raised one of these while it is blocked, the kernel would end
  // the process without calling its handler.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    sigdelset(&blocked, fault);
  }
  sigset_t before;
  // The new thread inherits the mask. Blocking it in the thread itself would
  // leave a moment in which a handler could run.
  const int mask_error = pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const int error = pthread_create(thread, nullptr, run, argument);
  if (mask_error == 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace varve
