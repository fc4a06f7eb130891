// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the targets of this folder share. A target is one function that takes
// any bytes; with libFuzzer (preset fuzz) it is looked for bytes that break it,
// and in all other builds replay_main.cc feeds it the seeds of the tree.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "varve/slice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace varve::fuzz {

inline Slice Bytes(const uint8_t* data, size_t size) {
  return Slice(reinterpret_cast<const char*>(data), size);
}

// Ends the process if it does not hold, which is a finding.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

// Takes numbers off the front of the input, to draw choices from; 0 when there
// are no more.
class Choices {
 public:
  explicit Choices(const Slice& bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  uint32_t Below(uint32_t limit) { return limit == 0 ? 0 : Byte() % limit; }
  // So many bytes, or what is left.
  Slice Take(size_t size) {
    const Slice taken(rest_.data(), size < rest_.size() ? size : rest_.size());
    rest_.remove_prefix(taken.size());
    return taken;
  }
  Slice rest() const { return rest_; }

 private:
  Slice rest_;
};

}  // namespace varve::fuzz
