// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A place in a log that is being written.
// Thread-safety: owned by one thread at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "db/wal/resumable_reader.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class LogCursor {
 public:
  // As for wal::Reader.
  LogCursor(std::unique_ptr<RandomAccessFile> file, std::string name,
            uint64_t number)
      : number_(number), reader_(std::move(file), std::move(name), number) {}
  LogCursor(const LogCursor&) = delete;
  LogCursor& operator=(const LogCursor&) = delete;

  // Reads the next record: see wal::Reader. It may be one of the bytes that
  // were read before the last Restart, and of no later ones.
  wal::ReadOutcome Read(Slice* record);
  // Makes Read go on after the last record, with the file's bytes of now.
  void Restart() { reader_.Resume(end_); }
  // Makes Read go on after the record before the last one.
  void StepBack();
  // Returns the end of the last record.
  uint64_t end() const { return end_; }
  uint64_t number() const { return number_; }
  // Returns the reason for an outcome that is not a record.
  const Status& status() const { return reader_->status(); }
  // See wal::Reader.
  bool EndIsTorn(wal::ReadOutcome outcome) {
    return reader_->EndIsTorn(outcome);
  }

 private:
  const uint64_t number_;
  wal::ResumableReader reader_;
  uint64_t end_ = 0;
  uint64_t previous_end_ = 0;
};

}  // namespace varve
