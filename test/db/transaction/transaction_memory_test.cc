// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a transaction that stays open keeps no memory of what others write
// beside it, and commits in the end. Method: many megabytes of writes with
// small write buffers. VARVE_MEMORY_MEGABYTES sets how many.
// Tags: optimized

#include <malloc.h>

#include "test/testing/test_headers.h"
#include "test/testing/transaction/random_transactions.h"

namespace varve::test {
namespace {

class TransactionMemoryTest
    : public DbTestBase,
      public ::testing::WithParamInterface<TransactionMode> {
 protected:
  static constexpr int kKeys = 1000;
  static constexpr size_t kValueBytes = 1000;

  uint64_t Number(const std::string& property) {
    uint64_t number = 0;
    EXPECT_TRUE(
        db_ref_->db()->GetIntProperty(db_ref_->At('a'), property, &number))
        << property;
    return number;
  }
  void Write(uint64_t megabytes, Rng* rng) {
    for (uint64_t i = 0; i < (megabytes << 20) / kValueBytes; ++i) {
      ASSERT_TRUE(Ok(db_ref_->db()->Put({.disable_wal = true}, db_ref_->At('a'),
                                        Key(rng->Between(0, kKeys)),
                                        rng->Bytes(kValueBytes))));
    }
  }

  TransactionalDb* db_ref_ = nullptr;
};

TEST_P(TransactionMemoryTest, OpenTransactionKeepsNoMemoryOfOthersWrites) {
  Rng rng(TestSeed());
  TransactionalDb db(GetParam());
  db_ref_ = &db;
  options_.write_buffer_size = 256 << 10;
  options_.block_cache = NewTestCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(db.Open(options_, path_));
  ColumnFamilyHandle* const family = db.At('a');
  ASSERT_TRUE(Ok(db.db()->Put({}, family, "account", "5")));
  ASSERT_NO_FATAL_FAILURE(Write(4, &rng));

  const std::unique_ptr<Transaction> transaction(db.Begin(nullptr, true));
  std::string value;
  ASSERT_TRUE(Ok(transaction->GetForUpdate({}, family, "account", &value)));
  ASSERT_TRUE(Ok(transaction->Put(family, "account", value + "1")));
  const size_t before = mallinfo2().uordblks;
  const auto megabytes =
      static_cast<uint64_t>(EnvironmentInt("VARVE_MEMORY_MEGABYTES", 12));
  size_t most = 0;
  for (uint64_t i = 0; i < megabytes; i += 4) {
    ASSERT_NO_FATAL_FAILURE(Write(4, &rng));
    most = std::max(most, mallinfo2().uordblks);
    // The active one, the ones that are flushed, and no others.
    EXPECT_LE(Number("varve.size-all-mem-tables"),
              8 * options_.write_buffer_size);
  }
  printf("%zu bytes before, at most %zu after\n", before, most);
  EXPECT_LE(most, before + (6 << 20));

  // Each key has at most the version of the transaction's time, and the newest.
  ASSERT_TRUE(Ok(db.db()->Flush({}, family)));
  ASSERT_TRUE(Ok(db.db()->CompactRange({.rewrite_bottommost_level = true},
                                       family, nullptr, nullptr)));
  EXPECT_LE(Number("varve.total-sst-files-size"), 3 * kKeys * kValueBytes);
  ASSERT_TRUE(Ok(transaction->Commit()));
  ASSERT_TRUE(Ok(db.db()->Get({}, family, "account", &value)));
  EXPECT_EQ(value, "51");
}

INSTANTIATE_TEST_SUITE_P(Modes, TransactionMemoryTest,
                         ::testing::Values(kTransactionModes[0],
                                           kTransactionModes[1],
                                           kTransactionModes[4]),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace varve::test
