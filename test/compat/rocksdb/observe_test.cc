// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: statistics, perf contexts and memory use are reported in RocksDB's
// numbers and texts. Method: a few reads and writes, whose counts are known.
#include <algorithm>
#include <string>

#include "test/compat/rocksdb/database.h"

namespace rocksdb_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// RocksDB's numbers.
constexpr uint32_t kNumberKeysWritten = 58;
constexpr uint32_t kNumberKeysRead = 59;
constexpr uint32_t kDbGet = 0;
constexpr uint32_t kBytesPerRead = 31;

TEST(RocksDbStatisticsTest, AreOffByDefault) {
  Database database;
  database.Open();
  database.Put("key", "value");
  EXPECT_EQ(rocksdb_options_statistics_get_string(database.options()), nullptr);
  EXPECT_EQ(rocksdb_options_statistics_get_ticker_count(database.options(),
                                                        kNumberKeysWritten),
            0U);
  EXPECT_EQ(rocksdb_options_get_statistics_level(database.options()), 0);
  rocksdb_options_set_statistics_level(database.options(), 5);
  EXPECT_EQ(rocksdb_options_get_statistics_level(database.options()), 0);
}

TEST(RocksDbStatisticsTest, HaveRocksDbsNumbersAndNames) {
  Database database;
  rocksdb_options_enable_statistics(database.options());
  EXPECT_EQ(rocksdb_options_get_statistics_level(database.options()), 3);
  database.Open();
  database.Put("a", "12345");
  database.Put("b", "12345");
  EXPECT_EQ(database.Get("a"), "12345");
  const auto ticker = [&](uint32_t number) {
    return rocksdb_options_statistics_get_ticker_count(database.options(),
                                                       number);
  };
  EXPECT_EQ(ticker(kNumberKeysWritten), 2U);
  EXPECT_EQ(ticker(kNumberKeysRead), 1U);

  rocksdb_statistics_histogram_data_t* const data =
      rocksdb_statistics_histogram_data_create();
  rocksdb_options_statistics_get_histogram_data(database.options(), kDbGet,
                                                data);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_count(data), 1U);
  rocksdb_options_statistics_get_histogram_data(database.options(),
                                                kBytesPerRead, data);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_count(data), 1U);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_sum(data), 5U);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_min(data), 5);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_max(data), 5);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_average(data), 5);
  EXPECT_NEAR(rocksdb_statistics_histogram_data_get_median(data), 5, 0.1);
  EXPECT_NEAR(rocksdb_statistics_histogram_data_get_p95(data), 5, 0.1);
  EXPECT_NEAR(rocksdb_statistics_histogram_data_get_p99(data), 5, 0.1);
  rocksdb_statistics_histogram_data_destroy(data);

  const std::string text =
      TakeText(rocksdb_options_statistics_get_string(database.options()));
  EXPECT_THAT(text, StartsWith("rocksdb.block.cache.miss COUNT : 0\n"));
  EXPECT_THAT(text, HasSubstr("\nrocksdb.number.keys.written COUNT : 2\n"));
  EXPECT_THAT(text, HasSubstr("\nrocksdb.bytes.per.read P50 : 5.000000 P95 : "
                              "5.000000 P99 : 5.000000 P100 : 5.000000 COUNT : "
                              "1 SUM : 5\n"));
}

TEST(RocksDbStatisticsTest, NumbersThatDoNotExistAreZero) {
  Database database;
  rocksdb_options_enable_statistics(database.options());
  EXPECT_EQ(
      rocksdb_options_statistics_get_ticker_count(database.options(), 100000),
      0U);
  rocksdb_statistics_histogram_data_t* const data =
      rocksdb_statistics_histogram_data_create();
  rocksdb_options_statistics_get_histogram_data(database.options(), 100000,
                                                data);
  EXPECT_EQ(rocksdb_statistics_histogram_data_get_count(data), 0U);
  rocksdb_statistics_histogram_data_destroy(data);
}

TEST(RocksDbStatisticsTest, CountOnlyWhatTheLevelSays) {
  Database database;
  rocksdb_options_enable_statistics(database.options());
  for (const int level : {-1, 0, 1, 2, 3, 4, 5, 100}) {
    rocksdb_options_set_statistics_level(database.options(), level);
    EXPECT_EQ(rocksdb_options_get_statistics_level(database.options()),
              std::clamp(level, 0, 5));
  }
  rocksdb_options_set_statistics_level(database.options(), 0);
  database.Open();
  database.Put("a", "1");
  EXPECT_EQ(rocksdb_options_statistics_get_ticker_count(database.options(),
                                                        kNumberKeysWritten),
            0U);
}

TEST(RocksDbPerfContextTest, CountsTheThreadsOperations) {
  Database database;
  database.Open();
  database.Put("key", "value");
  rocksdb_perfcontext_t* const context = rocksdb_perfcontext_create();
  rocksdb_set_perf_level(rocksdb_enable_count);
  rocksdb_perfcontext_reset(context);
  EXPECT_EQ(database.Get("key"), "value");
  EXPECT_EQ(
      rocksdb_perfcontext_metric(context, rocksdb_get_from_memtable_count), 1U);
  EXPECT_EQ(rocksdb_perfcontext_metric(context, rocksdb_get_from_memtable_time),
            0U);
  EXPECT_EQ(rocksdb_perfcontext_metric(context, -1), 0U);
  EXPECT_EQ(rocksdb_perfcontext_metric(context, 1000), 0U);
  const std::string all = TakeText(rocksdb_perfcontext_report(context, 0));
  EXPECT_THAT(all, HasSubstr("block_cache_hit_count = 0, block_read_count = "
                             "0, "));
  EXPECT_THAT(all, HasSubstr(", get_from_memtable_count = 1, "));
  const std::string counted = TakeText(rocksdb_perfcontext_report(context, 1));
  EXPECT_THAT(counted, HasSubstr("get_from_memtable_count = 1"));
  EXPECT_THAT(counted, testing::Not(HasSubstr("= 0")));
  rocksdb_set_perf_level(rocksdb_disable);
  rocksdb_perfcontext_reset(context);
  EXPECT_EQ(TakeText(rocksdb_perfcontext_report(context, 1)), "");
  rocksdb_perfcontext_destroy(context);
}

TEST(RocksDbMemoryTest, CountsAllFamiliesAndEachCacheOnce) {
  Database database;
  database.Open();
  rocksdb_cache_t* const cache = rocksdb_cache_create_lru(1 << 20);
  const FamilyPtr family = database.CreateFamily("one");
  Error error;
  const auto measure = [&](uint64_t* cache_bytes) {
    rocksdb_memory_consumers_t* const consumers =
        rocksdb_memory_consumers_create();
    rocksdb_memory_consumers_add_db(consumers, database.db());
    rocksdb_memory_consumers_add_cache(consumers, cache);
    rocksdb_memory_consumers_add_cache(consumers, cache);
    rocksdb_memory_usage_t* const usage =
        rocksdb_approximate_memory_usage_create(consumers, error);
    rocksdb_memory_consumers_destroy(consumers);
    *cache_bytes = rocksdb_approximate_memory_usage_get_cache_total(usage);
    const uint64_t bytes =
        rocksdb_approximate_memory_usage_get_mem_table_total(usage);
    EXPECT_LE(rocksdb_approximate_memory_usage_get_mem_table_unflushed(usage),
              bytes);
    EXPECT_EQ(
        rocksdb_approximate_memory_usage_get_mem_table_readers_total(usage),
        0U);
    rocksdb_approximate_memory_usage_destroy(usage);
    return bytes;
  };
  uint64_t cache_bytes = 0;
  const uint64_t before = measure(&cache_bytes);
  const std::string value(1 << 20, 'x');
  EXPECT_EQ(database.PutTo(family.get(), "key", value), "OK");
  EXPECT_GE(measure(&cache_bytes), before + value.size());
  EXPECT_EQ(cache_bytes, rocksdb_cache_get_usage(cache));
  rocksdb_cache_destroy(cache);
}

TEST(RocksDbMemoryTest, AClosedDatabaseUsesNone) {
  Database database;
  database.Open();
  database.Put("key", "value");
  rocksdb_memory_consumers_t* const consumers =
      rocksdb_memory_consumers_create();
  rocksdb_memory_consumers_add_db(consumers, database.db());
  database.Close();
  Error error;
  rocksdb_memory_usage_t* const usage =
      rocksdb_approximate_memory_usage_create(consumers, error);
  EXPECT_EQ(rocksdb_approximate_memory_usage_get_mem_table_total(usage), 0U);
  rocksdb_approximate_memory_usage_destroy(usage);
  rocksdb_memory_consumers_destroy(consumers);
}

TEST(RocksDbWriteBufferManagerTest, CountsAndBounds) {
  rocksdb_cache_t* const cache = rocksdb_cache_create_lru(64 << 20);
  rocksdb_write_buffer_manager_t* const manager =
      rocksdb_write_buffer_manager_create_with_cache(8 << 20, cache, false);
  EXPECT_TRUE(rocksdb_write_buffer_manager_enabled(manager));
  EXPECT_TRUE(rocksdb_write_buffer_manager_cost_to_cache(manager));
  EXPECT_EQ(rocksdb_write_buffer_manager_buffer_size(manager), size_t{8} << 20);
  Database database;
  rocksdb_options_set_write_buffer_manager(database.options(), manager);
  database.Open();
  database.Put("key", std::string(1 << 20, 'x'));
  EXPECT_GE(rocksdb_write_buffer_manager_memory_usage(manager),
            size_t{1} << 20);
  EXPECT_GE(rocksdb_write_buffer_manager_mutable_memtable_memory_usage(manager),
            size_t{1} << 20);
  EXPECT_GE(rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(manager),
            size_t{1} << 20);
  rocksdb_write_buffer_manager_set_buffer_size(manager, 16 << 20);
  EXPECT_EQ(rocksdb_write_buffer_manager_buffer_size(manager),
            size_t{16} << 20);
  rocksdb_write_buffer_manager_set_allow_stall(manager, true);
  rocksdb_write_buffer_manager_destroy(manager);
  rocksdb_cache_destroy(cache);
  rocksdb_write_buffer_manager_t* const plain =
      rocksdb_write_buffer_manager_create(0, true);
  EXPECT_FALSE(rocksdb_write_buffer_manager_enabled(plain));
  EXPECT_FALSE(rocksdb_write_buffer_manager_cost_to_cache(plain));
  rocksdb_write_buffer_manager_destroy(plain);
}

constexpr auto kIsReachedWithCompactions =
    rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions;

TEST(RocksDbSstFileManagerTest, ManagersOfTablesTellWhatTheyWereTold) {
  rocksdb_env_t* const env = rocksdb_create_default_env();
  auto* const manager = rocksdb_sst_file_manager_create(env);
  rocksdb_env_destroy(env);
  EXPECT_FALSE(rocksdb_sst_file_manager_is_max_allowed_space_reached(manager));
  EXPECT_EQ(rocksdb_sst_file_manager_get_total_size(manager), 0u);
  EXPECT_EQ(rocksdb_sst_file_manager_get_total_trash_size(manager), 0u);
  EXPECT_EQ(rocksdb_sst_file_manager_get_max_trash_db_ratio(manager), 0.25);
  rocksdb_sst_file_manager_set_max_trash_db_ratio(manager, 0.5);
  EXPECT_EQ(rocksdb_sst_file_manager_get_max_trash_db_ratio(manager), 0.5);
  rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(manager, 7);
  EXPECT_EQ(rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(manager),
            7);
  rocksdb_sst_file_manager_set_max_allowed_space_usage(manager, 1);
  rocksdb_sst_file_manager_set_compaction_buffer_size(manager, 1);
  EXPECT_FALSE(rocksdb_sst_file_manager_is_max_allowed_space_reached(manager));
  EXPECT_FALSE(kIsReachedWithCompactions(manager));
  // Options share it.
  rocksdb_options_t* const options = rocksdb_options_create();
  rocksdb_options_set_sst_file_manager(options, manager);
  rocksdb_sst_file_manager_destroy(manager);
  rocksdb_options_destroy(options);
}

}  // namespace
}  // namespace rocksdb_test
