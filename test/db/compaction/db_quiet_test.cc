// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database that nothing is written to any more gives the space of its
// dead entries back. Method: deletions in memory, and the real clock.

#include "test/testing/db_helpers.h"
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
    const auto start = std::chrono::steady_clock::now();
    const auto waited = [&start] {
      return std::chrono::steady_clock::now() - start;
    };
    while (Number("varve.num-deletes-active-mem-table") != 0 &&
           waited() < std::chrono::seconds(60)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(Number("varve.num-deletes-active-mem-table"), 0u);
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_LT(Number("varve.live-sst-files-size"), 2000u * 130);
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    EXPECT_EQ(entries.size(), 2000u);
  }
}

}  // namespace
}  // namespace varve::test
