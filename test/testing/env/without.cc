// Varve: a key-value storage engine. MIT licence, see LICENSE.

// without io_uring|membarrier ERRNO PROGRAM [ARGUMENT...]: runs a program that
// gets this error (EPERM or ENOSYS) from each of these system calls.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "test/testing/env/refuse_system_calls.h"

namespace {

int ErrorOf(const char* name) {
  if (strcmp(name, "EPERM") == 0) return EPERM;
  if (strcmp(name, "ENOSYS") == 0) return ENOSYS;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int error = argc < 4 ? 0 : ErrorOf(argv[2]);
  const bool ring = error != 0 && strcmp(argv[1], "io_uring") == 0;
  if (error == 0 || (!ring && strcmp(argv[1], "membarrier") != 0)) {
    fprintf(stderr,
            "usage: %s io_uring|membarrier EPERM|ENOSYS PROGRAM "
            "[ARGUMENT...]\n",
            argv[0]);
    return 2;
  }
  if (!(ring ? varve::test::RefuseIoUring(error)
             : varve::test::RefuseMembarrier(error))) {
    perror("seccomp");
    return 2;
  }
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return 2;
}
