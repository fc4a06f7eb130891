// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A PausingEnv whose monotonic clock moves on by a set time for each table that
// is written, so that flushes and compactions take as long as a test says.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "test/testing/env/pausing_env.h"

namespace varve::test {

// Thread-safety: thread-safe.
class SlowTablesEnv : public PausingEnv {
 public:
  uint64_t NowNanos() override { return target()->NowNanos() + moved_ns_; }
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    if (path.ends_with(".sst")) moved_ns_ += 1000 * table_us_;
    return PausingEnv::NewWritableFile(path, options, file);
  }

  // REQUIRES: no database is open.
  void SetTableTime(uint64_t table_us) { table_us_ = table_us; }

 private:
  uint64_t table_us_ = 0;
  std::atomic<uint64_t> moved_ns_{0};
};

}  // namespace varve::test
