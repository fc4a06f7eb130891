// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A file written through a shared mapping of its allocated space, one window at
// a time. Stored bytes are in the page cache. They survive the process as bytes
// of a write() do, and fdatasync finds the pages dirtied through the mapping.
// Until Close the file is longer than the appended data, padded with zeros.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "env/posix_file.h"

namespace varve {

namespace {

// A change of the window costs two system calls and a few page faults. Recovery
// reads the unused rest of the last window.
constexpr size_t kWindowBytes = size_t{1} << 20;

// Allocates the blocks, so that no store into the mapping can find the device
// full. Returns 0, or errno.
int AllocateBlocks(int descriptor, int mode, uint64_t offset, uint64_t length) {
  int result;
  do {
    result = fallocate(descriptor, mode, static_cast<off_t>(offset),
                       static_cast<off_t>(length));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

char* MapWindow(int descriptor, uint64_t offset) {
  void* const memory = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED, descriptor, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

class PosixMmapFile final : public WritableFile {
 public:
  // Takes over the first window. Its blocks are allocated; the size is still 0.
  PosixMmapFile(std::string path, int descriptor, uint64_t bytes_per_sync,
                char* window)
      : path_(std::move(path)),
        bytes_per_sync_(bytes_per_sync),
        descriptor_(descriptor),
        window_(window) {}
  ~PosixMmapFile() override {
    // The error cannot be reported; the interface says so.
    if (descriptor_ >= 0) Close().IgnoreError();
  }
  PosixMmapFile(const PosixMmapFile&) = delete;
  PosixMmapFile& operator=(const PosixMmapFile&) = delete;

  Status Append(const Slice& data) override {
    Status status = CheckUsable();
    const char* source = data.data();
    size_t left = data.size();
    const uint64_t end = size_ + left;
    if (status.ok() && end > file_bytes_) {
      const int error = Extend((end + kWindowBytes - 1) & ~(kWindowBytes - 1));
      if (error != 0) status = Fail("fallocate", error);
    }
    while (status.ok() && left > 0) {
      if (size_ == window_end_) {
        status = NextWindow();
        continue;
      }
      const size_t place = size_ % kWindowBytes;
      const size_t length = std::min(left, kWindowBytes - place);
      memcpy(window_ + place, source, length);
      source += length;
      left -= length;
      size_ += length;
    }
    return status;
  }

  Status Flush() override { return CheckUsable(); }

  Status Sync() override {
    Status status = CheckUsable();
    if (status.ok() && fdatasync(descriptor_) != 0) {
      return Fail("fdatasync", errno);
    }
    return status;
  }

  Status Close() override {
    if (descriptor_ < 0) return CheckUsable();
    Status status = CheckUsable();
    munmap(window_, kWindowBytes);
    window_ = nullptr;
    // Zeros at the end would be read as the end of the log, but other tools
    // need not know that. Blocks after the end are freed as well.
    // In a child created by fork() the file belongs to the parent, which may
    // have appended since.
    if (owner_ == getpid() &&
        ftruncate(descriptor_, static_cast<off_t>(size_)) != 0 && status.ok()) {
      status = Fail("ftruncate", errno);
    }
    // See PosixWritableFile.
    if (close(descriptor_) != 0 && errno != EINTR && status.ok()) {
      status = Fail("close", errno);
    }
    descriptor_ = -1;
    return status;
  }

  // Extends the file by zeros.
  Status Reserve(uint64_t offset, uint64_t length) override {
    if (!CheckUsable().ok() || offset + length <= file_bytes_) {
      return Status::OK();
    }
    const int error = Extend(offset + length);
    if (error != 0 && owner_ == getpid()) {
      // Some of it may have been allocated.
      const int ignored =
          ftruncate(descriptor_, static_cast<off_t>(file_bytes_));
      static_cast<void>(ignored);
    }
    // Append reports other errors.
    if (error != ENOSPC && error != EDQUOT) return Status::OK();
    return Error("allocate", error);
  }

  void Release() override {
    // In a child created by fork() the file belongs to the parent, as in Close.
    if (!CheckUsable().ok() || owner_ != getpid()) return;
    // Nothing is stored after the end of the file. The pages of the window that
    // lose their blocks are not accessed until the blocks are allocated again.
    if (ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) {
      file_bytes_ = size_;
    }
  }

  void RangeSync(uint64_t offset, uint64_t length) override {
    if (descriptor_ < 0) return;
    // A hint, as in PosixWritableFile.
    sync_file_range(descriptor_, static_cast<off_t>(offset),
                    static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
  }

  uint64_t Size() const override { return size_; }

 private:
  // Sticky, for the reasons given in PosixWritableFile.
  Status Fail(const char* call, int error_number) {
    failure_ = Error(call, error_number);
    return failure_;
  }

  Status Error(const char* call, int error_number) const {
    return Status::FromErrno(
        std::string(call) + " " + path_ + " at offset " + std::to_string(size_),
        error_number);
  }

  Status CheckUsable() const {
    if (descriptor_ < 0) return Status::IOError(path_, "file is closed");
    return failure_;
  }

  // Allocates blocks from the end of the file up to `end`. Returns 0, or errno.
  // After an error the file is unchanged, or longer by zeros.
  int Extend(uint64_t end) {
    const int error =
        AllocateBlocks(descriptor_, 0, file_bytes_, end - file_bytes_);
    if (error == 0) file_bytes_ = end;
    return error;
  }

  // Maps the window after the last byte.
  Status NextWindow() {
    char* const next = MapWindow(descriptor_, window_end_);
    if (next == nullptr) return Fail("mmap", errno);
    munmap(window_, kWindowBytes);
    window_ = next;
    if (bytes_per_sync_ != 0 && window_end_ - pushed_ >= bytes_per_sync_) {
      RangeSync(pushed_, window_end_ - pushed_);
      pushed_ = window_end_;
    }
    window_end_ += kWindowBytes;
    return Status::OK();
  }

  // Immutable after construction.
  const std::string path_;
  const uint64_t bytes_per_sync_;
  const pid_t owner_ = getpid();
  // Owned by the thread that owns the file.
  int descriptor_;
  Status failure_;
  char* window_;  // The last one.
  uint64_t window_end_ = kWindowBytes;
  uint64_t size_ = 0;  // Appended.
  // A lower bound of the file's size. All of it has blocks, and stores go only
  // there.
  uint64_t file_bytes_ = 0;
  uint64_t pushed_ = 0;
};

}  // namespace

std::unique_ptr<WritableFile> NewPosixMmapFile(const std::string& path,
                                               int descriptor,
                                               const FileOptions& options) {
  // The size stays 0 as long as nothing is appended.
  if (AllocateBlocks(descriptor, FALLOC_FL_KEEP_SIZE, 0, kWindowBytes) == 0) {
    char* const window = MapWindow(descriptor, 0);
    if (window != nullptr) {
      return std::make_unique<PosixMmapFile>(path, descriptor,
                                             options.bytes_per_sync, window);
    }
  }
  return NewPosixWritableFile(path, descriptor, options);
}

}  // namespace varve
