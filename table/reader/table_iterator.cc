// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table_iterator.h"

#include <algorithm>
#include <utility>

#include "table/block/dead_walk.h"
#include "table/reader/parts_iterator.h"

namespace varve {

TableIterator::TableIterator(const ReadOptions& options, ThreadArena* memory)
    : options_(options),
      memory_(memory),
      readahead_(options.readahead_size, memory) {
  Show(entry_.position());
}

TableIterator::TableIterator(const ReadOptions& options, const TableCore* core,
                             std::shared_ptr<const void> owner,
                             ThreadArena* memory)
    : TableIterator(options, memory) {
  Open(core, std::move(owner));
}

void TableIterator::Open(const TableCore* core,
                         std::shared_ptr<const void> owner) {
  LeaveBlock();
  // Before the old table is released: the buffer reads from its file.
  readahead_.Open(core->file.get(), core->options.file_size);
  core_ = core;
  owner_ = std::move(owner);
}

bool TableIterator::ResetForReuse() {
  LeaveBlock();
  entry_.ResetForReuse();
  body_entry_.ResetForReuse();
  if (body_ != nullptr) body_->Trim();
  readahead_.ResetForReuse();
  // A table with parts always has an owner, since it may be evicted.
  if (owner_ == nullptr) return true;
  owner_.reset();
  parts_.reset();
  return false;
}

void TableIterator::PartsDeleter::operator()(PartsIterator* parts) const {
  delete parts;
}

PartsIterator* TableIterator::Parts() {
  // The iterator keeps its table, so no other table has the same address.
  if (parts_ == nullptr || parts_->whole() != core_) {
    parts_.reset(new PartsIterator(options_, core_, owner_, memory_));
  }
  return parts_.get();
}

void TableIterator::ShowPart() {
  LeaveBlock();
  *entry_.shared_position() = parts_->position();
  status_ = parts_->status();
  in_body_ = true;
  block_index_ = SIZE_MAX;  // No block's.
}

void TableIterator::LeaveBlock() {
  entry_.Leave();
  block_.Reset();
  in_body_ = false;
  status_ = Status();
}

bool TableIterator::EnterBlock(size_t i, bool body_will_do) {
  if ((block_ || (in_body_ && body_will_do)) && i == block_index_) return true;
  LeaveBlock();
  if (i >= core_->index.size()) return false;
  if (body_will_do && body_ == nullptr) {
    body_.reset(new (memory_) FileBody(memory_));
  }
  status_ = core_->ReadDataBlock(options_, i, &readahead_, &block_,
                                 body_will_do ? body_.get() : nullptr);
  if (!status_.ok()) return false;
  block_index_ = i;
  if (block_) {
    block_size_ = block_->ApproximateMemoryUsage();
    entry_.Reset(block_.get(), core_->options.comparator);
    return true;
  }
  in_body_ = true;
  prefetched_ = 0;
  body_entry_.Reset(body_->contents, core_->options.comparator,
                    core_->global_sequence);
  return CheckBody();
}

bool TableIterator::CheckBody() {
  if (body_entry_.status().ok()) return true;
  const BlockHandle& handle = core_->index.handle(block_index_);
  status_ = body_entry_.status().Annotate(core_->loader->Describe(handle));
  in_body_ = false;
  return false;
}

void TableIterator::PrevInBody() {
  if (core_->parts != nullptr) {
    parts_->Prev();
    ShowPart();
    return;
  }
  if (!MakeBlock()) return;
  entry_.Prev();
  if (!entry_.Valid()) SkipEmptyBackward();
}

bool TableIterator::MakeBlock() {
  const std::string here = entry_.key().ToString();
  if (!EnterBlock(block_index_, false)) return false;
  entry_.Seek(here);
  return entry_.Valid();
}

void TableIterator::EnterForward(size_t i) {
  while (EnterBlock(i, true)) {
    if (in_body_) {
      body_entry_.SeekToFirst();
      if (!CheckBody()) return;
    } else {
      entry_.SeekToFirst();
    }
    if (entry_.Valid()) return;
    ++i;
  }
}

void TableIterator::EnterBackward(size_t i) {
  // After block 0, i wraps to a number that no block has.
  while (EnterBlock(i, false)) {
    entry_.SeekToLast();
    if (entry_.Valid()) return;
    --i;
  }
}

void TableIterator::LeaveEntry() {
  if (in_body_) {
    if (core_->parts != nullptr) {
      parts_->Next();
      ShowPart();
      return;
    }
    body_entry_.Next();
    if (!CheckBody()) return;
  }
  SkipEmptyForward();
}

void TableIterator::SkipEmptyForward() {
  if (entry_.Valid() || (!block_ && !in_body_)) return;
  // Prefetches of the next block remain valid.
  prefetched_ -= std::min(prefetched_, block_size_);
  EnterForward(block_index_ + 1);
}

void TableIterator::SkipEmptyBackward() {
  if (block_ && !entry_.Valid()) EnterBackward(block_index_ - 1);
}

void TableIterator::PrefetchNextBlock() const {
  const size_t next = block_index_ + 1;
  if (next >= core_->index.size()) return;
  // relaxed: nothing is read through the pointer. The block may be freed; then
  // prefetching its memory has no visible effect.
  const auto* const block = reinterpret_cast<const char*>(
      core_->index.slot(next).load(std::memory_order_relaxed));
  if (block != nullptr) {
    __builtin_prefetch(block + (prefetched_ - block_size_));
  }
}

void TableIterator::SeekToFirst() {
  prefetched_ = 0;
  if (core_->parts != nullptr) {
    Parts()->SeekToFirst();
    ShowPart();
    return;
  }
  EnterForward(0);
}

// Without blocks this is the number of no block.
void TableIterator::SeekToLast() {
  if (core_->parts != nullptr) {
    Parts()->SeekToLast();
    ShowPart();
    return;
  }
  EnterBackward(core_->index.size() - 1);
}

void TableIterator::PrefetchForSkips() const {
  constexpr size_t kBlocks = 2;
  constexpr size_t kLines = 6;
  for (size_t i = block_index_ + 1;
       i <= block_index_ + kBlocks && i < core_->index.size(); ++i) {
    // relaxed: as in PrefetchNextBlock.
    const auto* const block = reinterpret_cast<const char*>(
        core_->index.slot(i).load(std::memory_order_relaxed));
    if (block == nullptr) return;
    for (size_t line = 0; line < kLines; ++line) {
      __builtin_prefetch(block + 64 * line);
    }
  }
}

void TableIterator::SkipDeadForward(DeadWalk* walk) {
  while (entry_.Valid() && !in_body_) {
    PrefetchForSkips();
    entry_.SkipDeadForward(walk);
    if (entry_.Valid()) {
      prefetched_ = std::max(prefetched_, entry_.offset() & ~size_t{63});
      return;
    }
    SkipEmptyForward();
  }
  if (in_body_) SkipDeadBySteps(this, walk);
}

void TableIterator::SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) {
  while (entry_.Valid() && !in_body_) {
    entry_.SkipHidden(deletions, walk);
    if (entry_.Valid()) {
      prefetched_ = std::max(prefetched_, entry_.offset() & ~size_t{63});
      return;
    }
    SkipEmptyForward();
    PrefetchForSkips();
  }
  if (in_body_) SkipHiddenBySteps(this, deletions, walk);
}

void TableIterator::SkipDeadBackward(DeadWalk* walk) {
  if (in_body_ && (core_->parts != nullptr || !MakeBlock())) return;
  while (entry_.Valid()) {
    entry_.SkipDeadBackward(walk);
    if (entry_.Valid()) return;
    SkipEmptyBackward();
  }
}

template <typename SeekInBlock>
[[gnu::always_inline]] inline void TableIterator::LandAt(
    const Slice& internal_key, SeekInBlock seek) {
  if (in_body_) {
    body_entry_.Seek(internal_key);
    if (CheckBody()) SkipEmptyForward();
    return;
  }
  seek();
  if (entry_.Valid()) prefetched_ = entry_.offset() & ~size_t{63};
  SkipEmptyForward();
  if (block_ && entry_.Valid()) PrefetchAhead(kSeekLines);
}

void TableIterator::Seek(const Slice& internal_key) {
  if (!EnterBlock(core_->index.Search(internal_key), true)) {
    if (core_->parts == nullptr) return;
    Parts()->Seek(internal_key);
    ShowPart();
    return;
  }
  LandAt(internal_key, [&] { entry_.Seek(internal_key); });
}

bool TableIterator::PrepareSeek(const Slice& internal_key, int step) {
  const TableIndex& index = core_->index;
  // Ablations and parts of tables seek at the end.
  if (!index.has_prefixes()) return true;
  switch (step) {
    case 0:
      sought_ = kUnknown;  // Unless it is known without the node.
      index.FindNode(ExtractUserKey(internal_key), &place_, &sought_);
      return true;
    case 1:
      if (sought_ == kUnknown && !index.FindInNode(place_, &sought_)) {
        sought_ = index.Find(internal_key);
      }
      // The block that is entered already needs no pin.
      if (sought_ < index.size() &&
          (sought_ != block_index_ || (!block_ && !in_body_))) {
        // relaxed: as in PrefetchNextBlock.
        const Block* const block =
            index.slot(sought_).load(std::memory_order_relaxed);
        if (block != nullptr) Block::PrefetchForSeek(block);
      }
      return true;
    default:
      if (!EnterBlock(sought_, true)) return status_.ok();
      if (!in_body_) entry_.PrepareSeek(internal_key);
      return true;
  }
}

void TableIterator::FinishSeek(const Slice& internal_key) {
  if (!core_->index.has_prefixes()) {
    Seek(internal_key);
  } else if (block_ || in_body_) {
    LandAt(internal_key, [&] { entry_.FinishSeek(internal_key); });
  }
}

void TableIterator::SeekForPrev(const Slice& internal_key) {
  const size_t i = core_->index.Search(internal_key);
  if (i == core_->index.size()) {
    if (core_->parts == nullptr) {
      SeekToLast();
      return;
    }
    Parts()->SeekForPrev(internal_key);
    ShowPart();
    return;
  }
  if (!EnterBlock(i, false)) return;
  entry_.SeekForPrev(internal_key);
  SkipEmptyBackward();
}

}  // namespace varve
