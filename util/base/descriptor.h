// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Keeps files off the standard descriptors 0 to 2. A program may run without
// standard output and still print. Its output must not go into a file that took
// the free descriptor.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace varve {

// Takes the descriptor of a file that was just opened, or -1. Returns a
// descriptor above the standard three that children do not inherit, or -1 with
// errno set.
inline int MoveAboveStandard(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error_number = errno;
  close(descriptor);
  errno = error_number;
  return moved;
}

}  // namespace varve
