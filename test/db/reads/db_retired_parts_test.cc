// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database that is closed and destroyed leaves nothing behind that uses
// it, however long a reader of another database holds up the freeing of retired
// memory. Method: a thread is inside a read-side critical section while the
// database, whose tables have parts in memory, is destroyed; then all that was
// retired is freed. The address sanitizer judges.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/threads/epoch.h"
#include "varve/filter_policy.h"

namespace varve::test {
namespace {

class DbRetiredPartsTest : public DbTestBase {};

TEST_F(DbRetiredPartsTest, PartsOfTablesOutliveTheirDatabase) {
  options_.cache_index_and_filter_blocks = true;
  options_.index_type = IndexType::kTwoLevelIndexSearch;
  options_.partition_filters = true;
  options_.metadata_block_size = 256;
  options_.filter_policy = NewBloomFilterPolicy(10);
  Open();
  constexpr int kKeys = 2000;
  for (int i = 0; i < kKeys; ++i) Put(Key(i), "v");
  ASSERT_TRUE(Ok(db_->Flush({})));
  Reopen();
  for (int i = 0; i < kKeys; i += 10) EXPECT_EQ(Get(Key(i)), "v");
  TEST_DrainRetired();
  const size_t before = TEST_RetiredCount();
  Actor reader;
  reader.Do([] { EpochGuard::Enter(CurrentThreadRecord()); });
  db_.reset();
  EXPECT_GT(TEST_RetiredCount(), before);
  reader.Do([] { EpochGuard::Exit(CurrentThreadRecord()); });
  // Freed objects retire others.
  while (TEST_RetiredCount() > 0) TEST_DrainRetired();
}

}  // namespace
}  // namespace varve::test
