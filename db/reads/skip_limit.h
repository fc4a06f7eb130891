// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "table/block/internal_iterator.h"
#include "varve/iterator.h"
#include "varve/status.h"

namespace varve {

// The tree of an iterator with ReadOptions::max_skippable_internal_keys. It
// counts the entries that the iterator passes in one call, and ends with
// Incomplete after too many. Others have no such layer, and so cost nothing.
//
// Merge operands do not count, because they are part of the result. Entries
// that range deletions hide do not count either: the filters below seek over
// them.
// Thread-safety: owned by one thread at a time.
class SkipLimit final : public InternalIterator {
 public:
  explicit SkipLimit(uint64_t max) : max_(max) {}

  // Sets the tree below, which must outlive the use of this.
  void SetTree(InternalIterator* tree) {
    tree_ = tree;
    ShowNothing();
  }
  // Begins a call of the user, which moves from an entry that it has shown if
  // `from_entry`.
  void Begin(bool from_entry) {
    left_ = max_ + (from_entry ? 1 : 0);
    exceeded_ = false;
  }

  void SeekToFirst() override {
    tree_->SeekToFirst();
    Show(tree_->position());
  }
  void SeekToLast() override {
    tree_->SeekToLast();
    Show(tree_->position());
  }
  void Seek(const Slice& internal_key) override {
    tree_->Seek(internal_key);
    Show(tree_->position());
  }
  void SeekForPrev(const Slice& internal_key) override {
    tree_->SeekForPrev(internal_key);
    Show(tree_->position());
  }
  void Next() override {
    if (!MayPass()) return;
    tree_->Next();
    Show(tree_->position());
  }
  void Prev() override {
    if (!MayPass()) return;
    tree_->Prev();
    Show(tree_->position());
  }
  Status status() const override;

 private:
  // Counts the current entry. Returns false at the limit; the iterator is then
  // not valid.
  bool MayPass();

  const uint64_t max_;
  InternalIterator* tree_ = nullptr;
  uint64_t left_ = 0;
  bool exceeded_ = false;
};

// Returns an iterator that shows the entries of `base`, whose tree is under
// `limit`.
std::unique_ptr<Iterator> NewSkipLimitedIterator(
    std::unique_ptr<SkipLimit> limit, std::unique_ptr<Iterator> base);

}  // namespace varve
