// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_exit.h"

#include <pthread.h>

#include <cstdlib>

#include "util/base/process_wide.h"
#include "util/threads/stay_loaded.h"

// The C++ runtime's own names: the function that registers the destructor of a
// thread-local object, and the handle that identifies the shared object.
extern "C" {
int __cxa_thread_atexit(void (*destroy)(void*), void* object,
                        void* shared_object) noexcept;
[[gnu::visibility("hidden")]] extern void* __dso_handle;
}

namespace varve {

namespace {

struct PendingCalls {
  struct Call {
    void (*function)(void*);
    void* argument;
  };
  Call calls[kMaxThreadExitCalls];
  int count;
  bool running;
};

// It has no destructor, so it exists until the thread's memory is freed.
constinit thread_local PendingCalls pending_calls = {};

void RunPendingCalls(void* calls) {
  auto* const pending = static_cast<PendingCalls*>(calls);
  pending->running = true;
  while (pending->count > 0) {
    const PendingCalls::Call call = pending->calls[--pending->count];
    call.function(call.argument);
  }
  pending->running = false;
}

struct Key {
  Key() : created(pthread_key_create(&key, &RunPendingCalls) == 0) {}
  ~Key() {
    if (created) pthread_key_delete(key);
  }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  pthread_key_t key = 0;
  const bool created;
};

}  // namespace

void CallAtThreadExit(void (*function)(void*), void* argument) {
  StayLoaded();
  PendingCalls* const pending = &pending_calls;
  if (pending->count == kMaxThreadExitCalls) abort();  // See REQUIRES.
  pending->calls[pending->count++] = {function, argument};
  if (pending->count > 1 || pending->running) return;
  static constinit ProcessWide<const Key> process_key;
  const Key& key = process_key.Get();
  if (key.created && pthread_setspecific(key.key, pending) == 0) return;
  (void)__cxa_thread_atexit(&RunPendingCalls, pending, &__dso_handle);
}

}  // namespace varve
