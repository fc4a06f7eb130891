// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

namespace varve::rocksdb_c {

// The state of a program's callbacks, which the object that has it destroys
// with itself.
class CallbackState {
 public:
  // `destructor` and `name` may be null.
  CallbackState(void* state, void (*destructor)(void*),
                const char* (*name)(void*))
      : state_(state), destructor_(destructor), name_(name) {}
  CallbackState(CallbackState&& other) noexcept
      : state_(other.state_),
        destructor_(other.destructor_),
        name_(other.name_) {
    other.destructor_ = nullptr;
  }
  CallbackState& operator=(CallbackState&&) = delete;
  ~CallbackState() {
    if (destructor_ != nullptr) destructor_(state_);
  }

  void* get() const { return state_; }
  // Returns the object's name; "" without a function for it.
  const char* Name() const {
    const char* const name = name_ == nullptr ? nullptr : name_(state_);
    return name == nullptr ? "" : name;
  }

 private:
  void* const state_;
  void (*destructor_)(void*);
  const char* (*const name_)(void*);
};

}  // namespace varve::rocksdb_c
