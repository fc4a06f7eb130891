// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the bytes of the tables that an engine writes are counted, also those
// of tables that are removed soon. Method: write files, and let an engine write
// some.
#include "tools/db_bench/table_watch.h"

#include <sys/stat.h>

#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "tools/db_bench/seek_database.h"

namespace varve {
namespace {

class TableWatchTest : public testing::Test {
 protected:
  void WriteFile(const std::string& name, size_t bytes) {
    std::ofstream file(directory_.Sub(name), std::ios::binary);
    file << std::string(bytes, 'x');
  }

  test::TempDir directory_;
};

TEST_F(TableWatchTest, CountsTablesThatWereWritten) {
  WriteFile("000001.sst", 5);
  TableWatch watch;
  ASSERT_TRUE(watch.Start(directory_.path()).ok());
  EXPECT_EQ(watch.Counts().bytes, 0u);
  WriteFile("000002.sst", 100);
  WriteFile("000003.ldb", 10);
  WriteFile("000004.log", 1000);
  WriteFile("MANIFEST-000005", 1000);
  EXPECT_EQ(watch.Counts().tables, 2u);
  EXPECT_EQ(watch.Counts().bytes, 110u);
  // The table counts after it was removed too.
  std::filesystem::remove(directory_.Sub("000002.sst"));
  EXPECT_EQ(watch.Counts().bytes, 110u);
  WriteFile("000006.sst", 1);
  watch.Stop();
  EXPECT_EQ(watch.Counts().bytes, 111u);
  WriteFile("000007.sst", 1);
  EXPECT_EQ(watch.Counts().bytes, 111u);
  ASSERT_TRUE(watch.Start(directory_.path()).ok());
  EXPECT_EQ(watch.Counts().bytes, 0u);
}

TEST_F(TableWatchTest, ReadsSizes) {
  WriteFile("000001.sst", 5);
  WriteFile("000002.log", 100);
  const FileSizes sizes = ReadFileSizes(directory_.path());
  EXPECT_EQ(sizes.tables, 1u);
  EXPECT_EQ(sizes.table_bytes, 5u);
  EXPECT_GE(sizes.allocated_bytes, 105u);
  EXPECT_EQ(ReadFileSizes(directory_.Sub("missing")).allocated_bytes, 0u);
}

TEST_F(TableWatchTest, ReportsAMissingDirectory) {
  TableWatch watch;
  EXPECT_FALSE(watch.Start(directory_.Sub("missing")).ok());
  EXPECT_EQ(watch.Counts().bytes, 0u);
}

TEST_F(TableWatchTest, CountsTheTablesOfEachEngine) {
  for (const std::string name : {"varve", "rocksdb", "leveldb"}) {
    std::unique_ptr<Engine> engine;
    if (!NewEngine(name, &engine).ok()) continue;
    EngineConfig config;
    config.path = directory_.Sub(name);
    config.value_bytes = 100;
    config.block_bytes = 4096;
    config.cache_bytes = size_t{1} << 20;
    config.write_buffer_bytes = size_t{1} << 20;
    SeekDatabase database(engine.get(), config, 1);
    ASSERT_TRUE(database.Create().ok());
    for (uint64_t key = 0; key < 1000; ++key) database.writer().Put(key);
    ASSERT_TRUE(database.Flush()) << database.status().ToString();
    const TableCounts flushed = database.tables();
    EXPECT_GT(flushed.bytes, 10000u) << name;
    EXPECT_EQ(flushed.bytes, ReadFileSizes(config.path).table_bytes) << name;
    for (uint64_t key = 0; key < 900; ++key) database.writer().Delete(key);
    ASSERT_TRUE(database.Flush());
    database.Compact();
    EXPECT_GT(database.tables().bytes, flushed.bytes) << name;
    EXPECT_EQ(database.tables().missed, 0u) << name;
    EXPECT_EQ(database.user_bytes(), 1000u * 116 + 900u * 16) << name;
    EXPECT_TRUE(database.Destroy().ok()) << name;
    EXPECT_FALSE(std::filesystem::exists(config.path)) << name;
  }
}

}  // namespace
}  // namespace varve
