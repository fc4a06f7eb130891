// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A file to read whose bytes are in a string. It counts reads, can fail, and
// can end before its size.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "varve/env.h"

namespace varve::testing {

// Lives outside the file, which its reader owns.
struct ReadLog {
  std::atomic<int> reads = 0;
  std::atomic<uint64_t> bytes = 0;
  // Reads that touch bytes from here on fail.
  std::atomic<uint64_t> fail_from = UINT64_MAX;
};

class StringRandomAccessFile : public RandomAccessFile {
 public:
  explicit StringRandomAccessFile(std::string contents, ReadLog* log = nullptr)
      : contents_(std::move(contents)), log_(log) {}

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    const uint64_t begin = std::min<uint64_t>(offset, contents_.size());
    const size_t size = std::min<size_t>(count, contents_.size() - begin);
    if (log_ != nullptr) {
      if (offset + count > log_->fail_from.load()) {
        return Status::IOError("string file", "told to fail");
      }
      ++log_->reads;
      log_->bytes += size;
    }
    if (size > 0) memcpy(scratch, contents_.data() + begin, size);
    *result = Slice(scratch, size);
    return Status();
  }

 private:
  const std::string contents_;
  ReadLog* const log_;
};

}  // namespace varve::testing
