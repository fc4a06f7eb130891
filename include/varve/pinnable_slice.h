// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>
#include <utility>

#include "varve/slice.h"

namespace varve {

// A value that either points into memory which it keeps from going away, such
// as a cached block, or into a string of its own.
// Thread-safety: owned by one thread at a time.
// Lifetime: reset or destroy it before the DB that filled it.
class PinnableSlice : public Slice {
 public:
  // Called once to let go of what is pinned.
  using Release = void (*)(void* argument);

  PinnableSlice() = default;
  PinnableSlice(const PinnableSlice&) = delete;
  PinnableSlice& operator=(const PinnableSlice&) = delete;
  PinnableSlice(PinnableSlice&& other) noexcept { *this = std::move(other); }
  PinnableSlice& operator=(PinnableSlice&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    const bool own = !other.IsPinned() && !other.empty();
    const auto offset = own ? other.data() - other.buffer_.data() : 0;
    release_ = std::exchange(other.release_, nullptr);
    argument_ = other.argument_;
    buffer_ = std::move(other.buffer_);
    static_cast<Slice&>(*this) =
        own ? Slice(buffer_.data() + offset, other.size()) : Slice(other);
    other.Reset();
    return *this;
  }
  ~PinnableSlice() {
    if (release_ != nullptr) release_(argument_);
  }

  // Points at `data`, which stays until release(argument) is called.
  void PinSlice(const Slice& data, Release release, void* argument) {
    Reset();
    release_ = release;
    argument_ = argument;
    static_cast<Slice&>(*this) = data;
  }
  // Copies the bytes, which may be its own.
  void PinSelf(const Slice& data) {
    buffer_.assign(data.data(), data.size());
    Reset();
    static_cast<Slice&>(*this) = Slice(buffer_);
  }
  // Lets go; empty afterwards.
  void Reset() {
    if (release_ != nullptr) std::exchange(release_, nullptr)(argument_);
    static_cast<Slice&>(*this) = Slice();
  }
  bool IsPinned() const { return release_ != nullptr; }

 private:
  Release release_ = nullptr;
  void* argument_ = nullptr;
  std::string buffer_;
};

}  // namespace varve
