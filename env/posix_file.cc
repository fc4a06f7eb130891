// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "env/descriptor_supply.h"
#include "env/direct_io.h"
#include "env/posix_multi_read.h"
#include "util/base/descriptor.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

// An unaligned direct read goes through a buffer of at most this size. The
// thread keeps a buffer that is large enough for most blocks.
constexpr size_t kBounceBufferBytes = size_t{1} << 20;
constexpr size_t kKeptBounceBytes = size_t{64} << 10;

// Reads `count` bytes, or fewer at the end of the file, and may stop after
// `least`. Returns the number of bytes, or -1 with errno set. `alignment` is
// the descriptor's: a direct read of an odd length has reached the end, and
// another read from there would be refused.
ssize_t ReadFully(int descriptor, char* scratch, size_t least, size_t count,
                  uint64_t offset, size_t alignment) {
  size_t done = 0;
  while (done < least) {
    const ssize_t n = pread(descriptor, scratch + done, count - done,
                            static_cast<off_t>(offset + done));
    if (n < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (n == 0) break;
    done += static_cast<size_t>(n);
    if ((done & (alignment - 1)) != 0) break;
  }
  return static_cast<ssize_t>(done);
}

class PosixSequentialFile final : public SequentialFile {
 public:
  PosixSequentialFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  ~PosixSequentialFile() override { close(descriptor_); }
  PosixSequentialFile(const PosixSequentialFile&) = delete;
  PosixSequentialFile& operator=(const PosixSequentialFile&) = delete;

  Status Read(size_t count, Slice* result, char* scratch) override {
    const ssize_t n = ReadFully(descriptor_, scratch, count, count, offset_, 1);
    if (n < 0) return PosixErrorAt("read", path_, offset_, errno);
    *result = Slice(scratch, static_cast<size_t>(n));
    offset_ += static_cast<uint64_t>(n);
    return Status::OK();
  }

  Status Skip(uint64_t count) override {
    struct stat info;
    if (fstat(descriptor_, &info) != 0) {
      return PosixErrorAt("stat", path_, offset_, errno);
    }
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size > offset_) offset_ += std::min(count, size - offset_);
    return Status::OK();
  }

 private:
  const std::string path_;
  const int descriptor_;
  uint64_t offset_ = 0;
};

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int descriptor, size_t alignment)
      : path_(std::move(path)),
        descriptor_(descriptor),
        alignment_(alignment) {}
  ~PosixRandomAccessFile() override { close(descriptor_); }
  PosixRandomAccessFile(const PosixRandomAccessFile&) = delete;
  PosixRandomAccessFile& operator=(const PosixRandomAccessFile&) = delete;

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    return ReadAtLeast(offset, count, count, result, scratch);
  }

  Status ReadAtLeast(uint64_t offset, size_t least, size_t count, Slice* result,
                     char* scratch) const override {
    const size_t mask = alignment_ - 1;
    const bool aligned =
        ((offset | count | reinterpret_cast<uintptr_t>(scratch)) & mask) == 0;
    if (!aligned) return ReadThroughCopy(offset, count, result, scratch);
    const ssize_t n =
        ReadFully(descriptor_, scratch, least, count, offset, alignment_);
    if (n < 0) return PosixErrorAt("read", path_, offset, errno);
    *result = Slice(scratch, static_cast<size_t>(n));
    return Status::OK();
  }

  void Prefetch(uint64_t offset, size_t count) const override {
    // Direct reads do not use the page cache.
    if (alignment_ != 1) return;
    // A hint: its failure changes nothing.
    posix_fadvise(descriptor_, static_cast<off_t>(offset),
                  static_cast<off_t>(count), POSIX_FADV_WILLNEED);
  }

  void MultiRead(ReadRequest* requests, size_t count) const override {
    PosixMultiRead(*this, requests, count);
  }

  size_t RequiredAlignment() const override { return alignment_; }
  int AcquireDescriptor() const override { return descriptor_; }

 private:
  // Reads the aligned blocks around the range and copies the requested bytes.
  Status ReadThroughCopy(uint64_t offset, size_t count, Slice* result,
                         char* scratch) const {
    if (count > static_cast<uint64_t>(INT64_MAX) ||
        offset > static_cast<uint64_t>(INT64_MAX) - count) {
      return PosixErrorAt("read", path_, offset, EINVAL);
    }
    const uint64_t mask = alignment_ - 1;
    const uint64_t capacity = std::max<uint64_t>(
        alignment_,
        std::min<uint64_t>(kBounceBufferBytes, (count + 2 * mask) & ~mask));
    const ThreadScratch<AlignedBuffer, PosixRandomAccessFile> kept;
    char* const bounce = kept->Reserve(alignment_, capacity);
    if (bounce == nullptr) return PosixErrorAt("read", path_, offset, ENOMEM);

    size_t done = 0;
    while (done < count) {
      const uint64_t position = offset + done;
      const uint64_t start = position & ~mask;
      const size_t lead = static_cast<size_t>(position - start);
      const size_t length = static_cast<size_t>(
          std::min<uint64_t>(capacity, (lead + count - done + mask) & ~mask));
      const ssize_t n =
          ReadFully(descriptor_, bounce, length, length, start, alignment_);
      if (n < 0) return PosixErrorAt("read", path_, start, errno);
      const auto available = static_cast<size_t>(n);
      if (available <= lead) break;
      const size_t useful = std::min(available - lead, count - done);
      memcpy(scratch + done, bounce + lead, useful);
      done += useful;
      if (available < length) break;
    }
    kept->Trim(kKeptBounceBytes);
    *result = Slice(scratch, done);
    return Status::OK();
  }

  const std::string path_;
  const int descriptor_;
  const size_t alignment_;
};

class PosixDirectory final : public Directory {
 public:
  PosixDirectory(std::string path, int descriptor, bool owns)
      : path_(std::move(path)), descriptor_(descriptor), owns_(owns) {}
  ~PosixDirectory() override {
    if (owns_) close(descriptor_);
  }
  PosixDirectory(const PosixDirectory&) = delete;
  PosixDirectory& operator=(const PosixDirectory&) = delete;

  Status Sync() override {
    // File systems that have nothing to sync return EINVAL.
    if (fsync(descriptor_) != 0 && errno != EINVAL) {
      return Status::FromErrno("fsync directory " + path_, errno);
    }
    return Status::OK();
  }

 private:
  const std::string path_;
  const int descriptor_;
  const bool owns_;
};

// Returns the descriptor, or -1 with errno set.
int OpenAt(int directory, const char* name, int flags) {
  // The user names a directory, perhaps by a link. The database created the
  // files itself, so links to files are refused. O_NONBLOCK only affects the
  // opening of pipes.
  if ((flags & O_DIRECTORY) == 0) flags |= O_NOFOLLOW | O_NONBLOCK;
  return OpenDescriptor([&] {
    int opened;
    do {
      opened = openat(directory, name, flags | O_CLOEXEC, 0644);
    } while (opened < 0 && errno == EINTR);
    return MoveAboveStandard(opened);
  });
}

Status OpenError(const std::string& path, int error_number) {
  return error_number == ELOOP
             ? Status::IOError("open " + path,
                               "is a symbolic link, and is not followed")
             : Status::FromErrno("open " + path, error_number);
}

}  // namespace

Status PosixOpen(const FilePlace& place, int flags, int* descriptor) {
  const int fd = OpenAt(place.directory, place.name, flags);
  if (fd < 0) return OpenError(place.path, errno);
  *descriptor = fd;
  return Status::OK();
}

namespace {

// Opens an existing file that is as good as a new one: an empty file of this
// user's, with one name. A database that was opened and not written to leaves
// such a log. Returns false for any other file.
bool OpenAsNew(const FilePlace& place, int flags, int* descriptor) {
  const int fd = OpenAt(place.directory, place.name, flags);
  if (fd < 0) return false;
  struct stat info;
  constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0 &&
      info.st_nlink == 1 && info.st_uid == geteuid() &&
      (info.st_mode & kWritableByOthers) == 0) {
    *descriptor = fd;
    return true;
  }
  close(fd);
  return false;
}

}  // namespace

Status PosixCreate(const FilePlace& place, int flags, int* descriptor) {
  flags |= O_CREAT;
  int fd = OpenAt(place.directory, place.name, flags | O_EXCL);
  if (fd < 0 && errno == EEXIST) {
    if (OpenAsNew(place, flags & ~O_CREAT, descriptor)) {
      place.Adopt(*descriptor);
      return Status::OK();
    }
    struct stat info;
    if (fstatat(place.directory, place.name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      return PosixOpenRegular(place, flags, descriptor);
    }
    // The old file may have other names. Without a temporary name a crash could
    // leave neither file.
    const std::string temporary = std::string(place.name) + ".dbtmp";
    const char* const name = temporary.c_str();
    fd = OpenAt(place.directory, name, flags | O_EXCL);
    if (fd < 0 && errno == EEXIST && unlinkat(place.directory, name, 0) == 0) {
      fd = OpenAt(place.directory, name, flags | O_EXCL);
    }
    if (fd >= 0 &&
        renameat(place.directory, name, place.directory, place.name) != 0) {
      Status status =
          Status::FromErrno("rename " + temporary + " to " + place.path, errno);
      unlinkat(place.directory, name, 0);
      close(fd);
      return status;
    }
  }
  if (fd < 0) return OpenError(place.path, errno);
  place.Adopt(fd);
  *descriptor = fd;
  return Status::OK();
}

Status PosixOpenRegular(const FilePlace& place, int flags, int* descriptor) {
  int fd = -1;
  Status status = PosixOpen(place, flags, &fd);
  if (!status.ok()) return status;
  struct stat info;
  if (fstat(fd, &info) != 0) {
    status = Status::FromErrno("stat " + place.path, errno);
  } else if (!S_ISREG(info.st_mode) &&
             !(S_ISCHR(info.st_mode) && (flags & O_ACCMODE) != O_RDONLY)) {
    status = Status::IOError("open " + place.path, "is no regular file");
  }
  if (!status.ok()) {
    close(fd);
    return status;
  }
  *descriptor = fd;
  return Status::OK();
}

std::unique_ptr<SequentialFile> NewPosixSequentialFile(const std::string& path,
                                                       int descriptor) {
  return std::make_unique<PosixSequentialFile>(path, descriptor);
}

std::unique_ptr<RandomAccessFile> NewPosixRandomAccessFile(
    const std::string& path, int descriptor, size_t alignment) {
  return std::make_unique<PosixRandomAccessFile>(path, descriptor, alignment);
}

Status PosixErrorAt(const char* call, const std::string& path, uint64_t offset,
                    int error_number) {
  return Status::FromErrno(
      std::string(call) + " " + path + " at offset " + std::to_string(offset),
      error_number);
}

std::unique_ptr<Directory> NewPosixDirectory(const std::string& path,
                                             int descriptor, bool owns) {
  return std::make_unique<PosixDirectory>(path, descriptor, owns);
}

}  // namespace varve
