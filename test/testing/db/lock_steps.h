// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Transactions on a lock table, whose calls are taken one step at a time and on
// one thread, with a clock that the test moves.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/transaction/locks/lock_table.h"

namespace varve::test {

class VirtualParking : public LockParking {
 public:
  VirtualParking() : LockParking(nullptr) {}
  uint64_t NowNanos() override { return now_us * 1000; }
  int64_t NowSeconds() override { return static_cast<int64_t>(now_us); }
  void Sleep(std::atomic<uint32_t>* word, uint64_t, bool) override {
    ADD_FAILURE() << "a step sleeps";
    *word = kSettled;
  }
  void Wake(std::atomic<uint32_t>*) override { ++wakes; }

  uint64_t now_us = 0;
  int wakes = 0;
};

// Outcomes are "ok", "waits", or the name of an error: "TimedOut", "Deadlock",
// "LockLimit", "Expired", "Dropped".
inline std::string LockOutcome(const Status& status) {
  if (status.ok()) return "ok";
  if (status.IsTimedOut() && status.IsLockTimeout()) return "TimedOut";
  if (status.IsBusy() && status.IsDeadlock()) return "Deadlock";
  if (status.IsBusy() && status.IsLockLimit()) return "LockLimit";
  if (status.IsExpired()) return "Expired";
  if (status.IsInvalidArgument()) return "Dropped";
  return status.ToString();
}

class SteppedTransaction {
 public:
  // `expiry_us` is a time, or 0.
  SteppedTransaction(LockTable* table, uint64_t id, uint64_t expiry_us = 0)
      : table_(*table), owner_(id, expiry_us * 1000) {}
  ~SteppedTransaction() { table_.UnlockAll(&owner_); }

  std::string Lock(const std::string& key, LockMode mode,
                   int64_t timeout_us = LockRequest::kForever,
                   uint32_t family = 0) {
    LockRequest request;
    request.family = family;
    request.mode = mode;
    request.timeout_us = timeout_us;
    return Lock(key, request);
  }
  std::string Lock(const std::string& key, const LockRequest& request) {
    key_ = key;
    request_ = request;
    request_.key = key_;
    attempt_ = std::make_unique<LockAttempt>(&owner_, request_);
    return After(table_.Start(attempt_.get()));
  }
  std::string Shared(const std::string& key) {
    return Lock(key, LockMode::kShared);
  }
  std::string Exclusive(const std::string& key) {
    return Lock(key, LockMode::kExclusive);
  }
  // As the thread does after a sleep. REQUIRES: it waits.
  std::string Look() { return After(table_.Continue(attempt_.get())); }

  bool waits() const { return attempt_ != nullptr; }
  // Whether the thread need not sleep any longer.
  bool is_awake() const {
    return waits() && word() != LockParking::kAwake &&
           word() != LockParking::kAsleep;
  }
  bool is_settled() const { return waits() && word() == LockParking::kSettled; }
  uint64_t wake_at_us() const { return attempt_->wake_at_ns() / 1000; }
  uint32_t word() const { return attempt_->word()->load(); }
  // As if the thread slept in the kernel.
  void FallAsleep() {
    uint32_t awake = LockParking::kAwake;
    attempt_->word()->compare_exchange_strong(awake, LockParking::kAsleep);
  }

  LockOwner* owner() { return &owner_; }
  LockHold* hold() const { return hold_; }
  const std::string& text() const { return text_; }

 private:
  std::string After(LockTable::Step step) {
    if (step == LockTable::Step::kWait) return "waits";
    const Status& status = attempt_->status();
    text_ = status.ToString();
    hold_ = status.ok() ? attempt_->hold() : nullptr;
    const std::string outcome = LockOutcome(status);
    attempt_.reset();
    return outcome;
  }

  LockTable& table_;
  LockOwner owner_;
  std::string key_;
  LockRequest request_;
  std::unique_ptr<LockAttempt> attempt_;
  LockHold* hold_ = nullptr;
  std::string text_;
};

// All locks as text: "a X 1; b S 1 2", ordered by family, key and id. A family
// other than 0 is before the key.
inline std::string LocksText(LockTable* table) {
  std::vector<std::string> lines;
  for (auto& [family, info] : table->GetLockStatusData()) {
    std::string line = family == 0 ? "" : std::to_string(family) + "/";
    line += info.key + (info.exclusive ? " X" : " S");
    std::sort(info.ids.begin(), info.ids.end());
    for (const uint64_t id : info.ids) line += " " + std::to_string(id);
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) {
    text += (text.empty() ? "" : "; ") + line;
  }
  return text;
}

}  // namespace varve::test
