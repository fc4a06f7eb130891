// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/direct_io.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

namespace varve {

namespace {

// Enough for every common device. It is assumed if the kernel (before 6.1) or
// the file system does not report the alignment.
constexpr size_t kAssumedAlignment = 4096;
constexpr size_t kMinAlignment = 512;
constexpr size_t kMaxRememberedDirectories = 1024;

size_t Ask(int descriptor) {
#ifdef STATX_DIOALIGN
  struct statx info = {};
  // A direct system call: the C library's header has an older structure.
  if (syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN,
              &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    if (info.stx_dio_offset_align == 0) return 0;
    const size_t wanted =
        std::max<size_t>(info.stx_dio_offset_align, info.stx_dio_mem_align);
    return std::max(kMinAlignment, std::bit_ceil(wanted));
  }
#endif
  return kAssumedAlignment;
}

}  // namespace

size_t DirectIoAlignment::Get(const std::string& path, int descriptor) {
  const size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "" : path.substr(0, slash + 1);
  {
    MutexLock lock(&mu_);
    const auto found = by_directory_.find(directory);
    if (found != by_directory_.end()) return found->second;
  }
  const size_t alignment = Ask(descriptor);
  MutexLock lock(&mu_);
  // Bounds the memory of a program that opens databases without end.
  if (by_directory_.size() >= kMaxRememberedDirectories) by_directory_.clear();
  by_directory_[directory] = alignment;
  return alignment;
}

}  // namespace varve
