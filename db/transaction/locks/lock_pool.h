// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Small blocks of memory for a stripe of the lock table. A block that is given
// back is used again, so that a lock costs no allocation after the first ones.
// Thread-safety: thread-compatible.

#include <cstddef>
#include <memory>
#include <vector>

namespace varve {

class LockPool {
 public:
  LockPool() = default;
  // REQUIRES: all blocks were given back.
  ~LockPool();
  LockPool(const LockPool&) = delete;
  LockPool& operator=(const LockPool&) = delete;

  // Returns a block of `bytes`, aligned for pointers. A block of more than
  // kMaxPooledBytes is allocated by itself.
  void* Take(size_t bytes);
  // REQUIRES: Take(bytes) returned the block.
  void Give(void* block, size_t bytes);

  bool has_blocks_out() const { return out_ != 0; }
  // Gives memory beyond kKeptBytes back to the system. REQUIRES: no block is
  // out.
  void Trim();

  static constexpr size_t kMaxPooledBytes = 512;
  static constexpr size_t kKeptBytes = 32 << 10;

 private:
  static constexpr size_t kStep = 32;
  struct Free {
    Free* next;
  };

  static size_t ClassOf(size_t bytes) { return (bytes + kStep - 1) / kStep; }
  char* TakeNew(size_t bytes);

  Free* free_[kMaxPooledBytes / kStep + 1] = {};  // By size in steps.
  char* next_ = nullptr;  // The rest of the newest chunk.
  size_t left_bytes_ = 0;
  size_t out_ = 0;
  size_t chunk_bytes_ = 0;  // Of all chunks.
  std::vector<std::unique_ptr<char[]>> chunks_;
};

}  // namespace varve
