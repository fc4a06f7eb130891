// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>

#include "db/family/family_set.h"
#include "db/write/write_batch_internal.h"
#include "util/base/mutex.h"

namespace varve {

class StatisticsImpl;

// Replaces a merge operand by its result if Options::max_successive_merges
// operands of its key are in the memtable, in a row. The log keeps the operand:
// a recovery has operands again. If the operator fails, the operand stays.
//
// The merge operator is called without a lock, but by the leader of the write
// queue: other writers wait.
// Thread-safety: owned by the leader.
class SuccessiveMerges final : public OperandMerger {
 public:
  // `mutex` is the DB's, and not held. All must outlive this object.
  SuccessiveMerges(const FamilySet& families, StatisticsImpl* stats,
                   Mutex* mutex)
      : families_(families), stats_(stats), mutex_(mutex) {}

  bool Merge(uint32_t family, SequenceNumber sequence, const Slice& key,
             const Slice& operand, std::string* value) override;

 private:
  const FamilySet& families_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;
};

}  // namespace varve
