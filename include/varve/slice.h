// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A Slice is a pointer and a length. It refers to bytes that it does not own.
// The bytes may contain any value, zero included, and are not terminated.
//
// Lifetime: a Slice is valid only while its bytes are. Copying it copies the
// pointer, never the bytes. Thread-safety: thread-compatible; const methods may
// run concurrently.

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "varve/export.h"

namespace varve {

class VARVE_EXPORT Slice {
 public:
  // Creates an empty slice, or a slice of the `size` bytes at `data`.
  constexpr Slice() = default;
  constexpr Slice(const char* data, size_t size) : data_(data), size_(size) {}
  // Implicit on purpose, so that strings and literals pass as keys and values.
  Slice(const std::string& s) : data_(s.data()), size_(s.size()) {}  // NOLINT
  constexpr Slice(std::string_view s)                                // NOLINT
      : data_(s.data()), size_(s.size()) {}
  // REQUIRES: `s` is zero-terminated.
  Slice(const char* s) : data_(s), size_(strlen(s)) {}  // NOLINT

  // Returns the bytes. end() is one past the last.
  constexpr const char* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const char* begin() const { return data_; }
  constexpr const char* end() const { return data_ + size_; }

  // REQUIRES: index < size().
  constexpr char operator[](size_t index) const { return data_[index]; }

  // Drops the first `count` bytes. REQUIRES: count <= size().
  constexpr void remove_prefix(size_t count) {
    data_ += count;
    size_ -= count;
  }
  // Drops the last `count` bytes. REQUIRES: count <= size().
  constexpr void remove_suffix(size_t count) { size_ -= count; }
  constexpr void clear() {
    data_ = "";
    size_ = 0;
  }

  // Returns a copy of the bytes. With hex = true, returns two upper-case hex
  // digits per byte.
  std::string ToString(bool hex = false) const;
  constexpr std::string_view ToStringView() const {
    return std::string_view(data_, size_);
  }

  // Compares bytewise (unsigned); a prefix sorts first. Returns < 0, 0 or > 0.
  int compare(const Slice& other) const {
    const size_t common = size_ < other.size_ ? size_ : other.size_;
    int r = common == 0 ? 0 : memcmp(data_, other.data_, common);
    if (r == 0) r = size_ < other.size_ ? -1 : (size_ > other.size_ ? 1 : 0);
    return r;
  }
  bool starts_with(const Slice& prefix) const {
    return size_ >= prefix.size_ &&
           (prefix.size_ == 0 ||
            memcmp(data_, prefix.data_, prefix.size_) == 0);
  }

 private:
  const char* data_ = "";
  size_t size_ = 0;
};

// Returns true if the bytes are equal.
inline bool operator==(const Slice& a, const Slice& b) {
  return a.size() == b.size() &&
         (a.size() == 0 || memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace varve
