// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Few file descriptors for a test, and what of them the program takes.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "env/descriptor_supply.h"

namespace varve::test {

// Descriptors that the program opens for itself; closed by the destructor.
class OwnDescriptors {
 public:
  OwnDescriptors() = default;
  ~OwnDescriptors() { CloseAll(); }
  OwnDescriptors(const OwnDescriptors&) = delete;
  OwnDescriptors& operator=(const OwnDescriptors&) = delete;

  // Up to `most`, or as many as there are. Returns how many it got.
  size_t Take(size_t most = SIZE_MAX) {
    size_t count = 0;
    for (; count < most; ++count) {
      const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (descriptor < 0) break;
      own_.push_back(descriptor);
    }
    return count;
  }
  void CloseOne() {
    close(own_.back());
    own_.pop_back();
  }
  void CloseAll() {
    for (const int descriptor : own_) close(descriptor);
    own_.clear();
  }

 private:
  std::vector<int> own_;
};

// From the constructor to the destructor the process may have `count`
// descriptors more than there are below the lowest free number.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int count) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    lowest_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(lowest_);
    Set(count);
  }
  ~DescriptorLimit() {
    setrlimit(RLIMIT_NOFILE, &before_);
    RefreshDescriptorLimit();
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

  void Set(int count) {
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(lowest_ + count);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

 private:
  rlimit before_{};
  int lowest_ = -1;
};

}  // namespace varve::test
