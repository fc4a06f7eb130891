// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: transactions are isolated as their kind promises, beside plain writes,
// flushes, compactions and dropped families. Method: many random transactions,
// of which one thread takes steps in a random order, so that a seed repeats a
// failure. All that they read and write is recorded, and checked for the
// anomalies that the isolation forbids (history_checker.h).
// VARVE_HISTORIES sets the number of histories. test/stress has the same on
// threads.

#include "test/testing/test_headers.h"
#include "test/testing/transaction/random_transactions.h"

namespace varve::test {
namespace {

class TransactionIsolationTest
    : public ::testing::TestWithParam<TransactionMode> {
 protected:
  // Returns the anomalies, if any are forbidden.
  void Run(uint64_t seed) {
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
    Rng rng(seed);
    const std::unique_ptr<Env> memory = NewMemoryEnv(Env::Default());
    Options options = TinyOptions();
    options.env = memory.get();
    ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
    TransactionalDb db(GetParam());
    ASSERT_NO_FATAL_FAILURE(db.Open(options, "/db/it"));
    HistoryClock clock;
    std::vector<std::unique_ptr<RandomTransactions>> sessions;
    const uint64_t count = 2 + rng.Below(7);
    for (uint64_t i = 0; i < count; ++i) {
      sessions.push_back(
          std::make_unique<RandomTransactions>(&db, &clock, rng.Next(), false));
    }
    // A lock would be waited for.
    const bool plain_writes = db.mode().optimistic && rng.OneIn(2);
    for (int step = 0; step < 1500 && !HasFailure(); ++step) {
      RandomTransactions* const session = sessions[rng.Below(count)].get();
      if (rng.OneIn(60)) {
        ASSERT_NO_FATAL_FAILURE(ChangeTables(&db, &rng));
      } else if (plain_writes && session->is_idle() && rng.OneIn(2)) {
        session->WritePlainly();
      } else {
        session->Step();
      }
    }
    std::vector<History> histories;
    for (const auto& session : sessions) {
      session->Finish();
      conflicts_ += session->conflicts();
      histories.push_back(std::move(session->history()));
    }
    EXPECT_TRUE(IsIsolated(&db, &clock, std::move(histories)));
  }

  uint64_t conflicts_ = 0;
};

TEST_P(TransactionIsolationTest, HistoriesHaveNoForbiddenAnomaly) {
  const uint64_t seed = TestSeed();
  const int histories = EnvironmentInt("VARVE_HISTORIES", 6);
  for (int i = 0; i < histories && !HasFailure(); ++i) {
    Run(seed + static_cast<uint64_t>(i));
  }
  if (GetParam().optimistic) {
    EXPECT_GT(conflicts_, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TransactionIsolationTest,
                         ::testing::ValuesIn(kTransactionModes),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace varve::test
