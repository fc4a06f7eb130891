// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "table/block/block.h"
#include "varve/env.h"
#include "varve/pinnable_slice.h"
#include "varve/slice.h"

namespace varve {

// The destination of a lookup's value: the caller's string or a PinnableSlice.
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
  // Sets a value whose memory is freed soon.
  void SetCopy(const Slice& value) {
    if (copy_ != nullptr) {
      Copy(value);
    } else {
      pinned_->PinSelf(value);
    }
    size_ = value.size();
  }
  // Sets a value in a block that the current read-side critical section
  // protects.
  void SetFromCached(const Slice& value, Block* block) {
    if (copy_ != nullptr) {
      Copy(value);
    } else {
      block->Pin();
      pinned_->PinSlice(value, &Block::Unpin, block);
    }
    size_ = value.size();
  }
  // Sets a value in the block of the ref, and takes over the ref if the value
  // is pinned.
  void SetFromRef(const Slice& value, BlockRef* block) {
    if (copy_ != nullptr) {
      Copy(value);
    } else {
      const auto [release, argument] = block->Detach();
      pinned_->PinSlice(value, release, argument);
    }
    size_ = value.size();
  }
  // Sets a value in a mapping that lives as long as the file. A short one is
  // copied, which costs less.
  void SetFromMapping(const Slice& value,
                      const std::shared_ptr<RandomAccessFile>& file) {
    if (copy_ != nullptr || value.size() < kLeastPinnedBytes) {
      SetCopy(value);
      return;
    }
    using Holder = std::shared_ptr<RandomAccessFile>;
    pinned_->PinSlice(
        value, [](void* holder) { delete static_cast<Holder*>(holder); },
        new Holder(file));
    size_ = value.size();
  }
  // Returns the size of the value.
  size_t size() const { return size_; }

 private:
  static constexpr size_t kLeastPinnedBytes = size_t{8} << 10;

  // A value that is not longer than the last one, as usual with a string that
  // is used again, is copied at a third of what assign() costs. Not inlined:
  // lookups stay small.
  [[gnu::noinline]] void Copy(const Slice& value) {
    if (value.size() > copy_->size()) {
      copy_->assign(value.data(), value.size());
      return;
    }
    if (value.size() < copy_->size()) copy_->resize(value.size());
    if (!value.empty()) memcpy(copy_->data(), value.data(), value.size());
  }

  std::string* copy_ = nullptr;
  PinnableSlice* pinned_ = nullptr;
  size_t size_ = 0;
};

}  // namespace varve
