// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: statistics, properties and approximate sizes are correct. Method:
// operations with known effects, and the files of the directory.

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

class DbObservationTest : public DbTestBase {};

TEST_F(DbObservationTest, StatisticsCount) {
  options_.statistics = NewTestStatistics();
  const auto count = [&](Ticker ticker) {
    return options_.statistics->getTickerCount(ticker);
  };
  Open();
  for (int i = 0; i < 100; i++) Put(Key(i), "0123456789");
  EXPECT_EQ(count(Ticker::kNumberKeysWritten), 100u);
  EXPECT_GE(count(Ticker::kBytesWritten), 100u * (11 + 10));
  EXPECT_GT(count(Ticker::kWalFileBytes), 100u * (11 + 10));
  EXPECT_EQ(Get(Key(1)), "0123456789");
  EXPECT_GE(count(Ticker::kMemtableHit), 1u);
  Flush();
  EXPECT_GT(count(Ticker::kFlushWriteBytes), 0u);
  EXPECT_EQ(Get(Key(2)), "0123456789");
  EXPECT_EQ(Get(Key(2)), "0123456789");
  EXPECT_EQ(Get("absent"), "NotFound");
  EXPECT_GE(count(Ticker::kMemtableMiss), 3u);
  EXPECT_GT(count(Ticker::kBlockCacheMiss), 0u);
  EXPECT_GT(count(Ticker::kBlockCacheAdd), 0u);
  EXPECT_GT(count(Ticker::kBlockCacheHit), 0u);
  EXPECT_EQ(count(Ticker::kNumberKeysRead), 4u);
  EXPECT_EQ(count(Ticker::kNumberKeysFound), 3u);
  EXPECT_EQ(count(Ticker::kBytesRead), 30u);
  EXPECT_GE(count(Ticker::kNoFileOpens), 1u);
  const uint64_t synced = count(Ticker::kWalFileSynced);
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, "a", "1")));
  EXPECT_EQ(count(Ticker::kWalFileSynced), synced + 1);
  auto it = db_->NewIterator({});
  it->SeekToFirst();
  it->Next();
  it->Next();
  it->Prev();
  it.reset();
  EXPECT_EQ(count(Ticker::kNumberDbSeek), 1u);
  EXPECT_EQ(count(Ticker::kNumberDbNext), 2u);
  EXPECT_EQ(count(Ticker::kNumberDbPrev), 1u);
  CompactAll();
  EXPECT_GT(count(Ticker::kCompactReadBytes), 0u);
  EXPECT_GT(count(Ticker::kCompactWriteBytes), 0u);
  EXPECT_EQ(count(Ticker::kNoFileErrors), 0u);
  EXPECT_TRUE(Contains(options_.statistics->ToString(),
                       "varve.number.keys.written COUNT : 101"))
      << options_.statistics->ToString();
}

TEST_F(DbObservationTest, TablesOfRecoveryAreCounted) {
  options_.write_buffer_size = 8 << 20;
  Open();
  for (int i = 0; i < 1000; ++i) Put(Key(i), std::string(1000, 'v'));
  options_.write_buffer_size = 256 << 10;
  options_.statistics = NewTestStatistics();
  options_.disable_auto_compactions = true;
  Reopen();
  const auto tables = FilesEndingIn(path_, ".sst");
  EXPECT_GT(tables.size(), 2u);
  uint64_t bytes = 0;
  for (const std::string& table : tables) {
    bytes += std::filesystem::file_size(table);
  }
  EXPECT_EQ(options_.statistics->getTickerCount(Ticker::kFlushWriteBytes),
            bytes);
  std::string text;
  ASSERT_TRUE(db_->GetProperty("varve.stats", &text));
  std::istringstream row(text.substr(text.find("L0")));
  std::string column;
  for (int i = 0; i < 15; ++i) row >> column;
  EXPECT_EQ(column, std::to_string(tables.size())) << text;
}

TEST_F(DbObservationTest, TenOldInfoLogsAreKept) {
  Open();
  for (int i = 0; i < 14; ++i) Reopen();
  EXPECT_EQ(FilesStartingWith(path_, "LOG.old.").size(), 10u);
}

TEST_F(DbObservationTest, PropertiesAreKnownUnderAllPrefixes) {
  Open();
  for (int i = 0; i < 2000; i++) Put(Key(i), std::string(100, 'x'));
  Flush();
  std::string value;
  for (const std::string name : {"num-files-at-level0",
                                 "num-files-at-level6",
                                 "num-immutable-mem-table",
                                 "num-entries-active-mem-table",
                                 "num-entries-imm-mem-tables",
                                 "num-deletes-active-mem-table",
                                 "num-deletes-imm-mem-tables",
                                 "estimate-table-readers-mem",
                                 "mem-table-flush-pending",
                                 "compaction-pending",
                                 "num-running-flushes",
                                 "num-running-compactions",
                                 "background-errors",
                                 "cur-size-active-mem-table",
                                 "cur-size-all-mem-tables",
                                 "approximate-memory-usage",
                                 "estimate-num-keys",
                                 "estimate-pending-compaction-bytes",
                                 "num-snapshots",
                                 "oldest-snapshot-sequence",
                                 "oldest-snapshot-time",
                                 "min-log-number-to-keep",
                                 "estimate-live-data-size",
                                 "num-live-versions",
                                 "total-sst-files-size",
                                 "live-sst-files-size",
                                 "block-cache-capacity",
                                 "block-cache-usage",
                                 "block-cache-pinned-usage",
                                 "is-write-stopped",
                                 "actual-delayed-write-rate"}) {
    for (const std::string prefix : {"varve.", "rocksdb.", "leveldb."}) {
      uint64_t number = 0;
      EXPECT_TRUE(db_->GetProperty(prefix + name, &value)) << prefix + name;
      EXPECT_TRUE(db_->GetIntProperty(prefix + name, &number)) << prefix + name;
      EXPECT_FALSE(value.empty()) << prefix + name;
      EXPECT_EQ(value.find_first_not_of("0123456789"), std::string::npos)
          << prefix + name << " = " << value;
    }
  }
  for (const std::string name :
       {"varve.levelstats", "varve.stats", "varve.sstables", "varve.io-path"}) {
    EXPECT_TRUE(db_->GetProperty(name, &value)) << name;
    EXPECT_FALSE(value.empty()) << name;
    uint64_t number = 0;
    EXPECT_FALSE(db_->GetIntProperty(name, &number)) << name;
  }
  for (const std::string name :
       {"", "varve.", "varve.unknown", "varve.num-files-at-level",
        "varve.num-files-at-level7", "varve.num-files-at-levelx",
        "varve.num-files-at-level00000000000000000000", "stats",
        "varve.num-files-at-level-1"}) {
    EXPECT_FALSE(db_->GetProperty(name, &value)) << name;
  }
  EXPECT_EQ(Number("varve.background-errors"), 0u);
  EXPECT_EQ(Number("varve.is-write-stopped"), 0u);
  CompactAll();
  const uint64_t keys = Number("varve.estimate-num-keys");
  EXPECT_GE(keys, 1900u);
  EXPECT_LE(keys, 2100u);
  uint64_t table_bytes = 0;
  for (const std::string& table : FilesEndingIn(path_, ".sst")) {
    table_bytes += std::filesystem::file_size(table);
  }
  EXPECT_EQ(Number("varve.live-sst-files-size"), table_bytes);
}

TEST_F(DbObservationTest, TablesOfOldVersionsCountInTheTotal) {
  Open();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 300; i++) Put(Key(i), std::to_string(round));
    Flush();
  }
  const auto get = [this](const char* name) {
    uint64_t value = 0;
    EXPECT_TRUE(db_->GetIntProperty(name, &value));
    return value;
  };
  auto it = db_->NewIterator({});
  const uint64_t before = get("varve.live-sst-files-size");
  CompactAll();
  const uint64_t live = get("varve.live-sst-files-size");
  EXPECT_EQ(get("varve.total-sst-files-size"), before + live);
  it.reset();
  Do("put k v, flush, wait");
  EXPECT_EQ(get("varve.total-sst-files-size"),
            get("varve.live-sst-files-size"));
}

TEST_F(DbObservationTest, LiveDataHasNoOverlappingDeeperTable) {
  options_.disable_auto_compactions = true;
  Open();
  EXPECT_EQ(Number("varve.estimate-live-data-size"), 0u);
  for (int i = 0; i < 300; i++) Put(Key(i), "0");
  CompactAll();
  const uint64_t deep = Number("varve.live-sst-files-size");
  EXPECT_EQ(Number("varve.estimate-live-data-size"), deep);
  // Newer values, as far as can be seen; then keys of their own, twice.
  for (int i = 100; i < 200; i++) Put(Key(i), "1");
  Flush();
  EXPECT_EQ(Number("varve.estimate-live-data-size"), deep);
  const uint64_t before = Number("varve.live-sst-files-size");
  EXPECT_GT(before, deep);
  for (int i = 1000; i < 1100; i++) Put(Key(i), "2");
  Flush();
  const uint64_t apart = Number("varve.live-sst-files-size") - before;
  EXPECT_EQ(Number("varve.estimate-live-data-size"), deep + apart);
  Put(Key(1050), "3");
  Flush();
  // Either of the two.
  const uint64_t twice = Number("varve.live-sst-files-size") - before;
  const uint64_t live = Number("varve.estimate-live-data-size");
  EXPECT_TRUE(live == deep + apart || live == deep + twice - apart) << live;
}

TEST_F(DbObservationTest, TheOldestSnapshotAndLogAreReported) {
  Open();
  EXPECT_EQ(Number("varve.oldest-snapshot-time"), 0u);
  const auto now = [] { return Env::Default()->NowMicros() / 1000000; };
  const uint64_t earliest = now();
  const Snapshot* const snapshot = db_->GetSnapshot();
  const uint64_t told = Number("varve.oldest-snapshot-time");
  EXPECT_GE(told + 1, earliest);
  EXPECT_LE(told, now());
  db_->ReleaseSnapshot(snapshot);
  EXPECT_EQ(Number("varve.oldest-snapshot-time"), 0u);
  uint64_t last = 0;
  for (int i = 0; i < 3; i++) {
    Put("a", "1");
    Flush();
    const uint64_t log = Number("varve.min-log-number-to-keep");
    EXPECT_GT(log, last);
    EXPECT_TRUE(std::filesystem::exists(WalFileName(path_, log)));
    last = log;
  }
}

// RocksDB tells tables apart by this and their number.
TEST_F(DbObservationTest, TablesNameTheSessionThatWroteThem) {
  std::map<std::string, std::string> sessions;
  for (int session = 0; session < 2; ++session) {
    Open();
    for (int i = 0; i < 2; i++) {
      Put(Key(10 * session + i), "v");
      Flush();
    }
    std::set<std::string> added;
    for (const std::string& path : FilesEndingIn(path_, ".sst")) {
      if (sessions.contains(path)) continue;
      const varve::testing::TableBytes table(ReadWholeFile(path));
      sessions[path] = table.properties().session_identity;
      EXPECT_NE(table.properties().original_file_number, 0u);
      added.insert(sessions[path]);
    }
    ASSERT_EQ(added.size(), 1u);
    EXPECT_EQ(added.begin()->size(), 20u);
    EXPECT_EQ(added.begin()->find_first_not_of(
                  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
              std::string::npos);
    Close();
  }
  EXPECT_EQ(sessions.size(), 4u);
  EXPECT_NE(sessions.begin()->second, sessions.rbegin()->second);
}

TEST_F(DbObservationTest, DeletionsInMemoryCountAsDeletions) {
  Do("open, put a 1, delete a, delete a");
  EXPECT_EQ(Number("varve.num-entries-active-mem-table"), 3u);
  EXPECT_EQ(Number("varve.num-deletes-active-mem-table"), 2u);
  // There are fewer keys to delete than deletions.
  EXPECT_EQ(Number("varve.estimate-num-keys"), 0u);
  for (int i = 0; i < 10; i++) Put(Key(i), "v");
  Flush();
  EXPECT_EQ(Number("varve.num-entries-active-mem-table"), 0u);
  EXPECT_EQ(Number("varve.num-deletes-active-mem-table"), 0u);
  const uint64_t before = Number("varve.estimate-num-keys");
  for (int i = 0; i < 4; i++) Delete(Key(i));
  EXPECT_EQ(Number("varve.estimate-num-keys"), before - 4);
  CompactAll();
  EXPECT_EQ(Number("varve.estimate-num-keys"), 6u);
}

TEST_F(DbObservationTest, ApproximateSizesFollowTheData) {
  options_.compression = CompressionType::kNone;
  Open();
  for (int i = 0; i < 10000; i++) Put(Key(i), std::string(100, 'x'));
  CompactAll();
  const std::string quarter = Key(2500), half = Key(5000), end = Key(10000);
  const Range ranges[] = {{"", quarter},   {quarter, half}, {"", end},
                          {half, quarter}, {"x", "z"},      {half, half}};
  uint64_t sizes[6];
  ASSERT_TRUE(Ok(db_->GetApproximateSizes(ranges, 6, sizes)));
  // About 120 bytes an entry; blocks of 1 KiB are the grain.
  EXPECT_NEAR(static_cast<double>(sizes[0]), 2500 * 120, 60000);
  EXPECT_NEAR(static_cast<double>(sizes[1]), 2500 * 120, 60000);
  EXPECT_NEAR(static_cast<double>(sizes[2]), 10000 * 120, 200000);
  EXPECT_EQ(sizes[3], 0u);
  EXPECT_EQ(sizes[4], 0u);
  EXPECT_EQ(sizes[5], 0u);
}

}  // namespace
}  // namespace varve::test
