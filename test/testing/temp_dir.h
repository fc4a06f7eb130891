// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A directory of its own for a test.

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace varve::test {

// Makes a directory below $TEST_TMPDIR, or /tmp, and removes it with all that
// is in it. Kept for a look if VARVE_KEEP_TEST_DIRS is set.
// Thread-safety: immutable after construction.
class TempDir {
 public:
  TempDir() {
    const char* base = getenv("TEST_TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/varve_XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      perror(path_.c_str());
      abort();
    }
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    if (getenv("VARVE_KEEP_TEST_DIRS") != nullptr) {
      fprintf(stderr, "kept: %s\n", path_.c_str());
      return;
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string Sub(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace varve::test
