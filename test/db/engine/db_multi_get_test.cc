// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants

// Goal: MultiGet of what is not in memory answers as Get does, each key for
// itself, and reads the blocks of a batch together. Method: one database of
// several levels, opened in every way that reads go, and Get as the oracle,
// also of errors; damaged bytes and failing reads; a count of what goes
// through io_uring at a time.

#include "env/io_ring.h"
#include "experimental/ablation_experiment.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/ring_faults.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/threads/epoch.h"
#include "varve/filter_policy.h"
#include "varve/statistics.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr int kKeys = 6000;

// Tables whose partitions are read and evicted one by one.
Options PartitionedOptions() {
  Options options = TinyOptions();
  options.filter_policy = NewBloomFilterPolicy(10);
  options.index_type = IndexType::kTwoLevelIndexSearch;
  options.partition_filters = true;
  options.metadata_block_size = 300;
  options.cache_index_and_filter_blocks = true;
  return options;
}

class DbMultiGetTest : public ::testing::Test {
 protected:
  // Fills three layers. The newer ones hide parts of the older ones. Some keys
  // are deleted, and a few values need a block of their own.
  void Fill(const Options& options) {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DestroyDB(path_, options)));
    ASSERT_TRUE(Ok(DB::Open(options, path_, &db)));
    for (int layer = 0; layer < 3; ++layer) {
      for (int i = layer; i < kKeys; i += 2 * layer + 1) {
        const std::string number = std::to_string(i + layer);
        std::string value = number + std::string(150, 'v') + number;
        if (i % 500 == 7) value.append(70000, 'w');
        ASSERT_TRUE(Ok(i % 9 == layer + 5 ? db->Delete({}, Key(i))
                                          : db->Put({}, Key(i), value)));
      }
      ASSERT_TRUE(Ok(db->Flush({})));
      if (layer > 0) continue;
      ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    }
    ASSERT_TRUE(Ok(db->Close()));
  }

  // Batches of random keys, some missing and some twice, and of neighbours.
  void CheckBatches(DB* by_get, DB* by_multi_get, ReadOptions options,
                    int batches) {
    Rng rng(TestSeed());
    for (int round = 0; round < batches; ++round) {
      options.fill_cache = round % 3 != 0;
      options.verify_checksums = round % 5 != 0;
      const int span = round % 4 == 0 ? 100 : kKeys + 100;
      const int start = static_cast<int>(rng.Below(kKeys));
      std::vector<std::string> names(1 + rng.Below(100));
      for (std::string& name : names) {
        name = Key(start + static_cast<int>(rng.Below(span)) - span / 2);
      }
      const std::vector<Slice> keys(names.begin(), names.end());
      std::vector<std::string> values(keys.size());
      std::vector<PinnableSlice> pinned(keys.size());
      std::vector<Status> statuses(keys.size());
      if (round % 2 == 0) {
        by_multi_get->MultiGet(options, keys.size(), keys.data(), values.data(),
                               statuses.data());
      } else {
        by_multi_get->MultiGet(options, keys.size(), keys.data(), pinned.data(),
                               statuses.data());
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        std::string value;
        const Status status = by_get->Get(options, keys[i], &value);
        ASSERT_EQ(statuses[i].ToString(), status.ToString()) << names[i];
        if (!status.ok()) continue;
        ASSERT_EQ(round % 2 == 0 ? values[i] : pinned[i].ToString(), value);
      }
    }
  }

  void OpenTwo(const Options& options, std::unique_ptr<DB>* one,
               std::unique_ptr<DB>* other) {
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options, path_, one)));
    Options again = options;
    if (again.block_cache != nullptr) {
      CacheOptions cache{.capacity_bytes = options.block_cache->GetCapacity()};
      again.block_cache =
          NewBlockCache(TEST_ChoicesOf(options).block_cache, cache);
    }
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(again, path_, other)));
  }

  TempDir directory_;
  const std::string path_ = directory_.Sub("db");
};

// A call of any length keeps no more of what leaves the cache than a short one.
TEST_F(DbMultiGetTest, ALongCallDoesNotKeepEvictedBlocks) {
  Options options = TinyOptions();
  options.block_cache = NewTestCache(64 << 10);
  Fill(options);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, path_, &db)));
  // Each twice, since a full cache takes in what is missed twice.
  std::vector<std::string> names;
  for (int pass = 0; pass < 3; ++pass) {
    for (int i = 0; i < kKeys; i += 3) names.insert(names.end(), 2, Key(i));
  }
  const std::vector<Slice> keys(names.begin(), names.end());
  std::vector<std::string> values(keys.size());
  std::vector<Status> statuses(keys.size());
  TEST_DrainRetired();
  db->MultiGet({}, keys.size(), keys.data(), values.data(), statuses.data());
  EXPECT_LE(TEST_RetiredCount(), 4u * 64);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::string value;
    const Status status = db->Get({}, keys[i], &value);
    ASSERT_EQ(statuses[i].ToString(), status.ToString()) << names[i];
    if (status.ok()) {
      ASSERT_EQ(values[i], value) << names[i];
    }
  }
}

TEST_F(DbMultiGetTest, AnswersAsGetHoweverBlocksAreRead) {
  Options plain = TinyOptions();
  plain.compression = CompressionType::kNone;
  Options filtered = TinyOptions();
  filtered.compression = CompressionType::kSnappy;
  filtered.filter_policy = NewBloomFilterPolicy(10);
  for (Options options : {plain, filtered, PartitionedOptions()}) {
    ASSERT_NO_FATAL_FAILURE(Fill(options));
    for (const bool direct : {false, true}) {
      for (const size_t cache_bytes :
           {size_t{0}, size_t{60000}, size_t{1} << 25}) {
        for (const int open_files : {-1, 16}) {
          options.use_direct_reads = direct;
          options.block_cache = NewTestCache(cache_bytes);
          options.max_open_files = open_files;
          std::unique_ptr<DB> one, other;
          ASSERT_NO_FATAL_FAILURE(OpenTwo(options, &one, &other));
          ASSERT_NO_FATAL_FAILURE(CheckBatches(one.get(), other.get(), {}, 40));
        }
      }
    }
  }
}

TEST_F(DbMultiGetTest, ThreadsReadTogetherFromFewOpenFiles) {
  Options options = TinyOptions();
  options.use_direct_reads = true;
  ASSERT_NO_FATAL_FAILURE(Fill(options));
  options.block_cache = NewTestCache(100000);
  options.max_open_files = 16;
  std::unique_ptr<DB> one, other;
  ASSERT_NO_FATAL_FAILURE(OpenTwo(options, &one, &other));
  RunThreads(4, [&](int) { CheckBatches(one.get(), other.get(), {}, 25); });
}

TEST_F(DbMultiGetTest, ThreadsReadPartsTogether) {
  Options options = PartitionedOptions();
  ASSERT_NO_FATAL_FAILURE(Fill(options));
  options.block_cache = NewTestCache(20000);  // Half of it for parts.
  std::unique_ptr<DB> one, other;
  ASSERT_NO_FATAL_FAILURE(OpenTwo(options, &one, &other));
  RunThreads(4, [&](int) { CheckBatches(one.get(), other.get(), {}, 25); });
}

TEST_F(DbMultiGetTest, PartsOfAllTablesOfALevelAreReadTogether) {
  Options options = PartitionedOptions();
  ASSERT_NO_FATAL_FAILURE(Fill(options));
  {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options, path_, &db)));
    ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    ASSERT_TRUE(Ok(db->Close()));
  }
  options.block_cache = NewTestCache(1 << 25);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options, path_, &db)));
  // The first of them opens the tables.
  const auto read = [&](int first) {
    std::vector<std::string> names, values;
    for (int i = first; i < kKeys && names.size() < 32; i += 180) {
      names.push_back(Key(i));
    }
    db->MultiGet({}, std::vector<Slice>(names.begin(), names.end()), &values);
    return names.size();
  };
  read(10);
  const RingSubmit before = TEST_SetRingSubmit(&CountingSubmit);
  const uint64_t submissions = ring_faults.submissions;
  const uint64_t operations = ring_faults.operations;
  const size_t keys = read(100);
  TEST_SetRingSubmit(before);
  // The other forms of a table read its parts one by one.
  if (!IoRingUsable() || !IsProduction(TestAblation().block_index) ||
      !IsProduction(TestAblation().table_open)) {
    return;
  }
  // A part and a block of nearly each.
  EXPECT_GE(ring_faults.operations - operations, keys * 3 / 2);
  // Five for a batch, see below.
  EXPECT_LE(ring_faults.submissions - submissions, 14u);
}

TEST_F(DbMultiGetTest, DamageIsReportedForAffectedKeys) {
  ASSERT_NO_FATAL_FAILURE(Fill(TinyOptions()));
  // One byte of many a block of each table.
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<int64_t>(entry.file_size());
    for (int64_t at = 500; at < size * 3 / 5; at += 7000) {
      file.seekg(at);
      const char byte = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 0x55));
    }
  }
  for (const bool direct : {false, true}) {
    Options options = TinyOptions();
    options.use_direct_reads = direct;
    options.block_cache = NewTestCache(1 << 20);
    std::unique_ptr<DB> one, other;
    ASSERT_NO_FATAL_FAILURE(OpenTwo(options, &one, &other));
    int corrupt = 0;
    ReadOptions read;
    for (int i = 0; i < kKeys; i += 50) {
      std::vector<std::string> names(50), values;
      for (int j = 0; j < 50; ++j) names[j] = Key(i + j);
      const std::vector<Status> statuses = other->MultiGet(
          read, std::vector<Slice>(names.begin(), names.end()), &values);
      for (int j = 0; j < 50; ++j) {
        std::string value;
        const Status status = one->Get(read, names[j], &value);
        ASSERT_EQ(statuses[j].ToString(), status.ToString());
        if (status.ok()) {
          ASSERT_EQ(values[j], value);
        }
        corrupt += status.IsCorruption() ? 1 : 0;
      }
    }
    EXPECT_GT(corrupt, 0);
    EXPECT_LT(corrupt, kKeys);
  }
}

TEST_F(DbMultiGetTest, FailingReadsFailTheKeysThatNeedThem) {
  ASSERT_NO_FATAL_FAILURE(Fill(TinyOptions()));
  FaultInjectionEnv env(Env::Default());
  Options options = TinyOptions();
  options.env = &env;
  options.block_cache = NewTestCache(0);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options, path_, &db)));
  std::vector<std::string> names(30), expected, values;
  for (int i = 0; i < 30; ++i) names[i] = Key(i * 180 + 1);
  const std::vector<Slice> keys(names.begin(), names.end());
  const std::vector<Status> before = db->MultiGet({}, keys, &expected);
  env.SetPathFilter(".sst");
  for (uint64_t n = 0; n < 30; ++n) {
    const uint64_t failures = env.FailureCount();
    env.FailAfter(n, FaultInjectionEnv::InjectedError(), kReadOperation);
    const std::vector<Status> statuses = db->MultiGet({}, keys, &values);
    int failed = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].IsIOError()) {
        ++failed;
        continue;
      }
      EXPECT_EQ(statuses[i].ToString(), before[i].ToString());
      if (statuses[i].ok()) {
        EXPECT_EQ(values[i], expected[i]);
      }
    }
    EXPECT_EQ(static_cast<uint64_t>(failed), env.FailureCount() - failures)
        << n;
  }
}

// A part that is not read fails all keys that need it, and is read again.
TEST_F(DbMultiGetTest, FailingReadsOfPartsFailTheKeysThatNeedThem) {
  ASSERT_NO_FATAL_FAILURE(Fill(PartitionedOptions()));
  FaultInjectionEnv env(Env::Default());
  Options options = PartitionedOptions();
  options.env = &env;
  std::vector<std::string> names(30), expected, values;
  for (int i = 0; i < 30; ++i) names[i] = Key(i * 180 + 1);
  const std::vector<Slice> keys(names.begin(), names.end());
  int failed = 0;
  int answered = 0;
  for (uint64_t n = 0; n < 40; n += 3) {
    options.block_cache = NewTestCache(1 << 20);
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options, path_, &db)));
    env.SetPathFilter(".sst");
    env.FailAfter(n, FaultInjectionEnv::InjectedError(), kReadOperation);
    const std::vector<Status> statuses = db->MultiGet({}, keys, &values);
    env.ClearFailure();
    const std::vector<Status> again = db->MultiGet({}, keys, &expected);
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(again[i].ok() || again[i].IsNotFound());
      if (statuses[i].IsIOError()) {
        ++failed;
        continue;
      }
      ++answered;
      EXPECT_EQ(statuses[i].ToString(), again[i].ToString());
      if (statuses[i].ok()) {
        EXPECT_EQ(values[i], expected[i]);
      }
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(answered, 0);
}

TEST_F(DbMultiGetTest, CountsTheBytesThatGetWouldRead) {
  Options options = TinyOptions();
  options.compression = CompressionType::kNone;
  options.statistics = NewTestStatistics();
  ASSERT_NO_FATAL_FAILURE(Fill(options));
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, path_, &db)));
  ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
  std::vector<std::string> names, values;
  for (int i = 10; i < kKeys && names.size() < 32; i += 180) {
    names.push_back(Key(i));
  }
  const std::vector<Slice> keys(names.begin(), names.end());
  ReadOptions read{.fill_cache = false};
  db->MultiGet(read, keys, &values);  // Opens tables.
  const auto count = [&](const std::function<void()>& reads) {
    const auto bytes = [&] {
      return options.statistics->getTickerCount(Ticker::kTableReadBytes);
    };
    const uint64_t before = bytes();
    reads();
    return bytes() - before;
  };
  const uint64_t by_get = count([&] {
    std::string value;
    for (const Slice& key : keys) db->Get(read, key, &value).IgnoreError();
  });
  EXPECT_GT(by_get, 32u * 500);
  EXPECT_EQ(count([&] { db->MultiGet(read, keys, &values); }), by_get);
}

TEST_F(DbMultiGetTest, BlocksOfAllLevelsAreReadTogether) {
  Options options = TinyOptions();
  options.filter_policy = NewBloomFilterPolicy(20);
  ASSERT_NO_FATAL_FAILURE(Fill(options));
  options.block_cache = NewTestCache(1 << 25);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options, path_, &db)));
  // Some keys of each layer, of far apart blocks. The first time opens tables.
  std::vector<std::string> names, values;
  for (int i = 10; i < kKeys && names.size() < 32; i += 180) {
    names.push_back(Key(i));
  }
  const std::vector<Slice> keys(names.begin(), names.end());
  ReadOptions read{.fill_cache = false};
  db->MultiGet(read, keys, &values);
  const RingSubmit before = TEST_SetRingSubmit(&CountingSubmit);
  const uint64_t submissions = ring_faults.submissions;
  const uint64_t operations = ring_faults.operations;
  db->MultiGet(read, keys, &values);
  TEST_SetRingSubmit(before);
  if (!IoRingUsable()) return;
  EXPECT_GE(ring_faults.operations - operations, keys.size() / 2);
  // Five for the batch, four reads and then eight each, which keeps the device
  // busy; what a filter wrongly let through, or a signal, costs more.
  EXPECT_LE(ring_faults.submissions - submissions, 8u);
}

}  // namespace
}  // namespace varve::test
