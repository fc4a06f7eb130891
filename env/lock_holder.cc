// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/lock_holder.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>

#include "env/descriptor_supply.h"

namespace varve {

namespace {

// Reads the pid that the holder of an open file description lock wrote at the
// beginning of the file. Returns 0 if there is none.
int64_t ReadPid(int descriptor) {
  char text[32];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  int64_t pid = 0;
  if (size > 0) std::from_chars(text, text + size, pid);
  return pid;
}

}  // namespace

bool FindLockHolder(const std::string& lock_path, std::string* holder) {
  const int descriptor = OpenDescriptor([&lock_path] {
    return open(lock_path.c_str(),
                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  });
  if (descriptor < 0) return false;
  // A lock of this open file would conflict with the locks of all processes, of
  // both kinds.
  struct flock query = {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;  // From 0, length 0: all of the file.
  int result = fcntl(descriptor, F_OFD_GETLK, &query);
  if (result != 0) {
    query = {};
    query.l_type = F_WRLCK;
    query.l_whence = SEEK_SET;
    result = fcntl(descriptor, F_GETLK, &query);
  }
  const bool held = result == 0 && query.l_type != F_UNLCK;
  if (held) {
    const int64_t pid = query.l_pid > 0 ? query.l_pid : ReadPid(descriptor);
    *holder = pid > 0 ? "process " + std::to_string(pid) : "another process";
  }
  close(descriptor);
  return held;
}

}  // namespace varve
