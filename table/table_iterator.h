// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "table/block.h"
#include "table/block_cache.h"
#include "table/internal_iterator.h"
#include "table/readahead_buffer.h"
#include "table/table_core.h"
#include "varve/options.h"

namespace varve {

// Walks a table: through the index from block to block, and through each. It
// holds one block at a time.
// Thread-safety: owned by one thread at a time.
class TableIterator final : public InternalIterator {
 public:
  // `core` must outlive the iterator; `owner` is held for that, and may be
  // null.
  TableIterator(const ReadOptions& options, const TableCore* core,
                std::shared_ptr<const void> owner);

  bool Valid() const override { return block_ && entry_.Valid(); }
  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const Slice& internal_key) override;
  void SeekForPrev(const Slice& internal_key) override;
  void Next() override {
    entry_.Next();
    if (!entry_.Valid()) SkipEmptyForward();
  }
  void Prev() override {
    entry_.Prev();
    if (!entry_.Valid()) SkipEmptyBackward();
  }
  Slice key() const override { return entry_.key(); }
  Slice value() const override { return entry_.value(); }
  Status status() const override { return status_; }

 private:
  // Turns to block i. False, and the iterator is not valid, if there is no
  // such block or it cannot be read.
  bool EnterBlock(size_t i);
  // To the nearest entry beyond this block, if it stands behind, or before,
  // all entries of this one.
  void SkipEmptyForward();
  void SkipEmptyBackward();

  const ReadOptions options_;
  const std::shared_ptr<const void> owner_;
  const TableCore* const core_;

  ReadaheadBuffer readahead_;
  size_t block_index_ = 0;
  BlockRef block_;  // Empty when the iterator stands nowhere.
  BlockIterator entry_;
  Status status_;
};

}  // namespace varve
