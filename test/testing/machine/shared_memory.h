// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Counters that several processes share, in a file that outlives each.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace varve::test {

// The T in the file, zeros if the file is new. Mapped until the process ends.
template <typename T>
T* MapShared(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(T)) != 0) abort();
  void* memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) abort();
  return static_cast<T*>(memory);
}

}  // namespace varve::test
