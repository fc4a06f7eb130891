// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <optional>

#include "util/threads/thread_scratch.h"
#include "varve/write_batch.h"

namespace varve {

// An empty batch for the time of a scope, in memory that the thread keeps from
// one to the next. `Tag` says whose it is, since a scope may lie within that of
// another tag; within one of its own, as when a Logger or Env of the user's
// writes to a database of its own, it gets memory for itself alone.
template <typename Tag>
class ScratchBatch {
 public:
  // For so many bytes, about. One that is larger than kMaxKeptBytes is not
  // kept.
  static constexpr size_t kMaxKeptBytes = 64 << 10;

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
