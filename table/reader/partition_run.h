// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <span>

#include "table/block/format.h"
#include "table/cache/readahead_buffer.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Reads the partitions of an index or a filter by few calls. Most programs
// write them one after the other, so one read returns a run of them.
// Thread-safety: owned by one thread at a time.
class PartitionRun {
 public:
  // Longer runs are read in parts.
  static constexpr uint64_t kMaxBytes = uint64_t{16} << 20;

  // `tail` may hold partitions already. `file` and `tail` must outlive this.
  PartitionRun(const RandomAccessFile* file, uint64_t file_size,
               ReadaheadBuffer* tail)
      : file_size_(file_size), tail_(*tail), run_(file, file_size, 0) {}

  // Reads a part of the file, unless it is too long or known. `end` may be
  // before `begin`; nothing is then read.
  Status Read(uint64_t begin, uint64_t end);
  // Reads these blocks, unless they are too far from each other. They are then
  // read one by one. REQUIRES: the blocks are inside the file.
  Status Read(std::span<const BlockHandle> handles);

  // Returns the buffer that may serve the read of a block.
  ReadaheadBuffer* SourceOf(const BlockHandle& handle);

 private:
  const uint64_t file_size_;
  ReadaheadBuffer& tail_;
  ReadaheadBuffer run_;
};

}  // namespace varve
