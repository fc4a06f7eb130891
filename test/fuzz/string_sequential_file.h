// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstring>
#include <string>

#include "varve/env.h"

namespace varve::fuzz {

// Reads a string from front to back.
class StringSequentialFile : public SequentialFile {
 public:
  explicit StringSequentialFile(const Slice& contents)
      : contents_(contents.ToString()) {}
  Status Read(size_t count, Slice* result, char* scratch) override {
    const size_t left = contents_.size() - at_;
    const size_t taken = count < left ? count : left;
    if (taken > 0) memcpy(scratch, contents_.data() + at_, taken);
    at_ += taken;
    *result = Slice(scratch, taken);
    return Status::OK();
  }
  Status Skip(uint64_t count) override {
    const size_t left = contents_.size() - at_;
    at_ += count < left ? static_cast<size_t>(count) : left;
    return Status::OK();
  }

 private:
  const std::string contents_;
  size_t at_ = 0;
};

}  // namespace varve::fuzz
