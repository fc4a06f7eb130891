// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the properties that programs written for RocksDB ask for mean what they
// mean there. Method: databases that are in a known state, and tables and
// times that are known.

#include "test/testing/db_helpers.h"
#include "test/testing/env/date_env.h"
#include "test/testing/env/pausing_env.h"
#include "test/testing/fixtures.h"
#include "test/testing/test_headers.h"
#include "varve/compression_type.h"
#include "varve/env.h"

namespace varve::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class DbPropertyTest : public DbTestBase {
 protected:
  std::string Text(const std::string& name) {
    std::string value;
    EXPECT_TRUE(db_->GetProperty(name, &value)) << name;
    return value;
  }
};

TEST_F(DbPropertyTest, MemtablesThatAnIteratorReadsCountInTheirSize) {
  Open();
  Put("k", std::string(100000, 'v'));
  const uint64_t size = Number("varve.size-all-mem-tables");
  EXPECT_EQ(size, Number("varve.cur-size-all-mem-tables"));
  EXPECT_GE(size, 100000u);
  {
    const std::unique_ptr<Iterator> it = db_->NewIterator({});
    Flush();
    EXPECT_LT(Number("varve.cur-size-all-mem-tables"), 100000u);
    EXPECT_GE(Number("varve.size-all-mem-tables"), 100000u);
    EXPECT_EQ(Number("varve.num-immutable-mem-table"), 0u);
    EXPECT_EQ(Number("varve.num-immutable-mem-table-flushed"), 1u);
  }
  EXPECT_LT(Number("varve.size-all-mem-tables"), 100000u);
  EXPECT_EQ(Number("varve.num-immutable-mem-table-flushed"), 0u);
}

TEST_F(DbPropertyTest, StatsAreThoseOfTheTreeAndOfTheDatabase) {
  Open();
  for (int i = 0; i < 1000; ++i) Put(Key(i), std::string(100, 'v'));
  Flush();
  const std::string tree = Text("rocksdb.cfstats");
  const std::string database = Text("rocksdb.dbstats");
  EXPECT_THAT(tree, HasSubstr("Level"));
  EXPECT_THAT(tree, HasSubstr("L0"));
  EXPECT_THAT(tree, Not(HasSubstr("Written by users")));
  EXPECT_THAT(database, HasSubstr("Written by users"));
  EXPECT_THAT(database, HasSubstr("Stalls: "));
  EXPECT_THAT(database, Not(HasSubstr("L0")));
  EXPECT_THAT(Text("rocksdb.stats"), HasSubstr(tree + database));
  EXPECT_EQ(Text("rocksdb.options-statistics"), Text("rocksdb.statistics"));
}

TEST_F(DbPropertyTest, MapPropertiesAreTheNumbersOfTheTable) {
  Open();
  Put("k", "v");
  Flush();
  std::map<std::string, std::string> numbers;
  ASSERT_TRUE(db_->GetMapProperty("rocksdb.cfstats", &numbers));
  EXPECT_EQ(std::stod(numbers.at("compaction.L0.NumFiles")), 1);
  EXPECT_EQ(std::stod(numbers.at("compaction.L0.CompCount")), 1);
  EXPECT_EQ(std::stod(numbers.at("compaction.L0.WriteAmp")), 1);
  EXPECT_EQ(std::stod(numbers.at("compaction.L0.SizeBytes")),
            static_cast<double>(Number("varve.live-sst-files-size")));
  EXPECT_EQ(numbers.at("compaction.Sum.NumFiles"),
            numbers.at("compaction.L0.NumFiles"));
  EXPECT_EQ(numbers.at("io_stalls.level0_numfiles"), "0");
  EXPECT_EQ(numbers.at("io_stalls.total_stop"), "0");
  EXPECT_FALSE(db_->GetMapProperty("rocksdb.stats", &numbers));
  EXPECT_TRUE(numbers.empty());
}

TEST_F(DbPropertyTest, AggregatedPropertiesAreSumsOverFamilies) {
  Open();
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &family)));
  Put("k", "v");
  ASSERT_TRUE(Ok(db_->Put({}, family, "a", "v")));
  ASSERT_TRUE(Ok(db_->Put({}, family, "b", "v")));
  uint64_t sum = 0;
  EXPECT_TRUE(db_->GetAggregatedIntProperty(
      "rocksdb.num-entries-active-mem-table", &sum));
  EXPECT_EQ(sum, 3u);
  EXPECT_FALSE(db_->GetAggregatedIntProperty("rocksdb.nothing", &sum));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

TEST_F(DbPropertyTest, BytesOfAnotherFamilyAreNotTheDefaultFamilys) {
  options_.write_buffer_size = 8 << 20;
  Open();
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &family)));
  WriteBatch batch;
  batch.Put(family, "k", std::string(2 << 20, 'v'));
  batch.Put("k", std::string(1 << 20, 'v'));
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_THAT(Text("varve.stats"), HasSubstr("Written by users: 1.0 MB"));
  std::string of_other;
  EXPECT_TRUE(db_->GetProperty(family, "varve.stats", &of_other));
  EXPECT_THAT(of_other, HasSubstr("Written by users: 2.0 MB"));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

TEST_F(DbPropertyTest, CompressionRatioIsOfRawBytesToTheFiles) {
  options_.compression = CompressionType::kSnappy;
  options_.disable_auto_compactions = true;  // The tables stay in level 0.
  Open();
  EXPECT_EQ(Text("rocksdb.compression-ratio-at-level0"), "-1.000000");
  for (int i = 0; i < 5000; ++i) Put(Key(i), std::string(100, 'v'));
  Flush();
  EXPECT_GT(std::stod(Text("rocksdb.compression-ratio-at-level0")), 3.0);
  EXPECT_EQ(Text("rocksdb.compression-ratio-at-level1"), "-1.000000");
  std::string value;
  for (const char* const name :
       {"rocksdb.compression-ratio-at-level",
        "rocksdb.compression-ratio-at-level7",
        "rocksdb.compression-ratio-at-level-1",
        "rocksdb.aggregated-table-properties-at-level",
        "rocksdb.aggregated-table-properties-at-level7"}) {
    EXPECT_FALSE(db_->GetProperty(name, &value)) << name;
  }
}

TEST_F(DbPropertyTest, TablePropertiesAreSummed) {
  options_.disable_auto_compactions = true;  // Four tables are due for one.
  Open();
  // A flush drops deletions of keys that no table can have.
  Put(Key(0), "12345");
  Put(Key(99), "12345");
  Flush();
  for (int table = 0; table < 3; ++table) {
    for (int i = 0; i < 100; ++i) Put(Key(i), "12345");
    Delete(Key(1));
    Flush();
  }
  const std::string all = Text("rocksdb.aggregated-table-properties");
  EXPECT_THAT(all, HasSubstr("tables=4; "));
  EXPECT_THAT(all, HasSubstr("entries=302; deletions=3; "));
  EXPECT_EQ(Text("rocksdb.aggregated-table-properties-at-level0"), all);
  EXPECT_THAT(Text("rocksdb.aggregated-table-properties-at-level6"),
              HasSubstr("tables=0; "));
  EXPECT_EQ(all.find("partitions"), std::string::npos);
}

using DbPropertyFixtureTest = FixtureTest;

TEST_F(DbPropertyFixtureTest, PartitionsOfRocksDbsIndexesAreSummed) {
  CopyFixture("rocksdb-index-partitioned");
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  std::string all;
  ASSERT_TRUE(db_->GetProperty("rocksdb.aggregated-table-properties", &all));
  EXPECT_THAT(all, HasSubstr("tables=2; "));
  EXPECT_THAT(all, HasSubstr("; index partitions="));
}

TEST_F(DbPropertyTest, StalledIsSlowedDownOrStopped) {
  PausingEnv env;
  options_.env = &env;
  options_.level0_file_num_compaction_trigger = 1;
  options_.level0_slowdown_writes_trigger = 1;
  options_.level0_stop_writes_trigger = 20;
  Open();
  env.KeepBack(Env::Priority::kLow);
  EXPECT_EQ(Number("rocksdb.is-write-stalled"), 0u);
  Put("k", "v");
  Flush();
  EXPECT_EQ(Number("rocksdb.is-write-stalled"),
            Number("rocksdb.actual-delayed-write-rate") != 0 ? 1u : 0u);
  EXPECT_EQ(Number("rocksdb.is-write-stalled"), 1u);
  EXPECT_EQ(Number("rocksdb.is-write-stopped"), 0u);
  env.LetGo();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Number("rocksdb.is-write-stalled"), 0u);
  Close();
}

TEST_F(DbPropertyTest, TheSuperVersionsNumberRises) {
  Open();
  Put("k", "v");
  const uint64_t first = Number("rocksdb.current-super-version-number");
  EXPECT_GT(first, 0u);
  EXPECT_EQ(Number("rocksdb.current-super-version-number"), first);
  Flush();
  EXPECT_GT(Number("rocksdb.current-super-version-number"), first);
}

// Compactions do not make data younger; that is what RocksDB's tables say, too.
TEST_F(DbPropertyTest, TheOldestKeyIsAsOldAsTheFirstTableOfItsData) {
  DateEnv env(1000);
  options_.env = &env;
  Open();
  EXPECT_EQ(Number("rocksdb.estimate-oldest-key-time"), 0u);
  env.now_s = 2000;
  Do("put a old, put z old, flush");
  env.now_s = 3000;
  Do("put b new, put y new, flush");
  EXPECT_EQ(Number("rocksdb.estimate-oldest-key-time"), 2000u);
  env.now_s = 4000;
  CompactAll();
  EXPECT_EQ(Number("rocksdb.estimate-oldest-key-time"), 2000u);
  Reopen();
  EXPECT_EQ(Number("rocksdb.estimate-oldest-key-time"), 2000u);
  ASSERT_TRUE(db_->DeleteRange({}, "a", "zz").ok());
  CompactAll();
  EXPECT_EQ(Number("rocksdb.estimate-oldest-key-time"), 0u);
  Close();
}

}  // namespace
}  // namespace varve::test
