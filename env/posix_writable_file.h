// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A file that is appended to by write(), through a buffer.

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "varve/env.h"

namespace varve {

class PosixWritableFile : public WritableFile {
 public:
  // Takes over the descriptor of an empty file.
  PosixWritableFile(std::string path, int descriptor,
                    const FileOptions& options);
  ~PosixWritableFile() override;
  PosixWritableFile(const PosixWritableFile&) = delete;
  PosixWritableFile& operator=(const PosixWritableFile&) = delete;

  Status Append(const Slice& data) override;
  Status AppendParts(const Slice* parts, size_t count, bool flush) override;
  Status Flush() override;
  Status Sync() override;
  Status Close() override;
  void Allocate(uint64_t offset, uint64_t length) override;
  Status Reserve(uint64_t offset, uint64_t length) override;
  void Release() override;
  void RangeSync(uint64_t offset, uint64_t length) override;
  uint64_t Size() const override { return written_bytes_ + buffered_bytes_; }

 protected:
  // After a failed write or sync the contents of the file are unknown, and the
  // kernel may have dropped the dirty pages. A retry could falsely succeed, so
  // the first error is sticky for this file.
  Status Fail(Status status) {
    failure_ = status;
    return status;
  }
  Status CheckUsable() const;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  size_t buffered_bytes() const { return buffered_bytes_; }

  // Returns false in a child created by fork(), which shares the position of
  // write() with its parent.
  bool IsOwner() const { return owner_ == getpid(); }
  uint64_t allocated_end() const { return allocated_end_; }
  void SetAllocatedEnd(uint64_t end) {
    allocated_end_ = std::max(allocated_end_, end);
  }

  // For a file that is also written without write().
  // Returns the end of the written bytes.
  uint64_t written_bytes() const { return written_bytes_; }
  // Records that the file is written up to `end`, which is where the next
  // write() must go. REQUIRES: the buffer is empty; this process is the owner.
  Status ContinueAt(uint64_t end);
  // Writes zeros after the end of the file, up to `end`, unless they are there.
  // Returns 0, or errno.
  int FillWithZeros(uint64_t end);

 private:
  Status Write(const char* data, size_t size);
  Status AppendToBuffer(const Slice& data);
  // Writes the buffer and the parts, without a copy of the latter.
  Status WriteWithBuffer(std::span<const Slice> parts);
  void FillAhead();
  void PushWrittenPages();

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
  uint64_t filled_end_ = 0;    // The end of zeros after the written bytes.
  uint64_t synced_bytes_ = 0;  // Used only with sync_ahead_bytes_.
  int small_syncs_ = 0;
};

}  // namespace varve
