// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads many uncached data blocks, of any tables of one database, in one
// submission. Verification, admission to the cache and errors are as in
// TableCore::ReadDataBlock.
//
// Add the blocks, then call Read. It reports each block as soon as it has
// arrived, while others are still being read. Take the block then. Clear begins
// a new batch.
// Thread-safety: owned by one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "table/cache/block_loader.h"
#include "table/reader/read_batch.h"
#include "table/reader/table_core.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class BlockBatch {
 public:
  enum class Added : uint8_t {
    kRead,     // Will be read.
    kCached,   // Found in the cache after all.
    kFull,     // No space until the next Clear.
    kRefused,  // Too large for a batch, or outside the file.
  };

  void Clear();
  bool empty() const { return blocks_.empty(); }

  // Adds block i of a table, which must outlive the batch. kRead sets *index to
  // the argument for Take; repeated additions of a block get the same index.
  // kCached sets *cached.
  Added Add(const ReadOptions& options, const TableCore& core, size_t i,
            size_t* index, BlockRef* cached);

  // Reads the blocks. Calls arrived(index) for each.
  void Read(const std::function<void(size_t)>& arrived);

  // Returns the block that has arrived. If the cache does not admit it, sets
  // only its body, which is valid until the next Take.
  Status Take(size_t index, BlockRef* block, Slice* body);
  // Returns a taken block again, for another lookup, before another block is
  // taken. Returns false if the block has left the cache already.
  bool TakeAgain(size_t index, BlockRef* block) const;

 private:
  struct Waiting {
    const TableCore* core;
    size_t i;
    bool verify;
    bool keep;
  };

  std::vector<Waiting> blocks_;
  ReadBatch reads_;  // One for each block.
  FileBody body_;
};

}  // namespace varve
