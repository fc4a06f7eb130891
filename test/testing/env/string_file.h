// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A file that keeps what is written to it in a string, and fails on demand.

#include <cstdint>
#include <string>

#include "varve/env.h"

namespace varve::testing {

class StringFile : public WritableFile {
 public:
  Status Append(const Slice& data) override {
    if (contents_.size() + data.size() > fail_above_) {
      return Status::IOError("string file", "full");
    }
    contents_.append(data.data(), data.size());
    ++append_count_;
    return Status();
  }
  Status Flush() override { return Status(); }
  Status Sync() override { return Status(); }
  Status Close() override { return Status(); }
  uint64_t Size() const override { return contents_.size(); }

  // Appends that would make the file larger than that fail.
  void FailAbove(uint64_t size) { fail_above_ = size; }

  const std::string& contents() const { return contents_; }
  int append_count() const { return append_count_; }

 private:
  std::string contents_;
  uint64_t fail_above_ = UINT64_MAX;
  int append_count_ = 0;
};

}  // namespace varve::testing
