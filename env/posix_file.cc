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

// Appends are buffered in memory before a write(). The buffer is large enough
// to make the call cheap for each byte, and small enough to stay in the
// second-level cache.
constexpr size_t kWriteBufferBytes = size_t{64} << 10;

// A file counts as synced often after this many syncs of few bytes each.
constexpr int kSmallSyncsBeforeFill = 8;

// The usual page size. On machines with larger pages only speed is lost.
constexpr uint64_t kPageBytes = 4096;

// An unaligned direct read goes through a buffer of at most this size. The
// thread keeps a buffer that is large enough for most blocks.
constexpr size_t kBounceBufferBytes = size_t{1} << 20;
constexpr size_t kKeptBounceBytes = size_t{64} << 10;

Status ErrorAt(const char* call, const std::string& path, uint64_t offset,
               int error_number) {
  return Status::FromErrno(
      std::string(call) + " " + path + " at offset " + std::to_string(offset),
      error_number);
}

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
    if (n < 0) return ErrorAt("read", path_, offset_, errno);
    *result = Slice(scratch, static_cast<size_t>(n));
    offset_ += static_cast<uint64_t>(n);
    return Status::OK();
  }

  Status Skip(uint64_t count) override {
    struct stat info;
    if (fstat(descriptor_, &info) != 0) {
      return ErrorAt("stat", path_, offset_, errno);
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
    if (n < 0) return ErrorAt("read", path_, offset, errno);
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
      return ErrorAt("read", path_, offset, EINVAL);
    }
    const uint64_t mask = alignment_ - 1;
    const uint64_t capacity = std::max<uint64_t>(
        alignment_,
        std::min<uint64_t>(kBounceBufferBytes, (count + 2 * mask) & ~mask));
    const ThreadScratch<AlignedBuffer, PosixRandomAccessFile> kept;
    char* const bounce = kept->Reserve(alignment_, capacity);
    if (bounce == nullptr) return ErrorAt("read", path_, offset, ENOMEM);

    size_t done = 0;
    while (done < count) {
      const uint64_t position = offset + done;
      const uint64_t start = position & ~mask;
      const size_t lead = static_cast<size_t>(position - start);
      const size_t length = static_cast<size_t>(
          std::min<uint64_t>(capacity, (lead + count - done + mask) & ~mask));
      const ssize_t n =
          ReadFully(descriptor_, bounce, length, length, start, alignment_);
      if (n < 0) return ErrorAt("read", path_, start, errno);
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

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int descriptor,
                    const FileOptions& options)
      : path_(std::move(path)),
        bytes_per_sync_(options.bytes_per_sync),
        sync_ahead_bytes_(options.sync_ahead_bytes),
        descriptor_(descriptor) {}
  ~PosixWritableFile() override {
    // The error cannot be reported; the interface says so.
    if (descriptor_ >= 0) Close().IgnoreError();
  }
  PosixWritableFile(const PosixWritableFile&) = delete;
  PosixWritableFile& operator=(const PosixWritableFile&) = delete;

  Status Append(const Slice& data) override {
    Status status = CheckUsable();
    if (!status.ok()) return status;
    if (data.size() > kWriteBufferBytes - buffered_bytes_) {
      status = Flush();
      if (!status.ok()) return status;
      if (data.size() >= kWriteBufferBytes) {
        return Write(data.data(), data.size());
      }
    }
    if (data.empty()) return Status::OK();
    if (buffer_ == nullptr) {
      buffer_ = std::make_unique_for_overwrite<char[]>(kWriteBufferBytes);
    }
    memcpy(buffer_.get() + buffered_bytes_, data.data(), data.size());
    buffered_bytes_ += data.size();
    return Status::OK();
  }

  Status Flush() override {
    Status status = CheckUsable();
    if (!status.ok() || buffered_bytes_ == 0) return status;
    status = Write(buffer_.get(), buffered_bytes_);
    if (status.ok()) buffered_bytes_ = 0;
    return status;
  }

  Status Sync() override {
    Status status = Flush();
    if (!status.ok()) return status;
    if (sync_ahead_bytes_ != 0) FillAhead();
    if (fdatasync(descriptor_) != 0) {
      return Fail(ErrorAt("fdatasync", path_, written_bytes_, errno));
    }
    return Status::OK();
  }

  Status Close() override {
    if (descriptor_ < 0) return CheckUsable();
    // In a child created by fork() only the parent may write and truncate the
    // file. It also writes the data that are buffered here.
    Status status = owner_ == getpid() ? Flush() : Status::OK();
    if (status.ok()) Release();
    // On Linux the descriptor is closed even if close reports EINTR. A second
    // close could close another thread's descriptor.
    if (close(descriptor_) != 0 && errno != EINTR && status.ok()) {
      status = ErrorAt("close", path_, written_bytes_, errno);
    }
    descriptor_ = -1;
    buffer_.reset();
    return status;
  }

  void Allocate(uint64_t offset, uint64_t length) override {
    Reserve(offset, length).IgnoreError();
  }

  Status Reserve(uint64_t offset, uint64_t length) override {
    if (descriptor_ < 0) return Status::OK();
    if (fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length)) == 0) {
      allocated_end_ = std::max(allocated_end_, offset + length);
      return Status::OK();
    }
    const int error = errno;
    // Some of it may have been allocated.
    allocated_end_ = std::max(allocated_end_, offset + 1);
    if (error != ENOSPC && error != EDQUOT) return Status::OK();
    return ErrorAt("allocate", path_, offset, error);
  }

  void Release() override {
    // In a child created by fork() the parent may have written since.
    if (descriptor_ < 0 || owner_ != getpid()) return;
    if (std::max(allocated_end_, filled_end_) <= written_bytes_) return;
    // A failure only wastes the space, so it is no error.
    if (ftruncate(descriptor_, static_cast<off_t>(written_bytes_)) != 0) return;
    allocated_end_ = written_bytes_;
    filled_end_ = written_bytes_;
  }

  void RangeSync(uint64_t offset, uint64_t length) override {
    if (descriptor_ < 0) return;
    // A hint: errors are ignored here, and Sync reports a failing device.
    sync_file_range(descriptor_, static_cast<off_t>(offset),
                    static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
  }

  uint64_t Size() const override { return written_bytes_ + buffered_bytes_; }

 private:
  // After a failed write or sync the contents of the file are unknown, and the
  // kernel may have dropped the dirty pages. A retry could falsely succeed, so
  // the first error is sticky for this file.
  Status Fail(Status status) {
    failure_ = status;
    return status;
  }

  Status CheckUsable() const {
    if (descriptor_ < 0) return Status::IOError(path_, "file is closed");
    return failure_;
  }

  Status Write(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t n = write(descriptor_, data, size);
      if (n < 0) {
        if (errno == EINTR) continue;
        return Fail(ErrorAt("write", path_, written_bytes_, errno));
      }
      data += n;
      size -= static_cast<size_t>(n);
      written_bytes_ += static_cast<uint64_t>(n);
    }
    PushWrittenPages();
    return Status::OK();
  }

  // A write after the end, or into space that was only allocated, changes file
  // system metadata, and the next sync waits for the journal. A write over
  // existing zeros changes only the data.
  void FillAhead() {
    const bool small = written_bytes_ - synced_bytes_ <= sync_ahead_bytes_ / 16;
    synced_bytes_ = written_bytes_;
    if (!small || ++small_syncs_ < kSmallSyncsBeforeFill ||
        written_bytes_ + sync_ahead_bytes_ / 16 <= filled_end_) {
      return;
    }
    const uint64_t start = std::max(filled_end_, written_bytes_);
    const auto zeros = std::make_unique<char[]>(sync_ahead_bytes_);
    const ssize_t n = pwrite(descriptor_, zeros.get(), sync_ahead_bytes_,
                             static_cast<off_t>(start));
    // Only speed depends on it. After an error fdatasync decides.
    filled_end_ = start + (n > 0 ? static_cast<uint64_t>(n) : 0);
    if (n <= 0) small_syncs_ = 0;
  }

  // Keeps the kernel from accumulating dirty pages for which one sync would
  // have to wait.
  void PushWrittenPages() {
    if (bytes_per_sync_ == 0) return;
    // Without the last page: it may still grow. On some devices a page that is
    // being written cannot be changed until the write is done.
    const uint64_t end = written_bytes_ & ~uint64_t{kPageBytes - 1};
    if (end - pushed_bytes_ < bytes_per_sync_) return;
    RangeSync(pushed_bytes_, end - pushed_bytes_);
    pushed_bytes_ = end;
  }

  // Immutable after construction.
  const std::string path_;
  const uint64_t bytes_per_sync_;
  const uint64_t sync_ahead_bytes_;
  const pid_t owner_ = getpid();
  // Owned by the thread that owns the file.
  int descriptor_;
  Status failure_;
  std::unique_ptr<char[]> buffer_;  // Null until the first small append.
  size_t buffered_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t pushed_bytes_ = 0;
  uint64_t allocated_end_ = 0;
  uint64_t synced_bytes_ = 0;  // Used only with sync_ahead_bytes_.
  uint64_t filled_end_ = 0;
  int small_syncs_ = 0;
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

Status PosixCreate(const FilePlace& place, int flags, int* descriptor) {
  flags |= O_CREAT;
  int fd = OpenAt(place.directory, place.name, flags | O_EXCL);
  if (fd < 0 && errno == EEXIST) {
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

std::unique_ptr<WritableFile> NewPosixWritableFile(const std::string& path,
                                                   int descriptor,
                                                   const FileOptions& options) {
  return std::make_unique<PosixWritableFile>(path, descriptor, options);
}

std::unique_ptr<Directory> NewPosixDirectory(const std::string& path,
                                             int descriptor, bool owns) {
  return std::make_unique<PosixDirectory>(path, descriptor, owns);
}

}  // namespace varve
