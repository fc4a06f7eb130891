// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/reads/tailing_iterator.h"

#include <string>
#include <utility>

#include "db/reads/forwarding_iterator.h"

namespace varve {

namespace {

class TailingIterator final : public ForwardingIterator {
 public:
  TailingIterator(std::unique_ptr<Iterator> base, const VersionSet* versions,
                  SequenceNumber seen)
      : ForwardingIterator(std::move(base)), versions_(versions), seen_(seen) {}

  void Next() override { Move(&Iterator::Next, &Iterator::Seek); }
  void Prev() override { Move(&Iterator::Prev, &Iterator::SeekForPrev); }
  Status status() const override {
    return renewal_.ok() ? base_->status() : renewal_;
  }

 private:
  // Steps from the current key, which need not exist in the new state.
  void Move(void (Iterator::*step)(), void (Iterator::*seek)(const Slice&)) {
    if (versions_->LastSequence() == seen_) {
      (base_.get()->*step)();
      Arrive();
      return;
    }
    const std::string key = key_.ToString();
    if (!BeforeSeek()) return;
    (base_.get()->*seek)(key);
    if (base_->Valid() && base_->key() == Slice(key)) (base_.get()->*step)();
    Arrive();
  }
  bool BeforeSeek() override {
    // Loaded first: what the refresh sees in addition is seen again later.
    const SequenceNumber newest = versions_->LastSequence();
    if (newest == seen_ && renewal_.ok()) return true;
    valid_ = false;
    renewal_ = base_->Refresh(nullptr);
    if (renewal_.ok()) seen_ = newest;
    return renewal_.ok();
  }

  const VersionSet* const versions_;
  SequenceNumber seen_;
  Status renewal_;  // The last refresh's.
};

}  // namespace

std::unique_ptr<Iterator> NewTailingIterator(std::unique_ptr<Iterator> base,
                                             const VersionSet* versions,
                                             SequenceNumber seen) {
  return std::make_unique<TailingIterator>(std::move(base), versions, seen);
}

}  // namespace varve
