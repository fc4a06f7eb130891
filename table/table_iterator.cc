// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/table_iterator.h"

#include <utility>

namespace varve {

TableIterator::TableIterator(const ReadOptions& options, const TableCore* core,
                             std::shared_ptr<const void> owner)
    : options_(options),
      owner_(std::move(owner)),
      core_(core),
      readahead_(core->file.get(), core->options.file_size,
                 options.readahead_size) {}

bool TableIterator::EnterBlock(size_t i) {
  if (block_ && i == block_index_) return true;
  block_.Reset();
  status_ = Status();
  if (i >= core_->index.size()) return false;
  status_ = core_->ReadDataBlock(options_, i, &readahead_, &block_, false);
  if (!status_.ok()) return false;
  block_index_ = i;
  entry_.Reset(block_.get(), core_->options.comparator);
  return true;
}

void TableIterator::SkipEmptyForward() {
  while (block_ && !entry_.Valid()) {
    if (!EnterBlock(block_index_ + 1)) return;
    entry_.SeekToFirst();
  }
}

void TableIterator::SkipEmptyBackward() {
  while (block_ && !entry_.Valid()) {
    if (block_index_ == 0) {
      block_.Reset();
      return;
    }
    if (!EnterBlock(block_index_ - 1)) return;
    entry_.SeekToLast();
  }
}

void TableIterator::SeekToFirst() {
  if (!EnterBlock(0)) return;
  entry_.SeekToFirst();
  SkipEmptyForward();
}

void TableIterator::SeekToLast() {
  // Without blocks this is no block's number.
  if (!EnterBlock(core_->index.size() - 1)) return;
  entry_.SeekToLast();
  SkipEmptyBackward();
}

void TableIterator::Seek(const Slice& internal_key) {
  if (!EnterBlock(core_->index.Search(internal_key))) return;
  entry_.Seek(internal_key);
  SkipEmptyForward();
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
