// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Ranges of files that are read in one submission (Env::MultiRead), for
// BlockBatch and PartBatch. Some files must be read in larger units. Then the
// units around a range are read in full, which saves a copy.
//
// Thread-safety: owned by one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "env/direct_io.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class ReadBatch {
 public:
  // Maximum bytes of a batch, which a thread keeps allocated.
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // Returns whether a batch can have a range of this size at all.
  static bool CanHold(const RandomAccessFile& file, uint64_t size) {
    return size <= kMaxBytes / 2 && file.RequiredAlignment() <= kMaxBytes / 8;
  }

  // Begins a new batch. The results of the last one are invalid then.
  void Clear();
  size_t size() const { return ranges_.size(); }

  // Returns whether there is space for the range.
  // REQUIRES: CanHold.
  bool Fits(const RandomAccessFile& file, uint64_t offset, size_t size) const {
    return Place(file, offset, size).end <= kMaxBytes;
  }
  // Adds a range, which is inside the file, and returns its index. The file
  // must outlive the batch. REQUIRES: Fits.
  size_t Add(const RandomAccessFile& file, uint64_t offset, size_t size);

  // Reads the ranges. Calls arrived(index) for each as soon as it is there,
  // while others are still being read. REQUIRES: there are some.
  void Read(Env* env, const std::function<void(size_t)>& arrived);

  // The result of a range that has arrived. The bytes are fewer than requested
  // if the file is shorter.
  const Status& status(size_t index) const { return reads_[index].read.status; }
  Slice bytes(size_t index) const;

 private:
  struct Range {
    size_t lead;    // Bytes that are read before it.
    size_t size;    // Without them.
    size_t memory;  // Offset in memory_.
  };
  // Where a range would be in the memory of the batch.
  struct Placed {
    size_t lead;
    size_t begin;
    size_t end;
  };
  Placed Place(const RandomAccessFile& file, uint64_t offset,
               size_t size) const {
    const size_t mask = file.RequiredAlignment() - 1;
    const size_t lead = offset & mask;
    const size_t begin = (bytes_ + mask) & ~mask;
    return {lead, begin, begin + ((lead + size + mask) & ~mask)};
  }

  std::vector<Range> ranges_;
  std::vector<FileReadRequest> reads_;
  size_t alignment_ = 1;
  size_t bytes_ = 0;
  AlignedBuffer memory_;
};

}  // namespace varve
