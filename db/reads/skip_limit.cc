// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/reads/skip_limit.h"

#include <utility>

#include "db/reads/forwarding_iterator.h"
#include "table/block/internal_key.h"
#include "varve/status.h"

namespace varve {

class SkipLimit final : public InternalIterator {
 public:
  explicit SkipLimit(uint64_t max) : max_(max) {}

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
  Status status() const override {
    if (exceeded_) {
      return Status::Incomplete(
          "more hidden entries than max_skippable_internal_keys");
    }
    return tree_->status();
  }

 private:
  // Counts the current entry. Returns false at the limit; the iterator is then
  // not valid.
  bool MayPass() {
    if (ExtractValueType(tree_->key()) == ValueType::kMerge) return true;
    if (left_ > 0) {
      --left_;
      return true;
    }
    exceeded_ = true;
    ShowNothing();
    return false;
  }

  const uint64_t max_;
  InternalIterator* tree_ = nullptr;
  uint64_t left_ = 0;
  bool exceeded_ = false;
};

namespace {

class SkipLimitedIterator final : public ForwardingIterator {
 public:
  SkipLimitedIterator(std::shared_ptr<SkipLimit> limit,
                      std::unique_ptr<Iterator> base)
      : ForwardingIterator(std::move(base)), limit_(std::move(limit)) {}

 private:
  bool BeforeSeek() override {
    limit_->Begin(false);
    return true;
  }
  void BeforeStep() override { limit_->Begin(true); }

  // Destroyed before the base, whose destructor does not touch it.
  const std::shared_ptr<SkipLimit> limit_;
};

}  // namespace

std::shared_ptr<SkipLimit> NewSkipLimit(uint64_t max) {
  return std::make_shared<SkipLimit>(max);
}

InternalIterator* PutOver(SkipLimit* limit, InternalIterator* tree) {
  limit->SetTree(tree);
  return limit;
}

std::unique_ptr<Iterator> NewSkipLimitedIterator(
    std::shared_ptr<SkipLimit> limit, std::unique_ptr<Iterator> base) {
  return std::make_unique<SkipLimitedIterator>(std::move(limit),
                                               std::move(base));
}

}  // namespace varve
