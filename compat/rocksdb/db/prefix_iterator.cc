// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/prefix_iterator.h"

#include <string>
#include <utility>

#include "compat/rocksdb/db/forwarding_iterator.h"

namespace varve::rocksdb_c {
namespace {

class PrefixIterator final : public ForwardingIterator {
 public:
  PrefixIterator(std::unique_ptr<Iterator> base,
                 std::shared_ptr<const SliceTransform> extractor)
      : ForwardingIterator(std::move(base)), extractor_(std::move(extractor)) {}

 private:
  void BeforeSeek(const Slice* target) override {
    takes_next_prefix_ = target == nullptr;
    if (target != nullptr) TakePrefix(*target);
  }
  bool Accepts(const Slice& key) override {
    if (takes_next_prefix_) {
      takes_next_prefix_ = false;
      TakePrefix(key);
      return true;
    }
    return !is_limited_ || (extractor_->InDomain(key) &&
                            extractor_->Transform(key) == Slice(prefix_));
  }
  // A key without a prefix does not limit the iteration.
  void TakePrefix(const Slice& key) {
    is_limited_ = extractor_->InDomain(key);
    if (!is_limited_) return;
    const Slice prefix = extractor_->Transform(key);
    prefix_.assign(prefix.data(), prefix.size());
  }

  const std::shared_ptr<const SliceTransform> extractor_;
  std::string prefix_;
  bool is_limited_ = false;
  bool takes_next_prefix_ = false;
};

}  // namespace

std::unique_ptr<Iterator> NewPrefixIterator(
    std::unique_ptr<Iterator> base,
    std::shared_ptr<const SliceTransform> extractor) {
  return std::make_unique<PrefixIterator>(std::move(base),
                                          std::move(extractor));
}

}  // namespace varve::rocksdb_c
