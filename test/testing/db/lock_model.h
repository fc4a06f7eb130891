// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A lock table by its definition: lists of holders and of waiters for each key.
// It looks for a deadlock in the graph with all edges, of which the lock table
// skips many. Transactions are numbers from 0 on.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/transaction/locks/lock_owner.h"

namespace varve::test {

class LockModel {
 public:
  struct Transaction {
    uint64_t expiry_us = 0;
    bool committing = false;
    bool stolen = false;
    // While it waits, and until it knows the outcome.
    std::string waits_for;  // A key, if `waiting`.
    bool waiting = false;
    std::string outcome;  // Empty until the wait is over.
    uint64_t deadline_us = 0;
  };
  struct Wait {
    int transaction;
    LockMode mode;
  };
  struct Key {
    LockMode mode = LockMode::kShared;
    std::vector<int> holders;
    std::vector<Wait> queue;
  };

  explicit LockModel(int count) : transactions(static_cast<size_t>(count)) {}

  // Each returns an outcome as SteppedTransaction does.
  std::string Lock(int t, const std::string& name, LockMode mode,
                   uint64_t timeout_us, bool detects, uint64_t now_us) {
    if (At(t).stolen) return "Expired";
    if (keys.find(name) == keys.end() && keys.size() >= limit) {
      return "LockLimit";
    }
    Key& key = keys[name];
    const bool holds = Holds(key, t);
    if (holds && (key.mode == LockMode::kExclusive || mode == key.mode)) {
      return "ok";
    }
    const auto can_take = [&] {
      return CanTake(key, t, mode) && (Holds(key, t) || key.queue.empty());
    };
    if (!can_take()) {
      Steal(&key, t, now_us);
      Grant(&key);
    }
    if (can_take()) {
      Take(&key, t, mode);
      return "ok";
    }
    if (timeout_us == 0) return "TimedOut";
    if (HasExpired(t, now_us)) return "Expired";
    auto place = key.queue.end();
    if (holds) {
      place = std::find_if(
          key.queue.begin(), key.queue.end(),
          [&](const Wait& each) { return !Holds(key, each.transaction); });
    }
    place = key.queue.insert(place, {t, mode});
    At(t).waiting = true;
    At(t).waits_for = name;
    if (detects && IsInCycle(t)) {
      key.queue.erase(place);
      At(t).waiting = false;
      return "Deadlock";
    }
    At(t).deadline_us =
        timeout_us > UINT64_MAX - now_us ? UINT64_MAX : now_us + timeout_us;
    return "waits";
  }

  std::string Look(int t, uint64_t now_us) {
    Transaction& self = At(t);
    if (self.outcome.empty()) {
      Key& key = keys[self.waits_for];
      Steal(&key, t, now_us);
      Grant(&key);
      const bool expired = HasExpired(t, now_us);
      if (self.outcome.empty()) {
        if (!expired && now_us < self.deadline_us) return "waits";
        self.waiting = false;
        std::erase_if(key.queue,
                      [t](const Wait& each) { return each.transaction == t; });
        Grant(&key);
        Tidy(self.waits_for);
        return expired ? "Expired" : "TimedOut";
      }
    }
    return std::exchange(self.outcome, "");
  }

  bool Unlock(int t, const std::string& name) {
    const auto found = keys.find(name);
    if (found == keys.end() || !Holds(found->second, t)) return false;
    std::erase(found->second.holders, t);
    Grant(&found->second);
    Tidy(name);
    return true;
  }
  void UnlockAll(int t) {
    std::vector<std::string> names;
    for (const auto& [name, key] : keys) names.push_back(name);
    for (const std::string& name : names) Unlock(t, name);
  }
  void Drop(const std::string& name) {
    for (const Wait& each : keys[name].queue) {
      At(each.transaction).waiting = false;
      At(each.transaction).outcome = "Dropped";
    }
    keys.erase(name);
  }
  bool BeginCommit(int t, uint64_t now_us) {
    Transaction& self = At(t);
    if (self.stolen || (!self.committing && HasExpired(t, now_us))) {
      return false;
    }
    self.committing = true;
    return true;
  }

  // As LocksText of the lock table, with `first_id` for transaction 0.
  std::string Text(int first_id = 1) const {
    std::string text;
    for (const auto& [name, key] : keys) {
      text += (text.empty() ? "" : "; ") + name;
      text += key.mode == LockMode::kExclusive ? " X" : " S";
      std::set<int> sorted(key.holders.begin(), key.holders.end());
      for (const int t : sorted) text += " " + std::to_string(t + first_id);
    }
    return text;
  }

  // A cycle of waiting transactions with t in it.
  bool IsInCycle(int t) const {
    std::set<int> seen;
    std::vector<int> next = {t};
    while (!next.empty()) {
      const int from = next.back();
      next.pop_back();
      for (const int to : WaitsFor(from)) {
        if (to == t) return true;
        if (seen.insert(to).second) next.push_back(to);
      }
    }
    return false;
  }

  Transaction& At(int t) { return transactions[static_cast<size_t>(t)]; }
  const Transaction& At(int t) const {
    return transactions[static_cast<size_t>(t)];
  }

  std::map<std::string, Key> keys;  // Those with holders.
  std::vector<Transaction> transactions;
  uint64_t limit = UINT64_MAX;  // Of keys.

 private:
  static bool Holds(const Key& key, int t) {
    return std::count(key.holders.begin(), key.holders.end(), t) != 0;
  }
  bool HasExpired(int t, uint64_t now_us) const {
    return At(t).expiry_us != 0 && now_us >= At(t).expiry_us;
  }
  static bool Conflict(LockMode a, LockMode b) {
    return a == LockMode::kExclusive || b == LockMode::kExclusive;
  }
  static bool CanTake(const Key& key, int t, LockMode mode) {
    return std::all_of(key.holders.begin(), key.holders.end(), [&](int holder) {
      return holder == t || !Conflict(mode, key.mode);
    });
  }
  static void Take(Key* key, int t, LockMode mode) {
    if (!Holds(*key, t)) key->holders.push_back(t);
    key->mode = mode;
  }
  void Steal(Key* key, int thief, uint64_t now_us) {
    std::set<int> stolen;
    std::erase_if(key->holders, [&](int holder) {
      if (holder == thief || !HasExpired(holder, now_us)) return false;
      if (At(holder).committing) return false;
      At(holder).stolen = true;
      return stolen.insert(holder).second;
    });
    // Their upgrades are no upgrades any more.
    std::erase_if(key->queue, [&](const Wait& each) {
      if (stolen.count(each.transaction) == 0) return false;
      At(each.transaction).waiting = false;
      At(each.transaction).outcome = "Expired";
      return true;
    });
  }
  void Grant(Key* key) {
    while (!key->queue.empty()) {
      const Wait first = key->queue.front();
      if (!CanTake(*key, first.transaction, first.mode)) return;
      key->queue.erase(key->queue.begin());
      Take(key, first.transaction, first.mode);
      At(first.transaction).waiting = false;
      At(first.transaction).outcome = "ok";
    }
  }
  void Tidy(const std::string& name) {
    const auto found = keys.find(name);
    if (found != keys.end() && found->second.holders.empty()) keys.erase(found);
  }
  // The holders and the waiters before it that it conflicts with.
  std::set<int> WaitsFor(int t) const {
    std::set<int> others;
    if (!At(t).waiting) return others;
    const Key& key = keys.at(At(t).waits_for);
    const auto own =
        std::find_if(key.queue.begin(), key.queue.end(),
                     [t](const Wait& each) { return each.transaction == t; });
    for (const int holder : key.holders) {
      if (Conflict(own->mode, key.mode)) others.insert(holder);
    }
    for (auto each = key.queue.begin(); each != own; ++each) {
      if (Conflict(own->mode, each->mode)) others.insert(each->transaction);
    }
    others.erase(t);
    return others;
  }
};

}  // namespace varve::test
