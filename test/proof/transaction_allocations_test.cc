// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a transaction object that is used again allocates nothing: not for its
// begin, a read, a write, its commit or its rollback. An idle one takes little
// memory. Method: this program's malloc counts.

#include "test/testing/db_helpers.h"
#include "test/testing/machine/counted_malloc.h"
#include "test/testing/test_headers.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/transaction_db.h"

namespace varve::test {
namespace {

class TransactionAllocationsTest : public DbTestBase {
 protected:
  TransactionAllocationsTest() {
    // No job runs meanwhile, and no memory block of the memtable is full.
    options_.write_buffer_size = 64 << 20;
  }

  std::unique_ptr<OptimisticTransactionDB> OpenOptimistic() {
    std::unique_ptr<OptimisticTransactionDB> db;
    EXPECT_TRUE(Ok(OptimisticTransactionDB::Open(options_, path_, &db)));
    return db;
  }
  std::unique_ptr<TransactionDB> OpenLocking() {
    std::unique_ptr<TransactionDB> db;
    EXPECT_TRUE(Ok(TransactionDB::Open(options_, {}, path_, &db)));
    return db;
  }

  // Begins and ends transactions. After the first ones, most allocate nothing.
  // Some may: the memtable takes a new block now and then.
  void ExpectNoAllocations(
      const std::function<Transaction*(Transaction*)>& begin) {
    constexpr int kWarm = 50;
    constexpr int kRounds = 500;
    std::unique_ptr<Transaction> transaction;
    std::string value;
    value.reserve(100);
    uint64_t with_allocations = 0;
    for (int i = 0; i < kWarm + kRounds; ++i) {
      const uint64_t before = allocations;
      transaction.reset(begin(transaction.release()));
      const Status read = transaction->Get({}, "key", &value);
      ASSERT_EQ(read.ok(), i > 0);
      if (i % 2 == 0) {
        transaction->GetForUpdate({}, "key", &value).IgnoreError();
      }
      ASSERT_TRUE(transaction->Put("key", "a value of some bytes").ok());
      ASSERT_TRUE((i == 0 || i % 5 != 0 ? transaction->Commit()
                                        : transaction->Rollback())
                      .ok());
      if (i >= kWarm && allocations != before) ++with_allocations;
    }
    EXPECT_LE(with_allocations, kRounds / 50);
  }

  // The bytes that each of many idle transactions takes.
  static uint64_t IdleBytes(const std::function<Transaction*()>& begin) {
    constexpr uint64_t kCount = 1000;
    std::vector<std::unique_ptr<Transaction>> idle;
    idle.reserve(kCount + 1);
    idle.emplace_back(begin());
    const uint64_t before = allocated_bytes;
    for (uint64_t i = 0; i < kCount; ++i) idle.emplace_back(begin());
    return (allocated_bytes - before) / kCount;
  }
};

TEST_F(TransactionAllocationsTest, OptimisticOnesUsedAgainAllocateNothing) {
  const auto db = OpenOptimistic();
  for (const bool snapshot : {false, true}) {
    OptimisticTransactionOptions options;
    options.set_snapshot = snapshot;
    ExpectNoAllocations([&](Transaction* old) {
      return db->BeginTransaction({}, options, old);
    });
    ASSERT_TRUE(Ok(db->Delete({}, "key")));
  }
}

TEST_F(TransactionAllocationsTest, SerializableOnesUsedAgainAllocateNothing) {
  const auto db = OpenOptimistic();
  OptimisticTransactionOptions options;
  options.isolation = TransactionIsolation::kSerializable;
  ExpectNoAllocations(
      [&](Transaction* old) { return db->BeginTransaction({}, options, old); });
}

TEST_F(TransactionAllocationsTest, LockingOnesUsedAgainAllocateNothing) {
  const auto db = OpenLocking();
  ExpectNoAllocations(
      [&](Transaction* old) { return db->BeginTransaction({}, {}, old); });
}

TEST_F(TransactionAllocationsTest, IdleOnesTakeLittleMemory) {
  {
    const auto db = OpenOptimistic();
    const uint64_t bytes = IdleBytes([&] { return db->BeginTransaction({}); });
    printf("optimistic: %" PRIu64 " bytes\n", bytes);
    EXPECT_LE(bytes, 400u);
  }
  const auto db = OpenLocking();
  const uint64_t bytes = IdleBytes([&] { return db->BeginTransaction({}); });
  printf("locking: %" PRIu64 " bytes\n", bytes);
  EXPECT_LE(bytes, 400u);
}

}  // namespace
}  // namespace varve::test
