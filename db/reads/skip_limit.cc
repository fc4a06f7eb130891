// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/reads/skip_limit.h"

#include "db/reads/forwarding_iterator.h"
#include "table/block/internal_key.h"

namespace varve {

namespace {

class SkipLimitedIterator final : public ForwardingIterator {
 public:
  SkipLimitedIterator(std::unique_ptr<SkipLimit> limit,
                      std::unique_ptr<Iterator> base)
      : ForwardingIterator(std::move(base)), limit_(std::move(limit)) {}

 private:
  bool BeforeSeek() override {
    limit_->Begin(false);
    return true;
  }
  void BeforeStep() override { limit_->Begin(true); }

  // Outlived by the base, which does not touch it when it is destroyed.
  const std::unique_ptr<SkipLimit> limit_;
};

}  // namespace

bool SkipLimit::MayPass() {
  if (ExtractValueType(tree_->key()) == ValueType::kMerge) return true;
  if (left_ > 0) {
    --left_;
    return true;
  }
  exceeded_ = true;
  ShowNothing();
  return false;
}

Status SkipLimit::status() const {
  if (exceeded_) {
    return Status::Incomplete(
        "more hidden entries than max_skippable_internal_keys");
  }
  return tree_->status();
}

std::unique_ptr<Iterator> NewSkipLimitedIterator(
    std::unique_ptr<SkipLimit> limit, std::unique_ptr<Iterator> base) {
  return std::make_unique<SkipLimitedIterator>(std::move(limit),
                                               std::move(base));
}

}  // namespace varve
