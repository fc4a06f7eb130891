// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>
#include <utility>

#include "table/block/block.h"
#include "varve/pinnable_slice.h"
#include "varve/slice.h"

namespace varve {

// Where a lookup puts the value that it finds: a string of the caller's, or a
// PinnableSlice. One of the two.
// Thread-safety: owned by one thread.
class ReadTarget {
 public:
  explicit ReadTarget(std::string* copy) : copy_(copy) {}
  explicit ReadTarget(PinnableSlice* pinned) : pinned_(pinned) {}

  void Clear() {
    if (copy_ != nullptr) {
      copy_->clear();
    } else {
      pinned_->Reset();
    }
  }
  // A value whose memory goes away soon.
  void SetCopy(const Slice& value) {
    if (copy_ != nullptr) {
      copy_->assign(value.data(), value.size());
    } else {
      pinned_->PinSelf(value);
    }
    size_ = value.size();
  }
  // A value in a block that the read-side critical section at hand protects.
  void SetFromCached(const Slice& value, Block* block) {
    if (copy_ != nullptr) {
      copy_->assign(value.data(), value.size());
    } else {
      block->Pin();
      pinned_->PinSlice(value, &Block::Unpin, block);
    }
    size_ = value.size();
  }
  // A value in a block that the ref holds, which is taken over.
  void SetFromRef(const Slice& value, BlockRef* block) {
    if (copy_ != nullptr) {
      copy_->assign(value.data(), value.size());
    } else {
      const auto [release, argument] = block->Detach();
      pinned_->PinSlice(value, release, argument);
    }
    size_ = value.size();
  }
  // Of the value that was set.
  size_t size() const { return size_; }

 private:
  std::string* copy_ = nullptr;
  PinnableSlice* pinned_ = nullptr;
  size_t size_ = 0;
};

}  // namespace varve
