// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a DB counts and measures its operations unless this is disabled, a
// thread sees its own part, and properties show the totals. Method: operations
// with known events, and statistics levels that leave some of them out.

#include <gmock/gmock.h>

#include <thread>

#include "monitoring/measured_operation.h"
#include "test/testing/db_helpers.h"
#include "varve/perf_context.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;

class DbStatisticsTest : public DbTestBase {
 protected:
  DbStatisticsTest() { Use(StatsLevel::kExceptDetailedTimers); }
  ~DbStatisticsTest() override { SetPerfLevel(PerfLevel::kDisable); }

  void Use(StatsLevel level) {
    options_.statistics =
        CreateDBStatistics(TestAblation().statistics, {.level = level});
  }
  uint64_t Count(Ticker ticker) {
    return options_.statistics->getTickerCount(ticker);
  }
  HistogramData Data(HistogramType histogram) {
    return options_.statistics->histogramData(histogram);
  }
  // One table in the last level, and all of it in the cache.
  void FillCached(int count) {
    options_.filter_policy = NewBloomFilterPolicy(10);
    Open();
    for (int i = 0; i < count; i++) Put(Key(i), "value");
    CompactAll();
    for (int i = 0; i < count; i++) EXPECT_EQ(Get(Key(i)), "value");
    options_.statistics->Reset();
    GetPerfContext()->Reset();
    GetIOStatsContext()->Reset();
  }
  std::string Property(const std::string& name) {
    std::string value;
    EXPECT_TRUE(db_->GetProperty("varve." + name, &value)) << name;
    return value;
  }
};

// ---- Tickers ----------------------------------------------------------------

TEST_F(DbStatisticsTest, CountsTheStepsOfGets) {
  FillCached(100);
  for (int i = 0; i < 100; i++) EXPECT_EQ(Get(Key(i)), "value");
  EXPECT_EQ(Count(Ticker::kNumberKeysRead), 100u);
  EXPECT_EQ(Count(Ticker::kNumberKeysFound), 100u);
  EXPECT_EQ(Count(Ticker::kBytesRead), 500u);
  EXPECT_EQ(Count(Ticker::kMemtableMiss), 100u);
  EXPECT_EQ(Count(Ticker::kMemtableHit), 0u);
  EXPECT_EQ(Count(Ticker::kBlockCacheHit), 100u);
  EXPECT_EQ(Count(Ticker::kBlockCacheDataHit), 100u);
  EXPECT_EQ(Count(Ticker::kBlockCacheMiss), 0u);
  EXPECT_EQ(Count(Ticker::kGetHitL2AndUp), 100u);
  EXPECT_EQ(Count(Ticker::kBloomFilterFullPositive), 100u);
  EXPECT_EQ(Count(Ticker::kBloomFilterFullTruePositive), 100u);
  EXPECT_EQ(Count(Ticker::kBloomFilterUseful), 0u);

  options_.statistics->Reset();
  for (int i = 0; i < 50; i++) EXPECT_EQ(Get(Key(i) + "x"), "NotFound");
  EXPECT_EQ(Count(Ticker::kNumberKeysRead), 50u);
  EXPECT_EQ(Count(Ticker::kNumberKeysFound), 0u);
  EXPECT_EQ(Count(Ticker::kMemtableMiss), 50u);
  // The filter spares nearly all of them, but not the last key's neighbour.
  EXPECT_GT(Count(Ticker::kBloomFilterUseful), 40u);
  EXPECT_EQ(Count(Ticker::kBloomFilterUseful) +
                Count(Ticker::kBloomFilterFullPositive),
            50u);
  EXPECT_EQ(Count(Ticker::kBloomFilterFullTruePositive), 0u);

  options_.statistics->Reset();
  Put(Key(1), "new");
  Delete(Key(2));
  EXPECT_EQ(Get(Key(1)), "new");
  EXPECT_EQ(Get(Key(2)), "NotFound");
  EXPECT_EQ(Count(Ticker::kMemtableHit), 2u);
  EXPECT_EQ(Count(Ticker::kNumberKeysFound), 1u);
  Flush();
  EXPECT_EQ(Get(Key(1)), "new");
  EXPECT_EQ(Count(Ticker::kGetHitL0) + Count(Ticker::kGetHitL1) +
                Count(Ticker::kGetHitL2AndUp),
            1u);
}

TEST_F(DbStatisticsTest, CountsMultiGetApartAndWithTheOthers) {
  FillCached(100);
  Put(Key(0), "other");
  std::vector<std::string> keys = {Key(0), Key(1), Key(2), "absent"};
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<std::string> values;
  db_->MultiGet({}, slices, &values);
  EXPECT_EQ(Get(Key(3)), "value");
  EXPECT_EQ(Count(Ticker::kNumberMultiGetCalls), 1u);
  EXPECT_EQ(Count(Ticker::kNumberMultiGetKeysRead), 4u);
  EXPECT_EQ(Count(Ticker::kNumberMultiGetKeysFound), 3u);
  EXPECT_EQ(Count(Ticker::kNumberMultiGetBytesRead), 15u);
  EXPECT_EQ(Count(Ticker::kNumberKeysRead), 5u);
  EXPECT_EQ(Count(Ticker::kNumberKeysFound), 4u);
  EXPECT_EQ(Count(Ticker::kBytesRead), 20u);
  EXPECT_EQ(Count(Ticker::kMemtableHit), 1u);
  EXPECT_EQ(Count(Ticker::kMemtableMiss), 4u);
}

TEST_F(DbStatisticsTest, CountsMovesOfIterators) {
  FillCached(10);
  Delete(Key(3));
  {
    const auto it = db_->NewIterator({});
    it->Seek(Key(1));
    it->Next();
    it->Next();  // Over a deleted one.
    EXPECT_EQ(it->key(), Slice(Key(4)));
    it->Prev();
    it->Seek("z");
  }
  EXPECT_EQ(Count(Ticker::kNumberDbSeek), 2u);
  EXPECT_EQ(Count(Ticker::kNumberDbSeekFound), 1u);
  EXPECT_EQ(Count(Ticker::kNumberDbNext), 2u);
  EXPECT_EQ(Count(Ticker::kNumberDbNextFound), 2u);
  EXPECT_EQ(Count(Ticker::kNumberDbPrev), 1u);
  EXPECT_EQ(Count(Ticker::kNumberDbPrevFound), 1u);
  EXPECT_EQ(Count(Ticker::kIterBytesRead), 4 * (Key(1).size() + 5));
  EXPECT_EQ(Count(Ticker::kNumberIterSkip), 4u);  // Twice the two of a key.
  EXPECT_EQ(Count(Ticker::kIteratorsCreated), 1u);
  EXPECT_EQ(Count(Ticker::kIteratorsDeleted), 1u);
  EXPECT_EQ(Count(Ticker::kSuperVersionAcquires), 1u);
  EXPECT_EQ(Count(Ticker::kSuperVersionReleases), 1u);
}

// Every entry that the iterator walks over and does not return.
TEST_F(DbStatisticsTest, CountsEntriesPassedOver) {
  constexpr int kVersions = 30;  // More than are walked over one by one.
  Open();
  for (int i = 0; i < 6; ++i) Put(Key(i), "old");
  Flush();
  for (int i = 0; i < 2; ++i) Put(Key(i), "new");
  for (int i = 3; i < 6; ++i) Delete(Key(i));
  const Snapshot* snapshot = db_->GetSnapshot();
  Put(Key(2), "unseen");
  ReadOptions then{.snapshot = snapshot};
  const auto walk = [&](bool backward, int* entries) {
    SetPerfLevel(PerfLevel::kEnableCount);
    GetPerfContext()->Reset();
    options_.statistics->Reset();
    {
      const auto it = db_->NewIterator(then);
      *entries = 0;
      for (backward ? it->SeekToLast() : it->SeekToFirst(); it->Valid();
           backward ? it->Prev() : it->Next()) {
        ++*entries;
      }
      EXPECT_TRUE(Ok(it->status()));
    }
    SetPerfLevel(PerfLevel::kDisable);
    EXPECT_EQ(GetPerfContext()->internal_key_skipped_count,
              Count(Ticker::kNumberIterSkip));
    return Count(Ticker::kNumberIterSkip);
  };
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "backward" : "forward");
    int entries;
    // Two old values, one that is too new, three deletions and what they hide.
    EXPECT_EQ(walk(backward, &entries), 9u);
    EXPECT_EQ(entries, 3);
    EXPECT_EQ(GetPerfContext()->internal_delete_skipped_count, 3u);
  }
  // Where it seeks over them they are not counted one by one.
  for (int i = 0; i < kVersions; ++i) Put(Key(1), "newest");
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "backward" : "forward");
    int entries;
    const uint64_t skips = walk(backward, &entries);
    EXPECT_EQ(entries, 3);
    EXPECT_GT(Count(Ticker::kNumberReseeks), 0u);
    EXPECT_GE(skips, 9u);
    EXPECT_LT(skips, 9u + kVersions);
  }
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(DbStatisticsTest, CountsWritesAndTheirOutcomes) {
  options_.compression = CompressionType::kSnappy;
  Open();
  const auto statistics = options_.statistics;
  statistics->Reset();
  WriteBatch batch;
  batch.Put(Key(1), "1");
  batch.Put(Key(2), "2");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, Key(3), "3")));
  Put(Key(4), std::string(5000, 'x'));
  EXPECT_EQ(Count(Ticker::kNumberKeysWritten), 4u);
  EXPECT_EQ(Count(Ticker::kWriteDoneBySelf), 3u);
  EXPECT_EQ(Count(Ticker::kWriteWithWal), 2u);
  EXPECT_LT(Count(Ticker::kWalFileBytes), Count(Ticker::kBytesWritten));
  Put(Key(1), "newer");
  Delete(Key(2));
  Flush();
  EXPECT_EQ(Count(Ticker::kCompactionDropNewer), 2u);
  EXPECT_GT(Count(Ticker::kBlocksCompressed), 0u);
  CompactAll();
  EXPECT_EQ(Count(Ticker::kCompactionDropObsolete), 1u);
  EXPECT_GT(Count(Ticker::kFilesDeleted), 0u);
  EXPECT_GT(Count(Ticker::kBlocksChecked), 0u);
  EXPECT_GT(Count(Ticker::kTableReadBytes), 0u);
  EXPECT_EQ(Get(Key(4)).size(), 5000u);
  EXPECT_GT(Count(Ticker::kBlocksDecompressed), 0u);
  EXPECT_GT(Count(Ticker::kBlockCacheDataBytesInsert), 5000u);
}

// ---- Histograms -------------------------------------------------------------

TEST_F(DbStatisticsTest, MeasuresASampleOfShortOperationsAndAllLongOnes) {
  FillCached(1000);
  for (int round = 0; round < 64; round++) {
    for (int i = 0; i < 1000; i++) EXPECT_EQ(Get(Key(i)), "value");
  }
  const HistogramData gets = Data(HistogramType::kDbGet);
  // 1000 are expected, with a deviation of about 18.
  EXPECT_GT(gets.count, 800u);
  EXPECT_LT(gets.count, 1200u);
  EXPECT_EQ(Data(HistogramType::kBytesPerRead).count, gets.count);
  EXPECT_EQ(Data(HistogramType::kBytesPerRead).max, 5);
  EXPECT_GT(gets.sum, 0);
  EXPECT_LE(gets.min, gets.median);
  EXPECT_LE(gets.median, gets.max);
  Put(Key(1), "1");
  ASSERT_TRUE(Ok(db_->SyncWAL()));
  Flush();
  CompactAll();
  EXPECT_EQ(Data(HistogramType::kFlushTime).count, 1u);
  EXPECT_GE(Data(HistogramType::kCompactionTime).count, 1u);
  EXPECT_GE(Data(HistogramType::kSnapshotScan).count, 2u);
  EXPECT_GE(Data(HistogramType::kWalFileSync).count, 1u);
  EXPECT_GE(Data(HistogramType::kSstRead).count, 1u);
  EXPECT_GE(Data(HistogramType::kTableOpen).count, 1u);
  EXPECT_EQ(Data(HistogramType::kDbMutexWait).count, 0u);
}

TEST_F(DbStatisticsTest, MeasuresEveryOperationIfTheLevelSaysSo) {
  Use(StatsLevel::kExceptTimeForMutex);
  FillCached(100);
  for (int i = 0; i < 100; i++) EXPECT_EQ(Get(Key(i)), "value");
  std::vector<std::string> values;
  db_->MultiGet({}, {Key(1), Key(2)}, &values);
  Put(Key(1), "12345");
  db_->NewIterator({})->Seek(Key(1));
  EXPECT_EQ(Data(HistogramType::kDbGet).count, 100u);
  EXPECT_EQ(Data(HistogramType::kDbMultiGet).count, 1u);
  EXPECT_EQ(Data(HistogramType::kBytesPerMultiGet).sum, 10);
  EXPECT_EQ(Data(HistogramType::kDbWrite).count, 1u);
  EXPECT_GT(Data(HistogramType::kBytesPerWrite).sum, 5);
  EXPECT_EQ(Data(HistogramType::kDbSeek).count, 1u);
}

TEST_F(DbStatisticsTest, MeasuresEveryOperationBesideAnotherDatabase) {
  FillCached(100);
  options_.statistics->set_stats_level(StatsLevel::kAll);
  Options options = options_;
  options.statistics = NewTestStatistics();
  std::unique_ptr<DB> other;
  ASSERT_TRUE(Ok(DB::Open(options, path_ + "/other", &other)));
  std::string value;
  for (int i = 0; i < 100; i++) {
    EXPECT_EQ(Get(Key(i)), "value");
    for (int j = 0; j < 20; j++) other->Get({}, Key(i), &value).IgnoreError();
  }
  EXPECT_EQ(Data(HistogramType::kDbGet).count, 100u);
  const uint64_t sample =
      options.statistics->histogramData(HistogramType::kDbGet).count;
  EXPECT_GT(sample, 5u);
  EXPECT_LT(sample, 100u) << "one in 64 of 2,000";
}

TEST_F(DbStatisticsTest, MultiGetCountsAllTablesThatItAsks) {
  const std::unique_ptr<Env> env = NewMemoryEnv(Env::Default());
  constexpr int kTables = 2100;  // Times a batch, more than 16 bits count.
  options_.env = env.get();
  options_.create_if_missing = true;
  options_.filter_policy = NewBloomFilterPolicy(20);
  options_.disable_auto_compactions = true;
  options_.level0_slowdown_writes_trigger = 2 * kTables;
  options_.level0_stop_writes_trigger = 2 * kTables;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options_, "/db", &db)));
  for (int i = 0; i < kTables; i++) {
    ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
    ASSERT_TRUE(Ok(db->Put({}, "z", "1")));
    ASSERT_TRUE(Ok(db->Flush({})));
  }
  std::vector<std::string> names;
  for (int i = 0; i < 32; i++) names.push_back(Key(i));
  const std::vector<Slice> keys(names.begin(), names.end());
  std::vector<std::string> values;
  SetPerfLevel(PerfLevel::kEnableCount);
  GetPerfContext()->Reset();
  db->MultiGet({}, keys, &values);
  const uint64_t asked = Count(Ticker::kBloomFilterUseful) +
                         Count(Ticker::kBloomFilterFullPositive);
  EXPECT_EQ(asked, 32u * kTables);
  EXPECT_GT(Count(Ticker::kBloomFilterUseful), 31u * kTables);
  EXPECT_EQ(GetPerfContext()->bloom_sst_miss_count,
            Count(Ticker::kBloomFilterUseful));
}

TEST_F(DbStatisticsTest, MultiGetCountsBlocksThatItReads) {
  options_.block_size = 1024;
  FillCached(2000);
  std::vector<std::string> names;
  for (int i = 0; i < 2000; i += 100) names.push_back(Key(i));
  const std::vector<Slice> keys(names.begin(), names.end());
  uint64_t counts[2];
  uint64_t bytes[2];
  for (const bool together : {false, true}) {
    Reopen();
    SetPerfLevel(PerfLevel::kEnableTime);
    GetPerfContext()->Reset();
    std::vector<std::string> values;
    if (together) {
      db_->MultiGet({}, keys, &values);
    } else {
      for (const std::string& name : names) EXPECT_EQ(Get(name), "value");
    }
    counts[together] = GetPerfContext()->block_read_count;
    bytes[together] = GetPerfContext()->block_read_byte;
    EXPECT_GT(GetPerfContext()->block_read_time, 0u);
  }
  EXPECT_GE(counts[0], names.size());
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(DbStatisticsTest, MeasuresNothingAtLowerLevels) {
  Use(StatsLevel::kExceptTimers);
  FillCached(100);
  for (int i = 0; i < 1000; i++) EXPECT_EQ(Get(Key(i % 100)), "value");
  EXPECT_EQ(Data(HistogramType::kDbGet).count, 0u);
  EXPECT_GT(Data(HistogramType::kBytesPerRead).count, 0u);
  options_.statistics->set_stats_level(StatsLevel::kDisableAll);
  options_.statistics->Reset();
  for (int i = 0; i < 1000; i++) EXPECT_EQ(Get(Key(i % 100)), "value");
  Put(Key(1), "1");
  Flush();
  for (int i = 0; i < static_cast<int>(Ticker::kCount); i++) {
    EXPECT_EQ(Count(static_cast<Ticker>(i)), 0u);
  }
  EXPECT_EQ(Data(HistogramType::kBytesPerRead).count, 0u);
  EXPECT_EQ(Data(HistogramType::kFlushTime).count, 0u);
}

// ---- Whose ------------------------------------------------------------------

TEST_F(DbStatisticsTest, AreOnByDefaultAndCanBeShared) {
  options_.statistics = nullptr;
  Open();
  EXPECT_EQ(Get(Key(1)), "NotFound");
  EXPECT_THAT(Property("statistics"),
              HasSubstr("varve.number.keys.read COUNT : 1\n"));
  EXPECT_THAT(Property("stats"),
              HasSubstr("varve.number.keys.read COUNT : 1\n"));
  EXPECT_THAT(Property("prometheus"),
              HasSubstr("varve_number_keys_read_total 1\n"));
  EXPECT_NE(Property("statistics-path"), "none");
  EXPECT_GT(Number("varve.statistics-memory"), 0u);
  EXPECT_GE(Number("varve.statistics-memory-reserved"),
            Number("varve.statistics-memory"));
  Close();

  options_.stats_level = StatsLevel::kDisableAll;
  Open();
  EXPECT_EQ(Property("statistics"), "");
  EXPECT_EQ(Property("prometheus"), "");
  EXPECT_EQ(Property("statistics-path"), "none");
  EXPECT_EQ(Number("varve.statistics-memory"), 0u);
  EXPECT_EQ(Get(Key(1)), "NotFound");
  Put(Key(1), "1");
  Flush();
  EXPECT_EQ(Get(Key(1)), "1");

  Use(StatsLevel::kExceptDetailedTimers);
  Reopen();
  std::unique_ptr<DB> second;
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("second"), &second)));
  std::string value;
  EXPECT_TRUE(second->Get({}, Key(1), &value).IsNotFound());
  EXPECT_EQ(Get(Key(1)), "1");
  EXPECT_EQ(Count(Ticker::kNumberKeysRead), 2u);
  EXPECT_EQ(Count(Ticker::kNumberKeysFound), 1u);
}

TEST_F(DbStatisticsTest, PathIsInTheLog) {
  Open();
  std::string log;
  ASSERT_TRUE(Ok(ReadFileToString(Env::Default(), path_ + "/LOG", &log)));
  EXPECT_THAT(log, HasSubstr("statistics: " + options_.statistics->Path()));
}

TEST_F(DbStatisticsTest, AnswersFalseToUnknownProperties) {
  Open();
  std::string text;
  uint64_t number = 77;
  for (const char* name : {"varve.statistics-", "varve.prometheus.", "varve.",
                           "statistics", "varve.statistics-memory-"}) {
    EXPECT_FALSE(db_->GetProperty(name, &text)) << name;
    EXPECT_FALSE(db_->GetIntProperty(name, &number)) << name;
  }
  EXPECT_EQ(number, 77u);
}

// ---- A thread's own ---------------------------------------------------------

TEST_F(DbStatisticsTest, PerfContextIsOffUntilAskedFor) {
  FillCached(10);
  EXPECT_EQ(GetPerfLevel(), PerfLevel::kDisable);
  for (int i = 0; i < 200; i++) EXPECT_EQ(Get(Key(i % 10)), "value");
  Put(Key(1), "1");
  Flush();
  EXPECT_EQ(GetPerfContext()->ToString(), "");
  EXPECT_EQ(GetIOStatsContext()->ToString(), "");
}

TEST_F(DbStatisticsTest, PerfContextCountsTheThreadsOwn) {
  FillCached(10);
  SetPerfLevel(PerfLevel::kEnableCount);
  for (int i = 0; i < 10; i++) EXPECT_EQ(Get(Key(i)), "value");
  EXPECT_EQ(Get(Key(5) + "x"), "NotFound");
  // Another thread's do not count.
  std::thread([this] {
    for (int i = 0; i < 10; i++) EXPECT_EQ(Get(Key(i)), "value");
    EXPECT_EQ(GetPerfContext()->get_read_bytes, 0u);
  }).join();
  const PerfContext& perf = *GetPerfContext();
  EXPECT_EQ(perf.block_cache_hit_count, perf.bloom_sst_hit_count);
  EXPECT_EQ(perf.get_read_bytes, 50u);
  EXPECT_EQ(perf.get_from_memtable_count, 11u);
  EXPECT_EQ(perf.bloom_sst_hit_count + perf.bloom_sst_miss_count, 11u);
  EXPECT_EQ(perf.block_read_count, 0u);
  EXPECT_EQ(perf.get_from_memtable_time, 0u);
  EXPECT_THAT(perf.ToString(), HasSubstr("get_read_bytes = 50"));
  {
    const auto it = db_->NewIterator({});
    it->SeekToFirst();
    it->Next();
  }
  EXPECT_EQ(perf.iter_read_bytes, 2 * (Key(1).size() + 5));
  Reopen();
  GetPerfContext()->Reset();
  GetIOStatsContext()->Reset();
  EXPECT_EQ(Get(Key(1)), "value");
  EXPECT_EQ(perf.block_read_count, 1u);
  EXPECT_GT(perf.block_read_byte, 0u);
  EXPECT_EQ(perf.block_read_time, 0u);
  EXPECT_GE(GetIOStatsContext()->bytes_read, perf.block_read_byte);
  EXPECT_EQ(GetIOStatsContext()->read_nanos, 0u);
}

TEST_F(DbStatisticsTest, PerfContextTimesIfAsked) {
  FillCached(10);
  Reopen();
  SetPerfLevel(PerfLevel::kEnableTime);
  GetPerfContext()->Reset();
  GetIOStatsContext()->Reset();
  EXPECT_EQ(Get(Key(1)), "value");
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, Key(1), "1")));
  const PerfContext& perf = *GetPerfContext();
  EXPECT_GT(perf.get_from_memtable_time, 0u);
  EXPECT_GT(perf.get_from_output_files_time, perf.block_read_time);
  EXPECT_GT(perf.block_read_time, 0u);
  EXPECT_GT(perf.block_checksum_time, 0u);
  EXPECT_GT(perf.write_wal_time, 0u);
  EXPECT_GT(perf.write_memtable_time, 0u);
  const IOStatsContext& io = *GetIOStatsContext();
  EXPECT_GT(io.read_nanos, 0u);
  EXPECT_GT(io.write_nanos, 0u);
  EXPECT_GT(io.fsync_nanos, 0u);
  EXPECT_GT(io.bytes_written, 0u);
  EXPECT_THAT(io.ToString(), HasSubstr("fsync_nanos = "));
}

}  // namespace
}  // namespace varve::test
