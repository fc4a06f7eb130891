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
  // A longer run is not read at once: reads of its blocks read ahead as a scan
  // does.
  static constexpr uint64_t kMaxBytes = uint64_t{16} << 20;

  // `tail` may hold partitions already. `file` and `tail` must outlive this.
  PartitionRun(const RandomAccessFile* file, uint64_t file_size,
               ReadaheadBuffer* tail)
      : file_size_(file_size), tail_(*tail), run_(file, file_size, 0) {}

  // Reads a part of the file, unless it exceeds kMaxBytes or is in a buffer
  // already. Reads nothing if `end` is not after `begin`. REQUIRES: `end` is
  // inside the file.
  Status Read(uint64_t begin, uint64_t end);
  // Reads these blocks at once, unless gaps are most of their span or the span
  // exceeds kMaxBytes. The caller's reads then fetch the blocks. REQUIRES: the
  // blocks are inside the file.
  Status Read(std::span<const BlockHandle> handles);

  // Returns the buffer that may serve the read of a block.
  ReadaheadBuffer* SourceOf(const BlockHandle& handle);

 private:
  const uint64_t file_size_;
  ReadaheadBuffer& tail_;
  ReadaheadBuffer run_;
};

}  // namespace varve
