// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory that a thread keeps from call to call, such as a buffer that grows.
//
// A plain thread_local object with a destructor is already destroyed while
// destructors of other thread-local objects may still read the database. Such a
// late use gets an object of its own.
// Thread-safety: each thread has its own.

namespace varve {

// Lends the calling thread's T of that tag for a scope. A nested scope of the
// same tag gets an object of its own. Scopes nest if a comparator reads in the
// middle of a read.
template <typename T, typename Tag>
class ThreadScratch {
 public:
  ThreadScratch() : object_(kept_) {
    kept_ = nullptr;
    if (object_ == nullptr) [[unlikely]]
      Make();
  }
  ~ThreadScratch() {
    if (kept_ == nullptr && !thread_ends_) [[likely]]
      kept_ = object_;
    else
      delete object_;
  }
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  struct Owner {
    ~Owner() {
      delete kept_;
      kept_ = nullptr;
      thread_ends_ = true;
    }
  };

  [[gnu::noinline]] void Make() {
    object_ = new T;
    if (thread_ends_) return;
    static thread_local Owner owner;
    static_cast<void>(owner);
  }

  inline static constinit thread_local T* kept_ = nullptr;
  inline static constinit thread_local bool thread_ends_ = false;

  T* object_;
};

}  // namespace varve
