// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve::wal {

struct WriterOptions {
  // Leave records in the file's buffer until it is full or Flush is called, but
  // for those that would fill it alone.
  bool manual_flush = false;
  // Ask for the file's space in pieces of so many bytes, ahead of the writes;
  // 0, do not.
  uint64_t allocate_bytes = 0;
  // Of these, keep so many for records that may use the reserve.
  uint64_t reserve_bytes = 0;
};

// Appends records to a log.
// Thread-safety: owned by one thread at a time.
class Writer {
 public:
  // `file` is empty.
  Writer(std::unique_ptr<WritableFile> file, uint64_t number,
         const WriterOptions& options = {})
      : file_(std::move(file)), number_(number), options_(options) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Adds a record, the parts in a row, and hands it to the operating system,
  // by one write() if it is not larger than the file's buffer. After an error,
  // of this or of what follows, the log's end is unknown, and what was not
  // synced may be gone: nothing is tried again, the error comes back. But a
  // record for which there is no space may be refused before anything of it is
  // written: then failed() is false, and the log may still be used.
  Status AddRecord(std::span<const Slice> parts, bool may_use_reserve = false);
  Status AddRecord(const Slice& record, bool may_use_reserve = false) {
    return AddRecord(std::span<const Slice>(&record, 1), may_use_reserve);
  }
  // Flushes, and gives back the space after the end of the file.
  void ReleaseSpace() {
    if (!Flush().ok()) return;
    file_->Release();
    allocated_bytes_ = file_->Size();
  }
  // Hands on what manual_flush has left.
  Status Flush() {
    if (failure_.ok()) failure_ = file_->Flush();
    return failure_;
  }
  // Waits until all is on the device.
  Status Sync() {
    if (failure_.ok()) failure_ = file_->Sync();
    return failure_;
  }
  // What was written may be gone: nobody is to be told that it is safe.
  void Fail(const Status& status) {
    if (failure_.ok()) failure_ = status;
  }
  Status Close() { return file_->Close(); }

  bool failed() const { return !failure_.ok(); }
  uint64_t number() const { return number_; }
  uint64_t Size() const { return file_->Size(); }
  WritableFile* file() { return file_.get(); }

 private:
  class Cursor;

  Status AddFragments(std::span<const Slice> parts, size_t size);
  Status AddFragment(uint8_t type, Cursor* cursor, size_t size);
  Status AllocateFor(size_t record_size, bool may_use_reserve);
  [[gnu::noinline]] Status Allocate(uint64_t end);

  std::unique_ptr<WritableFile> file_;
  const uint64_t number_;
  const WriterOptions options_;
  size_t block_offset_ = 0;
  uint64_t allocated_bytes_ = 0;
  Status failure_;
};

}  // namespace varve::wal
