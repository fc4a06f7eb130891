// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An object of the whole process, created at its first use and never destroyed.
// It replaces a static variable of a function, which a compiler guards by a
// lock: a child created by fork() while another thread creates the variable
// waits for that thread, which does not exist in the child. Here threads that
// are first at the same time each create an object, and all but one destroy
// theirs again.

#include <atomic>
#include <memory>

namespace varve {

// Declare it `static constinit`. Thread-safety: thread-safe.
template <typename T>
class ProcessWide {
 public:
  constexpr ProcessWide() = default;
  ProcessWide(const ProcessWide&) = delete;
  ProcessWide& operator=(const ProcessWide&) = delete;

  T& Get() {
    return Get([] { return std::unique_ptr<T>(new T); });
  }
  // `make` returns a std::unique_ptr<T>. It may be called by several threads at
  // once, and must hold nothing that another call waits for.
  template <typename Make>
  T& Get(Make make) {
    // acquire: pairs with the release in Create.
    T* object = object_.load(std::memory_order_acquire);
    return object != nullptr ? *object : Create(make);
  }

 private:
  template <typename Make>
  [[gnu::noinline, gnu::cold]] T& Create(Make make) {
    auto made = make();
    T* first = nullptr;
    // release: pairs with the acquire in Get; acquire: another thread's object.
    if (object_.compare_exchange_strong(first, made.get(),
                                        std::memory_order_acq_rel)) {
      return *made.release();
    }
    return *first;
  }

  std::atomic<T*> object_{nullptr};
};

}  // namespace varve
