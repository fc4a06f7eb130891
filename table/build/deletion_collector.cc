// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The collector that marks tables with many deletions for compaction.

#include <cstddef>
#include <deque>
#include <memory>

#include "varve/table_properties.h"

namespace varve {

namespace {

constexpr char kName[] = "CompactOnDeletionCollector";

struct Rules {
  size_t window = 0;
  size_t trigger = 0;
  double ratio = 0;

  bool HasWindow() const { return window != 0; }
  bool HasRatio() const { return ratio > 0 && ratio <= 1; }
};

class DeletionCollector final : public TablePropertiesCollector {
 public:
  explicit DeletionCollector(const Rules& rules) : rules_(rules) {}

  Status AddUserKey(const Slice& /*key*/, const Slice& /*value*/,
                    EntryType type, uint64_t /*sequence*/,
                    uint64_t /*file_size*/) override {
    // Range deletions have no place among the keys.
    if (need_compact_ || type == EntryType::kEntryRangeDeletion) {
      return Status::OK();
    }
    const uint64_t index = entries_++;
    if (type != EntryType::kEntryDelete &&
        type != EntryType::kEntrySingleDelete) {
      return Status::OK();
    }
    ++deletions_;
    if (!rules_.HasWindow()) return Status::OK();
    recent_.push_back(index);
    while (index - recent_.front() >= rules_.window) recent_.pop_front();
    if (recent_.size() >= rules_.trigger) {
      need_compact_ = true;
      recent_.clear();
    }
    return Status::OK();
  }
  Status Finish(UserCollectedProperties* /*properties*/) override {
    if (rules_.HasRatio() && entries_ != 0 &&
        static_cast<double>(deletions_) >=
            rules_.ratio * static_cast<double>(entries_)) {
      need_compact_ = true;
    }
    return Status::OK();
  }
  UserCollectedProperties GetReadableProperties() const override { return {}; }
  const char* Name() const override { return kName; }
  bool NeedCompact() const override { return need_compact_; }

 private:
  const Rules rules_;
  uint64_t entries_ = 0;
  uint64_t deletions_ = 0;
  // The places of the last deletions, all in one window; fewer than the
  // trigger.
  std::deque<uint64_t> recent_;
  bool need_compact_ = false;
};

class DeletionCollectorFactory final : public TablePropertiesCollectorFactory {
 public:
  explicit DeletionCollectorFactory(const Rules& rules) : rules_(rules) {}
  TablePropertiesCollector* CreateTablePropertiesCollector(
      Context /*context*/) override {
    return new DeletionCollector(rules_);
  }
  const char* Name() const override { return kName; }

 private:
  const Rules rules_;
};

}  // namespace

std::shared_ptr<TablePropertiesCollectorFactory>
NewCompactOnDeletionCollectorFactory(size_t sliding_window_size,
                                     size_t deletion_trigger,
                                     double deletion_ratio) {
  return std::make_shared<DeletionCollectorFactory>(
      Rules{sliding_window_size, deletion_trigger, deletion_ratio});
}

}  // namespace varve
