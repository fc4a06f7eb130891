// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database that nothing is written to any more gives the space of its
// dead entries back. Method: deletions in memory, and a clock that the test
// moves.

#include "test/testing/db_helpers.h"
#include "test/testing/env/set_clock.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbQuietTest : public DbTestBase {
 protected:
  DbQuietTest() {
    options_.compression = CompressionType::kNone;
    // All data fits in one memtable.
    options_.write_buffer_size = 16 << 20;
    options_.env = &clock_;
  }
  void Fill(int count) {
    Rng rng(5);
    for (int i = 0; i < count; ++i) Put(Key(i), rng.Bytes(100));
  }
  void DeleteNineInTen(int count) {
    for (int i = 0; i < count; ++i) {
      if (i % 10 != 0) Delete(Key(i));
    }
  }

  SetClock clock_;
};

// Deletions in memory are flushed some seconds after the last write.
TEST_F(DbQuietTest, AQuietDatabaseFlushesItsDeletions) {
  for (const bool flushed : {true, false}) {
    SCOPED_TRACE(flushed);
    OpenAnew();
    Fill(20000);
    if (flushed) Flush();
    DeleteNineInTen(20000);
    EXPECT_GT(Number("varve.num-deletes-active-mem-table"), 10000u);
    while (Number("varve.num-deletes-active-mem-table") != 0) {
      // The watch may have begun after the last move of the clock. A change of
      // options wakes it.
      clock_.Advance(5000000);
      ASSERT_TRUE(Ok(db_->SetOptions({{"level0_stop_writes_trigger", "40"}})));
      std::this_thread::yield();
    }
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_LT(Number("varve.live-sst-files-size"), 2000u * 130);
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    EXPECT_EQ(entries.size(), 2000u);
  }
}

}  // namespace
}  // namespace varve::test
