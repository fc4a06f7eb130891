// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What O_DIRECT demands of a read: the alignment that the device under a file
// wants for offsets, lengths and memory.
//
// Asking costs a system call, so the answer is kept for each directory; files
// of one directory are on one device.
// Thread-safety: thread-safe.

#include <cstddef>
#include <map>
#include <string>

#include "util/mutex.h"
#include "util/thread_annotations.h"

namespace varve {

class DirectIoAlignment {
 public:
  // The alignment in bytes, a power of two, for the file `path`, open as
  // `descriptor`; 0 if its file system has no direct reads.
  size_t Get(const std::string& path, int descriptor) VARVE_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::map<std::string, size_t> by_directory_ VARVE_GUARDED_BY(mu_);
};

}  // namespace varve
