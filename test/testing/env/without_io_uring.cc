// Varve: a key-value storage engine. MIT licence, see LICENSE.

// without_io_uring EPERM|ENOSYS PROGRAM [ARGUMENT...]: runs a program that gets
// this error from each system call of io_uring.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "test/testing/env/refuse_io_uring.h"

int main(int argc, char** argv) {
  const int error = argc < 3                         ? 0
                    : strcmp(argv[1], "EPERM") == 0  ? EPERM
                    : strcmp(argv[1], "ENOSYS") == 0 ? ENOSYS
                                                     : 0;
  if (error == 0) {
    fprintf(stderr, "usage: %s EPERM|ENOSYS PROGRAM [ARGUMENT...]\n", argv[0]);
    return 2;
  }
  if (!varve::test::RefuseIoUring(error)) {
    perror("seccomp");
    return 2;
  }
  execvp(argv[2], argv + 2);
  perror(argv[2]);
  return 2;
}
