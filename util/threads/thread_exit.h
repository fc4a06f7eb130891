// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Calls a function at the end of threads. A thread-specific key and not a
// thread-local object: its destructor runs after those of all thread-local
// objects, which may still use the library, and again if the function was
// asked for while keys were being destroyed. Where the system has no key left
// (a process has 1,024), the function runs among the destructors of
// thread-local objects, as often as it was asked for.

#include <pthread.h>

namespace varve {

// One kind of call. Lives for ever, as its key does.
// Thread-safety: thread-safe.
class ThreadExit {
 public:
  explicit ThreadExit(void (*function)(void*))
      : function_(function),
        has_key_(pthread_key_create(&key_, function) == 0) {}
  ThreadExit(const ThreadExit&) = delete;
  ThreadExit& operator=(const ThreadExit&) = delete;

  // Has function(argument) called when the calling thread ends. REQUIRES: not
  // asked for already, unless the function has run since; not null.
  void CallWith(void* argument) const;

 private:
  // Immutable after construction.
  void (*const function_)(void*);
  pthread_key_t key_ = 0;
  const bool has_key_;
};

}  // namespace varve
