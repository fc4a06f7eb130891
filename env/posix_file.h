// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files and directories of the operating system: the system calls behind the
// file interfaces of varve/env.h. Interrupted and partial calls are continued,
// never reported.
//
// Thread-safety: as the interfaces say.

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "varve/env.h"

namespace varve {

// A path and how it is looked up.
struct FilePlace {
  // As the system calls do. Implicit: where a file is, is mostly its path.
  FilePlace(const std::string& whole)  // NOLINT(google-explicit-constructor)
      : path(whole), name(whole.c_str()) {}
  // As `name`, which points into the path, in an open directory.
  FilePlace(const std::string& whole, int open_directory, const char* in_it)
      : path(whole), directory(open_directory), name(in_it) {}

  const std::string& path;  // For messages.
  int directory = AT_FDCWD;
  const char* name;
};

// Opens with O_CLOEXEC added to `flags`; a new file gets mode 0644 less the
// umask. Sets *descriptor, which the caller closes. Symbolic links to files are
// not followed, and nothing is waited for.
Status PosixOpen(const FilePlace& place, int flags, int* descriptor);
// The same, with an IOError for what is no regular file: a pipe, a directory,
// or a device, but for one like /dev/full to be written. Costs a system call
// more.
Status PosixOpenRegular(const FilePlace& place, int flags, int* descriptor);
// Opens a new empty file for writing; `flags` say how. A regular file of that
// name is replaced by it in one step, through a file of the name with `.dbtmp`
// added. A device is opened as it is.
Status PosixCreate(const FilePlace& place, int flags, int* descriptor);

// Each takes over the descriptor. `path` is for messages.
std::unique_ptr<SequentialFile> NewPosixSequentialFile(const std::string& path,
                                                       int descriptor);
// `alignment` is 1 for buffered reads, else what a descriptor opened with
// O_DIRECT requires: a power of two.
std::unique_ptr<RandomAccessFile> NewPosixRandomAccessFile(
    const std::string& path, int descriptor, size_t alignment);
// The file is empty.
std::unique_ptr<WritableFile> NewPosixWritableFile(const std::string& path,
                                                   int descriptor,
                                                   const FileOptions& options);
// The same, written through a shared mapping; an ordinary one if the file
// system does not allocate or map. The descriptor is open for reading too.
std::unique_ptr<WritableFile> NewPosixMmapFile(const std::string& path,
                                               int descriptor,
                                               const FileOptions& options);
// Without `owns` the descriptor stays the caller's.
std::unique_ptr<Directory> NewPosixDirectory(const std::string& path,
                                             int descriptor, bool owns = true);

// A logger that appends to the file, one write() a line.
std::shared_ptr<Logger> NewPosixLogger(int descriptor);

}  // namespace varve
