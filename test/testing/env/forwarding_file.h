// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A file to write that hands everything on, for tests that change one thing.

#include <memory>
#include <utility>

#include "varve/env.h"

namespace varve::test {

class ForwardingFile : public WritableFile {
 public:
  explicit ForwardingFile(std::unique_ptr<WritableFile> target)
      : target_(std::move(target)) {}
  Status Append(const Slice& data) override { return target_->Append(data); }
  Status Flush() override { return target_->Flush(); }
  Status Sync() override { return target_->Sync(); }
  Status Close() override { return target_->Close(); }
  uint64_t Size() const override { return target_->Size(); }
  std::string WritePath() const override { return target_->WritePath(); }

 private:
  const std::unique_ptr<WritableFile> target_;
};

}  // namespace varve::test
