// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: commits that are validated share syncs with each other and with plain
// writes; of those in conflict one is written. Method: they come while the sync
// of another is held.

#include "test/testing/db_helpers.h"
#include "test/testing/env/held_syncs.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"
#include "varve/optimistic_transaction_db.h"

namespace varve::test {
namespace {

class TransactionGroupsTest : public ::testing::Test {
 protected:
  static constexpr int kCount = 6;

  TransactionGroupsTest() : options_(TinyOptions()) {
    options_.env = &syncs_;
    sync_.sync = true;
  }
  void SetUp() override {
    ASSERT_TRUE(Ok(OptimisticTransactionDB::Open(options_, "/db", &db_)));
  }
  // A transaction that has put the key.
  std::unique_ptr<Transaction> Begin(const std::string& key) {
    std::unique_ptr<Transaction> transaction(
        db_->BeginTransaction(sync_, OptimisticTransactionOptions()));
    EXPECT_TRUE(Ok(transaction->Put(key, "v")));
    return transaction;
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  HeldSyncs syncs_{memory_.get()};
  Options options_;
  WriteOptions sync_;
  std::unique_ptr<OptimisticTransactionDB> db_;
};

TEST_F(TransactionGroupsTest, CommitsShareSyncsWithPlainWrites) {
  for (int round = 0, syncs = 0; syncs != 2; ++round) {
    const auto key = [round](int i) {
      return std::to_string(round) + "/" + std::to_string(i);
    };
    std::vector<std::unique_ptr<Transaction>> transactions;
    for (int i = 0; i < kCount; ++i) transactions.push_back(Begin(key(i)));
    syncs = syncs_.Run(kCount, [&](int i) {
      EXPECT_TRUE(Ok(i % 3 == 2 ? db_->Put(sync_, key(i), "v")
                                : transactions[i]->Commit()));
    });
    std::string value;
    for (int i = 0; i < kCount; ++i) {
      EXPECT_TRUE(Ok(db_->Get({}, key(i), &value)));
    }
  }
}

TEST_F(TransactionGroupsTest, OneOfThoseInConflictIsWritten) {
  for (int round = 0; round < 50; ++round) {
    const std::string key = std::to_string(round);
    std::vector<std::unique_ptr<Transaction>> transactions;
    for (int i = 0; i < kCount; ++i) transactions.push_back(Begin(key));
    std::atomic<int> committed{0};
    syncs_.Run(kCount, [&](int i) {
      const Status status = transactions[i]->Commit();
      if (status.ok()) {
        ++committed;
      } else {
        EXPECT_TRUE(status.IsBusy()) << status.ToString();
      }
    });
    EXPECT_EQ(committed, 1);
    EXPECT_EQ(db_->GetLatestSequenceNumber(), static_cast<uint64_t>(round) + 1);
  }
}

}  // namespace
}  // namespace varve::test
