// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/family_memtables.h"

#include <algorithm>

#include "db/prefix/prefix_order.h"
#include "env/descriptor_supply.h"

namespace varve {

namespace {

// Logs of write buffers may have such a part of the descriptors, and as many as
// the least max_write_buffer_number in any case.
constexpr int kLogPart = 4;
constexpr int kLeastLogs = 2;

}  // namespace

FamilyMemtables::FamilyMemtables(const Options* options,
                                 const InternalKeyComparator* comparator,
                                 std::function<void()> request_switch)
    : options_(options),
      comparator_(comparator),
      request_switch_(std::move(request_switch)),
      account_(WriteBufferAccount::New(options->write_buffer_manager)) {}

void FamilyMemtables::BeginLocked(MemTable* memtable,
                                  std::vector<MemTable*> immutable) {
  memtable_ = memtable;
  immutable_ = std::move(immutable);
}

void FamilyMemtables::EmptyLocked() {
  for (MemTable* memtable : std::exchange(immutable_, {})) {
    UnrefLocked(memtable);
  }
  // It is not charged to the budget of write buffers.
  UnrefLocked(std::exchange(memtable_,
                            new MemTable(comparator_, memtable_->wal_number(),
                                         /*write_buffer_size=*/1)));
}

void FamilyMemtables::CloseLocked() {
  for (MemTable* memtable : obsolete_) delete memtable;
  if (memtable_ != nullptr && memtable_->Unref()) delete memtable_;
  for (MemTable* memtable : immutable_) {
    if (memtable->Unref()) delete memtable;
  }
}

MemTable* FamilyMemtables::New(uint64_t wal_number, size_t family_count) const {
  const size_t size = options_->write_buffer_size;
  return new MemTable(
      comparator_, wal_number, size, MemTableOrderFor(*options_), account_,
      std::min(size, std::max<size_t>(size / family_count, last_batch_bytes_)));
}

bool FamilyMemtables::SlotFreeLocked() const {
  const int buffers = static_cast<int>(immutable_.size()) + 1;
  // Each has its log open.
  return buffers < options_->max_write_buffer_number &&
         (buffers < kLeastLogs || buffers < CurrentReserveBegin() / kLogPart);
}

bool FamilyMemtables::HasUnloggedLocked() const {
  return memtable_->has_unlogged() ||
         std::any_of(immutable_.begin(), immutable_.end(),
                     [](const MemTable* m) { return m->has_unlogged(); });
}

void FamilyMemtables::SwitchLocked(MemTable* next, uint64_t batch_bytes) {
  wants_switch_ = false;
  log_is_full_ = false;
  immutable_.push_back(memtable_);
  memtable_->MarkImmutable();
  ++switched_count_;
  last_batch_bytes_ = batch_bytes;
  memtable_ = next;
}

std::vector<MemTable*> FamilyMemtables::ReplaceLocked(
    MemTable* current, std::vector<MemTable*> immutable) {
  std::vector<MemTable*> dropped = std::move(immutable_);
  dropped.push_back(memtable_);
  std::erase_if(dropped, [&](MemTable* memtable) {
    return memtable == current || std::find(immutable.begin(), immutable.end(),
                                            memtable) != immutable.end();
  });
  memtable_ = current;
  immutable_ = std::move(immutable);
  return dropped;
}

void FamilyMemtables::MarkFlushExpectedLocked(bool is_expected) {
  for (MemTable* const memtable : immutable_) {
    if (is_expected) {
      memtable->MarkImmutable();
    } else {
      memtable->MarkHeld();
    }
  }
}

std::vector<MemTable*> FamilyMemtables::RemoveFlushedLocked(size_t count) {
  const auto end = immutable_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<MemTable*> flushed(immutable_.begin(), end);
  immutable_.erase(immutable_.begin(), end);
  return flushed;
}

void FamilyMemtables::RetireLocked(const std::vector<MemTable*>& flushed) {
  for (MemTable* memtable : flushed) {
    memtable->MarkHeld();
    flushed_.push_back(memtable);
    UnrefLocked(memtable);
  }
}

void FamilyMemtables::UnrefLocked(MemTable* memtable) {
  if (!memtable->Unref()) return;
  std::erase(flushed_, memtable);
  obsolete_.push_back(memtable);
}

}  // namespace varve
