// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Shared code of the fuzz targets in this folder. A target is one function that
// takes any bytes. With libFuzzer (preset fuzz), the fuzzer searches for bytes
// that break it. In all other builds, replay_main.cc passes it the seeds in the
// source tree.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "varve/slice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace varve::fuzz {

// `data` may be null if `size` is 0: a slice points to something in any case.
inline Slice Bytes(const uint8_t* data, size_t size) {
  return size == 0 ? Slice() : Slice(reinterpret_cast<const char*>(data), size);
}

// Aborts the process if `holds` is false. The fuzzer reports that as a finding.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

// Takes numbers from the front of the input, as random choices. Returns 0 when
// the input is used up.
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
  // Returns the next `size` bytes, or the rest if there are fewer.
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
