// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: what a transaction says of itself can be asked by other threads.
// Method: one asks while the transaction locks, rolls back and begins anew.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/transaction_db.h"

namespace varve::test {
namespace {

TEST(TransactionObservationTest, OtherThreadsAskWhileItBeginsAnew) {
  constexpr int kRounds = 200;
  TempDir dir;
  std::unique_ptr<TransactionDB> db;
  Options options = TinyOptions();
  options.create_if_missing = true;
  ASSERT_TRUE(Ok(TransactionDB::Open(options, TransactionDBOptions(),
                                     dir.Sub("db"), &db)));
  const std::unique_ptr<Transaction> transaction(
      db->BeginTransaction(WriteOptions()));
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    TransactionID newest = 0;
    do {
      const TransactionID id = transaction->GetID();
      EXPECT_GE(id, newest);
      newest = id;
      EXPECT_NE(transaction->GetState(), Transaction::PREPARED);
      EXPECT_TRUE(transaction->GetWaitingTxns(nullptr, nullptr).empty());
    } while (!is_done);
  });
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_TRUE(Ok(transaction->Put("k", "v")));
    EXPECT_TRUE(Ok(transaction->Rollback()));
    db->BeginTransaction(WriteOptions(), TransactionOptions(),
                         transaction.get());
  }
  is_done = true;
  other.join();
}

}  // namespace
}  // namespace varve::test
