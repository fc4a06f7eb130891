// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a lock table does what its definition says. Method: random calls of
// several transactions, one step at a time with a clock that moves, beside
// test/testing/db/lock_model.h. After each call the outcome, the locks and
// the waits are compared.

#include "test/testing/db/lock_model.h"
#include "test/testing/db/lock_steps.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kTransactions = 7;
constexpr int kKeys = 4;

class LockTableModelTest : public testing::Test {
 protected:
  void Run(uint64_t seed, int steps) {
    Rng rng(seed);
    LockTableOptions options;
    options.parking = &parking_;
    options.stripe_count = rng.Pick({1u, 2u, 64u});
    if (rng.OneIn(3)) {
      model_.limit = 3;
      options.max_num_locks = 3;
    }
    LockTable table(options);
    table_ = &table;
    for (int t = 0; t < kTransactions; ++t) Renew(t, &rng);
    for (int i = 0; i < steps && !HasFailure(); ++i) {
      OneStep(&rng);
      Compare();
    }
    for (int t = 0; t < kTransactions; ++t) {
      if (!table_->GetLockStatusData().empty()) table.DropFamily(0);
      if (Real(t).waits()) {
        EXPECT_NE(Real(t).Look(), "waits");
      }
      table.UnlockAll(Real(t).owner());
    }
    EXPECT_EQ(LocksText(&table), "");
    real_.clear();
    model_ = LockModel(kTransactions);
  }

 private:
  SteppedTransaction& Real(int t) { return *real_[static_cast<size_t>(t)]; }

  // The next transaction in the place of t, which holds no lock.
  void Renew(int t, Rng* rng) {
    const uint64_t expiry =
        rng->OneIn(3) ? parking_.now_us + 1 + rng->Below(20) : 0;
    if (real_.size() <= static_cast<size_t>(t)) {
      real_.push_back(std::make_unique<SteppedTransaction>(
          table_, static_cast<uint64_t>(t) + 1, expiry));
    } else {
      Real(t).owner()->Reset(static_cast<uint64_t>(t) + 1, expiry * 1000);
    }
    model_.At(t) = {};
    model_.At(t).expiry_us = expiry;
  }

  void OneStep(Rng* rng) {
    if (rng->OneIn(8)) parking_.now_us += rng->Below(4);
    const int t = rng->Between(0, kTransactions - 1);
    SteppedTransaction& real = Real(t);
    if (real.waits()) {
      if (rng->OneIn(2)) real.FallAsleep();
      ASSERT_EQ(real.Look(), model_.Look(t, parking_.now_us)) << "look " << t;
      return;
    }
    const std::string key(1, static_cast<char>('a' + rng->Below(kKeys)));
    switch (rng->Below(12)) {
      case 0:
      case 1: {
        EXPECT_EQ(real.owner()->BeginCommit(parking_.NowNanos()),
                  model_.BeginCommit(t, parking_.now_us));
        return;
      }
      case 2:
      case 3:
        table_->UnlockAll(real.owner());
        model_.UnlockAll(t);
        Renew(t, rng);
        return;
      case 4:
        EXPECT_EQ(table_->Unlock(real.owner(), 0, key), model_.Unlock(t, key));
        return;
      default: {
        LockRequest request;
        request.mode = rng->OneIn(2) ? LockMode::kShared : LockMode::kExclusive;
        request.timeout_us = rng->Pick({-1, -1, 0, 5, 10});
        request.detects_deadlock = !rng->OneIn(4);
        ASSERT_EQ(real.Lock(key, request),
                  model_.Lock(t, key, request.mode,
                              static_cast<uint64_t>(request.timeout_us),
                              request.detects_deadlock, parking_.now_us))
            << t << " " << key;
      }
    }
  }

  void Compare() {
    ASSERT_EQ(LocksText(table_), model_.Text());
    for (int t = 0; t < kTransactions; ++t) {
      const auto& expected = model_.At(t);
      ASSERT_EQ(Real(t).is_settled(), !expected.outcome.empty());
      ASSERT_EQ(Real(t).owner()->IsStolen(), expected.stolen);
      ASSERT_EQ(Real(t).waits(), expected.waiting || Real(t).is_settled());
      uint32_t family = 0;
      std::string key;
      const bool waits =
          !table_->GetWaitingTxns(*Real(t).owner(), &family, &key).empty();
      ASSERT_EQ(waits, expected.waiting);
      if (waits) {
        ASSERT_EQ(key, expected.waits_for);
      }
    }
    CheckSleeps();
  }

  // A waiter must not sleep beyond its time. The first of a queue must not
  // sleep beyond a holder's, or it is woken (I6).
  void CheckSleeps() {
    for (const auto& [name, key] : model_.keys) {
      for (const auto& waiter : key.queue) {
        const SteppedTransaction& real = Real(waiter.transaction);
        if (real.is_awake()) continue;
        const auto& self = model_.At(waiter.transaction);
        ASSERT_LE(real.wake_at_us(),
                  std::min(self.deadline_us, UINT64_MAX / 1000));
        if (self.expiry_us != 0) {
          ASSERT_LE(real.wake_at_us(), self.expiry_us);
        }
        if (&waiter != &key.queue.front()) continue;
        for (const int holder : key.holders) {
          const auto& other = model_.At(holder);
          if (other.expiry_us == 0 || other.committing) continue;
          ASSERT_LE(real.wake_at_us(), other.expiry_us);
        }
      }
    }
  }

  VirtualParking parking_;
  LockTable* table_ = nullptr;
  LockModel model_{kTransactions};
  std::vector<std::unique_ptr<SteppedTransaction>> real_;
};

TEST_F(LockTableModelTest, RandomCallsDoWhatTheModelDoes) {
  const uint64_t seed = TestSeed();
  const int rounds = EnvironmentInt("LOCK_MODEL_ROUNDS", 40);
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Run(seed + static_cast<uint64_t>(i), 600);
  }
}

}  // namespace
}  // namespace varve::test
