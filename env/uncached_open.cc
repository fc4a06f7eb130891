// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/uncached_open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "env/descriptor_supply.h"

namespace varve {

namespace {

constexpr size_t kAssumedBlockBytes = 4096;

// Resolves symbolic links, one component at a time. Returns an empty path on an
// error.
std::string ResolvePath(const std::string& path, int depth = 0) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) return "";
  std::string resolved;
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      resolved.resize(std::min(resolved.rfind('/'), resolved.size()));
      continue;
    }
    const std::string next = resolved + "/" + part;
    struct stat info;
    if (lstat(next.c_str(), &info) != 0) return "";
    if (!S_ISLNK(info.st_mode)) {
      resolved = next;
      continue;
    }
    char target[PATH_MAX];
    const ssize_t size = readlink(next.c_str(), target, sizeof(target));
    if (size <= 0) return "";
    const std::string link(target, static_cast<size_t>(size));
    resolved =
        ResolvePath(link[0] == '/' ? link : resolved + "/" + link, depth + 1);
    if (resolved.empty()) return "";
  }
  return resolved;
}

// Returns the number in a file that holds only a number, or 0 if there is none.
size_t ReadNumber(const std::string& path) {
  const int descriptor =
      OpenDescriptor([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) return 0;
  char text[32] = {};
  const ssize_t size = read(descriptor, text, sizeof(text) - 1);
  close(descriptor);
  return size <= 0 ? 0 : static_cast<size_t>(strtoull(text, nullptr, 10));
}

size_t BlockSizeOf(dev_t device) {
  const std::string link = "/sys/dev/block/" + std::to_string(major(device)) +
                           ":" + std::to_string(minor(device));
  std::string directory = ResolvePath(link);
  // A partition uses the whole device's queue, one directory up.
  for (int up = 0; up < 2 && !directory.empty(); ++up) {
    const size_t bytes = ReadNumber(directory + "/queue/logical_block_size");
    if (std::has_single_bit(bytes)) return bytes;
    directory.resize(std::min(directory.rfind('/'), directory.size()));
  }
  return kAssumedBlockBytes;
}

}  // namespace

Status OpenUncached(const FilePlace& place, bool direct, int* descriptor,
                    size_t* alignment) {
  const int opened = OpenDescriptor([&] {
    return openat(place.directory, place.name,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (direct ? O_DIRECT : 0));
  });
  if (opened < 0) return Status::FromErrno("open " + place.path, errno);
  struct stat info;
  const int flags = fcntl(opened, F_GETFD);
  if (flags < 0 || fcntl(opened, F_SETFD, flags | FD_CLOEXEC) != 0 ||
      fstat(opened, &info) != 0) {
    const int error_number = errno;
    close(opened);
    return Status::FromErrno("open " + place.path, error_number);
  }
  *alignment = BlockSizeOf(info.st_dev);
  // A hint: its failure changes nothing.
  posix_fadvise(opened, 0, 0, POSIX_FADV_RANDOM);
  *descriptor = opened;
  return Status();
}

}  // namespace varve
