// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/index/partitioned_filter.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace varve {

Status PartitionedFilter::Init(BlockContents body,
                               const PropertiesBlock& properties,
                               uint64_t file_size,
                               const InternalKeyComparator* comparator) {
  comparator_ = comparator;
  Status s = separators_.Decode(std::move(body),
                                TableIndex::FormOfPartitionNames(properties),
                                file_size, comparator, /*binary_search=*/false);
  if (!s.ok()) return s;
  for (size_t i = 0; i < size(); ++i) {
    if (i > 0 && comparator->CompareUser(separators_.SeparatorUserKey(i - 1),
                                         separators_.SeparatorUserKey(i)) > 0) {
      return Status::Corruption("the separators are out of order");
    }
    line_count_ += (handle(i).size + sizeof(Line) - 1) / sizeof(Line);
  }
  lines_ = std::make_unique_for_overwrite<Line[]>(line_count_);
  filters_.reserve(size());
  return s;
}

void PartitionedFilter::Add(const Slice& body) {
  char* const data = reinterpret_cast<char*>(lines_.get() + used_lines_);
  used_lines_ += (body.size() + sizeof(Line) - 1) / sizeof(Line);
  memcpy(data, body.data(), body.size());
  filters_.emplace_back().Init(kFullBloomBlockName, Slice(data, body.size()),
                               nullptr);
}

size_t PartitionedFilter::Find(const Slice& user_key) const {
  size_t i = 0;
  if (separators_.FindByPrefixes(user_key, &i)) return i;
  const LookupKey key(user_key, kMaxSequenceNumber);
  return separators_.Find(key.internal_key());
}

bool PartitionedFilter::MayMatch(uint64_t hash, const Slice& user_key) const {
  for (size_t i = Find(user_key); i < size(); ++i) {
    if (filters_[i].MayMatch(hash, user_key)) return true;
    // Versions of a key that is a separator may continue in the next partition.
    if (!separators_.MayContinue(i, user_key)) return false;
  }
  return true;
}

bool PartitionedFilter::PrefixMayMatch(uint64_t hash,
                                       const Slice& prefix) const {
  // Under another order, the prefix need not be before its keys.
  if (!comparator_->bytewise()) return true;
  for (size_t i = Find(prefix); i < size(); ++i) {
    if (filters_[i].MayMatch(hash, prefix)) return true;
    // Keys with the prefix can follow only a separator that begins with it.
    if (!separators_.SeparatorUserKey(i).starts_with(prefix)) return false;
  }
  return true;
}

bool PartitionedFilter::CanExclude() const {
  return std::any_of(
      filters_.begin(), filters_.end(),
      [](const FilterReader& filter) { return filter.asks_whole_keys(); });
}

size_t PartitionedFilter::ApproximateMemoryUsage() const {
  return sizeof(*this) + separators_.ApproximateMemoryUsage() +
         filters_.capacity() * sizeof(filters_[0]) + line_count_ * sizeof(Line);
}

}  // namespace varve
