// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/table_iterator.h"

#include <algorithm>
#include <utility>

namespace varve {

TableIterator::TableIterator(const ReadOptions& options, const TableCore* core,
                             std::shared_ptr<const void> owner)
    : InternalIterator(entry_.position()),
      options_(options),
      owner_(std::move(owner)),
      core_(core),
      readahead_(core->file.get(), core->options.file_size,
                 options.readahead_size) {}

bool TableIterator::EnterBlock(size_t i) {
  if (block_ && i == block_index_) return true;
  entry_.Leave();
  block_.Reset();
  status_ = Status();
  if (i >= core_->index.size()) return false;
  status_ = core_->ReadDataBlock(options_, i, &readahead_, &block_, false);
  if (!status_.ok()) return false;
  block_index_ = i;
  block_size_ = block_->ApproximateMemoryUsage();
  entry_.Reset(block_.get(), core_->options.comparator);
  return true;
}

void TableIterator::EnterForward(size_t i) {
  while (EnterBlock(i)) {
    entry_.SeekToFirst();
    if (entry_.Valid()) return;
    ++i;
  }
}

void TableIterator::EnterBackward(size_t i) {
  // Before the first block comes a number that none has.
  while (EnterBlock(i)) {
    entry_.SeekToLast();
    if (entry_.Valid()) return;
    --i;
  }
}

void TableIterator::SkipEmptyForward() {
  if (!block_ || entry_.Valid()) return;
  // What was asked for of the next block stays so.
  prefetched_ -= std::min(prefetched_, block_size_);
  EnterForward(block_index_ + 1);
}

void TableIterator::SkipEmptyBackward() {
  if (block_ && !entry_.Valid()) EnterBackward(block_index_ - 1);
}

void TableIterator::PrefetchNextBlock() const {
  const size_t next = block_index_ + 1;
  if (next >= core_->index.size()) return;
  // relaxed: nothing is read through the pointer. The block may be gone, and
  // then asking for its memory has no effect that can be seen.
  const auto* const block = reinterpret_cast<const char*>(
      core_->index.slot(next).load(std::memory_order_relaxed));
  if (block != nullptr) {
    __builtin_prefetch(block + (prefetched_ - block_size_));
  }
}

void TableIterator::SeekToFirst() {
  prefetched_ = 0;
  EnterForward(0);
}

// Without blocks this is no block's number.
void TableIterator::SeekToLast() { EnterBackward(core_->index.size() - 1); }

void TableIterator::Seek(const Slice& internal_key) {
  if (!EnterBlock(core_->index.Search(internal_key))) return;
  entry_.Seek(internal_key);
  if (entry_.Valid()) prefetched_ = entry_.offset() & ~size_t{63};
  SkipEmptyForward();
  if (entry_.Valid()) PrefetchAhead(kSeekLines);
}

void TableIterator::SeekForPrev(const Slice& internal_key) {
  const size_t i = core_->index.Search(internal_key);
  if (i == core_->index.size()) {
    SeekToLast();
    return;
  }
  if (!EnterBlock(i)) return;
  entry_.SeekForPrev(internal_key);
  SkipEmptyBackward();
}

}  // namespace varve
