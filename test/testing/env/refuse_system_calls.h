// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A kernel that refuses some system calls, as containers and sandboxes do: a
// filter for the calling thread, those that it starts and the programs
// that it executes. There is no way back.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve::test {

// The system calls of the numbers fail with the errno. False if the filter
// cannot be had.
inline bool RefuseSystemCalls(const std::vector<long>& numbers, int error) {
  std::vector<sock_filter> filter;
  filter.push_back(
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  for (const long number : numbers) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                              static_cast<uint32_t>(number), 0, 1));
    filter.push_back(BPF_STMT(
        BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program = {};
  program.len = static_cast<unsigned short>(filter.size());
  program.filter = filter.data();
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

inline bool RefuseIoUring(int error) {
  return RefuseSystemCalls(
      {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}, error);
}

inline bool RefuseMembarrier(int error) {
  return RefuseSystemCalls({SYS_membarrier}, error);
}

}  // namespace varve::test
