// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A file system that fails, or whose device fails, for tests of errors that a
// wrapper of the environment cannot inject.

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "test/testing/env/small_file_system.h"

namespace varve::test {

// Why a test is skipped without such a file system. In .ci/run, root makes it
// and nothing is skipped.
inline constexpr char kMayNotUseDevices[] =
    "this process may not use loop devices, as root may, or mkfs.ext4 is not "
    "installed (package e2fsprogs)";

// Mounts an ext4 file system on a directory until the destructor. Its device
// is a file. Thread-safety: owned by one thread.
class LoopFileSystem {
 public:
  // Creates the directory. Creates the file `image` with an empty file system,
  // unless there is one already.
  LoopFileSystem(const std::string& image, uint64_t bytes,
                 const std::string& directory)
      : directory_(directory) {
    std::filesystem::create_directory(directory);
    const bool is_new = !std::filesystem::exists(image);
    const int file = open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::string device =
        file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0
            ? Attach(file)
            : "";
    if (file >= 0) close(file);
    if (device.empty()) return;
    const std::string make =
        "mkfs.ext4 -q -F -E nodiscard " + device + " >/dev/null 2>&1";
    is_mounted_ = (!is_new || system(make.c_str()) == 0) &&
                  mount(device.c_str(), directory_.c_str(), "ext4", 0,
                        "errors=remount-ro") == 0;
  }
  LoopFileSystem(const LoopFileSystem&) = delete;
  LoopFileSystem& operator=(const LoopFileSystem&) = delete;
  ~LoopFileSystem() {
    if (is_mounted_) umount2(directory_.c_str(), MNT_DETACH);
    if (loop_ < 0) return;
    ioctl(loop_, LOOP_CLR_FD, 0);
    close(loop_);
  }

  bool is_mounted() const { return is_mounted_; }

  // Makes the file system refuse everything from now on, as after an error of
  // its own. Returns false if that failed.
  bool ShutDown() {
    const int directory = open(directory_.c_str(), O_RDONLY | O_CLOEXEC);
    if (directory < 0) return false;
    uint32_t flags = 2;  // Without writing what it still has to write.
    constexpr unsigned long kShutDown = _IOR('X', 125, uint32_t);
    const bool done = ioctl(directory, kShutDown, &flags) == 0;
    close(directory);
    return done;
  }

 private:
  // Returns the name of a device whose blocks are the file's, or "".
  std::string Attach(int file) {
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) return "";
    std::string device;
    // Another process can take the number first.
    for (int attempt = 0; attempt < 20 && loop_ < 0; ++attempt) {
      const int number = ioctl(control, LOOP_CTL_GET_FREE);
      if (number < 0) break;
      device = "/dev/loop" + std::to_string(number);
      loop_ = open(device.c_str(), O_RDWR | O_CLOEXEC);
      if (loop_ < 0) break;
      if (ioctl(loop_, LOOP_SET_FD, file) == 0) break;
      close(loop_);
      loop_ = -1;
    }
    close(control);
    return loop_ >= 0 ? device : "";
  }

  const std::string directory_;
  int loop_ = -1;
  bool is_mounted_ = false;
};

// A file system on a device that can be made to fail: the device's file is in
// another one. Thread-safety: owned by one thread.
class FailingFileSystem {
 public:
  // `directory` exists and is empty. The file system has about `mebibytes`.
  FailingFileSystem(const std::string& directory, uint64_t mebibytes)
      : memory_(MakeDirectory(directory + "/memory"),
                std::to_string(mebibytes + 16) + "m"),
        lower_(directory + "/memory/image", (mebibytes + 12) << 20,
               directory + "/lower"),
        upper_(directory + "/lower/image", mebibytes << 20,
               directory + "/upper"),
        path_(directory + "/upper") {}

  bool is_mounted() const {
    return memory_.is_mounted() && lower_.is_mounted() && upper_.is_mounted();
  }
  // The directory that the file system is mounted on.
  const std::string& path() const { return path_; }

  // Makes all reads and writes of the device fail with EIO.
  bool FailDevice() { return lower_.ShutDown(); }
  // Makes the file system fail without any help of its device.
  bool ShutDown() { return upper_.ShutDown(); }

 private:
  static std::string MakeDirectory(const std::string& directory) {
    std::filesystem::create_directory(directory);
    return directory;
  }

  const SmallFileSystem memory_;
  LoopFileSystem lower_;
  LoopFileSystem upper_;
  const std::string path_;
};

}  // namespace varve::test
