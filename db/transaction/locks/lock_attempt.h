// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A call that locks a key, from its start to its end, and its place in the
// queue of the key. It lives on its thread's stack.

#include <atomic>
#include <cstdint>

#include "db/transaction/locks/lock_owner.h"
#include "db/transaction/locks/lock_parking.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

struct LockRequest {
  uint32_t family = 0;  // The id of the column family.
  Slice key;
  LockMode mode = LockMode::kExclusive;
  // How long to wait for other transactions, in microseconds. 0 does not wait,
  // kForever has no limit.
  int64_t timeout_us = kForever;
  // Whether to look for a deadlock before waiting, and the number of waiting
  // transactions after which the search assumes that there is one.
  bool detects_deadlock = true;
  uint32_t detect_depth = 50;

  static constexpr int64_t kForever = -1;
};

// Thread-safety: as lock_table.h says.
class LockAttempt {
 public:
  LockAttempt(LockOwner* owner, const LockRequest& request)
      : owner_(*owner), request_(request) {}
  LockAttempt(const LockAttempt&) = delete;
  LockAttempt& operator=(const LockAttempt&) = delete;

  // While the attempt waits: what to sleep on, and until when.
  std::atomic<uint32_t>* word() { return &word_; }
  uint64_t wake_at_ns() const { return wake_at_ns_; }
  // When it has ended: the outcome, and the lock if it is OK.
  const Status& status() const { return status_; }
  Status TakeStatus() { return std::move(status_); }
  LockHold* hold() const { return hold_; }

 private:
  friend class LockTable;
  friend class WaitGraph;

  enum class Outcome : uint8_t { kPending, kGranted, kExpired, kFamilyDropped };

  // An upgrade: the owner has the key's shared lock. REQUIRES: the entry has
  // not changed since own_ was valid, except for a theft.
  bool IsUpgrade() const { return own_ != nullptr && own_->entry == entry_; }

  LockOwner& owner_;
  const LockRequest& request_;
  // Set before it waits, then guarded by the stripe's mutex and by the graph's.
  LockEntry* entry_ = nullptr;
  LockHold* own_ = nullptr;  // The owner's shared lock, or null.
  LockAttempt* next_ = nullptr;
  LockAttempt* previous_ = nullptr;
  uint64_t wake_at_ns_ = kNever;
  // Stored before word_ becomes kSettled.
  Outcome outcome_ = Outcome::kPending;
  LockHold* hold_ = nullptr;
  // Owned by the attempt's thread.
  uint64_t deadline_ns_ = kNever;
  bool waits_for_long_ = false;
  Status status_;
  std::atomic<uint32_t> word_{LockParking::kAwake};
};

}  // namespace varve
