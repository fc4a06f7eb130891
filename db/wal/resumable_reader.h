// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads a log that another thread or process may be writing, from any end of a
// record on, as often as the file has grown. The file stays open, so the log
// may be moved or removed.
// Thread-safety: owned by one thread at a time.

#include <cstdint>
#include <memory>
#include <string>

#include "db/wal/wal_reader.h"
#include "varve/env.h"

namespace varve::wal {

class ResumableReader {
 public:
  // As for Reader. It begins with the first record.
  ResumableReader(std::unique_ptr<RandomAccessFile> file, std::string name,
                  uint64_t number);
  ResumableReader(const ResumableReader&) = delete;
  ResumableReader& operator=(const ResumableReader&) = delete;

  Reader* operator->() { return &reader_; }
  const Reader* operator->() const { return &reader_; }
  // Makes the next record the one that begins at `record_end`: see
  // Reader::ContinueAt. It is read from the file's bytes of then.
  void Resume(uint64_t record_end);

 private:
  class File;

  File* const file_;  // The reader's.
  Reader reader_;
};

}  // namespace varve::wal
