// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/parts_iterator.h"

#include <utility>

namespace varve {

PartsIterator::PartsIterator(const ReadOptions& options, const TableCore* whole,
                             std::shared_ptr<const void> owner,
                             ThreadArena* memory)
    : options_(options),
      whole_(whole),
      owner_(std::move(owner)),
      entry_(options, whole, nullptr, memory) {}

bool PartsIterator::Enter(size_t i) {
  // An iterator that stopped at an error must not be used again.
  if (part_ != nullptr && i == index_ && entry_.status().ok()) return true;
  std::shared_ptr<const TablePart> part;
  status_ = i < whole_->parts->size() ? whole_->parts->Pin(options_, i, &part)
                                      : Status();
  // Before the old part is released.
  entry_.OpenPart(part != nullptr ? &part->table().core() : whole_);
  part_ = std::move(part);
  index_ = i;
  return part_ != nullptr;
}

void PartsIterator::SkipForward() {
  while (part_ != nullptr && !entry_.Valid() && entry_.status().ok()) {
    if (Enter(index_ + 1)) entry_.SeekToFirst();
  }
}

void PartsIterator::SkipBackward() {
  // Before part 0, the index wraps to one that no part has.
  while (part_ != nullptr && !entry_.Valid() && entry_.status().ok()) {
    if (Enter(index_ - 1)) entry_.SeekToLast();
  }
}

void PartsIterator::SeekToFirst() {
  if (Enter(0)) entry_.SeekToFirst();
  SkipForward();
}

void PartsIterator::SeekToLast() {
  if (Enter(whole_->parts->size() - 1)) entry_.SeekToLast();
  SkipBackward();
}

void PartsIterator::Seek(const Slice& internal_key) {
  if (Enter(whole_->parts->Find(internal_key))) entry_.Seek(internal_key);
  SkipForward();
}

void PartsIterator::SeekForPrev(const Slice& internal_key) {
  const size_t i = whole_->parts->Find(internal_key);
  if (i == whole_->parts->size()) {
    SeekToLast();
    return;
  }
  if (Enter(i)) entry_.SeekForPrev(internal_key);
  SkipBackward();
}

}  // namespace varve
