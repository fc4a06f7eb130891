// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "table/block/block.h"
#include "table/block/internal_iterator.h"
#include "table/cache/block_cache.h"
#include "table/cache/readahead_buffer.h"
#include "table/reader/file_block_iterator.h"
#include "table/reader/table_core.h"
#include "varve/options.h"

namespace varve {

// Walks a table: through the index from block to block, and through each. It
// holds one block at a time, or, going forward, the body of one that is not
// worth making.
// Thread-safety: owned by one thread at a time.
class TableIterator final : public InternalIterator {
 public:
  // `core` must outlive the iterator; `owner` is held for that, and may be
  // null.
  TableIterator(const ReadOptions& options, const TableCore* core,
                std::shared_ptr<const void> owner,
                ThreadArena* memory = nullptr);
  // Without a table: Open one first. `memory` may be null.
  TableIterator(const ReadOptions& options, ThreadArena* memory);

  // Turns to a table, standing nowhere in it.
  void Open(const TableCore* core, std::shared_ptr<const void> owner);
  // False if the table may go now: it was kept by the owner.
  bool ResetForReuse() override;

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const Slice& internal_key) override;
  void SeekForPrev(const Slice& internal_key) override;
  void Next() override {
    entry_.Next();
    if (entry_.Valid()) [[likely]] {
      PrefetchAhead(kStepLines);
    } else {
      LeaveEntry();
    }
  }
  void Prev() override {
    if (in_body_ && !MakeBlock()) [[unlikely]]
      return;
    entry_.Prev();
    if (!entry_.Valid()) SkipEmptyBackward();
  }
  Status status() const override { return status_; }

 private:
  // To nowhere, with what is held of the block.
  void LeaveBlock();
  // Turns to block i; where that makes do, to its body only. False, and the
  // iterator is not valid, if there is no such block or it cannot be read.
  bool EnterBlock(size_t i, bool body_will_do);
  // In place of the body that it stands in turns to the block, to the same
  // entry.
  bool MakeBlock();
  // Goes on at the end of a block, or to the next entry of a body: while it
  // stands in one, entry_ always is at its end.
  void LeaveEntry();
  // Notes an error inside the body.
  bool CheckBody();
  // To the first entry from block i on, or the last one up to it.
  void EnterForward(size_t i);
  void EnterBackward(size_t i);
  // To the nearest entry beyond this block, if it stands behind, or before,
  // all entries of this one.
  void SkipEmptyForward();
  void SkipEmptyBackward();

  // A walk forward asks for memory so many bytes ahead, in this block and then
  // the next one, some lines with each step: a block lies anywhere, so that
  // the processor does not foresee its beginning.
  static constexpr size_t kPrefetchBytes = 1024;
  static constexpr size_t kStepLines = 4;
  static constexpr size_t kSeekLines = 8;
  void PrefetchAhead(size_t lines) {
    const size_t wanted = entry_.offset() + kPrefetchBytes;
    for (size_t i = 0; i < lines && prefetched_ < wanted; ++i) {
      if (prefetched_ < block_size_) {
        __builtin_prefetch(reinterpret_cast<const char*>(block_.get()) +
                           prefetched_);
      } else if (prefetched_ < block_size_ + kPrefetchBytes) {
        PrefetchNextBlock();
      }
      prefetched_ += 64;
    }
  }
  void PrefetchNextBlock() const;

  const ReadOptions options_;
  ThreadArena* const memory_;
  std::shared_ptr<const void> owner_;
  const TableCore* core_ = nullptr;

  ReadaheadBuffer readahead_;
  size_t block_index_ = 0;
  BlockRef block_;  // Empty in a body, and when it stands nowhere.
  size_t block_size_ = 0;
  // Bytes from the beginning of the block that were asked for; may go on into
  // the next one.
  size_t prefetched_ = 0;
  BlockIterator entry_{memory_};
  bool in_body_ = false;
  // Null before it is first needed.
  std::unique_ptr<FileBody> body_;
  FileBlockIterator body_entry_{entry_.shared_position(), memory_};
  Status status_;
};

}  // namespace varve
