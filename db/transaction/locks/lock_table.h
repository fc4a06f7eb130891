// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Strict two-phase locking with a wait-for graph: the locks of keys that
// pessimistic transactions hold until they end. A lock is shared or exclusive.
// Transactions get it in the order in which they ask, except that an upgrade
// from shared to exclusive goes before all that have no lock of the key. An
// uncontended lock takes one mutex that few keys share, and no memory that all
// threads write.
//
// Thread-safety: thread-safe. An owner's calls come from one thread at a time.
//
// *Words and states.*
//   A stripe has the keys of its part of the hashes, and a mutex. A key is
//   free (it has no entry) or locked: its entry has one or more holders, in
//   `holds`, and a queue of attempts that wait, which may be empty.
//   `waiting_` of an owner: its attempt in a queue, or null.
//   `word_` of an attempt in a queue: kAwake; kAsleep, its thread may be in
//   the kernel; kLook, it must look again until when to sleep; kSettled, it has
//   left the queue. Its thread stores kAsleep without a mutex and kAwake with
//   the stripe's. Other threads store kLook and kSettled, with the stripe's
//   mutex held.
//   `state_` of an owner: kActive; kCommitting, stored by its thread; kStolen.
//   All but the last two are changed with the stripe's mutex held. An entry
//   with waiters, and `waiting_`, are changed with the graph's mutex held, too.
//   The stripe's is taken first, and never two of them.
// *Transitions.* Each, but for the sleep, is one critical section.
//   T1 take (Start): the attempt's owner becomes a holder if no other holder
//      conflicts with it, and if nobody waits. The owner may have a lock of the
//      key: then the queue does not count, and shared becomes exclusive.
//   T2 wait (Start): the attempt joins the queue: an upgrade after other
//      upgrades, all else at the end. Before that it ends with Busy if it would
//      close a cycle.
//   T3 sleep: the thread replaces kAwake by kAsleep, a compare-and-swap, and
//      sleeps in the kernel while the word is that, no longer than
//      `wake_at_ns_`.
//   T4 settle: while the first of the queue conflicts with no holder but its
//      own owner, it leaves the queue and becomes a holder: store of `hold_`
//      and `outcome_`, then exchange of `word_` with kSettled, release. If
//      waiters are left and a holder's time ends before the first of them would
//      look, it gets kLook.
//   T5 release (Unlock): the holder leaves, then T4. Without holders and
//      waiters the entry is removed.
//   T6 steal: a holder whose time is over leaves as in T5, if its owner's state
//      is kStolen or changes from kActive to that. If the owner waits for an
//      upgrade of this lock, that is settled, as expired. Done before T1 and T2
//      if the key is taken, and in T7. Nobody steals from himself.
//   T7 look (Continue): after the sleep, T6, then T4. An attempt that is still
//      in the queue leaves it, followed by T4, if it waited too long or its own
//      transaction has expired. Else it sleeps again.
//   T8 drop (DropFamily): all attempts of the entry are settled, and all
//      holders leave. The entry is removed.
// *Invariants.*
//   I1 The holders of a key are one, or all are shared. Nobody waits without a
//      holder that it conflicts with, or a waiter before it that conflicts with
//      it and waits for one: T4 follows each change that could end this.
//   I2 An attempt is in a queue until it is settled or leaves in T7. It is on
//      its thread's stack, so it is read with the stripe's mutex held only.
//   I3 With the graph's mutex held, all entries with waiters stand still,
//      whatever their stripes. Their holders' owners are alive, since an owner
//      gives up its locks before it ends.
//   I4 No lock of an owner is stolen from BeginCommit on, and no BeginCommit
//      succeeds after a theft: both change `state_` from kActive.
//   I5 If all attempts look for deadlocks, the graph has no cycle. Only T2 adds
//      a path: T1 and T4 turn a wait for a waiter into one for the same owner
//      as a holder. The waiters that an upgrade overtakes wait for its owner
//      already, which is a holder.
//   I6 The first of a queue looks at the key when the time of a holder ends
//      (T4, T7). So locks are stolen in the queue's order.
// *Why each order is needed.*
//   T4's exchange is a release and pairs with the acquire load of Continue and
//   of Sleep: the thread sees `outcome_`, `hold_`, and the hold's fields
//   without the mutex. Memory that the transactions protect by the locks passes
//   from holder to holder through the stripe's mutex, or that mutex and the
//   word. `state_` needs no order but its own (I4).
// *Bad interleavings prevented.*
//   B1 A lock is released between an attempt's test and its sleep. The test and
//      T2 are one critical section. T3's swap fails, or the kernel finds
//      another word, or T4 finds kAsleep and wakes it.
//   B2 An attempt times out while its lock is granted. Both are under the
//      stripe's mutex. Continue looks at the word there again, and the lock is
//      its owner's.
//   B3 An attempt is settled, returns, and its word is on no stack any more
//      when the other thread wakes it. Only the address is used, after T4
//      (util/base/futex.h). Its `next_` is read before T4.
//   B4 kLook overwrites kSettled. Only attempts in a queue get kLook.
//   B5 The word is kLook, and T4 writes `outcome_` while Continue reads it.
//      Continue reads it after kSettled only, or with the mutex held.
//   B6 A waiter computes its sleep from a holder that leaves. The next holder's
//      time ends, and nobody steals the lock. T4 sends kLook.
//   B7 Two owners wait for each other, and each looks before the other is in
//      its queue. T2 and its search are one critical section of the graph.
//   B8 A search finds a cycle whose waits were not there at the same time. I3.
//   B9 The lock of an owner is stolen while it commits. I4.
//   B10 A stolen lock's node is used by another owner, and then given back by
//      the first one. A stolen hold is detached, and freed by its owner only.
// *Freshness and progress.*
//   A wait ends when the holders and the waiters before it have ended, at its
//   deadline, or when its own transaction expires. One whose thread is
//   suspended in a critical section delays its stripe, or all waits.
// *Reclamation.*
//   Entries and holds are a stripe's, and are used with its mutex held; see I2
//   and I3 for the exceptions.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/transaction/locks/lock_attempt.h"
#include "db/transaction/locks/lock_owner.h"
#include "db/transaction/locks/lock_parking.h"
#include "db/transaction/locks/lock_stripe.h"
#include "db/transaction/locks/wait_graph.h"
#include "util/base/mutex.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/transaction_db.h"

namespace varve {

struct LockTableOptions {
  // Has the clock. Must outlive the table.
  Env* env = nullptr;
  // For tests, in place of `env`: the clock, and how threads sleep.
  LockParking* parking = nullptr;
  // The most keys of a column family that may be locked. No limit if it is not
  // positive, and then nothing is counted.
  int64_t max_num_locks = -1;
  // The number of deadlocks that are kept for reports.
  uint32_t max_num_deadlocks = 5;
  // Rounded up to a power of two, 65,536 at most.
  uint32_t stripe_count = 256;
};

class LockTable {
 public:
  explicit LockTable(const LockTableOptions& options);
  // REQUIRES: no lock is held, and no thread is in a call.
  ~LockTable();
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;

  // Locks a key for the owner. An exclusive lock that it has serves for a
  // shared one, too. Returns the lock in `hold`, if that is not null: the
  // owner's old one, if it had one. Waits for other transactions. Errors:
  // - TimedOut, kLockTimeout: not granted in time.
  // - Busy, kDeadlock: the wait would have closed a cycle of transactions that
  //   wait for each other. The message has the cycle.
  // - Busy, kLockLimit: max_num_locks keys of the family are locked.
  // - Expired: a lock of the owner was stolen, or the owner would have to wait
  //   beyond its own time.
  // - InvalidArgument: the column family was dropped during the wait.
  // After an error the owner has the locks that it had before.
  // REQUIRES: the caller holds no mutex.
  Status Lock(LockOwner* owner, const LockRequest& request,
              LockHold** hold = nullptr);

  // Gives a lock back. REQUIRES: it is the owner's.
  void Unlock(LockOwner* owner, LockHold* hold);
  // Gives the key's lock back. Returns false if the owner has none, or if it
  // was stolen.
  bool Unlock(LockOwner* owner, uint32_t family, const Slice& key);
  // Gives all locks back that were taken since owner->Mark() was `mark`. Locks
  // that were upgraded since then stay exclusive.
  void UnlockSince(LockOwner* owner, uint32_t mark);
  void UnlockAll(LockOwner* owner) { UnlockSince(owner, 0); }

  // Returns the owner's lock of the key, or null if it has none.
  LockHold* Find(const LockOwner& owner, uint32_t family, const Slice& key);

  // Removes the locks of a column family that was dropped. Waits for one end
  // with InvalidArgument. A call for this family that begins later takes a
  // lock as others do.
  void DropFamily(uint32_t family);

  // Returns all locks, by the id of the column family. Each one is as it was at
  // some moment of the call.
  std::unordered_multimap<uint32_t, KeyLockInfo> GetLockStatusData();
  // Returns the last deadlocks, the newest first.
  std::vector<DeadlockPath> GetDeadlockInfoBuffer();
  // Sets how many deadlocks are kept, of which the oldest ones may be lost.
  void SetDeadlockInfoBufferSize(uint32_t count);
  // Returns the ids of the transactions that hold the key for which the owner
  // waits, and that key. Empty if the owner does not wait. May be called by any
  // thread that knows the owner to be alive.
  std::vector<uint64_t> GetWaitingTxns(const LockOwner& owner, uint32_t* family,
                                       std::string* key);

  // ---- The steps of Lock ----
  //
  // Each is one critical section. Lock calls Start, and after a kWait sleeps
  // and calls Continue. A test calls them in any order.

  enum class Step : uint8_t { kDone, kWait };
  Step Start(LockAttempt* attempt);
  Step Continue(LockAttempt* attempt);

 private:
  // Words to wake when no mutex is held.
  class Wakes {
   public:
    explicit Wakes(LockParking* parking) : parking_(*parking) {}
    ~Wakes() {
      for (uint32_t i = 0; i < count_; ++i) parking_.Wake(words_[i]);
    }
    Wakes(const Wakes&) = delete;
    Wakes& operator=(const Wakes&) = delete;

    void Add(std::atomic<uint32_t>* word) {
      // Many wait for shared locks: wake the rest with the mutex held.
      if (count_ == kMost) return parking_.Wake(word);
      words_[count_++] = word;
    }

   private:
    static constexpr uint32_t kMost = 16;
    LockParking& parking_;
    uint32_t count_ = 0;
    std::atomic<uint32_t>* words_[kMost];
  };

  // The suffix GraphLocked means that the graph's mutex and the stripe's are
  // held. `attempt` is the caller's, others are in the queue.
  LockStripe& StripeOf(uint32_t tag) const {
    return stripes_[(tag >> 16) & stripe_mask_];
  }
  Step TakeFree(LockStripe* stripe, uint64_t hash, LockAttempt* attempt)
      VARVE_REQUIRES(stripe->mutex());
  Step TakeLocked(LockStripe* stripe, LockEntry* entry, LockAttempt* attempt,
                  Wakes* wakes) VARVE_REQUIRES(stripe->mutex());
  Step WaitGraphLocked(LockEntry* entry, LockAttempt* attempt, uint64_t now_ns)
      VARVE_REQUIRES(graph_.mutex());
  Step Finish(LockAttempt* attempt);
  static Step Fail(LockAttempt* attempt, Status status);

  // Returns the owner's lock in the entry, or null. REQUIRES: the stripe's
  // mutex is held; the calling thread is the owner's.
  static LockHold* HoldOf(const LockOwner& owner, const LockEntry& entry);
  // Returns whether no other holder conflicts with the attempt.
  static bool CanTake(const LockEntry& entry, const LockAttempt& attempt);
  static void Take(LockStripe* stripe, LockEntry* entry, LockAttempt* attempt)
      VARVE_REQUIRES(stripe->mutex());
  // T6, for all holders but the thief.
  void StealGraphLocked(LockEntry* entry, const LockOwner& thief,
                        uint64_t now_ns, Wakes* wakes)
      VARVE_REQUIRES(graph_.mutex());
  // T4.
  void GrantGraphLocked(LockStripe* stripe, LockEntry* entry, Wakes* wakes)
      VARVE_REQUIRES(stripe->mutex(), graph_.mutex());
  void SettleGraphLocked(LockEntry* entry, LockAttempt* attempt,
                         LockAttempt::Outcome outcome, Wakes* wakes)
      VARVE_REQUIRES(graph_.mutex());
  // Stores kLook or kSettled.
  static void Signal(LockAttempt* attempt, LockParking::Word word,
                     Wakes* wakes);
  // Takes the attempt out of the queue.
  static void Leave(LockEntry* entry, LockAttempt* attempt);
  // Returns until when the attempt may sleep.
  static uint64_t WakeAt(const LockAttempt& attempt);
  // Returns when the first of the locks can be stolen.
  static uint64_t FirstExpiry(const LockEntry& entry);
  void RemoveEntry(LockStripe* stripe, LockEntry* entry)
      VARVE_REQUIRES(stripe->mutex());
  // T5, for a lock that its owner does not list any more.
  void Release(LockHold* hold);
  // T8.
  void DropEntry(LockStripe* stripe, LockEntry* entry, Wakes* wakes)
      VARVE_REQUIRES(stripe->mutex());
  // Counts one more locked key. Returns false if the family has its most.
  bool CountLock(uint32_t family) VARVE_EXCLUDES(counts_mutex_);

  LockParking own_parking_;
  LockParking& parking_;
  const uint64_t max_num_locks_;  // 0: no limit.
  const uint32_t stripe_mask_;
  const std::unique_ptr<LockStripe[]> stripes_;

  WaitGraph graph_;

  // Keys that are locked, by family. Used only if there is a limit.
  Mutex counts_mutex_;
  std::unordered_map<uint32_t, uint64_t> counts_
      VARVE_GUARDED_BY(counts_mutex_);
};

}  // namespace varve
