// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <utility>

#include "varve/iterator.h"
#include "varve/slice.h"

namespace varve::rocksdb_c {

// An iterator that shows the entries of another one. The derived class may act
// before seeks, and end the iteration early.
class ForwardingIterator : public Iterator {
 public:
  explicit ForwardingIterator(std::unique_ptr<Iterator> base)
      : base_(std::move(base)) {}

  void SeekToFirst() override {
    BeforeSeek(nullptr);
    base_->SeekToFirst();
    Update();
  }
  void SeekToLast() override {
    BeforeSeek(nullptr);
    base_->SeekToLast();
    Update();
  }
  void Seek(const Slice& target) override {
    BeforeSeek(&target);
    base_->Seek(target);
    Update();
  }
  void SeekForPrev(const Slice& target) override {
    BeforeSeek(&target);
    base_->SeekForPrev(target);
    Update();
  }
  void Next() override {
    base_->Next();
    Update();
  }
  void Prev() override {
    base_->Prev();
    Update();
  }
  Status status() const override { return base_->status(); }
  std::shared_ptr<const SliceTransform> prefix_extractor() const override {
    return base_->prefix_extractor();
  }

 protected:
  // `target` is null before SeekToFirst and SeekToLast.
  virtual void BeforeSeek(const Slice* /*target*/) {}
  // Returns whether the iteration goes on with the base's entry.
  virtual bool Accepts(const Slice& /*key*/) { return true; }
  // Takes over the base's entry.
  void Update() {
    valid_ = base_->Valid() && Accepts(base_->key());
    if (!valid_) return;
    key_ = base_->key();
    value_ = base_->value();
  }

  std::unique_ptr<Iterator> base_;
};

}  // namespace varve::rocksdb_c
