// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: no order of the steps of three transactions on three keys loses a
// waiter, grants what conflicts, steals from a commit, reports a deadlock that
// is none, or leaves a lock. Method: from each state that three scripts can
// reach, each next step is taken: the next call of a transaction, a look by one
// that waits, whether or not it was woken, or the clock's next tick. A state is
// reached by repeating the steps that led to it, on a new table. After each
// step the table is compared with test/testing/db/lock_model.h. No thread is
// needed: each step is one critical section
// (db/transaction/locks/lock_table.h).

#include "test/testing/db/lock_model.h"
#include "test/testing/db/lock_steps.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kCount = 3;

// A lock of a script: a key, 'a' to 'c', and the mode.
struct Op {
  char key;
  LockMode mode;
  auto operator<=>(const Op&) const = default;
};

struct Script {
  std::vector<Op> ops;  // Then the commit, and the release of all.
  uint64_t expiry_us = 0;
  int64_t timeout_us = LockRequest::kForever;
  bool detects = true;
};

// One run: a table, its model, and where each transaction is in its script.
class Run {
 public:
  explicit Run(const std::vector<Script>& scripts)
      : scripts_(scripts), table_(Options(&parking_)) {
    for (int t = 0; t < kCount; ++t) {
      real_.emplace_back(new SteppedTransaction(
          &table_, static_cast<uint64_t>(t) + 1, At(t).expiry_us));
      model_.At(t).expiry_us = At(t).expiry_us;
    }
  }
  ~Run() {
    table_.DropFamily(0);
    for (const auto& real : real_) {
      if (real->waits()) real->Look();
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Step t < kCount is transaction t's, kCount the clock's.
  static constexpr int kTick = kCount;

  bool CanStep(int step) const {
    return step == kTick ? parking_.now_us < LastTick() : place_[step] != kDone;
  }
  // Returns a complaint, or an empty string.
  std::string Step(int step) {
    if (step == kTick) {
      ++parking_.now_us;
      return "";
    }
    return Real(step).waits() ? Look(step) : Next(step);
  }
  // Compares the table with the model. Returns what Step does.
  std::string Compare() {
    if (Locks() != model_.Text()) return Locks() + ", not " + model_.Text();
    for (int t = 0; t < kCount; ++t) {
      if (Real(t).is_settled() == model_.At(t).outcome.empty()) {
        return std::to_string(t + 1) + " is settled, or should be";
      }
    }
    return "";
  }

  // Whether nothing more happens by itself: all that could act have ended or
  // wait, and none of those was woken or has a time to wake.
  bool IsStuck() const {
    for (int t = 0; t < kCount; ++t) {
      if (place_[t] == kDone) continue;
      const SteppedTransaction& real = *real_[static_cast<size_t>(t)];
      if (!real.waits() || real.is_awake()) return false;
      if (real.wake_at_us() < kNever / 1000) return false;
    }
    return !AllDone();
  }
  bool AllDone() const {
    return std::all_of(place_, place_ + kCount,
                       [](int place) { return place == kDone; });
  }
  std::string Locks() { return LocksText(&table_); }

  // All that the further steps depend on.
  std::string Key() {
    std::string key = Locks() + "|" + std::to_string(parking_.now_us);
    for (const auto& [name, entry] : model_.keys) {
      key += "|" + name;
      for (const auto& each : entry.queue) {
        key += static_cast<char>('0' + each.transaction);
      }
    }
    for (int t = 0; t < kCount; ++t) {
      const auto& model = model_.At(t);
      key += "|" + std::to_string(place_[t]) + model.outcome;
      key += model.committing ? "c" : model.stolen ? "s" : "";
      const SteppedTransaction& real = Real(t);
      if (!real.waits()) continue;
      key += "w" + std::to_string(real.word()) + "," +
             std::to_string(real.wake_at_us()) + "," +
             std::to_string(model.deadline_us);
    }
    return key;
  }

 private:
  static constexpr int kDone = 100;
  static constexpr int kReleases = 99;

  static LockTableOptions Options(LockParking* parking) {
    LockTableOptions options;
    options.parking = parking;
    options.stripe_count = 2;
    return options;
  }
  const Script& At(int t) const { return scripts_[static_cast<size_t>(t)]; }
  SteppedTransaction& Real(int t) { return *real_[static_cast<size_t>(t)]; }
  // The last time at which something ends.
  uint64_t LastTick() const {
    uint64_t last = 0;
    for (int t = 0; t < kCount; ++t) {
      last = std::max(last, At(t).expiry_us);
      const SteppedTransaction& real = *real_[static_cast<size_t>(t)];
      if (real.waits() && real.wake_at_us() < kNever / 1000) {
        last = std::max(last, real.wake_at_us());
      }
    }
    return last;
  }

  std::string Next(int t) {
    int& place = place_[t];
    if (place == kReleases) {
      table_.UnlockAll(Real(t).owner());
      model_.UnlockAll(t);
      place = kDone;
      return "";
    }
    if (place == static_cast<int>(At(t).ops.size())) {
      const bool ok = Real(t).owner()->BeginCommit(parking_.NowNanos());
      const bool expected = model_.BeginCommit(t, parking_.now_us);
      place = kReleases;
      return ok == expected ? "" : "the commit differs";
    }
    const Op& op = At(t).ops[static_cast<size_t>(place)];
    const std::string key(1, op.key);
    LockRequest request;
    request.mode = op.mode;
    request.timeout_us = At(t).timeout_us;
    request.detects_deadlock = At(t).detects;
    const std::string outcome = Real(t).Lock(key, request);
    // Only to be woken when the thread is in the kernel, which all are.
    if (outcome == "waits") Real(t).FallAsleep();
    const std::string expected =
        model_.Lock(t, key, op.mode, static_cast<uint64_t>(request.timeout_us),
                    request.detects_deadlock, parking_.now_us);
    return After(t, outcome, expected);
  }
  std::string Look(int t) {
    const bool was_asleep =
        !Real(t).is_awake() && parking_.now_us < Real(t).wake_at_us();
    const std::string outcome = Real(t).Look();
    const std::string expected = model_.Look(t, parking_.now_us);
    if (outcome == "waits") {
      Real(t).FallAsleep();
    } else if (was_asleep && !OthersTimeIsOver(t)) {
      return std::to_string(t + 1) + " was not woken: " + outcome;
    }
    return After(t, outcome, expected);
  }
  // The first of a queue wakes for the time of a holder; the others do not.
  bool OthersTimeIsOver(int t) const {
    for (int other = 0; other < kCount; ++other) {
      const uint64_t expiry_us = At(other).expiry_us;
      if (other != t && expiry_us != 0 && parking_.now_us >= expiry_us) {
        return true;
      }
    }
    return false;
  }
  std::string After(int t, const std::string& outcome,
                    const std::string& expected) {
    if (outcome != expected) {
      return std::to_string(t + 1) + " got " + outcome + ", not " + expected;
    }
    if (outcome == "ok") {
      ++place_[t];
    } else if (outcome != "waits") {
      place_[t] = kReleases;  // It rolls back.
    }
    return "";
  }
  const std::vector<Script>& scripts_;
  VirtualParking parking_;
  LockTable table_;
  LockModel model_{kCount};
  int place_[kCount] = {};
  std::vector<std::unique_ptr<SteppedTransaction>> real_;
};

struct Counts {
  size_t scripts = 0;
  size_t states = 0;
  size_t ends = 0;
};

// Returns a complaint with the steps that lead to it.
std::string Explore(const std::vector<Script>& scripts, Counts* counts) {
  ++counts->scripts;
  std::set<std::string> seen;
  std::vector<std::vector<int>> stack = {{}};
  while (!stack.empty()) {
    const std::vector<int> steps = std::move(stack.back());
    stack.pop_back();
    std::string complaint;
    Run run(scripts);
    for (const int step : steps) {
      complaint = run.Step(step);
      if (!complaint.empty()) break;
    }
    // The steps before the last one were compared before.
    if (complaint.empty()) complaint = run.Compare();
    if (complaint.empty() && !seen.insert(run.Key()).second) continue;
    if (complaint.empty() && run.AllDone()) {
      ++counts->ends;
      complaint = run.Locks();
      if (!complaint.empty()) complaint = "left: " + complaint;
    }
    if (complaint.empty() && run.IsStuck()) complaint = "all wait";
    if (!complaint.empty()) {
      complaint += ", after";
      for (const int step : steps) complaint += " " + std::to_string(step + 1);
      return complaint;
    }
    for (int step = 0; step <= Run::kTick; ++step) {
      if (!run.CanStep(step)) continue;
      stack.push_back(steps);
      stack.back().push_back(step);
    }
  }
  counts->states += seen.size();
  return "";
}

std::string Describe(const std::vector<Script>& scripts) {
  std::string text;
  for (const Script& script : scripts) {
    for (const Op& op : script.ops) {
      text += op.key;
      text += op.mode == LockMode::kShared ? "S " : "X ";
    }
    text += "until " + std::to_string(script.expiry_us) + ", ";
  }
  return text;
}

// All scripts of two locks that both do something: of two keys, or an upgrade.
std::vector<std::vector<Op>> TwoLocks() {
  std::vector<Op> ops;
  for (const char key : {'a', 'b', 'c'}) {
    for (const LockMode mode : {LockMode::kShared, LockMode::kExclusive}) {
      ops.push_back({key, mode});
    }
  }
  std::vector<std::vector<Op>> scripts;
  for (const Op& first : ops) {
    for (const Op& second : ops) {
      const bool upgrades =
          first.mode == LockMode::kShared && second.mode > first.mode;
      if (first.key != second.key || upgrades) {
        scripts.push_back({first, second});
      }
    }
  }
  return scripts;
}

// Whether no renaming of the keys and no order of the transactions gives a
// smaller triple, which then is explored for all of them.
bool IsSmallest(const std::vector<std::vector<Op>>& triple) {
  std::string names = "abc";
  do {
    std::vector<std::vector<Op>> other = triple;
    for (std::vector<Op>& ops : other) {
      for (Op& op : ops) op.key = names[static_cast<size_t>(op.key - 'a')];
    }
    std::sort(other.begin(), other.end());
    if (other < triple) return false;
  } while (std::next_permutation(names.begin(), names.end()));
  return true;
}

// Calls function(scripts) for each triple of `all`, without those that differ
// in names only.
template <typename Function>
void ForTriples(const std::vector<std::vector<Op>>& all, Function function) {
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i; j < all.size(); ++j) {
      for (size_t k = j; k < all.size(); ++k) {
        if (!IsSmallest({all[i], all[j], all[k]})) continue;
        function(std::vector<Script>{{all[i]}, {all[j]}, {all[k]}});
      }
    }
  }
}

class LockInterleavingsTest : public testing::Test {
 protected:
  void ExpectAllGood(const std::vector<Script>& scripts) {
    if (HasFailure()) return;
    EXPECT_EQ(Explore(scripts, &counts_), "") << Describe(scripts);
  }
  ~LockInterleavingsTest() override {
    printf("%zu triples of scripts, %zu states, %zu ends\n", counts_.scripts,
           counts_.states, counts_.ends);
  }

  Counts counts_;
};

TEST_F(LockInterleavingsTest, WaitsAndDeadlocks) {
  ForTriples(TwoLocks(),
             [this](std::vector<Script> scripts) { ExpectAllGood(scripts); });
}

TEST_F(LockInterleavingsTest, ThreeLocksEach) {
  std::vector<std::vector<Op>> all;
  std::string keys = "abc";
  do {
    for (const int modes : {7, 3, 4}) {
      std::vector<Op> ops;
      for (size_t i = 0; i < 3; ++i) {
        ops.push_back({keys[i], (modes >> i & 1) != 0 ? LockMode::kExclusive
                                                      : LockMode::kShared});
      }
      all.push_back(std::move(ops));
    }
  } while (std::next_permutation(keys.begin(), keys.end()));
  ForTriples(all,
             [this](std::vector<Script> scripts) { ExpectAllGood(scripts); });
}

// Each of the three in turn expires, which the others may see or not.
TEST_F(LockInterleavingsTest, WaitsDeadlocksAndExpiry) {
  ForTriples(TwoLocks(), [this](std::vector<Script> scripts) {
    for (Script& script : scripts) {
      script.expiry_us = 1;
      ExpectAllGood(scripts);
      script.expiry_us = 0;
    }
  });
}

// All expire, one after the other. Exclusive locks only.
TEST_F(LockInterleavingsTest, WaitsDeadlocksAndExpiryOfAll) {
  std::vector<std::vector<Op>> all = TwoLocks();
  std::erase_if(all, [](const std::vector<Op>& ops) {
    return ops[0].key != ops[1].key && (ops[0].mode == LockMode::kShared ||
                                        ops[1].mode == LockMode::kShared);
  });
  ForTriples(all, [this](std::vector<Script> scripts) {
    for (uint64_t t = 0; t < kCount; ++t) scripts[t].expiry_us = t + 1;
    ExpectAllGood(scripts);
  });
}

// Cycles without detection end by the time of the waits.
TEST_F(LockInterleavingsTest, WaitsDeadlocksAndTimeouts) {
  ForTriples(TwoLocks(), [this](std::vector<Script> scripts) {
    for (Script& script : scripts) {
      script.detects = false;
      script.timeout_us = 1;
    }
    ExpectAllGood(scripts);
  });
}

}  // namespace
}  // namespace varve::test
