// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The memtables of one column family: the one that is written to, those that
// wait for a flush, those that only readers use, and those to free.
//
// Thread-safety: functions called ...Locked require the DB mutex. Only the
// leader of the write queue may call the functions marked "for the leader". The
// leader changes the current memtable with the mutex held, so either of the two
// suffices to read it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/memtable/write_buffer_budget.h"
#include "db/options/db_mutex.h"
#include "varve/options.h"

namespace varve {

class FamilyMemtables final : private WriteBufferClient {
 public:
  // `request_switch` is called when the budget of write buffers is exceeded and
  // the memtable is to be switched. It must not wait for a flush. All arguments
  // must outlive this object.
  FamilyMemtables(const Options* options,
                  const InternalKeyComparator* comparator,
                  std::function<void()> request_switch);
  FamilyMemtables(const FamilyMemtables&) = delete;
  FamilyMemtables& operator=(const FamilyMemtables&) = delete;

  // Sets the first memtable to write to, and the immutable memtables.
  void BeginLocked(MemTable* memtable, std::vector<MemTable*> immutable)
      VARVE_REQUIRES(kDbMutex);
  bool HasBegunLocked() const VARVE_REQUIRES(kDbMutex) {
    return memtable_ != nullptr;
  }
  // Releases the memtables, and continues with an empty one.
  void EmptyLocked() VARVE_REQUIRES(kDbMutex);
  // Releases all. REQUIRES: all reads have ended.
  void CloseLocked() VARVE_REQUIRES(kDbMutex);

  // ---- The budget of write buffers ----

  // The account of the memtables; null without a budget.
  WriteBufferAccount* account() const { return account_.get(); }
  // Call them when the memtable can be switched, and before it cannot any more.
  // REQUIRES: the mutex is not held, for the second.
  void JoinBudget() {
    if (account_ != nullptr) account_->Register(this);
  }
  void LeaveBudget() {
    if (account_ != nullptr) account_->Unregister();
  }

  // ---- The memtables ----

  // Creates a memtable. For the leader. `family_count`: how many live families
  // the database has, with this one. Several fill their memtables side by side.
  // So the first memtable of a family is expected to get its share of a write
  // buffer, and a later one to get as large as the last: a larger index would
  // spread few entries over many pages.
  MemTable* New(uint64_t wal_number, size_t family_count = 1) const;
  MemTable* current() const { return memtable_; }
  // Returns the memtables that wait for flush, oldest first.
  const std::vector<MemTable*>& immutable() const { return immutable_; }
  // Returns the flushed memtables that iterators and read transactions still
  // use.
  const std::vector<MemTable*>& flushed() const { return flushed_; }
  // REQUIRES: leadership or the mutex.
  bool IsFull() const {
    return memtable_->IsFull(options_->write_buffer_size) &&
           !memtable_->empty();
  }
  // Returns true if a new memtable is due.
  bool MustSwitchLocked() const VARVE_REQUIRES(kDbMutex) {
    return IsFull() || log_is_full_ || (wants_switch_ && !memtable_->empty());
  }
  // Makes a new memtable due, unless the present one is empty.
  void RequestSwitchLocked() VARVE_REQUIRES(kDbMutex) { wants_switch_ = true; }
  // Makes a new memtable due in any case: its flush frees the log.
  void SetLogFullLocked() VARVE_REQUIRES(kDbMutex) { log_is_full_ = true; }
  // Returns true if no memtable has an update.
  bool AreAllFlushedLocked() const VARVE_REQUIRES(kDbMutex) {
    return memtable_->empty() && immutable_.empty();
  }
  // Returns the first log that the family needs. REQUIRES: the family has
  // memtables.
  uint64_t OldestLogLocked() const VARVE_REQUIRES(kDbMutex) {
    return immutable_.empty() ? memtable_->wal_number()
                              : immutable_.front()->wal_number();
  }
  // Returns true if one more memtable may wait for flush.
  bool SlotFreeLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if the next writer has to wait for a flush.
  bool AwaitsFlushLocked() const VARVE_REQUIRES(kDbMutex) {
    return MustSwitchLocked() && !SlotFreeLocked();
  }
  // Returns true if the memtables have updates written with disable_wal.
  // REQUIRES: leadership of the queue, or no writers.
  bool HasUnloggedLocked() const VARVE_REQUIRES(kDbMutex);
  // Makes `next` the current memtable. For the leader. `batch_bytes`: of the
  // batches written to the last one.
  void SwitchLocked(MemTable* next, uint64_t batch_bytes)
      VARVE_REQUIRES(kDbMutex);

  // ---- For a follower, whose memtables another process flushes ----

  // Makes these the memtables, and returns those that were and are not among
  // them. Give them to RetireLocked after the next install. REQUIRES: nobody
  // writes.
  std::vector<MemTable*> ReplaceLocked(MemTable* current,
                                       std::vector<MemTable*> immutable)
      VARVE_REQUIRES(kDbMutex);

  // ---- Flushes ----

  // Whether a flush of the family runs. There is one at a time.
  bool flush_runs() const { return flush_runs_; }
  void SetFlushRunsLocked(bool runs) VARVE_REQUIRES(kDbMutex) {
    flush_runs_ = runs;
  }
  // Tells the budget whether a flush is about to free the immutable memtables.
  void MarkFlushExpectedLocked(bool is_expected) VARVE_REQUIRES(kDbMutex);
  // Removes and returns the `count` oldest immutable memtables.
  std::vector<MemTable*> RemoveFlushedLocked(size_t count)
      VARVE_REQUIRES(kDbMutex);
  void RetireLocked(const std::vector<MemTable*>& flushed)
      VARVE_REQUIRES(kDbMutex);
  // Return how many memtables became immutable, and how many of them were
  // counted by CountFlushedLocked.
  uint64_t switched_count() const { return switched_count_; }
  uint64_t flushed_count() const { return flushed_count_; }
  void CountFlushedLocked(uint64_t count) VARVE_REQUIRES(kDbMutex) {
    flushed_count_ += count;
  }

  // Releases a reference.
  void UnrefLocked(MemTable* memtable) VARVE_REQUIRES(kDbMutex);
  // Memtables to free without the mutex.
  bool HasObsoleteLocked() const VARVE_REQUIRES(kDbMutex) {
    return !obsolete_.empty();
  }
  std::vector<MemTable*> TakeObsoleteLocked() VARVE_REQUIRES(kDbMutex) {
    return std::exchange(obsolete_, {});
  }

 private:
  void RequestSwitch() override { request_switch_(); }

  const Options* const options_;
  const InternalKeyComparator* const comparator_;
  const std::function<void()> request_switch_;
  const std::shared_ptr<WriteBufferAccount> account_;  // May be null.
  MemTable* memtable_ = nullptr;                       // Written to; see above.
  std::vector<MemTable*> immutable_;
  std::vector<MemTable*> flushed_;
  std::vector<MemTable*> obsolete_;
  uint64_t switched_count_ = 0;
  uint64_t flushed_count_ = 0;
  uint64_t last_batch_bytes_ = 0;  // Owned by the leader.
  bool wants_switch_ = false;
  bool log_is_full_ = false;
  bool flush_runs_ = false;
};

}  // namespace varve
