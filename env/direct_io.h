// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The alignment that O_DIRECT requires of a read: the device's alignment for
// offsets, lengths and memory.
//
// Finding it costs a system call, so the answer is cached for each directory.
// Files of one directory are on one device.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"

namespace varve {

// Thread-safety: thread-safe.
class DirectIoAlignment {
 public:
  // Returns the alignment in bytes, a power of two, for the file `path`, open
  // as `descriptor`. Returns 0 if its file system has no direct reads.
  size_t Get(const std::string& path, int descriptor) VARVE_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::map<std::string, size_t> by_directory_ VARVE_GUARDED_BY(mu_);
};

// Aligned memory that grows, for direct reads of unaligned ranges.
// Thread-safety: owned by one thread.
class AlignedBuffer {
 public:
  // Returns memory of at least `bytes`, a multiple of the alignment, or null if
  // there is none. The previous contents are lost.
  char* Reserve(size_t alignment, size_t bytes) {
    if (bytes <= capacity_bytes_ &&
        (reinterpret_cast<uintptr_t>(memory_.get()) & (alignment - 1)) == 0) {
      return memory_.get();
    }
    memory_.reset(static_cast<char*>(aligned_alloc(alignment, bytes)));
    capacity_bytes_ = memory_ == nullptr ? 0 : bytes;
    return memory_.get();
  }
  // Frees the memory if it is larger than `max_bytes`.
  void Trim(size_t max_bytes) {
    if (capacity_bytes_ <= max_bytes) return;
    memory_.reset();
    capacity_bytes_ = 0;
  }

 private:
  struct FreeDeleter {
    void operator()(char* memory) const { free(memory); }
  };

  std::unique_ptr<char, FreeDeleter> memory_;
  size_t capacity_bytes_ = 0;
};

}  // namespace varve
