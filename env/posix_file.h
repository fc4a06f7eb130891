// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files and directories of the operating system: the system calls of the file
// interfaces of varve/env.h. Interrupted and partial calls are continued, never
// reported.
//
// Thread-safety: see the interfaces.

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "env/file_owner.h"
#include "varve/env.h"

namespace varve {

// A path, and the directory from which it is looked up.
struct FilePlace {
  // Looks it up by the whole path. Implicit, since most callers have a path.
  FilePlace(const std::string& whole)  // NOLINT(google-explicit-constructor)
      : path(whole), name(whole.c_str()) {}
  // Looks it up as `in_it`, which points into the path, in an open directory.
  // `new_owner`, which must outlive this, is for files that are created.
  FilePlace(const std::string& whole, int open_directory, const char* in_it,
            const FileOwner* new_owner)
      : path(whole), directory(open_directory), name(in_it), owner(new_owner) {}

  // Gives the owner a file that was just created.
  void Adopt(int descriptor) const {
    if (owner != nullptr && owner->differs()) owner->Adopt(descriptor);
  }

  const std::string& path;  // For messages.
  int directory = AT_FDCWD;
  const char* name;
  const FileOwner* owner = nullptr;  // Null: the process.
};

// Opens with O_CLOEXEC added to `flags`. A new file gets mode 0644 less the
// umask. Sets *descriptor, which the caller closes. Does not follow symbolic
// links to files, and never waits.
Status PosixOpen(const FilePlace& place, int flags, int* descriptor);
// Opens as PosixOpen. Returns IOError if it is not a regular file: a pipe, a
// directory, or a device. A device such as /dev/full may be opened for writing.
// Costs one more system call.
Status PosixOpenRegular(const FilePlace& place, int flags, int* descriptor);
// Opens a new empty file for writing, with `flags`. It replaces a regular file
// of that name atomically, through a file of the name with `.dbtmp` added. A
// device is opened as it is.
Status PosixCreate(const FilePlace& place, int flags, int* descriptor);

// Returns the status of a system call that failed with `error_number` at an
// offset of the file.
Status PosixErrorAt(const char* call, const std::string& path, uint64_t offset,
                    int error_number);

// Each takes ownership of the descriptor. `path` is for messages.
std::unique_ptr<SequentialFile> NewPosixSequentialFile(const std::string& path,
                                                       int descriptor);
// `alignment` is 1 for buffered reads. Otherwise it is the alignment that a
// descriptor opened with O_DIRECT requires, a power of two.
std::unique_ptr<RandomAccessFile> NewPosixRandomAccessFile(
    const std::string& path, int descriptor, size_t alignment);
// Returns a file that is appended to as options.write_method says. REQUIRES:
// the file is empty; the descriptor is open for reading too, unless the method
// is kCall.
std::unique_ptr<WritableFile> NewPosixWritableFile(const std::string& path,
                                                   int descriptor,
                                                   const FileOptions& options);
// If `owns` is false, the caller keeps the descriptor.
std::unique_ptr<Directory> NewPosixDirectory(const std::string& path,
                                             int descriptor, bool owns = true);

// Returns a logger that appends to the file, one write() per line.
std::shared_ptr<Logger> NewPosixLogger(int descriptor);

}  // namespace varve
