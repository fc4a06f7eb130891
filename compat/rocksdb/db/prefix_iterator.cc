// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/prefix_iterator.h"

#include <string>
#include <utility>

namespace varve::rocksdb_c {
namespace {

class PrefixIterator final : public Iterator {
 public:
  PrefixIterator(std::unique_ptr<Iterator> base,
                 std::shared_ptr<const SliceTransform> extractor)
      : base_(std::move(base)), extractor_(std::move(extractor)) {}

  void SeekToFirst() override {
    base_->SeekToFirst();
    TakePrefixOfEntry();
  }
  void SeekToLast() override {
    base_->SeekToLast();
    TakePrefixOfEntry();
  }
  void Seek(const Slice& target) override {
    TakePrefix(target);
    base_->Seek(target);
    Update();
  }
  void SeekForPrev(const Slice& target) override {
    TakePrefix(target);
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

 private:
  // A key without a prefix does not limit the iteration.
  void TakePrefix(const Slice& key) {
    is_limited_ = extractor_->InDomain(key);
    if (!is_limited_) return;
    const Slice prefix = extractor_->Transform(key);
    prefix_.assign(prefix.data(), prefix.size());
  }
  void TakePrefixOfEntry() {
    if (base_->Valid()) TakePrefix(base_->key());
    Update();
  }
  bool IsWithinPrefix(const Slice& key) const {
    return !is_limited_ || (extractor_->InDomain(key) &&
                            extractor_->Transform(key) == Slice(prefix_));
  }
  // Takes over the entry of the base.
  void Update() {
    valid_ = base_->Valid() && IsWithinPrefix(base_->key());
    if (!valid_) return;
    key_ = base_->key();
    value_ = base_->value();
  }

  const std::unique_ptr<Iterator> base_;
  const std::shared_ptr<const SliceTransform> extractor_;
  std::string prefix_;
  bool is_limited_ = false;
};

}  // namespace

std::unique_ptr<Iterator> NewPrefixIterator(
    std::unique_ptr<Iterator> base,
    std::shared_ptr<const SliceTransform> extractor) {
  return std::make_unique<PrefixIterator>(std::move(base),
                                          std::move(extractor));
}

}  // namespace varve::rocksdb_c
