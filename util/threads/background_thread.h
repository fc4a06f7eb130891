// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Starts the library's threads with signals blocked, so that no handler of the
// embedding program runs on them. A handler would interrupt work that holds
// locks, on a stack that the program does not know.
// Thread-safety: thread-safe.

#include <pthread.h>

namespace varve {

// pthread_create for a thread on which every signal is blocked but those that
// its own faults raise (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS), for
// which crash reporters have handlers. Returns 0 or the errno.
int StartBackgroundThread(pthread_t* thread, void* (*run)(void*),
                          void* argument);

}  // namespace varve
