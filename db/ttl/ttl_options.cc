// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ttl/ttl_options.h"

#include <string>
#include <utility>
#include <vector>

#include "db/ttl/ttl_value.h"
#include "varve/compaction_filter.h"
#include "varve/merge_operator.h"

namespace varve {

namespace {

// Operands end in times, as values do. A result gets the time of its merge, as
// in RocksDB.
class TtlMergeOperator final : public MergeOperator {
 public:
  TtlMergeOperator(std::shared_ptr<MergeOperator> user, Env* env)
      : user_(std::move(user)), env_(env) {}

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    std::vector<Slice> operands;
    if (!Strip(input.operands, &operands)) return false;
    Slice existing;
    if (input.existing_value != nullptr) {
      if (!HasTtlTime(*input.existing_value)) return false;
      existing = WithoutTtlTime(*input.existing_value);
    }
    const FullMergeInput stripped{
        input.key, input.existing_value != nullptr ? &existing : nullptr,
        operands};
    return user_->FullMerge(stripped, new_value) && Append(new_value);
  }
  bool PartialMerge(const Slice& key, const Slice& left, const Slice& right,
                    std::string* new_value) const override {
    if (!HasTtlTime(left) || !HasTtlTime(right)) return false;
    return user_->PartialMerge(key, WithoutTtlTime(left), WithoutTtlTime(right),
                               new_value) &&
           Append(new_value);
  }
  bool PartialMergeMulti(const Slice& key, const std::vector<Slice>& operands,
                         std::string* new_value) const override {
    std::vector<Slice> stripped;
    return Strip(operands, &stripped) &&
           user_->PartialMergeMulti(key, stripped, new_value) &&
           Append(new_value);
  }
  const char* Name() const override { return "TtlMergeOperator"; }

 private:
  static bool Strip(const std::vector<Slice>& operands,
                    std::vector<Slice>* stripped) {
    stripped->reserve(operands.size());
    for (const Slice& operand : operands) {
      if (!HasTtlTime(operand)) return false;
      stripped->push_back(WithoutTtlTime(operand));
    }
    return true;
  }
  bool Append(std::string* value) const {
    AppendTtlTime(TtlTimeNow(env_), value);
    return true;
  }

  const std::shared_ptr<MergeOperator> user_;
  Env* const env_;
};

// Removes values that are too old, and asks the user's filter for the others.
class TtlFilter final : public CompactionFilter {
 public:
  // Removes what was written before `oldest_s`. `user` may be null. `owner`
  // keeps it, if it must be kept.
  TtlFilter(int64_t oldest_s, const CompactionFilter* user,
            std::unique_ptr<CompactionFilter> owner)
      : oldest_s_(oldest_s), user_(user), owner_(std::move(owner)) {}

  // An operand is kept until its key's value is: it may be part of a newer one.
  Decision FilterV2(int level, const Slice& key, ValueType type,
                    const Slice& existing_value, std::string* new_value,
                    std::string* skip_until) const override {
    if (!HasTtlTime(existing_value)) return Decision::kKeep;
    const uint32_t time_s = TtlTimeOf(existing_value);
    if (type == ValueType::kValue && time_s < oldest_s_) {
      return Decision::kRemove;
    }
    if (user_ == nullptr) return Decision::kKeep;
    const Decision decision =
        user_->FilterV2(level, key, type, WithoutTtlTime(existing_value),
                        new_value, skip_until);
    if (decision == Decision::kChangeValue) AppendTtlTime(time_s, new_value);
    return decision;
  }
  const char* Name() const override { return "varve.TtlFilter"; }

 private:
  const int64_t oldest_s_;
  const CompactionFilter* const user_;
  const std::unique_ptr<CompactionFilter> owner_;
};

class TtlFilterFactory final : public CompactionFilterFactory {
 public:
  // `user` and `user_factory` may be null. The first one counts, if both are
  // given.
  TtlFilterFactory(std::shared_ptr<const FamilyTtl> ttl, Env* env,
                   const CompactionFilter* user,
                   std::shared_ptr<CompactionFilterFactory> user_factory)
      : ttl_(std::move(ttl)),
        env_(env),
        user_(user),
        user_factory_(std::move(user_factory)) {}

  bool ShouldFilterTableFileCreation(
      TableFileCreationReason reason) const override {
    return reason == TableFileCreationReason::kCompaction ||
           AsksFactory(reason);
  }
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& context) override {
    // relaxed: see FamilyTtl.
    const int32_t ttl_s = ttl_->load(std::memory_order_relaxed);
    const int64_t oldest_s = ttl_s > 0 ? TtlTimeNow(env_) - int64_t{ttl_s} : 0;
    const CompactionFilter* user = user_;
    std::unique_ptr<CompactionFilter> owner;
    if (AsksFactory(context.reason)) {
      owner = user_factory_->CreateCompactionFilter(context);
      user = owner.get();
    }
    if (user == nullptr && oldest_s <= 0) return nullptr;
    return std::make_unique<TtlFilter>(oldest_s, user, std::move(owner));
  }
  const char* Name() const override { return "varve.TtlFilterFactory"; }

 private:
  bool AsksFactory(TableFileCreationReason reason) const {
    return user_ == nullptr && user_factory_ != nullptr &&
           user_factory_->ShouldFilterTableFileCreation(reason);
  }

  const std::shared_ptr<const FamilyTtl> ttl_;
  Env* const env_;
  const CompactionFilter* const user_;
  const std::shared_ptr<CompactionFilterFactory> user_factory_;
};

}  // namespace

void AddTtl(const std::shared_ptr<const FamilyTtl>& ttl, Env* env,
            ColumnFamilyOptions* options) {
  options->compaction_filter_factory = std::make_shared<TtlFilterFactory>(
      ttl, env, options->compaction_filter, options->compaction_filter_factory);
  options->compaction_filter = nullptr;
  if (options->merge_operator == nullptr) return;
  options->merge_operator =
      std::make_shared<TtlMergeOperator>(options->merge_operator, env);
}

}  // namespace varve
