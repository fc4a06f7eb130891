// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A transaction as the lock table knows it: its state, and a list of the locks
// that it holds. db/transaction/locks/lock_table.h explains the protocol.

#include <atomic>
#include <cstdint>

#include "util/base/check.h"

namespace varve {

class LockAttempt;
class LockOwner;
struct LockEntry;

enum class LockMode : uint8_t {
  kShared,     // Any number of transactions at a time.
  kExclusive,  // One transaction.
};

// The lock of one key, as one transaction holds it. It stays at its address
// until the transaction gives the lock back.
struct LockHold {
  LockOwner* owner;
  // The key's entry. Null if the lock was stolen, or its column family dropped.
  // Guarded by the stripe's mutex.
  LockEntry* entry;
  // The other holders of the key. Guarded as `entry` is. Entries with waiters
  // change only with the mutex of the wait graph held, too.
  LockHold* next_of_key;
  LockHold* previous_of_key;
  // The owner's locks, from the newest one to the oldest. Owned by the owner's
  // thread, as all that follows.
  LockHold* older;
  LockHold* newer;
  // The upper half of the key's hash, never changed.
  uint32_t tag;
  // The number of locks that the owner had taken before, LockOwner::Mark().
  uint32_t number;
  // For the transaction, which counts here what needs the lock: its calls of
  // GetForUpdate, and its writes. The table does not read these.
  uint32_t reads;
  uint32_t writes;
  // It knows that the key has not changed since its snapshot.
  bool is_validated;
};

// Owned by one thread at a time, except for what the lock table does.
class LockOwner {
 public:
  // `id` is for reports, and unique. The locks may be stolen from `expiry_ns`
  // on, on the clock of the table's LockParking; 0 means never.
  explicit LockOwner(uint64_t id = 0, uint64_t expiry_ns = 0)
      : id_(id), expiry_ns_(expiry_ns) {}
  // REQUIRES: it holds no lock.
  ~LockOwner() { VARVE_DCHECK(newest_ == nullptr); }
  LockOwner(const LockOwner&) = delete;
  LockOwner& operator=(const LockOwner&) = delete;

  // Makes this the owner of another transaction. REQUIRES: it holds no lock.
  void Reset(uint64_t id, uint64_t expiry_ns) {
    VARVE_DCHECK(newest_ == nullptr);
    // relaxed: a number for reports.
    id_.store(id, std::memory_order_relaxed);
    expiry_ns_ = expiry_ns;
    next_number_ = 0;
    search_ = 0;  // The next table may count from 0.
    // relaxed: no other thread knows an owner without locks.
    state_.store(State::kActive, std::memory_order_relaxed);
  }

  // Begins the commit, or the first phase of one: from now on no lock is
  // stolen until all are given back. Returns false if a lock was stolen, or if
  // the transaction has expired. It must then be rolled back. May be repeated.
  [[nodiscard]] bool BeginCommit(uint64_t now_ns) {
    if (HasExpired(now_ns) && !IsCommitting()) return false;
    State state = State::kActive;
    // relaxed, both: I4 of lock_table.h needs the order of this word only.
    return state_.compare_exchange_strong(state, State::kCommitting,
                                          std::memory_order_relaxed,
                                          std::memory_order_relaxed) ||
           state == State::kCommitting;
  }

  uint64_t id() const {
    // relaxed: as above.
    return id_.load(std::memory_order_relaxed);
  }
  uint64_t expiry_ns() const { return expiry_ns_; }
  bool HasExpired(uint64_t now_ns) const {
    return expiry_ns_ != 0 && now_ns >= expiry_ns_;
  }
  // Returns true if another transaction has stolen a lock.
  bool IsStolen() const {
    // relaxed: no data depends on it.
    return state_.load(std::memory_order_relaxed) == State::kStolen;
  }

  // The newest lock that is held, or null. Follow `older` for the others.
  LockHold* newest() const { return newest_; }
  uint32_t lock_count() const { return lock_count_; }
  // A point in time for LockTable::UnlockSince, such as a save point.
  uint32_t Mark() const { return next_number_; }

 private:
  friend class LockTable;
  friend class WaitGraph;

  enum class State : uint8_t { kActive, kCommitting, kStolen };

  bool IsCommitting() const {
    // relaxed: BeginCommit asks for its own store. Others only use it to sleep
    // longer, and no theft succeeds from that store on.
    return state_.load(std::memory_order_relaxed) == State::kCommitting;
  }
  // T6 of lock_table.h. Returns whether the locks may be stolen, and have it
  // known that they are.
  bool Steal() {
    State state = State::kActive;
    // relaxed, both: as in BeginCommit.
    return state_.compare_exchange_strong(state, State::kStolen,
                                          std::memory_order_relaxed,
                                          std::memory_order_relaxed) ||
           state == State::kStolen;
  }

  void Link(LockHold* hold) {
    hold->older = newest_;
    hold->newer = nullptr;
    hold->number = next_number_++;
    if (newest_ != nullptr) newest_->newer = hold;
    newest_ = hold;
    ++lock_count_;
  }
  void Unlink(LockHold* hold) {
    (hold->newer == nullptr ? newest_ : hold->newer->older) = hold->older;
    if (hold->older != nullptr) hold->older->newer = hold->newer;
    --lock_count_;
  }

  std::atomic<uint64_t> id_;  // Also read by Transaction::GetID.
  uint64_t expiry_ns_;
  // Owned by the owner's thread.
  LockHold* newest_ = nullptr;
  uint32_t lock_count_ = 0;
  uint32_t next_number_ = 0;
  // The lock that it waits for, or null. Guarded by the wait graph's mutex, as
  // what a search for cycles keeps here: its number, and from which transaction
  // it came.
  LockAttempt* waiting_ = nullptr;
  LockOwner* came_from_ = nullptr;
  uint64_t search_ = 0;
  // Owner: kActive -> kCommitting. Any thread: kActive -> kStolen.
  std::atomic<State> state_{State::kActive};
};

}  // namespace varve
