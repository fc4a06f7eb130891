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

class PartsIterator;

// Iterates over a table: over its index, and within each block. Holds one block
// at a time. Going forward, it may instead hold the body of a block that the
// cache does not admit.
// Thread-safety: owned by one thread at a time.
class TableIterator final : public InternalIterator {
 public:
  // `core` must outlive the iterator. `owner`, which may be null, is held for
  // that.
  TableIterator(const ReadOptions& options, const TableCore* core,
                std::shared_ptr<const void> owner,
                ThreadArena* memory = nullptr);
  // Constructs it without a table; call Open first. `memory` may be null.
  TableIterator(const ReadOptions& options, ThreadArena* memory);

  const ReadOptions& options() const { return options_; }

  // Attaches a table. The iterator is not valid until it is positioned.
  void Open(const TableCore* core, std::shared_ptr<const void> owner);
  // Attaches another part of the same table, whose file stays in use.
  void OpenPart(const TableCore* core) {
    LeaveBlock();
    core_ = core;
  }
  // Returns false if the owner kept the table, which may be closed now.
  bool ResetForReuse() override;

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const Slice& internal_key) override;
  bool PrepareSeek(const Slice& internal_key, int step) override;
  void FinishSeek(const Slice& internal_key) override;
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
    if (in_body_) [[unlikely]] {
      PrevInBody();
      return;
    }
    entry_.Prev();
    if (!entry_.Valid()) SkipEmptyBackward();
  }
  void SkipDeadForward(DeadWalk* walk) override;
  void SkipDeadBackward(DeadWalk* walk) override;
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override;
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    if (!in_body_) entry_.CollectDeletions(walk, deletions);
  }
  Status status() const override { return status_; }

 private:
  // Releases the current block. The iterator is then not valid.
  void LeaveBlock();
  // Enters block i, or only its body if `body_will_do` and that suffices.
  // Returns false, and the iterator is not valid, if there is no such block or
  // it cannot be read.
  bool EnterBlock(size_t i, bool body_will_do);
  // Replaces the current body by its block, at the same entry. Returns false on
  // error.
  bool MakeBlock();
  void PrevInBody();
  // If the table has parts, another iterator is at the entry, and this one
  // shows it, as if it was in a body.
  PartsIterator* Parts();
  void ShowPart();
  // Continues at the end of a block, or moves to the next entry of a body. In a
  // body, entry_ is always at its end.
  void LeaveEntry();
  // Records an error inside the body. Returns false if there is one.
  bool CheckBody();
  // Moves to the first entry from block i on, or to the last entry up to block
  // i.
  void EnterForward(size_t i);
  void EnterBackward(size_t i);
  // Moves to the nearest entry of another block, if the iterator is past the
  // end, or before the beginning, of this block.
  void SkipEmptyForward();
  void SkipEmptyBackward();

  // Ends a seek whose block, if there is one, has been entered. `seek` moves
  // inside of the block.
  template <typename SeekInBlock>
  void LandAt(const Slice& internal_key, SeekInBlock seek);
  static constexpr size_t kUnknown = SIZE_MAX;

  // A forward scan prefetches this many bytes ahead, in this block and then in
  // the next, some lines with each step. Blocks have unrelated addresses, so
  // the processor cannot predict where the next one begins.
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
  // Prefetches the first lines of the blocks that a walk over dead entries
  // enters next.
  void PrefetchForSkips() const;

  const ReadOptions options_;
  ThreadArena* const memory_;
  std::shared_ptr<const void> owner_;
  const TableCore* core_ = nullptr;

  ReadaheadBuffer readahead_;
  size_t block_index_ = 0;
  BlockRef block_;  // Empty in a body and when not valid.
  size_t block_size_ = 0;
  // Bytes from the beginning of the block that were prefetched. May extend into
  // the next block.
  size_t prefetched_ = 0;
  BlockIterator entry_{memory_};
  bool in_body_ = false;
  // A seek in steps: the place in the index, and the block if it is known.
  TableIndex::Place place_;
  size_t sought_ = kUnknown;
  // Null before it is first needed.
  std::unique_ptr<FileBody> body_;
  FileBlockIterator body_entry_{entry_.shared_position(), memory_};
  struct PartsDeleter {
    void operator()(PartsIterator* parts) const;
  };
  // The part that was read last, of the table that was read last.
  std::unique_ptr<PartsIterator, PartsDeleter> parts_;
  Status status_;
};

}  // namespace varve
