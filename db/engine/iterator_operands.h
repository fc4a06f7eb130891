// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "db/merge/merge_all.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/key_buffer.h"
#include "table/reader/merge_operands.h"

namespace varve {

// The merge operands of an iterator's current key. Takes memory at the first
// operand only. Thread-safety: owned by one thread.
class IteratorOperands {
 public:
  bool empty() const { return count_ == 0; }
  void Clear() { count_ = 0; }

  // `it` is at the newest visible version of a key, an operand. Copies the
  // operands and the value below them. On return, `it` is at that value, at
  // another older version, or after all versions. has_key(user_key) tells the
  // versions of the key.
  template <typename HasKey>
  [[gnu::noinline]] void Collect(InternalIterator* it, HasKey has_key) {
    MergeOperands& operands = Renew();
    while (it->Valid() && has_key(ExtractUserKey(it->key())) &&
           operands.Add(ExtractTrailer(it->key()), it->value())) {
      it->Next();
    }
    count_ = operands.size();
  }

  // Adds an operand that is newer than all others. `base` is the value below
  // the first one, or null if there is none.
  [[gnu::noinline]] void AddNewer(const Slice& operand, const Slice* base) {
    if (count_ == 0) {
      MergeOperands& operands = Renew();
      if (base != nullptr) operands.SetBase(*base);
    }
    operands_->AddNewer(operand);
    count_ = operands_->size();
  }

  // Sets *value to what the operands of the key result in. See MergeAll.
  [[gnu::noinline]] Status Merge(const MergeOperator* merge_operator,
                                 const Slice& key, StatisticsImpl* stats,
                                 KeyBuffer* value) const {
    std::string merged;
    Status status = MergeAll(merge_operator, key, *operands_, stats, &merged);
    if (status.ok()) value->Assign(merged);
    return status;
  }

 private:
  MergeOperands& Renew() {
    if (operands_ == nullptr) operands_ = std::make_unique<MergeOperands>();
    operands_->Clear();
    return *operands_;
  }

  std::unique_ptr<MergeOperands> operands_;  // Null before the first one.
  size_t count_ = 0;
};

}  // namespace varve
