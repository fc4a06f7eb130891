// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_writable_file.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "env/posix_file.h"

namespace varve {

namespace {

// Appends are buffered in memory before a write(). The buffer is large enough
// to make the call cheap for each byte, and small enough to stay in the
// second-level cache.
constexpr size_t kWriteBufferBytes = size_t{64} << 10;

// An append of at least so many bytes is passed to the call together with the
// buffer, without a copy. A part costs the call about as much as a copy of
// kLeastPartBytes.
constexpr size_t kUncopiedBytes = size_t{16} << 10;
constexpr size_t kLeastPartBytes = 1024;
constexpr size_t kPiecesOfCall = 128;

// A file counts as synced often after this many syncs of few bytes each.
constexpr int kSmallSyncsBeforeFill = 8;

// Close leaves up to so much allocated space. ftruncate() waits for the file
// system's journal, which may take as long as a sync. So it would be most of
// what it takes to close a small database, for the sake of its MANIFEST.
constexpr uint64_t kKeptBytes = uint64_t{16} << 10;

// The usual page size. On machines with larger pages only speed is lost.
constexpr uint64_t kPageBytes = 4096;

// Never written to. Not const, so that the program's file does not hold it.
char zeros[size_t{64} << 10];

}  // namespace

PosixWritableFile::PosixWritableFile(std::string path, int descriptor,
                                     const FileOptions& options)
    : path_(std::move(path)),
      bytes_per_sync_(options.bytes_per_sync),
      sync_ahead_bytes_(options.sync_ahead_bytes),
      descriptor_(descriptor) {}

PosixWritableFile::~PosixWritableFile() {
  // The error cannot be reported; the interface says so.
  if (descriptor_ >= 0) PosixWritableFile::Close().IgnoreError();
}

Status PosixWritableFile::Append(const Slice& data) {
  Status status = CheckUsable();
  if (!status.ok()) return status;
  return data.size() >= kUncopiedBytes ? WriteWithBuffer({&data, 1})
                                       : AppendToBuffer(data);
}

Status PosixWritableFile::AppendToBuffer(const Slice& data) {
  if (data.size() > kWriteBufferBytes - buffered_bytes_) {
    Status status = Flush();
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

Status PosixWritableFile::AppendParts(const Slice* parts, size_t count,
                                      bool flush) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += parts[i].size();
  Status status = CheckUsable();
  const size_t uncopied = flush ? kUncopiedBytes : kWriteBufferBytes;
  if (size >= uncopied && size / count >= kLeastPartBytes) {
    return status.ok() ? WriteWithBuffer({parts, count}) : status;
  }
  for (size_t i = 0; status.ok() && i < count; ++i) {
    status = AppendToBuffer(parts[i]);
  }
  return status.ok() && flush ? Flush() : status;
}

Status PosixWritableFile::Flush() {
  Status status = CheckUsable();
  if (!status.ok() || buffered_bytes_ == 0) return status;
  status = Write(buffer_.get(), buffered_bytes_);
  if (status.ok()) buffered_bytes_ = 0;
  return status;
}

Status PosixWritableFile::Sync() {
  Status status = Flush();
  if (!status.ok()) return status;
  if (sync_ahead_bytes_ != 0) FillAhead();
  if (fdatasync(descriptor_) != 0) {
    return Fail(PosixErrorAt("fdatasync", path_, written_bytes_, errno));
  }
  return Status::OK();
}

Status PosixWritableFile::Close() {
  if (descriptor_ < 0) return CheckUsable();
  // In a child created by fork() only the parent may write and truncate the
  // file. It also writes the data that are buffered here.
  Status status = IsOwner() ? Flush() : Status::OK();
  // Zeros at the end are part of the file. Space after it is not.
  if (status.ok() && (filled_end_ > written_bytes_ ||
                      allocated_end_ > written_bytes_ + kKeptBytes)) {
    Release();
  }
  // On Linux the descriptor is closed even if close reports EINTR. A second
  // close could close another thread's descriptor.
  if (close(descriptor_) != 0 && errno != EINTR && status.ok()) {
    status = PosixErrorAt("close", path_, written_bytes_, errno);
  }
  descriptor_ = -1;
  buffer_.reset();
  return status;
}

void PosixWritableFile::Allocate(uint64_t offset, uint64_t length) {
  Reserve(offset, length).IgnoreError();
}

Status PosixWritableFile::Reserve(uint64_t offset, uint64_t length) {
  if (descriptor_ < 0) return Status::OK();
  if (fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(length)) == 0) {
    SetAllocatedEnd(offset + length);
    return Status::OK();
  }
  const int error = errno;
  // Some of it may have been allocated.
  SetAllocatedEnd(offset + 1);
  if (error != ENOSPC && error != EDQUOT) return Status::OK();
  return PosixErrorAt("allocate", path_, offset, error);
}

void PosixWritableFile::Release() {
  // In a child created by fork() the parent may have written since.
  if (descriptor_ < 0 || !IsOwner()) return;
  if (std::max(allocated_end_, filled_end_) <= written_bytes_) return;
  // A failure only wastes the space, so it is no error.
  if (ftruncate(descriptor_, static_cast<off_t>(written_bytes_)) != 0) return;
  allocated_end_ = written_bytes_;
  filled_end_ = written_bytes_;
}

void PosixWritableFile::RangeSync(uint64_t offset, uint64_t length) {
  if (descriptor_ < 0) return;
  // A hint: errors are ignored here, and Sync reports a failing device.
  sync_file_range(descriptor_, static_cast<off_t>(offset),
                  static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
}

Status PosixWritableFile::CheckUsable() const {
  if (descriptor_ < 0) return Status::IOError(path_, "file is closed");
  return failure_;
}

Status PosixWritableFile::Write(const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(descriptor_, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      return Fail(PosixErrorAt("write", path_, written_bytes_, errno));
    }
    data += n;
    size -= static_cast<size_t>(n);
    written_bytes_ += static_cast<uint64_t>(n);
  }
  PushWrittenPages();
  return Status::OK();
}

Status PosixWritableFile::WriteWithBuffer(std::span<const Slice> parts) {
  std::array<struct iovec, kPiecesOfCall> pieces;
  size_t count = 0;
  if (buffered_bytes_ > 0) pieces[count++] = {buffer_.get(), buffered_bytes_};
  while (count > 0 || !parts.empty()) {
    while (count < pieces.size() && !parts.empty()) {
      const Slice& part = parts.front();
      if (!part.empty())
        pieces[count++] = {const_cast<char*>(part.data()), part.size()};
      parts = parts.subspan(1);
    }
    const ssize_t n =
        writev(descriptor_, pieces.data(), static_cast<int>(count));
    if (n < 0) {
      if (errno == EINTR) continue;
      return Fail(PosixErrorAt("write", path_, written_bytes_, errno));
    }
    written_bytes_ += static_cast<uint64_t>(n);
    // Keeps what was not written.
    auto left = static_cast<size_t>(n);
    size_t whole = 0;
    while (whole < count && left >= pieces[whole].iov_len) {
      left -= pieces[whole++].iov_len;
    }
    std::copy(pieces.begin() + whole, pieces.begin() + count, pieces.begin());
    count -= whole;
    if (count == 0) continue;
    pieces[0].iov_base = static_cast<char*>(pieces[0].iov_base) + left;
    pieces[0].iov_len -= left;
  }
  buffered_bytes_ = 0;
  PushWrittenPages();
  return Status::OK();
}

// A write after the end, or into space that was only allocated, changes file
// system metadata, and the next sync waits for the journal. A write over
// existing zeros changes only the data.
void PosixWritableFile::FillAhead() {
  const bool small = written_bytes_ - synced_bytes_ <= sync_ahead_bytes_ / 16;
  synced_bytes_ = written_bytes_;
  if (!small || ++small_syncs_ < kSmallSyncsBeforeFill ||
      // A quarter, since Reserve may keep a small part filled by itself.
      written_bytes_ + sync_ahead_bytes_ / 4 <= filled_end_) {
    return;
  }
  // Only speed depends on it. After an error fdatasync decides.
  const uint64_t start = std::max(filled_end_, written_bytes_);
  if (FillWithZeros(start + sync_ahead_bytes_) != 0) small_syncs_ = 0;
}

Status PosixWritableFile::ContinueAt(uint64_t end) {
  if (lseek(descriptor_, static_cast<off_t>(end), SEEK_SET) < 0) {
    return Fail(PosixErrorAt("lseek", path_, end, errno));
  }
  written_bytes_ = end;
  PushWrittenPages();
  return Status::OK();
}

int PosixWritableFile::FillWithZeros(uint64_t end) {
  filled_end_ = std::max(filled_end_, written_bytes_);
  while (filled_end_ < end) {
    const ssize_t n =
        pwrite(descriptor_, zeros,
               std::min<uint64_t>(sizeof(zeros), end - filled_end_),
               static_cast<off_t>(filled_end_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    filled_end_ += static_cast<uint64_t>(n);
  }
  return 0;
}

// Keeps the kernel from accumulating dirty pages for which one sync would
// have to wait.
void PosixWritableFile::PushWrittenPages() {
  if (bytes_per_sync_ == 0) return;
  // Without the last page: it may still grow. On some devices a page that is
  // being written cannot be changed until the write is done.
  const uint64_t end = written_bytes_ & ~uint64_t{kPageBytes - 1};
  if (end - pushed_bytes_ < bytes_per_sync_) return;
  RangeSync(pushed_bytes_, end - pushed_bytes_);
  pushed_bytes_ = end;
}

}  // namespace varve
