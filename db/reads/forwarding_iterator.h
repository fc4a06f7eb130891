// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <utility>

#include "varve/iterator.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// An iterator that shows the entries of another one. A derived class may act
// before each move, and change what is shown.
// Thread-safety: owned by one thread at a time.
class ForwardingIterator : public Iterator {
 public:
  explicit ForwardingIterator(std::unique_ptr<Iterator> base)
      : base_(std::move(base)) {}

  void SeekToFirst() override {
    if (!BeforeSeek()) return;
    base_->SeekToFirst();
    Arrive();
  }
  void SeekToLast() override {
    if (!BeforeSeek()) return;
    base_->SeekToLast();
    Arrive();
  }
  void Seek(const Slice& target) override {
    if (!BeforeSeek()) return;
    base_->Seek(target);
    Arrive();
  }
  void SeekForPrev(const Slice& target) override {
    if (!BeforeSeek()) return;
    base_->SeekForPrev(target);
    Arrive();
  }
  void Next() override {
    BeforeStep();
    base_->Next();
    Arrive();
  }
  void Prev() override {
    BeforeStep();
    base_->Prev();
    Arrive();
  }
  Status status() const override { return base_->status(); }
  Status Refresh(const Snapshot* snapshot) override {
    valid_ = false;
    return base_->Refresh(snapshot);
  }
  std::shared_ptr<const SliceTransform> prefix_extractor() const override {
    return base_->prefix_extractor();
  }

 protected:
  // Returns false, and leaves the iterator not valid, if the seek must not
  // happen.
  virtual bool BeforeSeek() { return true; }
  virtual void BeforeStep() {}
  // Takes over the entry of the base.
  virtual void Arrive() {
    valid_ = base_->Valid();
    if (!valid_) return;
    key_ = base_->key();
    value_ = base_->value();
  }

  const std::unique_ptr<Iterator> base_;
};

}  // namespace varve
