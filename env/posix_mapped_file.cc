// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A file to which small pieces are appended by stores into a shared mapping,
// and large ones by write(). Stored bytes are in the page cache, as after a
// write(): they survive the process, other readers see them at once, and
// fdatasync finds the pages that they made dirty.
//
// What stands against a mapping is SIGBUS, by which the kernel reports that it
// cannot provide a page. So nothing is stored into a page before the kernel was
// asked for it:
// - Zeros are written first, by pwrite(). It allocates the page and its space,
//   or reports that there is none.
// - MADV_POPULATE_WRITE then maps the page, and makes the file system admit
//   stores. It reports an error of the device or file system (Linux 5.14).
// - The kernel may write the page to the device at any time. The next store
//   then asks the file system again, and that may have failed since. So an
//   answer is valid for kValidNanos, and until Sync.
//
// Zeros reserve space as well. The file system counts the space of a page when
// it enters the page cache, but chooses its place only when the page is written
// to the device. fallocate() chooses the place at once. For that it may read
// bitmaps of free blocks from a device that other threads keep busy, which made
// logs wait for up to 0.9 s. A log that is removed before its pages are written
// never needs a place.
//
// With kAuto a file is mapped only while it is appended to often. A write()
// that comes rarely costs nothing that anybody would notice. A file that is
// synced after every append is not mapped either: its pages would have to be
// admitted each time.

#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

#include "env/posix_file.h"
#include "env/posix_writable_file.h"

namespace varve {

namespace {

// Pieces of at least this size go by write(). It copies them at once, where
// the mapping needs zeros first.
constexpr size_t kLargeBytes = size_t{16} << 10;

// This part of the file is mapped at a time. It only costs addresses.
constexpr size_t kWindowBytes = size_t{1} << 20;

// Zeros are written and pages are populated in pieces of this size.
constexpr size_t kPieceBytes = size_t{64} << 10;

// Reserve writes up to so many zeros, and allocates more space than that.
constexpr size_t kMostZeroBytes = 2 * kPieceBytes;

constexpr int64_t kValidNanos = 10 * 1000 * 1000;

// With kAuto, appends within kValidNanos before the file is mapped.
constexpr int kAppendsToMap = 16;

size_t TotalSize(const Slice* parts, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += parts[i].size();
  return size;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// Accurate to a few milliseconds, and cheaper than reading the hardware's
// clock.
int64_t CoarseNanos() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

// File systems that are known to admit stores into pages with written zeros,
// without allocating space again. (Btrfs, for example, writes each page to a
// new place.) The numbers are those of statfs(2).
bool IsKnownFileSystem(uint64_t type) {
  constexpr uint64_t kExt4 = 0xEF53;
  constexpr uint64_t kXfs = 0x58465342;
  constexpr uint64_t kTmpfs = 0x01021994;
  return type == kExt4 || type == kXfs || type == kTmpfs;
}

class PosixMappedFile final : public PosixWritableFile {
 public:
  PosixMappedFile(const std::string& path, int descriptor,
                  const FileOptions& options)
      : PosixWritableFile(path, descriptor, options),
        always_(options.write_method == WriteMethod::kMap) {}
  ~PosixMappedFile() override {
    if (descriptor() >= 0) PosixMappedFile::Close().IgnoreError();
  }
  PosixMappedFile(const PosixMappedFile&) = delete;
  PosixMappedFile& operator=(const PosixMappedFile&) = delete;

  Status Append(const Slice& data) override {
    return AppendParts(&data, 1, /*flush=*/false);
  }

  bool TryStore(const Slice* parts, size_t count) override {
    const size_t size = TotalSize(parts, count);
    if (size > static_cast<size_t>(limit_ - next_) || size >= kLargeBytes ||
        CoarseNanos() >= valid_until_) [[unlikely]] {
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      memcpy(next_, parts[i].data(), parts[i].size());
      next_ += parts[i].size();
    }
    return true;
  }

  Status Reserve(uint64_t offset, uint64_t length) override {
    if (length <= kMostZeroBytes && descriptor() >= 0 && IsOwner() &&
        CheckFileSystem() == 0) {
      const int error = FillWithZeros(offset + length);
      if (error == 0) {
        SetAllocatedEnd(offset + length);
        return Status::OK();
      }
      if (error == ENOSPC || error == EDQUOT) {
        return PosixErrorAt("allocate", path(), offset, error);
      }
    }
    return PosixWritableFile::Reserve(offset, length);
  }

  Status AppendParts(const Slice* parts, size_t count, bool flush) override {
    if (TryStore(parts, count)) return Status::OK();
    Status status =
        AppendSlowly(std::span(parts, count), TotalSize(parts, count), flush);
    return status.ok() && flush ? Flush() : status;
  }

  Status Sync() override {
    Status status = StopStoring();
    // The sync write-protects the pages. Without kMap, appends go by write()
    // until there are many again without a sync.
    valid_until_ = 0;
    recent_appends_ = 0;
    return status.ok() ? PosixWritableFile::Sync() : status;
  }

  Status Close() override {
    Status status;
    if (descriptor() >= 0 && IsOwner()) status = StopStoring();
    // In a child of fork() the parent writes on.
    next_ = nullptr;
    limit_ = nullptr;
    Unmap();
    const Status closed = PosixWritableFile::Close();
    return status.ok() ? closed : status;
  }

  void Release() override {
    if (descriptor() < 0 || !IsOwner() || !StopStoring().ok()) return;
    valid_until_ = 0;
    PosixWritableFile::Release();
  }

  uint64_t Size() const override {
    return next_ != nullptr
               ? window_begin_ + static_cast<uint64_t>(next_ - window_)
               : PosixWritableFile::Size();
  }

  std::string WritePath() const override {
    // relaxed: only for a report.
    const int error = refusal_.load(std::memory_order_relaxed);
    if (error == kUnknownFileSystem) {
      return "write (a file system that is not known to suit a mapping)";
    }
    if (error != 0) {
      return "write (mapping: " + Status::FromErrno("", error).ToString() + ")";
    }
    // relaxed: as above.
    return is_mapped_.load(std::memory_order_relaxed) ? "mapped" : "write";
  }

 private:
  // Not an errno.
  static constexpr int kUnknownFileSystem = -1;

  Status AppendSlowly(std::span<const Slice> parts, size_t size, bool flush) {
    if (size >= kLargeBytes) recent_appends_ = 0;
    // A record whose beginning is in the buffer goes with it.
    if (size >= kLargeBytes || buffered_bytes() > 0 || !MayStore()) {
      return AppendByCall(parts, flush);
    }
    for (const Slice& part : parts) {
      Slice rest = part;
      while (!rest.empty()) {
        if (next_ == limit_ && !StorePiece()) {
          Status status = AppendByCall({&rest, 1}, /*flush=*/false);
          if (!status.ok()) return status;
          break;
        }
        const size_t length =
            std::min(rest.size(), static_cast<size_t>(limit_ - next_));
        memcpy(next_, rest.data(), length);
        next_ += length;
        rest.remove_prefix(length);
      }
    }
    return Status::OK();
  }

  Status AppendByCall(std::span<const Slice> parts, bool flush) {
    Status status = StopStoring();
    valid_until_ = 0;
    if (!status.ok()) return status;
    return PosixWritableFile::AppendParts(parts.data(), parts.size(), flush);
  }

  // Returns true if the next bytes may be stored, after StorePiece if
  // next_ == limit_.
  bool MayStore() {
    // relaxed: only this thread stores it.
    if (refusal_.load(std::memory_order_relaxed) != 0) return false;
    if (!CheckUsable().ok()) return false;
    const int64_t now = CoarseNanos();
    if (now < valid_until_) return true;
    // The pages must be asked for again.
    if (!StopStoring().ok()) return false;
    if (always_) return true;
    if (now >= recent_until_) {
      recent_until_ = now + kValidNanos;
      recent_appends_ = 0;
    }
    return ++recent_appends_ > kAppendsToMap;
  }

  // Makes the next bytes of the file ready for stores. If it returns false, the
  // file is as before and next_ is null.
  bool StorePiece() {
    if (!StopStoring().ok()) return false;
    const uint64_t begin = written_bytes();
    const uint64_t end = (begin / kPieceBytes + 1) * kPieceBytes;
    const int error = Prepare(begin, end);
    if (error != 0) {
      // A full device may have space again, and write() reports it if not.
      if (error != ENOSPC && error != EDQUOT) Refuse(error);
      return false;
    }
    next_ = window_ + (begin - window_begin_);
    limit_ = window_ + (end - window_begin_);
    // relaxed: only for a report.
    is_mapped_.store(true, std::memory_order_relaxed);
    return true;
  }

  // Maps the bytes, with pages to which the kernel admits stores. Returns 0, or
  // errno or kUnknownFileSystem.
  int Prepare(uint64_t begin, uint64_t end) {
    // Space that was allocated ahead is not to be exceeded: others may need it.
    if (allocated_end() != 0 && end > allocated_end()) return ENOSPC;
    const int64_t now = CoarseNanos();
    int error = always_ ? 0 : CheckFileSystem();
    if (error == 0) error = FillWithZeros(end);
    if (error != 0) return error;
    if (window_ == nullptr || begin < window_begin_ ||
        end > window_begin_ + kWindowBytes) {
      error = MapWindow(begin / kWindowBytes * kWindowBytes);
      if (error != 0) return error;
    }
    // Of the whole piece, since kernels know pages of several sizes.
    char* const place = window_ + (end - kPieceBytes - window_begin_);
    if (madvise(place, kPieceBytes, MADV_POPULATE_WRITE) != 0) {
      // An older kernel. The user of kMap takes the risk.
      if (errno != EINVAL || !always_) return errno;
    }
    valid_until_ = now + kValidNanos;
    return 0;
  }

  // Returns 0 if stores suit the file system, or errno or kUnknownFileSystem.
  int CheckFileSystem() {
    if (!file_system_) {
      struct statfs info;
      if (fstatfs(descriptor(), &info) != 0) return errno;
      file_system_ = IsKnownFileSystem(static_cast<uint64_t>(info.f_type))
                         ? 0
                         : kUnknownFileSystem;
    }
    return *file_system_;
  }

  int MapWindow(uint64_t begin) {
    void* const memory =
        mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
             descriptor(), static_cast<off_t>(begin));
    if (memory == MAP_FAILED) return errno;
    Unmap();
    window_ = static_cast<char*>(memory);
    window_begin_ = begin;
    return 0;
  }

  void Unmap() {
    if (window_ != nullptr) munmap(window_, kWindowBytes);
    window_ = nullptr;
  }

  // The file is written by calls from now on.
  void Refuse(int error) {
    Unmap();
    // relaxed: only this thread reads it, other than for a report.
    refusal_.store(error, std::memory_order_relaxed);
  }

  // Lets write() continue after the stored bytes.
  Status StopStoring() {
    if (next_ == nullptr) return Status::OK();
    const uint64_t end = Size();
    next_ = nullptr;
    limit_ = nullptr;
    // relaxed: only for a report.
    is_mapped_.store(false, std::memory_order_relaxed);
    return ContinueAt(end);
  }

  const bool always_;
  // Where the next byte is stored, and the end of the piece. Null while the
  // file is written by calls.
  char* next_ = nullptr;
  char* limit_ = nullptr;
  int64_t valid_until_ = 0;  // Of the populated pages, by CoarseNanos.
  char* window_ = nullptr;
  uint64_t window_begin_ = 0;
  // With kAuto, the end of the time in which appends are counted, and their
  // number.
  int64_t recent_until_ = 0;
  int recent_appends_ = 0;
  std::optional<int> file_system_;  // Once it is known: see CheckFileSystem.
  // Why the file is not mapped: errno, or kUnknownFileSystem, or 0.
  std::atomic<int> refusal_{0};
  std::atomic<bool> is_mapped_{false};
};

}  // namespace

std::unique_ptr<WritableFile> NewPosixWritableFile(const std::string& path,
                                                   int descriptor,
                                                   const FileOptions& options) {
  if (options.write_method == WriteMethod::kCall) {
    return std::make_unique<PosixWritableFile>(path, descriptor, options);
  }
  return std::make_unique<PosixMappedFile>(path, descriptor, options);
}

}  // namespace varve
