// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB's C functions of options, and of the objects that options refer
// to, do as RocksDB's do.
// Method: call them, open databases with them, and read LOG. The tests of
// options alone also run on RocksDB.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// ---- Objects ----------------------------------------------------------------

void Count(void* state) { ++*static_cast<int*>(state); }
const char* Name(void*) { return "test.object"; }
char* Merge(void*, const char*, size_t, const char*, size_t, const char* const*,
            const size_t*, int, unsigned char* success, size_t* size) {
  *success = 0;
  *size = 0;
  return static_cast<char*>(malloc(1));
}
char* MergePart(void*, const char*, size_t, const char* const*, const size_t*,
                int, unsigned char* success, size_t* size) {
  *success = 0;
  *size = 0;
  return static_cast<char*>(malloc(1));
}
char* Prefix(void*, const char* key, size_t, size_t* size) {
  *size = 1;
  return const_cast<char*>(
      key);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}
unsigned char InDomain(void*, const char*, size_t size) { return size > 0; }
int Compare(void*, const char*, size_t, const char*, size_t) { return 0; }

TEST(RocksDbOptionsTest, TakeOverMergeOperatorsAndTransforms) {
  int destroyed = 0;
  OptionsPtr options(rocksdb_options_create());
  rocksdb_options_set_merge_operator(
      options.get(), rocksdb_mergeoperator_create(&destroyed, Count, Merge,
                                                  MergePart, nullptr, Name));
  rocksdb_options_set_prefix_extractor(
      options.get(),
      rocksdb_slicetransform_create(&destroyed, Count, Prefix, InDomain, Name));
  OptionsPtr copy(rocksdb_options_create_copy(options.get()));
  options.reset();
  EXPECT_EQ(destroyed, 0);
  // Replaced.
  rocksdb_options_set_prefix_extractor(copy.get(),
                                       rocksdb_slicetransform_create_noop());
  EXPECT_EQ(destroyed, 1);
  copy.reset();
  EXPECT_EQ(destroyed, 2);
}

TEST(RocksDbOptionsTest, LeaveComparatorsToTheProgram) {
  int destroyed = 0;
  auto* const comparator =
      rocksdb_comparator_create(&destroyed, Count, Compare, Name);
  OptionsPtr options(rocksdb_options_create());
  rocksdb_options_set_comparator(options.get(), comparator);
  options.reset();
  EXPECT_EQ(destroyed, 0);
  rocksdb_comparator_destroy(comparator);
  EXPECT_EQ(destroyed, 1);
}

TEST(RocksDbOptionsTest, ShareObjectsThatTheProgramDestroys) {
  auto* const limiter = rocksdb_ratelimiter_create(1 << 20, 100000, 10);
  auto* const cache = rocksdb_cache_create_lru(1 << 20);
  auto* const manager = rocksdb_write_buffer_manager_create(1 << 20, false);
  OptionsPtr options(rocksdb_options_create());
  rocksdb_options_set_ratelimiter(options.get(), limiter);
  rocksdb_options_set_row_cache(options.get(), cache);
  rocksdb_options_set_write_buffer_manager(options.get(), manager);
  rocksdb_ratelimiter_destroy(limiter);
  rocksdb_cache_destroy(cache);
  rocksdb_write_buffer_manager_destroy(manager);
  const OptionsPtr copy(rocksdb_options_create_copy(options.get()));
}

TEST(RocksDbOptionsTest, Caches) {
  auto* const options = rocksdb_lru_cache_options_create();
  rocksdb_lru_cache_options_set_capacity(options, 3 << 20);
  rocksdb_lru_cache_options_set_num_shard_bits(options, 1);
  auto* const cache = rocksdb_cache_create_lru_opts(options);
  rocksdb_lru_cache_options_destroy(options);
  EXPECT_EQ(rocksdb_cache_get_capacity(cache), 3u << 20);
  EXPECT_EQ(rocksdb_cache_get_usage(cache), 0u);
  EXPECT_EQ(rocksdb_cache_get_pinned_usage(cache), 0u);
  rocksdb_cache_set_capacity(cache, 5 << 20);
  EXPECT_EQ(rocksdb_cache_get_capacity(cache), 5u << 20);
  rocksdb_cache_disown_data(cache);
  rocksdb_cache_destroy(cache);
  auto* const clock = rocksdb_cache_create_hyper_clock(1 << 20, 4096);
  EXPECT_EQ(rocksdb_cache_get_capacity(clock), 1u << 20);
  rocksdb_cache_destroy(clock);
}

TEST(RocksDbOptionsTest, BackgroundThreadsOfAnEnvironment) {
  auto* const env = rocksdb_create_default_env();
  rocksdb_env_set_low_priority_background_threads(env, 3);
  rocksdb_env_set_high_priority_background_threads(env, 2);
  EXPECT_EQ(rocksdb_env_get_background_threads(env), 3);
  EXPECT_EQ(rocksdb_env_get_high_priority_background_threads(env), 2);
  rocksdb_env_destroy(env);
}

TEST(RocksDbOptionsTest, SetsOfNumbers) {
  const OptionsPtr options(rocksdb_options_create());
  auto* const o = options.get();
  EXPECT_EQ(rocksdb_options_checksum_handoff_file_types_count(o), 0u);
  rocksdb_options_checksum_handoff_file_types_add(o, 2);
  EXPECT_EQ(rocksdb_options_checksum_handoff_file_types_contains(o, 2), 1);
  rocksdb_options_checksum_handoff_file_types_remove(o, 2);
  EXPECT_EQ(rocksdb_options_checksum_handoff_file_types_contains(o, 2), 0);
  EXPECT_EQ(rocksdb_options_calculate_sst_write_lifetime_hint_set_count(o), 1u);
  rocksdb_options_calculate_sst_write_lifetime_hint_set_add(o, 1);
  EXPECT_EQ(rocksdb_options_calculate_sst_write_lifetime_hint_set_count(o), 2u);
  rocksdb_options_calculate_sst_write_lifetime_hint_set_clear(o);
  EXPECT_EQ(rocksdb_options_calculate_sst_write_lifetime_hint_set_count(o), 0u);
}

TEST(RocksDbOptionsTest, RequestIdsAndThresholds) {
  const ReadOptionsPtr options(rocksdb_readoptions_create());
  auto* const o = options.get();
  size_t size = 9;
  EXPECT_EQ(rocksdb_readoptions_get_request_id(o, &size), nullptr);
  EXPECT_EQ(size, 0u);
  rocksdb_readoptions_set_request_id(o, "id-7", 4);
  EXPECT_EQ(std::string(rocksdb_readoptions_get_request_id(o, &size), 4),
            "id-7");
  rocksdb_readoptions_clear_request_id(o);
  EXPECT_EQ(rocksdb_readoptions_get_request_id(o, &size), nullptr);
  EXPECT_EQ(rocksdb_readoptions_has_merge_operand_count_threshold(o), 0);
  rocksdb_readoptions_set_merge_operand_count_threshold(o, 0);
  EXPECT_EQ(rocksdb_readoptions_has_merge_operand_count_threshold(o), 1);
  rocksdb_readoptions_clear_merge_operand_count_threshold(o);
  EXPECT_EQ(rocksdb_readoptions_has_merge_operand_count_threshold(o), 0);
}

// ---- Text -------------------------------------------------------------------

class RocksDbOptionsTextTest : public testing::Test {
 protected:
  std::string Parse(const std::string& text) {
    rocksdb_get_options_from_string(base_.get(), text.c_str(), result_.get(),
                                    error_);
    return error_.Take();
  }

  const OptionsPtr base_{rocksdb_options_create()};
  const OptionsPtr result_{rocksdb_options_create()};
  Error error_;
};

TEST_F(RocksDbOptionsTextTest, SetsOptions) {
  rocksdb_options_set_use_fsync(base_.get(), 1);
  ASSERT_EQ(Parse(" write_buffer_size = 8M ; max_open_files=-1;"
                  "create_if_missing=true;compression=kNoCompression;"
                  "max_bytes_for_level_multiplier=2.5;ttl=-1;"
                  "compaction_pri=kRoundRobin;compression_opts=1:2:3:4;"
                  "block_based_table_factory={block_size=4k;"
                  "filter_policy=bloomfilter:4:true;block_cache=1M;};"
                  "prefix_extractor=fixed:3"),
            "OK");
  auto* const o = result_.get();
  EXPECT_EQ(rocksdb_options_get_write_buffer_size(o), 8u << 20);
  EXPECT_EQ(rocksdb_options_get_max_open_files(o), -1);
  EXPECT_EQ(rocksdb_options_get_create_if_missing(o), 1);
  EXPECT_EQ(rocksdb_options_get_compression(o), rocksdb_no_compression);
  EXPECT_EQ(rocksdb_options_get_max_bytes_for_level_multiplier(o), 2.5);
  EXPECT_EQ(rocksdb_options_get_ttl(o), UINT64_MAX);
  EXPECT_EQ(rocksdb_options_get_compaction_pri(o),
            rocksdb_k_round_robin_compaction_pri);
  EXPECT_EQ(rocksdb_options_get_use_fsync(o), 1);
}

TEST_F(RocksDbOptionsTextTest, ReportsItsErrors) {
  EXPECT_EQ(Parse("write_buffer_size"),
            "Invalid argument: Mismatched key value pair, '=' expected");
  EXPECT_EQ(Parse("write_buffer_size=1;=3"),
            "Invalid argument: Empty key found");
  EXPECT_EQ(Parse("nonsense=1"),
            "Invalid argument: Extra option not recognized: nonsense");
  EXPECT_EQ(Parse("block_based_table_factory={block_size=4k"),
            "Invalid argument: Mismatched curly braces for nested options");
  EXPECT_EQ(Parse("block_based_table_factory={block_size=4k}}"),
            "Invalid argument: Unexpected chars after nested options");
  for (const char* text :
       {"write_buffer_size=x", "write_buffer_size=", "compression=LZ4",
        "max_bytes_for_level_multiplier=x", "create_if_missing=maybe"}) {
    EXPECT_THAT(Parse(text), StartsWith("Invalid argument: Error parsing"));
  }
}

class RocksDbSetOptionsTest : public ProgramTest {
 protected:
  RocksDbSetOptionsTest() { Open(); }

  std::string Set(const char* name, const char* value) {
    rocksdb_set_options(db_.get(), 1, &name, &value, error_);
    return error_.Take();
  }
  std::string SetDb(const char* name, const char* value) {
    rocksdb_set_db_options(db_.get(), 1, &name, &value, error_);
    return error_.Take();
  }
};

TEST_F(RocksDbSetOptionsTest, ChangesOptions) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{
           {"write_buffer_size", "1"},
           {"max_write_buffer_number", "0"},
           {"disable_auto_compactions", "true"},
           {"level0_slowdown_writes_trigger", "1"},
           {"target_file_size_base", "0"},
           {"ttl", "-1"},
           {"compression", "kNoCompression"},
           {"compression_opts", "{level=4}"},
           {"block_based_table_factory", "{block_size=8192}"},
           {"prefix_extractor", "fixed:3"},
           {"report_bg_io_stats", "1"}}) {
    EXPECT_EQ(Set(name, value), "OK") << name;
  }
  EXPECT_EQ(SetDb("max_background_jobs", "4"), "OK");
  EXPECT_EQ(SetDb("max_open_files", "40"), "OK");
  EXPECT_EQ(SetDb("avoid_flush_during_shutdown", "true"), "OK");
  EXPECT_EQ(SetDb("stats_dump_period_sec", "5"), "OK");
  // The engine has changed them, as its OPTIONS file says.
  auto* const env = rocksdb_create_default_env();
  rocksdb_options_t* database = nullptr;
  size_t count = 0;
  char** names = nullptr;
  rocksdb_options_t** families = nullptr;
  rocksdb_load_latest_options(path_.c_str(), env, false, nullptr, &database,
                              &count, &names, &families, error_);
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(rocksdb_options_get_max_background_jobs(database), 4);
  EXPECT_EQ(rocksdb_options_get_max_open_files(database), 40);
  rocksdb_load_latest_options_destroy(database, names, families, count);
  rocksdb_env_destroy(env);
}

TEST_F(RocksDbSetOptionsTest, ReportsItsErrors) {
  rocksdb_set_options(db_.get(), 0, nullptr, nullptr, error_);
  EXPECT_EQ(error_.Take(), "Invalid argument: empty input");
  rocksdb_set_db_options(db_.get(), 0, nullptr, nullptr, error_);
  EXPECT_EQ(error_.Take(), "Invalid argument: empty input");
  EXPECT_EQ(Set("nonsense", "1"),
            "Invalid argument: Extra option not recognized: nonsense");
  EXPECT_EQ(
      Set("max_background_jobs", "4"),
      "Invalid argument: Extra option not recognized: max_background_jobs");
  EXPECT_EQ(Set("num_levels", "4"),
            "Invalid argument: Option not changeable: num_levels");
  EXPECT_EQ(Set("compression", "kXpressCompression"),
            "Invalid argument: Compression type Xpress is not linked with the "
            "binary.");
  EXPECT_THAT(Set("write_buffer_size", "abc"),
              StartsWith("Invalid argument: Error parsing write_buffer_size"));
  EXPECT_EQ(SetDb("write_buffer_size", "1"),
            "NotFound: Unrecognized option: write_buffer_size");
}

// ---- LOG --------------------------------------------------------------------

class RocksDbLogTest : public ProgramTest {
 protected:
  std::string ReadLog() { return ReadFile(path_ + "/LOG"); }
};

TEST_F(RocksDbLogTest, HasALineForEachOption) {
  rocksdb_options_set_stats_dump_period_sec(options_.get(), 5);
  rocksdb_options_set_ttl(options_.get(), 86400);
  rocksdb_options_set_experimental_mempurge_threshold(options_.get(), 1);
  rocksdb_options_set_compression(options_.get(), rocksdb_no_compression);
  rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
      options_.get(), 5, 10, 0.5);
  Open();
  EXPECT_THAT(
      ReadLog(),
      AllOf(HasSubstr("Options.stats_dump_period_sec: 5\n"),
            HasSubstr("Options.ttl: 86400\n"),
            HasSubstr("Options.experimental_mempurge_threshold: 1.000000\n"),
            HasSubstr("Options.compression: NoCompression\n"),
            HasSubstr("Options.max_background_jobs: 2\n"),
            HasSubstr("Options.comparator: leveldb.BytewiseComparator\n"),
            HasSubstr("Options.table_factory: BlockBasedTable\n"),
            HasSubstr("data_block_hash_table_util_ratio: 0.750000\n"),
            HasSubstr("CompactOnDeletionCollector (Sliding window size = 5 "
                      "Deletion trigger = 10 Deletion ratio = 0.5)"),
            HasSubstr("kZSTD supported: "),
            HasSubstr("Options for column family [default]:")));
}

TEST_F(RocksDbLogTest, HasTheOptionsOfTables) {
  auto* const table = rocksdb_block_based_options_create();
  auto* const cache = rocksdb_cache_create_lru(115343360);
  rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_block_based_options_set_block_size(table, 323232);
  rocksdb_block_based_options_set_format_version(table, 5);
  rocksdb_cache_destroy(cache);
  rocksdb_options_set_block_based_table_factory(options_.get(), table);
  rocksdb_block_based_options_destroy(table);
  Open();
  EXPECT_THAT(
      ReadLog(),
      AllOf(HasSubstr("  block_cache_options:\n    capacity : 115343360\n"),
            HasSubstr("\n  block_size: 323232\n"),
            HasSubstr("\n  format_version: 5\n"),
            HasSubstr("\n  cache_index_and_filter_blocks: 0\n")));
}

TEST_F(RocksDbLogTest, NamesOptionsWithoutEffect) {
  rocksdb_options_set_arena_block_size(options_.get(), 4096);
  rocksdb_options_set_memtable_vector_rep(options_.get());
  auto* const table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_align(table, 1);
  rocksdb_options_set_block_based_table_factory(options_.get(), table);
  rocksdb_block_based_options_destroy(table);
  Open();
  const std::string log = ReadLog();
  EXPECT_THAT(
      log,
      AllOf(HasSubstr("accepted, no effect: arena_block_size = 4096\n"),
            HasSubstr("accepted, no effect: memtable_factory = "
                      "VectorRepFactory\n"),
            HasSubstr("accepted, no effect: table_factory.block_align = 1\n"),
            Not(HasSubstr("accepted, no effect: stats_dump"))));
  // Once for each.
  EXPECT_EQ(log.find("arena_block_size = 4096"),
            log.rfind("arena_block_size = 4096"));
}

TEST_F(RocksDbLogTest, NamesOptionsOfCallsOnce) {
  // There is no LOG.
  rocksdb_readoptions_set_pin_data(read_.get(), 1);
  Open();
  rocksdb_readoptions_set_pin_data(read_.get(), 0);
  EXPECT_THAT(ReadLog(), Not(HasSubstr("pin_data")));
  rocksdb_readoptions_set_pin_data(read_.get(), 1);
  const std::string log = ReadLog();
  EXPECT_THAT(log, HasSubstr("accepted, no effect: pin_data = 1\n"));
  rocksdb_readoptions_set_pin_data(read_.get(), 1);
  EXPECT_EQ(ReadLog(), log);
}

TEST_F(RocksDbLogTest, DefaultsAreNotAccepted) {
  Open();
  EXPECT_THAT(ReadLog(), Not(HasSubstr("accepted, no effect")));
}

TEST_F(RocksDbLogTest, IsKeptWhenTheDatabaseIsLocked) {
  Open();
  const std::string log = ReadLog();
  EXPECT_EQ(rocksdb_open(options_.get(), path_.c_str(), error_), nullptr);
  EXPECT_THAT(error_.Take(), HasSubstr("LOCK"));
  EXPECT_THAT(ReadLog(), StartsWith(log));
}

TEST_F(RocksDbLogTest, GoesToTheProgramsLogger) {
  std::string lines;
  auto* const logger = rocksdb_logger_create_callback_logger(
      0,
      [](void* state, unsigned, char* text, size_t size) {
        static_cast<std::string*>(state)->append(text, size).append("\n");
      },
      &lines);
  rocksdb_options_set_info_log(options_.get(), logger);
  rocksdb_logger_destroy(logger);
  Open();
  db_.reset();
  EXPECT_THAT(lines, ContainsRegex("Options.create_if_missing: 1\n"));
  EXPECT_EQ(ReadLog(), "");
  auto* const again = rocksdb_options_get_info_log(options_.get());
  EXPECT_NE(again, nullptr);
  rocksdb_logger_destroy(again);
}

TEST_F(RocksDbLogTest, CanBeInAnotherDirectory) {
  const std::string logs = directory_.Sub("logs");
  rocksdb_options_set_db_log_dir(options_.get(), logs.c_str());
  Open();
  std::string name = path_.substr(1);
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  EXPECT_THAT(ReadFile(logs + "/" + name + "_LOG"),
              HasSubstr("Options.db_log_dir: " + logs));
  EXPECT_EQ(ReadLog(), "");
}

TEST_F(RocksDbLogTest, InfoLogLevelDropsLines) {
  rocksdb_options_set_info_log_level(options_.get(), 3);
  rocksdb_options_set_arena_block_size(options_.get(), 4096);
  Open();
  EXPECT_THAT(
      ReadLog(),
      AllOf(Not(HasSubstr("Options.")), Not(HasSubstr("Varve opened")),
            HasSubstr("accepted, no effect: arena_block_size = 4096\n")));
}

// ---- Opening with options ---------------------------------------------------

TEST_F(RocksDbLogTest, MemoryEnvironmentOutlivesItsHandle) {
  auto* const env = rocksdb_create_mem_env();
  rocksdb_options_set_env(options_.get(), env);
  Open();
  rocksdb_env_destroy(env);
  EXPECT_EQ(Put("a", "1"), "OK");
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(ReadLog(), "");
}

TEST_F(RocksDbLogTest, OptionsCanBeDestroyedAfterOpen) {
  OptionsPtr options(rocksdb_options_create_copy(options_.get()));
  auto* const limiter = rocksdb_ratelimiter_create(1 << 30, 1000, 1);
  rocksdb_options_set_ratelimiter(options.get(), limiter);
  rocksdb_ratelimiter_destroy(limiter);
  db_.reset(rocksdb_open(options.get(), path_.c_str(), error_));
  ASSERT_EQ(error_.Take(), "OK");
  options.reset();
  EXPECT_EQ(Put("a", "1"), "OK");
  Flush();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(RocksDbLogTest, MissingFeaturesAreRefused) {
  OptionsPtr options(rocksdb_options_create_copy(options_.get()));
  rocksdb_options_set_compaction_style(options.get(), rocksdb_fifo_compaction);
  EXPECT_EQ(rocksdb_open(options.get(), path_.c_str(), error_), nullptr);
  EXPECT_EQ(error_.Take(), "Not implemented: Varve has no FIFO compaction");

  options.reset(rocksdb_options_create_copy(options_.get()));
  rocksdb_options_set_wal_dir(options.get(), directory_.Sub("wal").c_str());
  EXPECT_EQ(rocksdb_open(options.get(), path_.c_str(), error_), nullptr);
  EXPECT_EQ(error_.Take(),
            "Not implemented: Varve has no separate directory for logs");
  rocksdb_options_set_wal_dir(options.get(), path_.c_str());
  db_.reset(rocksdb_open(options.get(), path_.c_str(), error_));
  EXPECT_EQ(error_.Take(), "OK");

  const ReadOptionsPtr read(rocksdb_readoptions_create());
  rocksdb_readoptions_set_read_tier(read.get(), 3);
  size_t size = 0;
  EXPECT_EQ(rocksdb_get(db_.get(), read.get(), "a", 1, &size, error_), nullptr);
  EXPECT_THAT(error_.Take(), StartsWith("Not implemented: Varve has no "));
}

TEST_F(RocksDbLogTest, LoadsTheNewestOptionsFile) {
  Open();
  db_.reset();
  WriteFile(path_ + "/OPTIONS-000005", "[DBOptions]\n  max_open_files=5\n");
  WriteFile(path_ + "/OPTIONS-000011",
            "# A comment.\n"
            "[Version]\n"
            "  rocksdb_version=11.8.1\n"
            "[DBOptions]\n"
            "  max_open_files=11\n"
            "[CFOptions \"default\"]\n"
            "  compaction_style=kCompactionStyleUniversal\n"
            "  compression_opts={level=3;}\n"
            "[TableOptions/BlockBasedTable \"default\"]\n"
            "  block_size=8192\n"
            "[CFOptions \"two \\# x\"]\n"
            "  write_buffer_size=77  # Another comment.\n");
  auto* const env = rocksdb_create_default_env();
  rocksdb_options_t* database = nullptr;
  size_t count = 0;
  char** names = nullptr;
  rocksdb_options_t** families = nullptr;
  auto* const cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_load_latest_options(path_.c_str(), env, false, cache, &database,
                              &count, &names, &families, error_);
  ASSERT_EQ(error_.Take(), "OK");
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(rocksdb_options_get_max_open_files(database), 11);
  EXPECT_STREQ(names[0], "default");
  EXPECT_STREQ(names[1], "two # x");
  EXPECT_EQ(rocksdb_options_get_compaction_style(families[0]),
            rocksdb_universal_compaction);
  EXPECT_EQ(rocksdb_options_get_write_buffer_size(families[1]), 77u);
  rocksdb_load_latest_options_destroy(database, names, families, count);

  rocksdb_load_latest_options(directory_.Sub("none").c_str(), env, false, cache,
                              &database, &count, &names, &families, error_);
  EXPECT_THAT(error_.Take(), StartsWith("NotFound: "));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(names, nullptr);
  rocksdb_cache_destroy(cache);
  rocksdb_env_destroy(env);
}

}  // namespace
}  // namespace rocksdb_test
