// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A file system that becomes full, for tests of a full device.

#include <sys/mount.h>

#include <string>

namespace varve::test {

// Why a test is skipped without such a file system. In .ci/run, root mounts it
// and nothing is skipped.
inline constexpr char kMayNotMount[] =
    "this process may not mount a file system, as root may";

// Mounts a file system in memory on a directory until the destructor.
// Thread-safety: immutable after construction.
class SmallFileSystem {
 public:
  // `size` has the form of tmpfs's option, such as "3m".
  SmallFileSystem(const std::string& directory, const std::string& size)
      : directory_(directory),
        is_mounted_(mount("none", directory.c_str(), "tmpfs", 0,
                          ("size=" + size).c_str()) == 0) {}
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  // Files that are still open are no obstacle.
  ~SmallFileSystem() {
    if (is_mounted_) umount2(directory_.c_str(), MNT_DETACH);
  }

  bool is_mounted() const { return is_mounted_; }

 private:
  const std::string directory_;
  const bool is_mounted_;
};

}  // namespace varve::test
