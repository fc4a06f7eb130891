// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_exit.h"

#include "util/threads/stay_loaded.h"

// The C++ runtime's own names: how compilers register the destructor of a
// thread-local object, and what says which shared object it is of.
extern "C" {
int __cxa_thread_atexit(void (*destroy)(void*), void* object,
                        void* shared_object) noexcept;
[[gnu::visibility("hidden")]] extern void* __dso_handle;
}

namespace varve {

void ThreadExit::CallWith(void* argument) const {
  StayLoaded();
  if (has_key_ && pthread_setspecific(key_, argument) == 0) return;
  (void)__cxa_thread_atexit(function_, argument, &__dso_handle);
}

}  // namespace varve
