// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table/block/internal_key.h"
#include "util/base/first_error.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve::wal {

struct WriterOptions {
  // Such records are not stored into a mapping: see env/posix_mapped_file.cc.
  static constexpr size_t kLargeBytes = size_t{16} << 10;

  // Leave records in the file's buffer until it is full or Flush is called.
  // Records that would fill the buffer alone are written at once.
  bool manual_flush = false;
  // Allocate the file's space in pieces of this size before it is written; 0
  // disables this.
  uint64_t allocate_bytes = 0;
  // The same for a record of kLargeBytes or more; 0: also allocate_bytes.
  uint64_t large_allocate_bytes = 0;
  // The number of allocated bytes to keep for records that may use the reserve.
  uint64_t reserve_bytes = 0;
  // The size of a log that another process has written, and to which nothing is
  // added.
  uint64_t finished_bytes = 0;
};

// Appends records to a log.
// Thread-safety: owned by one thread at a time, but for Fail() and failed(),
// which any thread may call.
class Writer {
 public:
  // `file` must be empty, but for finished_bytes.
  Writer(std::unique_ptr<WritableFile> file, uint64_t number,
         const WriterOptions& options = {})
      : file_(std::move(file)),
        size_(options.finished_bytes),
        options_(options),
        number_(number) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Appends a record, the concatenation of the parts, and passes it to the
  // operating system. A record that fits in the file's buffer takes one
  // write().
  //
  // After an error of this function, Flush or Sync, the end of the log is
  // unknown and unsynced records may be lost. Later calls return the same
  // error. However, a record without space may be refused before it is written.
  // Then failed() is false, and the log may still be used.
  Status AddRecord(std::span<const Slice> parts, bool may_use_reserve = false);
  Status AddRecord(const Slice& record, bool may_use_reserve = false) {
    return AddRecord(std::span<const Slice>(&record, 1), may_use_reserve);
  }
  // Releases the allocated space after the file's end.
  void ReleaseSpace() {
    // The space of buffered records must not be released.
    if (!Flush().ok()) return;
    file_->Release();
    allocated_bytes_ = size_;
  }
  // Passes records that manual_flush left in the buffer to the operating
  // system.
  Status Flush() { return failed() ? error_.status() : Keep(file_->Flush()); }
  // Waits until all records are on the device. Flushes sync older logs beside
  // the leader of the write queue: see WalSet::SyncBeforeLocked.
  Status Sync() { return failed() ? error_.status() : Keep(file_->Sync()); }
  // Marks the log as failed, because written records may be lost. Later calls
  // return the error.
  void Fail(const Status& status) { error_.Set(status); }
  Status Close() { return file_->Close(); }

  // The last update up to this log, which WalSet keeps here, because an append
  // changes the cache line anyway.
  SequenceNumber last_update() const { return last_update_; }
  void SetLastUpdate(SequenceNumber sequence) { last_update_ = sequence; }

  bool failed() const { return error_.failed(); }
  uint64_t number() const { return number_; }
  uint64_t Size() const { return size_; }
  WritableFile* file() { return file_.get(); }

 private:
  class Cursor;

  Status Keep(Status status) {
    if (!status.ok()) [[unlikely]] {
      Fail(status);
    }
    return status;
  }

  [[gnu::noinline]] Status AddFragments(std::span<const Slice> parts,
                                        size_t size, bool flush);
  // Adds a whole record that fits in the block, of `size` bytes in total. The
  // first piece is for the header.
  Status AddWhole(std::span<Slice> pieces, size_t size, bool flush);
  Status AllocateFor(size_t record_size, bool may_use_reserve);
  [[gnu::noinline]] Status Allocate(uint64_t end, size_t record_size);

  // What an append uses is on one line, which moves between the processors of
  // the threads that lead one after another.
  alignas(64) std::unique_ptr<WritableFile> file_;
  uint64_t size_;  // Of the file.
  size_t block_offset_ = 0;
  uint64_t allocated_bytes_ = 0;
  SequenceNumber last_update_ = 0;

  alignas(64) const WriterOptions options_;
  const uint64_t number_;
  FirstError error_;
  std::vector<Slice> pieces_;  // Of the fragments that are being added.
};

}  // namespace varve::wal
