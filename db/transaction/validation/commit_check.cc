// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/validation/commit_check.h"

#include "util/bytes/hash.h"

namespace varve {

void CommitCheck::Clear() {
  for (size_t i = 0; i < used_; ++i) {
    families_[i].keys.clear();
    families_[i].ranges.clear();
  }
  used_ = 0;
}

const CommitCheck::Family* CommitCheck::Find(uint32_t family_id) const {
  for (const Family& family : families()) {
    if (family.id == family_id) return &family;
  }
  return nullptr;
}

CommitCheck::Family* CommitCheck::Of(uint32_t family_id) {
  for (size_t i = 0; i < used_; ++i) {
    if (families_[i].id == family_id) return &families_[i];
  }
  if (used_ == families_.size()) families_.emplace_back();
  Family* const family = &families_[used_++];
  family->id = family_id;
  return family;
}

void CommitCheck::AddKey(uint32_t family_id, const Slice& key,
                         SequenceNumber since) {
  Of(family_id)->keys.push_back({key, PreviewXxh3(key), since});
}

void CommitCheck::AddRange(uint32_t family_id, const Slice* begin,
                           const Slice* end, bool end_is_inclusive,
                           SequenceNumber since) {
  Of(family_id)->ranges.push_back(
      {begin != nullptr ? *begin : Slice(), end != nullptr ? *end : Slice(),
       begin != nullptr, end != nullptr, end_is_inclusive, since});
}

}  // namespace varve
