// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: DB::OpenForReadOnly beside a process of RocksDB that writes: no error,
// and no key is lost. Method: its db_bench overwrites keys that all are there,
// and deletes none; with write buffers that are soon full, with one that takes
// as long to read as to fill, and with logs whose files are used again.

#include <chrono>
#include <string>

#include "test/testing/engines/busy_db_bench.h"

namespace varve::test {
namespace {

class ReadBesideRocksDbTest : public ::testing::Test {
 protected:
  ReadBesideRocksDbTest() : path_(dir_.Sub("db")) {}

  void ReadBesideWriter(const std::string& buffer_bytes, bool recycles) {
    BusyDbBench writer(dir_, path_, buffer_bytes, recycles);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    int opens = 0;
    for (; std::chrono::steady_clock::now() < end; ++opens) {
      std::unique_ptr<DB> db;
      ASSERT_TRUE(Ok(DB::OpenForReadOnly(Options(), path_, &db))) << opens;
      EntryList entries;
      ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries))) << opens;
      ASSERT_EQ(entries.size(), BusyDbBench::kKeys) << opens;
    }
    EXPECT_GT(opens, 0);
    printf("%d opens\n", opens);
    writer.Kill();
  }

  TempDir dir_;
  const std::string path_;
};

TEST_F(ReadBesideRocksDbTest, EveryOpenSeesAllKeys) {
  ReadBesideWriter("65536", false);
}

TEST_F(ReadBesideRocksDbTest, EveryOpenSeesAllKeysOfLargeBuffers) {
  ReadBesideWriter("33554432", false);
}

TEST_F(ReadBesideRocksDbTest, EveryOpenSeesAllKeysWhereLogsAreReused) {
  ReadBesideWriter("65536", true);
}

}  // namespace
}  // namespace varve::test
