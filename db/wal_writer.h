// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>

#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve::wal {

// Appends records to a log.
// Thread-safety: owned by one thread at a time.
class Writer {
 public:
  // `file` is empty.
  Writer(std::unique_ptr<WritableFile> file, uint64_t number)
      : file_(std::move(file)), number_(number) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Adds a record and hands it to the operating system. After an error the
  // log's end is unknown: write no more to it.
  Status AddRecord(const Slice& record);
  // Waits until all is on the device. Not to be retried after an error.
  Status Sync() { return file_->Sync(); }
  Status Close() { return file_->Close(); }

  uint64_t number() const { return number_; }
  uint64_t Size() const { return file_->Size(); }
  WritableFile* file() { return file_.get(); }

 private:
  Status AddFragment(uint8_t type, const char* data, size_t size);

  std::unique_ptr<WritableFile> file_;
  const uint64_t number_;
  size_t block_offset_ = 0;
};

}  // namespace varve::wal
