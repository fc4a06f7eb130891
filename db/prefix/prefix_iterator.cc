// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/prefix/prefix_iterator.h"

#include <string>
#include <utility>

#include "db/prefix/prefix_sources.h"
#include "db/reads/forwarding_iterator.h"
#include "table/block/internal_key.h"

namespace varve {

namespace {

// Sets *end to the first bytes after all that begin with the prefix. Returns
// false if there are none.
bool EndOfPrefix(const Slice& prefix, std::string* end) {
  end->assign(prefix.data(), prefix.size());
  while (!end->empty()) {
    auto& last = reinterpret_cast<unsigned char&>(end->back());
    if (last != 0xFF) {
      ++last;
      return true;
    }
    end->pop_back();
  }
  return false;
}

class PrefixIterator final : public Iterator {
 public:
  PrefixIterator(std::unique_ptr<BoundedIterator> base, const PrefixUse& use,
                 std::shared_ptr<const SliceTransform> extractor,
                 const InternalKeyComparator* comparator,
                 const ReadOptions& options)
      : extractor_(std::move(extractor)),
        base_(std::move(base)),
        use_(use),
        comparator_(*comparator),
        given_lower_(options.iterate_lower_bound),
        given_upper_(options.iterate_upper_bound) {}

  void SeekToFirst() override {
    Unlimit();
    base_->SeekToFirst();
    StayHere();
  }
  void SeekToLast() override {
    Unlimit();
    base_->SeekToLast();
    StayHere();
  }
  void Seek(const Slice& target) override {
    // Prefixes are of the key that the search begins with. To stay in the
    // target's prefix is the program's wish.
    const bool clamps = !use_.stays_in_prefix && given_lower_ != nullptr &&
                        comparator_.CompareUser(target, *given_lower_) < 0;
    LimitFor(clamps ? *given_lower_ : target, /*forward=*/true);
    if (is_empty_) return;
    base_->Seek(target);
    Update();
  }
  void SeekForPrev(const Slice& target) override {
    if (!use_.stays_in_prefix && given_upper_ != nullptr &&
        comparator_.CompareUser(target, *given_upper_) >= 0) {
      Unlimit();  // The prefix of the last key is not known.
    } else {
      LimitFor(target, /*forward=*/false);
    }
    if (is_empty_) return;
    base_->SeekForPrev(target);
    Update();
  }
  void Next() override {
    base_->Next();
    Update();
  }
  void Prev() override {
    if (use_.by_bounds && leaves_out_) {
      // The bounds promise nothing for the keys before the target.
      const std::string here = key_.ToString();
      Unlimit();
      base_->Seek(here);
      if (!base_->Valid()) return Update();
    }
    base_->Prev();
    Update();
  }
  Status status() const override {
    return is_empty_ ? Status() : base_->status();
  }
  Status Refresh(const Snapshot* snapshot) override {
    valid_ = false;
    is_empty_ = false;
    return base_->Refresh(snapshot);
  }
  std::shared_ptr<const SliceTransform> prefix_extractor() const override {
    return use_.stays_in_prefix ? extractor_ : nullptr;
  }

 private:
  // Shows the base's entry, if the iteration goes on with it.
  void Update() {
    valid_ = base_->Valid() && (!checks_keys_ || HasPrefix(base_->key()));
    if (!valid_) return;
    key_ = base_->key();
    value_ = base_->value();
  }
  bool HasPrefix(const Slice& key) const {
    return use_.extractor->InDomain(key) &&
           use_.extractor->Transform(key) == Slice(prefix_);
  }

  // Lets the base iterate over all keys within the given bounds.
  void Unlimit() {
    checks_keys_ = false;
    is_empty_ = false;
    // After a Refresh, the tree may have no sources any more.
    PrefixSources* const sources = base_->prefix_sources();
    if (leaves_out_ && sources != nullptr) sources->TakeAll();
    leaves_out_ = false;
    base_->SetBounds(given_lower_, given_upper_);
  }
  // After a seek without a target: stays in the prefix of the entry found.
  void StayHere() {
    if (use_.stays_in_prefix && base_->Valid() &&
        use_.extractor->InDomain(base_->key())) {
      SetPrefix(base_->key());
      checks_keys_ = true;
    }
    Update();
  }
  void SetPrefix(const Slice& key) {
    const Slice prefix = use_.extractor->Transform(key);
    prefix_.assign(prefix.data(), prefix.size());
  }

  // Limits the base to what the coming seek needs.
  void LimitFor(const Slice& target, bool forward) {
    Unlimit();
    if (!use_.extractor->InDomain(target)) return;
    SetPrefix(target);
    // All keys that begin with it have it.
    const bool is_full = use_.has_length && prefix_.size() == use_.length;
    PrefixSources* const sources =
        use_.asks_filters ? base_->prefix_sources() : nullptr;
    if (sources != nullptr && (is_full || !use_.has_length) &&
        (!use_.by_bounds || (forward && EndsInPrefix()))) {
      const auto left_out = sources->LeaveOut(prefix_, target);
      leaves_out_ = left_out != PrefixSources::LeftOut::kNone;
      is_empty_ = left_out == PrefixSources::LeftOut::kAll;
      if (is_empty_) valid_ = false;
    }
    if (!leaves_out_ && !use_.stays_in_prefix) return;
    // Otherwise the extractor breaks its rule.
    const bool has_bounds =
        comparator_.bytewise() && target.starts_with(prefix_);
    if (has_bounds) BoundByPrefix();
    checks_keys_ = !is_full || !has_bounds;
  }

  // Bounds the base by the prefix too: [prefix, end of the prefix).
  void BoundByPrefix() {
    const Slice* lower = given_lower_;
    const Slice* upper = given_upper_;
    lower_ = prefix_;
    if (lower == nullptr || lower_.compare(*lower) > 0) lower = &lower_;
    if (EndOfPrefix(prefix_, &end_)) {
      upper_ = end_;
      if (upper == nullptr || upper_.compare(*upper) < 0) upper = &upper_;
    }
    base_->SetBounds(lower, upper);
  }

  // Returns whether all keys from prefix_ to the upper bound have the prefix.
  // REQUIRES: a full prefix.
  bool EndsInPrefix() {
    if (given_upper_ == nullptr) return false;
    return given_upper_->starts_with(prefix_) ||
           (EndOfPrefix(prefix_, &end_) && given_upper_->compare(end_) <= 0);
  }

  // Keeps use_'s for a refreshed base, which has none.
  const std::shared_ptr<const SliceTransform> extractor_;
  const std::unique_ptr<BoundedIterator> base_;
  const PrefixUse use_;
  const InternalKeyComparator& comparator_;
  const Slice* const given_lower_;
  const Slice* const given_upper_;
  std::string prefix_;  // The last seek's.
  std::string end_;     // The end of the prefix.
  Slice lower_;
  Slice upper_;
  bool checks_keys_ = false;  // Ends at a key without the prefix.
  bool leaves_out_ = false;   // Sources are left out.
  bool is_empty_ = false;     // All are, so that the base has not moved.
};

// As PrefixIterator, over any iterator, and without filters.
class StayingIterator final : public ForwardingIterator {
 public:
  StayingIterator(std::unique_ptr<Iterator> base,
                  std::shared_ptr<const SliceTransform> extractor)
      : ForwardingIterator(std::move(base)), extractor_(std::move(extractor)) {}

  void SeekToFirst() override {
    base_->SeekToFirst();
    StayHere();
  }
  void SeekToLast() override {
    base_->SeekToLast();
    StayHere();
  }
  void Seek(const Slice& target) override {
    StayAt(target);
    ForwardingIterator::Seek(target);
  }
  void SeekForPrev(const Slice& target) override {
    StayAt(target);
    ForwardingIterator::SeekForPrev(target);
  }
  std::shared_ptr<const SliceTransform> prefix_extractor() const override {
    return extractor_;
  }

 private:
  void StayAt(const Slice& key) {
    stays_ = extractor_->InDomain(key);
    if (!stays_) return;
    const Slice prefix = extractor_->Transform(key);
    prefix_.assign(prefix.data(), prefix.size());
  }
  void StayHere() {
    stays_ = false;
    if (base_->Valid()) StayAt(base_->key());
    Arrive();
  }
  void Arrive() override {
    ForwardingIterator::Arrive();
    valid_ =
        valid_ && (!stays_ || (extractor_->InDomain(key_) &&
                               extractor_->Transform(key_) == Slice(prefix_)));
  }

  const std::shared_ptr<const SliceTransform> extractor_;
  std::string prefix_;
  bool stays_ = false;
};

}  // namespace

PrefixUse::PrefixUse(const SliceTransform& its_extractor,
                     const ColumnFamilyOptions& family,
                     const InternalKeyComparator& comparator,
                     const ReadOptions& options)
    : extractor(&its_extractor),
      stays_in_prefix(options.prefix_same_as_start),
      by_bounds(options.auto_prefix_mode && !stays_in_prefix) {
  has_length = comparator.bytewise() && extractor->FullLengthEnabled(&length);
  // Without these, the bounds cannot prove anything.
  const bool is_in_vain =
      by_bounds && (!has_length || options.iterate_upper_bound == nullptr);
  // Without a policy, few tables have a filter.
  asks_filters = !options.total_order_seek && !is_in_vain &&
                 family.filter_policy != nullptr;
}

std::unique_ptr<Iterator> NewPrefixIterator(
    std::unique_ptr<BoundedIterator> base, const PrefixUse& use,
    std::shared_ptr<const SliceTransform> extractor,
    const InternalKeyComparator* comparator, const ReadOptions& options) {
  return std::make_unique<PrefixIterator>(
      std::move(base), use, std::move(extractor), comparator, options);
}

std::unique_ptr<Iterator> StayInPrefix(
    std::unique_ptr<Iterator> base,
    std::shared_ptr<const SliceTransform> extractor) {
  if (extractor == nullptr) return base;
  return std::make_unique<StayingIterator>(std::move(base),
                                           std::move(extractor));
}

}  // namespace varve
