// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A stretch of a table file in memory from which blocks are served. When
// blocks are read one behind the other it reads more than is asked for, so
// that a scan makes few and large reads.
//
// Thread-safety: owned by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "util/threads/thread_arena.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class ReadaheadBuffer {
 public:
  // Bounds of what is read at once by itself; it doubles in between.
  static constexpr size_t kFirstReadaheadBytes = size_t{16} << 10;
  static constexpr size_t kMaxReadaheadBytes = size_t{256} << 10;
  // Reads in a row before the first one ahead.
  static constexpr int kReadsInARow = 2;

  // `file` must outlive this. `fixed_bytes` is what to read at once from the
  // beginning; 0 leaves it to the pattern of reads.
  ReadaheadBuffer(const RandomAccessFile* file, uint64_t file_size,
                  size_t fixed_bytes);
  // Without a file: Open it first. `memory` may be null.
  ReadaheadBuffer(size_t fixed_bytes, ThreadArena* memory)
      : fixed_bytes_(fixed_bytes), buffer_(memory) {}
  ReadaheadBuffer(const ReadaheadBuffer&) = delete;
  ReadaheadBuffer& operator=(const ReadaheadBuffer&) = delete;

  // Turns to a file, with nothing of it there, as if it had not been used.
  void Open(const RandomAccessFile* file, uint64_t file_size);
  // Forgets what is there, and gives up memory on the heap.
  void ResetForReuse() {
    Open(file_, file_size_);
    buffer_.Trim();
  }

  // Loads a stretch in place of what is there: `least` bytes, less where the
  // file ends, and up to `size` if that takes no second read.
  Status Fill(uint64_t offset, size_t least, size_t size);
  Status Fill(uint64_t offset, size_t size) { return Fill(offset, size, size); }
  // All that is there.
  const Slice& data() const { return data_; }

  // Gives a part of the file, from the buffer if it is there or worth
  // reading ahead; *result is valid until the next call then. It is empty
  // (its data null) where the caller should better read the part by itself.
  // REQUIRES: the part lies within the file.
  Status Serve(uint64_t offset, size_t size, Slice* result);

 private:
  bool Holds(uint64_t offset, size_t size) const {
    return offset >= offset_ && offset - offset_ <= data_.size() &&
           size <= data_.size() - (offset - offset_);
  }

  const RandomAccessFile* file_ = nullptr;
  uint64_t file_size_ = 0;
  const size_t fixed_bytes_;

  size_t next_bytes_ = kFirstReadaheadBytes;
  int reads_in_a_row_ = 0;
  uint64_t last_end_ = 0;  // Of the last part that was asked for.
  uint64_t offset_ = 0;    // Of data_ in the file.
  Slice data_;
  ArenaBuffer buffer_;
};

}  // namespace varve
