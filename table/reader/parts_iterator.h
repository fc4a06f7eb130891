// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <memory>

#include "table/reader/table_iterator.h"
#include "table/reader/table_parts.h"
#include "varve/options.h"

namespace varve {

// Iterates over a table that has parts, one part at a time.
// Thread-safety: owned by one thread at a time.
class PartsIterator {
 public:
  // `whole` must have parts and outlive the iterator. `owner`, which may be
  // null, is held for that.
  PartsIterator(const ReadOptions& options, const TableCore* whole,
                std::shared_ptr<const void> owner, ThreadArena* memory);
  PartsIterator(const PartsIterator&) = delete;
  PartsIterator& operator=(const PartsIterator&) = delete;

  const TableCore* whole() const { return whole_; }

  // As InternalIterator's.
  void SeekToFirst();
  void SeekToLast();
  void Seek(const Slice& internal_key);
  void SeekForPrev(const Slice& internal_key);
  void Next() {
    entry_.Next();
    SkipForward();
  }
  void Prev() {
    entry_.Prev();
    SkipBackward();
  }
  Status status() const { return part_ != nullptr ? entry_.status() : status_; }
  IteratorPosition position() const {
    return part_ != nullptr ? *entry_.position() : IteratorPosition();
  }

 private:
  // Returns false, and there is no current part, if part i does not exist or
  // cannot be read.
  bool Enter(size_t i);
  void SkipForward();
  void SkipBackward();

  const ReadOptions options_;
  const TableCore* const whole_;
  const std::shared_ptr<const void> owner_;
  std::shared_ptr<const TablePart> part_;  // Null if there is none.
  size_t index_ = 0;
  Status status_;
  TableIterator entry_;
};

}  // namespace varve
