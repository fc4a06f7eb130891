// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The records of a log, or of a MANIFEST, that another process writes. After
// the last complete record there is none *now*, and reading goes on from there
// later, for the price of one read of the file.
//
// The end of such a file may be a record that is being written. Its write has
// not returned then, so that nobody relies on it. But it may also be damage. So
// the end is read again for a while. A record that is complete by then was
// being written. If it is not, and nothing follows that can be read, its writer
// has died or keeps the rest in a buffer: the file ends before it for now. If
// records follow, it is damage.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "db/wal/resumable_reader.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: owned by one thread at a time.
class LogTail {
 public:
  // The kinds of results of a read.
  enum class Next : uint8_t {
    kRecord,
    kEnd,   // There is no further record now.
    kTorn,  // As kEnd: the file ends inside a record.
    kError,
  };

  // Opens a file of the Env, which must outlive this. Returns NotFound if it
  // does not exist. `number` is the number in its name.
  static Status Open(Env* env, const std::string& path, uint64_t number,
                     std::unique_ptr<LogTail>* tail);
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;

  // Reads the next record, and the same end again after one. *record is valid
  // until the next call. With `waits`, reads a torn end again for up to a
  // second, unless it was torn at that place before.
  Next Read(bool waits, Slice* record);
  // The reason of kError, or of kTorn.
  const Status& status() const { return status_; }
  // Goes back to the end of an earlier record, or to 0.
  void Return(uint64_t record_end);

  uint64_t number() const { return number_; }
  // Returns the offset after the last record that was read.
  uint64_t end() const { return end_; }
  // Returns whether the records have a form that is overwritten in place when
  // the file is used again.
  bool IsRecyclable() const { return reader_->IsRecyclable(); }
  // Sets *same to whether the name still leads to this file. Returns NotFound
  // if it leads to none. An Env without identities cannot tell: *same is true.
  Status IsSameFile(bool* same) const;

 private:
  LogTail(Env* env, const std::string& path, uint64_t number,
          std::unique_ptr<RandomAccessFile> file)
      : env_(env),
        path_(path),
        number_(number),
        reader_(std::move(file), path, number) {}
  Next ReadOnce(Slice* record, bool* is_torn);

  Env* const env_;
  const std::string path_;
  const uint64_t number_;
  std::optional<FileId> id_;
  wal::ResumableReader reader_;
  uint64_t end_ = 0;
  bool is_at_end_ = false;  // The reader has found no record after end_.
  // Where the file was torn for longer than a write takes.
  std::optional<uint64_t> torn_at_;
  Status status_;
};

}  // namespace varve
