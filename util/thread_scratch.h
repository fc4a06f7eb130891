// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory that a thread keeps from call to call, such as a buffer that grows.
//
// A plain thread_local object with a destructor is gone while destructors of
// other thread-local objects may still read the database. This one is then
// made again, and that copy is left behind for good: a few bytes for each such
// thread, in place of a use after free.
// Thread-safety: each thread has its own.

namespace varve {

// The calling thread's T of that tag. Do not keep the reference for longer
// than the call.
template <typename T, typename Tag>
T& ThreadScratch() {
  constinit static thread_local T* object = nullptr;
  struct Owner {
    ~Owner() {
      delete object;
      object = nullptr;
    }
  };
  if (object == nullptr) [[unlikely]] {
    object = new T;
    static thread_local Owner owner;
    static_cast<void>(owner);
  }
  return *object;
}

}  // namespace varve
