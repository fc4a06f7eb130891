// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: transactions of 2 to 16 threads are isolated as their kind promises,
// beside plain writes, flushes, compactions and dropped families, and leave
// nothing pinned or locked. Method: as test/db/transaction/
// transaction_isolation_test.cc, but on threads, which yield between steps.
// VARVE_HISTORIES sets the number of histories.
// Tags: threads

#include "test/testing/db/read_stress.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "test/testing/transaction/random_transactions.h"

namespace varve::test {
namespace {

class TransactionStressTest
    : public DbTestBase,
      public ::testing::WithParamInterface<TransactionMode> {
 protected:
  static constexpr int kTransactions = 600;  // Of all threads.

  void Run(uint64_t seed, uint64_t threads) {
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed) + ", " +
                 std::to_string(threads) + " threads");
    TransactionalDb db(GetParam());
    std::filesystem::remove_all(path_);
    ASSERT_NO_FATAL_FAILURE(db.Open(options_, path_));
    HistoryClock clock;
    std::vector<History> histories(threads);
    std::atomic<int> left{kTransactions};
    std::atomic<uint64_t> conflicts{0};
    RunThreads(threads + 1, [&](uint64_t thread) {
      Rng rng(seed + thread);
      if (thread == threads) {
        while (left.load() > 0 && !HasFailure()) {
          ChangeTables(&db, &rng);
          for (uint64_t i = rng.Below(200); i > 0; --i) sched_yield();
        }
        return;
      }
      RandomTransactions session(&db, &clock, rng.Next(), true);
      while (left.fetch_sub(1) > 0 && !HasFailure()) {
        if (rng.OneIn(8)) {
          session.WritePlainly();
          continue;
        }
        do {
          session.Step();
          if (rng.OneIn(2)) sched_yield();
        } while (!session.is_idle());
      }
      session.Finish();
      conflicts += session.conflicts();
      histories[thread] = std::move(session.history());
    });
    if (HasFailure()) return;
    EXPECT_TRUE(IsIsolated(&db, &clock, std::move(histories)));
    EXPECT_TRUE(NothingIsLocked(&db));
  }

  static ::testing::AssertionResult NothingIsLocked(TransactionalDb* db) {
    if (db->mode().optimistic) return ::testing::AssertionSuccess();
    for (const auto& [family, lock] :
         static_cast<TransactionDB*>(db->db())->GetLockStatusData()) {
      return ::testing::AssertionFailure()
             << lock.key << " of family " << family << " is locked";
    }
    return ::testing::AssertionSuccess();
  }
};

TEST_P(TransactionStressTest, HistoriesHaveNoForbiddenAnomaly) {
  const uint64_t seed = TestSeed();
  Rng rng(seed);
  const int histories = EnvironmentInt("VARVE_HISTORIES", 3);
  for (int i = 0; i < histories && !HasFailure(); ++i) {
    Run(rng.Next(), rng.Pick({2, 3, 4, 8, 16}));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TransactionStressTest,
                         ::testing::ValuesIn(kTransactionModes),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace varve::test
