// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Data blocks that are not in memory, of any tables of one database, read in
// one submission. What is read, checked and kept, and what is told of errors,
// is as in TableCore::ReadDataBlock.
//
// Add the blocks, then Read, which asks to Take each as soon as it is there,
// while others are still under way; Clear to begin again.
// Thread-safety: owned by one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "env/direct_io.h"
#include "table/cache/block_loader.h"
#include "table/reader/table_core.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class BlockBatch {
 public:
  enum class Added : uint8_t {
    kRead,     // Will be read.
    kCached,   // Was found after all.
    kFull,     // No space before the next Clear.
    kRefused,  // Not for a batch: it is too large, or its place is wrong.
  };

  void Clear();
  bool empty() const { return blocks_.size() == 0; }

  // Block i of a table, which must outlive the batch. kRead sets *index to
  // what Take wants, the same for the same block; kCached sets *cached.
  Added Add(const ReadOptions& options, const TableCore& core, size_t i,
            size_t* index, BlockRef* cached);

  // Calls arrived(index) for each.
  void Read(const std::function<void(size_t)>& arrived);

  // The block, or, where the cache has no place for it, only its body, which
  // is valid until the next Take.
  Status Take(size_t index, BlockRef* block, Slice* body);
  // The same for a further lookup, before another block is taken. False if the
  // block has left the cache already.
  bool TakeAgain(size_t index, BlockRef* block) const;

 private:
  struct Waiting {
    const TableCore* core;
    size_t i;
    bool verify;
    bool keep;
    size_t lead;    // Bytes of the read before the block.
    size_t memory;  // Offset in memory_.
  };

  std::vector<Waiting> blocks_;
  std::vector<FileReadRequest> reads_;
  size_t alignment_ = 1;
  size_t bytes_ = 0;
  AlignedBuffer memory_;
  FileBody body_;
};

}  // namespace varve
