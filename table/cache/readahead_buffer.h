// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads ahead in a table file. The buffer holds a range of the file and serves
// blocks from it. When blocks are read in sequence, it reads more than
// requested, so a scan makes few large reads.
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
  // Bounds of the automatic readahead. Its size doubles from the first to the
  // maximum.
  static constexpr size_t kFirstReadaheadBytes = size_t{16} << 10;
  static constexpr size_t kMaxReadaheadBytes = size_t{256} << 10;
  // Sequential reads before readahead begins.
  static constexpr int kReadsInARow = 2;

  // `file` must outlive this. `fixed_bytes` is the readahead size from the
  // first read on; 0 detects sequential reads and adapts the size.
  ReadaheadBuffer(const RandomAccessFile* file, uint64_t file_size,
                  size_t fixed_bytes);
  // Constructs it without a file; call Open first. `memory` may be null.
  ReadaheadBuffer(size_t fixed_bytes, ThreadArena* memory)
      : fixed_bytes_(fixed_bytes), buffer_(memory) {}
  ReadaheadBuffer(const ReadaheadBuffer&) = delete;
  ReadaheadBuffer& operator=(const ReadaheadBuffer&) = delete;

  // Attaches a file and resets the buffer to its initial state.
  void Open(const RandomAccessFile* file, uint64_t file_size);
  // Discards the contents and frees heap memory.
  void ResetForReuse() {
    Open(file_, file_size_);
    buffer_.Trim();
  }

  // Replaces the contents by a range of the file. Reads at least `least` bytes,
  // fewer at the end of the file, and up to `size` if that needs no second
  // read.
  Status Fill(uint64_t offset, size_t least, size_t size);
  Status Fill(uint64_t offset, size_t size) { return Fill(offset, size, size); }
  // Replaces the contents by a range of the file that the caller has read, and
  // keeps while this object uses it.
  void Use(uint64_t offset, const Slice& data) {
    offset_ = offset;
    data_ = data;
  }
  // Returns the whole contents.
  const Slice& data() const { return data_; }

  // Returns a part of the file, from the buffer if it is there or if readahead
  // applies. *result is then valid until the next call. Its data is null if the
  // caller should read the part itself.
  // REQUIRES: the part is inside the file.
  Status Serve(uint64_t offset, size_t size, Slice* result);
  // Returns whether the contents include this part of the file.
  bool Holds(uint64_t offset, size_t size) const {
    return offset >= offset_ && offset - offset_ <= data_.size() &&
           size <= data_.size() - (offset - offset_);
  }

 private:
  const RandomAccessFile* file_ = nullptr;
  uint64_t file_size_ = 0;
  const size_t fixed_bytes_;

  size_t next_bytes_ = kFirstReadaheadBytes;
  int reads_in_a_row_ = 0;
  uint64_t last_end_ = 0;  // End of the part requested last.
  uint64_t offset_ = 0;    // Offset of data_ in the file.
  Slice data_;
  ArenaBuffer buffer_;
};

}  // namespace varve
