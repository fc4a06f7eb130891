// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/table/filter_block.h"

#include "compat/leveldb/coding.h"
#include "compat/leveldb/table/table_format.h"

namespace varve::compat {

void FilterBlockBuilder::StartBlock(uint64_t offset) {
  if (policy_ == nullptr) return;
  while (offset >> kFilterRangeLog2 > filter_offsets_.size()) AddFilter();
}

void FilterBlockBuilder::AddKey(const leveldb::Slice& key) {
  if (policy_ == nullptr) return;
  keys_.append(key.data(), key.size());
  key_ends_.push_back(keys_.size());
}

void FilterBlockBuilder::AddFilter() {
  filter_offsets_.push_back(static_cast<uint32_t>(result_.size()));
  if (key_ends_.empty()) return;
  std::vector<leveldb::Slice> slices;
  size_t begin = 0;
  for (const size_t end : key_ends_) {
    slices.emplace_back(keys_.data() + begin, end - begin);
    begin = end;
  }
  policy_->CreateFilter(slices.data(), static_cast<int>(slices.size()),
                        &result_);
  keys_.clear();
  key_ends_.clear();
}

leveldb::Slice FilterBlockBuilder::Finish() {
  if (!key_ends_.empty()) AddFilter();
  const auto offsets_begin = static_cast<uint32_t>(result_.size());
  for (const uint32_t offset : filter_offsets_) AppendFixed32(&result_, offset);
  AppendFixed32(&result_, offsets_begin);
  result_.push_back(static_cast<char>(kFilterRangeLog2));
  return leveldb::Slice(result_);
}

}  // namespace varve::compat
