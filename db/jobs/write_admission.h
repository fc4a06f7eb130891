// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decides when a write may go on: whether it waits for flushes, compactions,
// logs or the budget of write buffers, pauses for their pace, or is refused
// because of an error or a full device. A write is admitted, joins the write
// queue, and as the leader makes room for its group. If there is none, it
// leaves the queue, and is admitted once more.
//
// Thread-safety: thread-safe. MakeRoom is for the leader of the write queue.

#include <cstdint>

#include "db/family/touched_families.h"
#include "db/jobs/db_core.h"
#include "db/jobs/flusher.h"
#include "db/options/db_mutex.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// A write on its way through the queue. Owned by one thread.
struct PendingWrite {
  // Returns whether the leader may write its group, and nobody waits for that.
  bool MayGo() const { return next == Next::kGo; }
  // Returns whether it may write its group, and must wake others afterwards.
  bool MayGoAndWake() const { return next == Next::kGoAndWake; }

  const WriteOptions& options;
  const TouchedFamilies touched;
  // The writer's next step.
  // kGoAndWake: it may write its group, and then calls PublicationWatch::Wake.
  enum class Next : uint8_t {
    kCheck,
    kGo,
    kGoAndWake,
    kWait,
    kPause
  } next = Next::kCheck;
  // It only deletes, and is admitted for that reason, although the device is
  // full.
  bool frees = false;
  bool was_delayed = false;
  uint64_t pause_us = 0;   // The next pause.
  uint64_t paused_us = 0;  // The sum.
};

class WriteAdmission {
 public:
  // All must outlive this object.
  WriteAdmission(DbCore& core, Flusher& flusher)
      : core_(core), flusher_(flusher) {}
  WriteAdmission(const WriteAdmission&) = delete;
  WriteAdmission& operator=(const WriteAdmission&) = delete;

  // For a writer that is not in the queue. Returns OK once it may join: at
  // once, or after a wait. Returns Incomplete if it would have to wait and the
  // options forbid that, and the error of a database that is not writable.
  Status Admit(PendingWrite* write) {
    if (write->next == PendingWrite::Next::kCheck && !BudgetIsUsedUp() &&
        core_.control.gate().IsClear()) [[likely]] {
      return Status::OK();
    }
    return AdmitLater(write);
  }
  // For the leader. Replaces full memtables, and the log. If the writer has to
  // wait or to pause first, MayGo and MayGoAndWake are false afterwards: it is
  // to leave the queue.
  Status MakeRoom(PendingWrite* write) {
    write->next = PendingWrite::Next::kGo;
    if (core_.control.gate().LetsLeaderPass() &&
        !core_.default_family.memtables().IsFull() && !PaceIsDue(*write))
        [[likely]] {
      return Status::OK();
    }
    return ReplaceOrPause(write);
  }
  // For calls that may free space. Calls DB::Resume if there was no space.
  Status ResumeIfFull();

 private:
  bool BudgetIsUsedUp() const {
    const WriteBufferAccount* const account =
        core_.default_family.memtables().account();
    return account != nullptr && account->ShouldStall();
  }
  bool PaceIsDue(const PendingWrite& write) const {
    return write.touched.HasOthers() ? write.touched.PaceIsDue()
                                     : core_.default_family.pace().IsDue();
  }
  [[gnu::noinline]] Status AdmitLater(PendingWrite* write);
  Status AwaitBudget(const WriteOptions& options);
  Status AwaitStop(PendingWrite* write, ColumnFamily** family)
      VARVE_REQUIRES(kDbMutex);
  [[gnu::noinline]] Status ReplaceOrPause(PendingWrite* write);
  Status ReplaceAndPlan(PendingWrite* write);
  Status Replace(PendingWrite* write);
  Status ReplaceFullLog(PendingWrite* write);
  void PlanPause(PendingWrite* write);
  // Deletions on a full device.
  bool TakesDeletionsLocked() const VARVE_REQUIRES(kDbMutex);
  Status AdmitDeletionLocked(bool* tried) VARVE_REQUIRES(kDbMutex);
  Status TryResumeLocked() VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  Flusher& flusher_;
};

}  // namespace varve
