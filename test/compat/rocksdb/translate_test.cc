// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB's options become the engine's as they would act in RocksDB.
// Method: set options by C functions, and compare the engine's.
#include "compat/rocksdb/options/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/c.h>

#include <string>
#include <vector>

#include "compat/rocksdb/options/option_facts.h"
#include "test/compat/rocksdb/program.h"
#include "varve/write_buffer_manager.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using varve::CompressionType;
using varve::Options;
using varve::WalRecoveryMode;
using varve::rocksdb_c::CheckPaths;
using varve::rocksdb_c::Field;
using varve::rocksdb_c::FieldKind;
using varve::rocksdb_c::ToVarve;

class TranslateTest : public testing::Test {
 protected:
  // Returns the engine's options.
  Options Engine() {
    Options engine;
    const varve::Status status = ToVarve(*options_, &engine);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return engine;
  }
  std::string Refused() {
    Options engine;
    return ToVarve(*options_, &engine).ToString();
  }

  rocksdb_options_t* options() { return options_.get(); }

 private:
  const OptionsPtr options_{rocksdb_options_create()};
};

TEST_F(TranslateTest, DefaultsAreRocksDbs) {
  const Options engine = Engine();
  const Options own;
  EXPECT_EQ(engine.statistics, nullptr);
  EXPECT_EQ(engine.stats_level, varve::StatsLevel::kDisableAll);
  EXPECT_FALSE(engine.create_if_missing);
  EXPECT_TRUE(engine.level_compaction_dynamic_level_bytes);
  EXPECT_EQ(engine.ttl, 30u * 24 * 60 * 60);
  EXPECT_EQ(engine.periodic_compaction_seconds, 0u);
  EXPECT_EQ(engine.block_cache, nullptr);
  EXPECT_EQ(engine.filter_policy, nullptr);
  EXPECT_EQ(engine.comparator, varve::BytewiseComparator());
  EXPECT_EQ(engine.env, varve::Env::Default());
  EXPECT_EQ(engine.write_buffer_size, own.write_buffer_size);
  EXPECT_EQ(engine.max_background_jobs, own.max_background_jobs);
  EXPECT_EQ(engine.bytes_per_sync, own.bytes_per_sync);
  // Snappy before RocksDB 11.8, then LZ4.
  const auto compression =
      static_cast<CompressionType>(rocksdb_options_get_compression(options()));
  EXPECT_EQ(engine.compression, varve::CompressionSupported(compression)
                                    ? compression
                                    : own.compression);
  EXPECT_EQ(engine.bottommost_compression, own.bottommost_compression);
}

TEST_F(TranslateTest, MovesValuesIntoBounds) {
  rocksdb_options_set_write_buffer_size(options(), 1);
  rocksdb_options_set_max_write_buffer_number(options(), 0);
  rocksdb_options_set_max_open_files(options(), 3);
  rocksdb_options_set_num_levels(options(), 0);
  rocksdb_options_set_level0_file_num_compaction_trigger(options(), 0);
  rocksdb_options_set_level0_slowdown_writes_trigger(options(), -1);
  rocksdb_options_set_level0_stop_writes_trigger(options(), -1);
  rocksdb_options_set_max_bytes_for_level_multiplier(options(), 0);
  rocksdb_options_set_max_background_jobs(options(), 1000);
  rocksdb_options_set_max_subcompactions(options(), 0);
  rocksdb_options_set_target_file_size_base(options(), 0);
  rocksdb_options_set_soft_pending_compaction_bytes_limit(options(), 9);
  rocksdb_options_set_hard_pending_compaction_bytes_limit(options(), 5);
  const Options engine = Engine();
  EXPECT_EQ(engine.write_buffer_size, 64u << 10);
  EXPECT_EQ(engine.max_write_buffer_number, 2);
  EXPECT_EQ(engine.max_open_files, 20);
  EXPECT_EQ(engine.num_levels, 2);
  EXPECT_EQ(engine.level0_file_num_compaction_trigger, 1);
  EXPECT_EQ(engine.level0_slowdown_writes_trigger, 1);
  EXPECT_EQ(engine.level0_stop_writes_trigger, 1);
  EXPECT_EQ(engine.max_bytes_for_level_multiplier, 1);
  EXPECT_EQ(engine.max_background_jobs, 64);
  EXPECT_EQ(engine.max_subcompactions, 1);
  EXPECT_EQ(engine.target_file_size_base, 1u << 10);
  EXPECT_EQ(engine.soft_pending_compaction_bytes_limit, 5u);
  EXPECT_EQ(engine.hard_pending_compaction_bytes_limit, 5u);
}

TEST_F(TranslateTest, BulkLoadIsAccepted) {
  rocksdb_options_prepare_for_bulk_load(options());
  const Options engine = Engine();
  EXPECT_TRUE(engine.disable_auto_compactions);
  EXPECT_EQ(engine.level0_stop_writes_trigger, 1 << 30);
  EXPECT_EQ(engine.hard_pending_compaction_bytes_limit, 0u);
  EXPECT_EQ(engine.max_background_jobs, 6);
}

TEST_F(TranslateTest, PresetsSetTheirOptions) {
  rocksdb_options_optimize_level_style_compaction(options(), 64 << 20);
  rocksdb_options_increase_parallelism(options(), 5);
  rocksdb_options_optimize_for_point_lookup(options(), 3);
  const Options engine = Engine();
  EXPECT_EQ(engine.write_buffer_size, 16u << 20);
  EXPECT_EQ(engine.max_write_buffer_number, 6);
  EXPECT_EQ(engine.level0_file_num_compaction_trigger, 2);
  EXPECT_EQ(engine.max_background_jobs, 5);
  ASSERT_EQ(engine.compression_per_level.size(), 7u);
  EXPECT_EQ(engine.compression_per_level[1], CompressionType::kNone);
  ASSERT_NE(engine.block_cache, nullptr);
  EXPECT_EQ(engine.block_cache->GetCapacity(), 3u << 20);
  ASSERT_NE(engine.filter_policy, nullptr);
  EXPECT_EQ(engine.filter_policy->BuiltinBloomBitsPerKey(), 10);
}

TEST_F(TranslateTest, CompressionIsPassedOn) {
  const int levels[] = {rocksdb_no_compression, rocksdb_no_compression};
  rocksdb_options_set_compression(options(), rocksdb_no_compression);
  rocksdb_options_set_compression_per_level(options(), levels, 2);
  rocksdb_options_set_bottommost_compression(options(), rocksdb_no_compression);
  const Options engine = Engine();
  EXPECT_EQ(engine.compression, CompressionType::kNone);
  EXPECT_THAT(engine.compression_per_level,
              ElementsAre(CompressionType::kNone, CompressionType::kNone));
  EXPECT_EQ(engine.bottommost_compression, CompressionType::kNone);
}

TEST_F(TranslateTest, CompressionThatIsNotBuiltInIsInvalid) {
  rocksdb_options_set_compression(options(), rocksdb_xpress_compression);
  EXPECT_EQ(Refused(),
            "Invalid argument: Compression type Xpress is not linked with the "
            "binary.");
}

TEST_F(TranslateTest, LevelOfCompressionIsMovedIntoBounds) {
  rocksdb_options_set_compression(options(), rocksdb_no_compression);
  rocksdb_options_set_compression_options(options(), -14, 99, 0, 0);
  EXPECT_EQ(Engine().compression_level, 22);
}

TEST_F(TranslateTest, DatabaseBufferBecomesAManager) {
  EXPECT_EQ(Engine().write_buffer_manager, nullptr);
  rocksdb_options_set_db_write_buffer_size(options(), 1 << 20);
  const auto manager = Engine().write_buffer_manager;
  ASSERT_NE(manager, nullptr);
  EXPECT_EQ(manager->buffer_size(), 1u << 20);
}

TEST_F(TranslateTest, BlockBasedOptionsArePassedOn) {
  auto* const table = rocksdb_block_based_options_create();
  auto* const cache = rocksdb_cache_create_lru(5 << 20);
  rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_cache_destroy(cache);
  rocksdb_block_based_options_set_block_size(table, 0);
  rocksdb_block_based_options_set_block_restart_interval(table, 0);
  rocksdb_block_based_options_set_filter_policy(
      table, rocksdb_filterpolicy_create_bloom(8));
  rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
  rocksdb_options_set_block_based_table_factory(options(), table);
  // A copy was taken.
  rocksdb_block_based_options_set_block_size(table, 1 << 20);
  rocksdb_block_based_options_destroy(table);
  const Options engine = Engine();
  EXPECT_EQ(engine.block_cache->GetCapacity(), 5u << 20);
  EXPECT_EQ(engine.block_size, 1u);
  EXPECT_EQ(engine.block_restart_interval, 1);
  EXPECT_EQ(engine.filter_policy->BuiltinBloomBitsPerKey(), 8);
  EXPECT_TRUE(engine.cache_index_and_filter_blocks);
}

TEST_F(TranslateTest, OptionsOfPrefixesArePassedOn) {
  auto* const table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(
      table, rocksdb_filterpolicy_create_bloom(8));
  rocksdb_block_based_options_set_whole_key_filtering(table, 0);
  rocksdb_options_set_block_based_table_factory(options(), table);
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_set_prefix_extractor(
      options(), rocksdb_slicetransform_create_fixed_prefix(3));
  rocksdb_options_set_memtable_prefix_bloom_size_ratio(options(), 0.5);
  const Options engine = Engine();
  EXPECT_NE(engine.filter_policy, nullptr);
  EXPECT_FALSE(engine.whole_key_filtering);
  EXPECT_STREQ(engine.prefix_extractor->Name(), "rocksdb.FixedPrefix.3");
  EXPECT_EQ(engine.memtable_prefix_bloom_size_ratio, 0.25);
}

TEST_F(TranslateTest, NoBlockCacheIsAnEmptyOne) {
  auto* const table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_no_block_cache(table, 1);
  rocksdb_options_set_block_based_table_factory(options(), table);
  rocksdb_block_based_options_destroy(table);
  ASSERT_NE(Engine().block_cache, nullptr);
  EXPECT_EQ(Engine().block_cache->GetCapacity(), 0u);
}

TEST_F(TranslateTest, RecoveryModesLoseNothingSilently) {
  rocksdb_options_set_wal_recovery_mode(options(), 0);
  EXPECT_EQ(Engine().wal_recovery_mode, WalRecoveryMode::kPointInTime);
  rocksdb_options_set_wal_recovery_mode(options(), 1);
  EXPECT_EQ(Engine().wal_recovery_mode, WalRecoveryMode::kAbsoluteConsistency);
  rocksdb_options_set_wal_recovery_mode(options(), 3);
  EXPECT_THAT(Refused(), HasSubstr("Varve has no recovery that skips"));
  rocksdb_options_set_wal_recovery_mode(options(), 4);
  EXPECT_THAT(Refused(), HasSubstr("wal_recovery_mode"));
}

TEST_F(TranslateTest, StylesOfCompaction) {
  rocksdb_options_set_compaction_style(options(), rocksdb_universal_compaction);
  EXPECT_FALSE(Engine().disable_auto_compactions);
  EXPECT_TRUE(Engine().level_compaction_dynamic_level_bytes);
  rocksdb_options_set_compaction_style(options(), rocksdb_fifo_compaction);
  EXPECT_EQ(Refused(), "Not supported: Varve has no FIFO compaction");
  rocksdb_options_set_compaction_style(options(), 3);
  EXPECT_TRUE(Engine().disable_auto_compactions);
  rocksdb_options_set_compaction_style(options(), 4);
  EXPECT_THAT(Refused(), HasSubstr("compaction_style"));
}

TEST_F(TranslateTest, RefusesEachFieldThatNeedsAMissingFeature) {
  int count = 0;
  for (const Field& field : varve::rocksdb_c::kOptionsFields) {
    if (field.kind != FieldKind::kRefused) continue;
    ++count;
    rocksdb_options_t changed = *options();
    auto* const fields =
        static_cast<varve::rocksdb_c::OptionsFields*>(&changed);
    ASSERT_TRUE(field.parse(fields, "1")) << field.name;
    Options engine;
    EXPECT_EQ(ToVarve(changed, &engine).ToString(),
              std::string("Not supported: Varve has no ") + field.feature);
    // Only by the part that the field belongs to.
    const bool of_family = varve::rocksdb_c::IsFamilyOption(field.name);
    varve::DBOptions database;
    varve::ColumnFamilyOptions family;
    EXPECT_EQ(ToVarve(changed, &database).ok(), of_family) << field.name;
    EXPECT_EQ(ToVarve(changed, &family).ok(), !of_family) << field.name;
  }
  EXPECT_GT(count, 0);
}

TEST_F(TranslateTest, OtherDirectoriesAreRefused) {
  rocksdb_options_set_wal_dir(options(), "/data/db/");
  EXPECT_TRUE(CheckPaths(*options(), "/data/db").ok());
  EXPECT_THAT(CheckPaths(*options(), "/data/other").ToString(),
              HasSubstr("separate directory for logs"));
  rocksdb_options_set_wal_dir(options(), nullptr);
  auto* const path = rocksdb_dbpath_create("/data/db", 1);
  const rocksdb_dbpath_t* paths[] = {path};
  rocksdb_options_set_cf_paths(options(), paths, 1);
  rocksdb_dbpath_destroy(path);
  EXPECT_TRUE(CheckPaths(*options(), "/data/db").ok());
  EXPECT_THAT(CheckPaths(*options(), "/data/other").ToString(),
              HasSubstr("several paths"));
}

// ---- Options of calls -------------------------------------------------------

// Sets each field of a list that is refused, and expects it to be refused.
template <typename Fields, typename Object, size_t kCount>
void ExpectRefused(const Field (&list)[kCount], Object* object) {
  EXPECT_EQ(object->refused, nullptr);
  for (const Field& field : list) {
    auto* const fields = static_cast<Fields*>(object);
    const std::string old = field.text(fields);
    ASSERT_TRUE(field.parse(fields, "2")) << field.name;
    object->Changed();
    EXPECT_STREQ(object->refused, field.feature) << field.name;
    ASSERT_TRUE(field.parse(fields, old)) << field.name;
    object->Changed();
    EXPECT_EQ(object->refused, nullptr) << field.name;
  }
}

TEST(CallOptionsTest, RefuseFieldsThatNeedAMissingFeature) {
  rocksdb_readoptions_t read;
  ExpectRefused<varve::rocksdb_c::ReadOptionsFields>(
      varve::rocksdb_c::kReadOptionsFields, &read);
  rocksdb_writeoptions_t write;
  ExpectRefused<varve::rocksdb_c::WriteOptionsFields>(
      varve::rocksdb_c::kWriteOptionsFields, &write);
  rocksdb_flushoptions_t flush;
  ExpectRefused<varve::rocksdb_c::FlushOptionsFields>(
      varve::rocksdb_c::kFlushOptionsFields, &flush);
  rocksdb_compactoptions_t compact;
  ExpectRefused<varve::rocksdb_c::CompactOptionsFields>(
      varve::rocksdb_c::kCompactOptionsFields, &compact);
}

TEST(CallOptionsTest, FieldsReachTheEngine) {
  const ReadOptionsPtr read(rocksdb_readoptions_create());
  rocksdb_readoptions_set_fill_cache(read.get(), 0);
  rocksdb_readoptions_set_verify_checksums(read.get(), 0);
  rocksdb_readoptions_set_readahead_size(read.get(), 7);
  rocksdb_readoptions_set_iterate_upper_bound(read.get(), "k", 1);
  EXPECT_FALSE(read->rep.fill_cache);
  EXPECT_FALSE(read->rep.verify_checksums);
  EXPECT_EQ(read->rep.readahead_size, 7u);
  ASSERT_NE(read->rep.iterate_upper_bound, nullptr);
  EXPECT_EQ(read->rep.iterate_upper_bound->ToString(), "k");
  EXPECT_EQ(read->rep.iterate_lower_bound, nullptr);
  rocksdb_readoptions_set_iterate_upper_bound(read.get(), nullptr, 0);
  EXPECT_EQ(read->rep.iterate_upper_bound, nullptr);

  const WriteOptionsPtr write(rocksdb_writeoptions_create());
  rocksdb_writeoptions_set_sync(write.get(), 1);
  rocksdb_writeoptions_disable_WAL(write.get(), 1);
  EXPECT_TRUE(write->rep.sync);
  EXPECT_TRUE(write->rep.disable_wal);

  rocksdb_compactoptions_t* const compact = rocksdb_compactoptions_create();
  EXPECT_FALSE(compact->rep.exclusive_manual_compaction);
  EXPECT_FALSE(compact->rep.rewrite_bottommost_level);
  rocksdb_compactoptions_set_target_level(compact, 3);
  EXPECT_EQ(compact->rep.target_level, -1);
  rocksdb_compactoptions_set_change_level(compact, 1);
  EXPECT_EQ(compact->rep.target_level, 3);
  rocksdb_compactoptions_set_bottommost_level_compaction(compact, 2);
  EXPECT_TRUE(compact->rep.rewrite_bottommost_level);
  rocksdb_compactoptions_destroy(compact);
}

// Their constructors rely on it.
TEST(CallOptionsTest, DefaultsAreTheEngines) {
  rocksdb_readoptions_t read;
  read.Changed();
  const varve::ReadOptions own_read;
  EXPECT_EQ(read.rep.verify_checksums, own_read.verify_checksums);
  EXPECT_EQ(read.rep.fill_cache, own_read.fill_cache);
  EXPECT_EQ(read.rep.readahead_size, own_read.readahead_size);
  EXPECT_EQ(read.refused, nullptr);
  rocksdb_writeoptions_t write;
  write.Changed();
  const varve::WriteOptions own_write;
  EXPECT_EQ(write.rep.sync, own_write.sync);
  EXPECT_EQ(write.rep.disable_wal, own_write.disable_wal);
  EXPECT_EQ(write.rep.no_slowdown, own_write.no_slowdown);
  EXPECT_EQ(write.refused, nullptr);
  rocksdb_flushoptions_t flush;
  flush.Changed();
  EXPECT_EQ(flush.rep.wait, varve::FlushOptions().wait);
  EXPECT_EQ(flush.refused, nullptr);
}

TEST(CallOptionsTest, TimestampsAndTableFiltersAreRefused) {
  const ReadOptionsPtr read(rocksdb_readoptions_create());
  rocksdb_readoptions_set_timestamp(read.get(), "12345678", 8);
  EXPECT_STREQ(read->refused, "user timestamps");
  rocksdb_readoptions_set_timestamp(read.get(), nullptr, 0);
  EXPECT_EQ(read->refused, nullptr);
  int destroyed = 0;
  rocksdb_readoptions_set_table_filter(
      read.get(), &destroyed, [](void* state) { ++*static_cast<int*>(state); },
      [](void*, const rocksdb_table_properties_t*) -> unsigned char {
        return 1;
      });
  EXPECT_STREQ(read->refused, "table filters of reads");
  EXPECT_EQ(rocksdb_readoptions_has_table_filter(read.get()), 1);
  rocksdb_readoptions_clear_table_filter(read.get());
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(read->refused, nullptr);
}

}  // namespace
}  // namespace rocksdb_test
