// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/large_batch.h"

#include <algorithm>

#include "db/family/common_errors.h"

namespace varve {

bool LargeBatchWatch::ComesAlone(SequenceNumber last, uint32_t updates) {
  // relaxed, all: a guess about what other writers do.
  const bool is_expected = last == expected_.load(std::memory_order_relaxed);
  // relaxed: as above.
  const uint32_t alone =
      is_expected ? alone_.load(std::memory_order_relaxed) + 1 : 0;
  // relaxed: as above.
  alone_.store(alone, std::memory_order_relaxed);
  expected_.store(last + updates, std::memory_order_relaxed);
  return alone > kMostAlone;
}

LargeBatch::~LargeBatch() {
  for (MemTable* const memtable : memtables_) {
    if (memtable != nullptr && memtable->Unref()) delete memtable;
  }
  if (families_.empty()) return;
  MutexLock lock(core_.mutex());
  core_.families.UnrefLocked(families_);
  if (core_.families.HasDeadLocked()) core_.jobs.PurgeLaterLocked();
}

bool LargeBatch::IsWorthwhile() {
  // Range deletions have numbers in a structure of their own.
  if (WriteBatchInternal::Unchecked(*batch_)) return false;
  size_t largest_buffer = 0;
  bool merges_early = false;  // Operands become values as they are inserted.
  MutexLock lock(core_.mutex());
  TouchedFamilies(core_.families, *batch_, nullptr)
      .ForEach([&](const ColumnFamily* family) {
        const Options& options = family->options();
        largest_buffer = std::max(largest_buffer, options.write_buffer_size);
        merges_early |= options.max_successive_merges > 0 &&
                        WriteBatchInternal::HasMerges(*batch_);
      });
  return !merges_early &&
         EstimateMemory(batch_->ApproximateSize(), batch_->Count()) >=
             largest_buffer / kPart;
}

Status LargeBatch::Fill() {
  {
    const WriteQueue::Exclusive leader(&core_.write_queue);
    const TouchedFamilies touched(core_.families, *batch_, nullptr);
    if (!touched.AreLive()) return DroppedFamilyError();
    families_ = touched.All();
    for (ColumnFamily* const family : families_) family->Ref();
    const size_t family_count = core_.families.live().size();
    for (const ColumnFamily* family : families_) {
      memtables_.push_back(family->memtables().New(0, family_count));
    }
  }
  if (options_.disable_wal) {
    for (MemTable* const memtable : memtables_) memtable->SetHasUnlogged();
  }
  WriteBatchInternal::SetSequence(batch_, 1);
  return InsertBatch(batch_->Data(), this);
}

MemTable* LargeBatch::Choose(uint32_t family) {
  for (size_t i = 0; i < families_.size(); ++i) {
    if (families_[i]->id() == family) return memtables_[i];
  }
  return nullptr;
}

void LargeBatch::Renumber(SequenceNumber first) {
  const SequenceNumber now = WriteBatchInternal::Sequence(*batch_);
  for (MemTable* const memtable : memtables_) {
    memtable->AddToSequences(first - now);
  }
  WriteBatchInternal::SetSequence(batch_, first);
}

Status LargeBatch::MayPublish(bool* waits) const {
  MutexLock lock(core_.mutex());
  Status status = core_.control.WritableLocked();
  if (!status.ok()) return status;
  for (const ColumnFamily* family : families_) {
    if (family->is_dropped()) return DroppedFamilyError();
  }
  *waits = core_.families.HasOthers() && core_.control.LogsHoldUpLocked();
  for (const ColumnFamily* family : families_) {
    *waits |= !family->memtables().SlotFreeLocked();
  }
  return status;
}

bool LargeBatch::AwaitSpace() {
  MutexLock lock(core_.mutex());
  if (core_.scheduler.JobsLocked(JobKind::kFlush) == 0 ||
      core_.scheduler.is_stopping()) {
    return false;
  }
  core_.scheduler.WaitLocked();
  return true;
}

MemTable* LargeBatch::Take(const ColumnFamily* family) {
  for (size_t i = 0; i < families_.size(); ++i) {
    if (families_[i] == family) return std::exchange(memtables_[i], nullptr);
  }
  return nullptr;
}

}  // namespace varve
