// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <optional>

#include "util/threads/thread_scratch.h"
#include "varve/write_batch.h"

namespace varve {

// Provides an empty batch for a scope, in memory that the thread keeps for
// later scopes. Each `Tag` has its own memory, so that scopes of different tags
// can be nested. A scope nested in one with the same tag gets separate memory.
// That happens if a user's Logger or Env writes to another database.
//
// Thread-safety: owned by one thread.
template <typename Tag>
class ScratchBatch {
 public:
  // The memory of a batch with a larger expected size is not kept.
  static constexpr size_t kMaxKeptBytes = 64 << 10;

  // `bytes` is the expected size of the batch.
  explicit ScratchBatch(size_t bytes) {
    if (bytes > kMaxKeptBytes) [[unlikely]] {
      batch_ = &large_.emplace();
      return;
    }
    batch_ = &*kept_;
    batch_->Clear();
  }
  ScratchBatch(const ScratchBatch&) = delete;
  ScratchBatch& operator=(const ScratchBatch&) = delete;

  WriteBatch* get() { return batch_; }
  WriteBatch* operator->() { return batch_; }

 private:
  const ThreadScratch<WriteBatch, Tag> kept_;
  std::optional<WriteBatch> large_;
  WriteBatch* batch_;
};

}  // namespace varve
