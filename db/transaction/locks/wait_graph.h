// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds deadlocks of a lock table: a search in the graph of which transaction
// waits for which, before a transaction begins to wait.
//
// The graph is not stored. A transaction waits for one key at most, and for all
// other holders of that key: it conflicts with them, or with a waiter before it
// that does. The waiters before it wait for the same holders, so the search
// skips them. It follows `waiting_` of an owner to the key's entry, and its
// holders to the next owners.
// Thread-safety: all calls require the mutex. With it held, no entry with
// waiters changes, and the owners of its holds exist (lock_table.h, I3).

#include <cstdint>
#include <deque>
#include <vector>

#include "db/transaction/locks/lock_attempt.h"
#include "db/transaction/locks/lock_stripe.h"
#include "util/base/mutex.h"
#include "varve/transaction_db.h"

namespace varve {

class WaitGraph {
 public:
  // `history` is the number of deadlocks that are kept for reports.
  explicit WaitGraph(uint32_t history) : history_size_(history) {}
  WaitGraph(const WaitGraph&) = delete;
  WaitGraph& operator=(const WaitGraph&) = delete;

  Mutex* mutex() VARVE_RETURN_CAPABILITY(mutex_) { return &mutex_; }

  // Returns Busy with the subcode kDeadlock if the attempt would close a cycle
  // by waiting for its entry, and adds the cycle to the history. Otherwise OK.
  // REQUIRES: the attempt is not in the queue; the stripe's mutex is held.
  Status Check(const LockAttempt& attempt, int64_t now_seconds)
      VARVE_REQUIRES(mutex_);

  // Returns the last deadlocks, the newest first.
  std::vector<DeadlockPath> History() const VARVE_REQUIRES(mutex_);
  void SetHistorySize(uint32_t size) VARVE_REQUIRES(mutex_);

  // Returns the ids of the transactions that the owner waits for directly, and
  // for which key. Empty if it does not wait.
  static std::vector<uint64_t> WaitsFor(const LockOwner& owner,
                                        uint32_t* family, std::string* key);

 private:
  // Adds the owners that wait and hold the entry. Returns true if one of the
  // holders is `wanted`.
  bool AddHolders(const LockEntry& entry, const LockOwner* wanted,
                  const LockOwner* waiter, LockOwner* from)
      VARVE_REQUIRES(mutex_);
  // Returns the cycle that the attempt closes; `last` waits for it.
  static std::vector<DeadlockInfo> PathTo(const LockAttempt& attempt,
                                          LockOwner* last);
  Status Record(DeadlockPath path, const LockAttempt& attempt)
      VARVE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // The running search: its number, and the owners in the order in which they
  // were found.
  uint64_t search_ VARVE_GUARDED_BY(mutex_) = 0;
  std::vector<LockOwner*> found_ VARVE_GUARDED_BY(mutex_);
  std::deque<DeadlockPath> history_ VARVE_GUARDED_BY(mutex_);  // Newest first.
  uint32_t history_size_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace varve
