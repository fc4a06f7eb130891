// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Random options, for tests whose results must not depend on them.

#include <cstdlib>

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_manager.h"

namespace varve::test {

// Draws one of AllCompressions. The two that take many times as long as the
// others to read, zlib and bzip2, come rarely, so that a test does more else.
template <typename Random>
CompressionType DrawCompression(Random* random) {
  const auto& all = AllCompressions();
  const CompressionType drawn = all[random->Below(all.size())].second;
  const bool is_slow =
      drawn == CompressionType::kZlib || drawn == CompressionType::kBZip2;
  return is_slow && !random->OneIn(5) ? CompressionType::kNone : drawn;
}

// Each that a program may choose by itself; the others are of the process.
inline constexpr const char* kRandomAblations[] = {
    "superversion=mutex",  "block_index=binary_search",
    "block_cache=hash",    "memtable=skiplist",
    "table_open=uncached", "snapshots=mutex",
    "arena=fresh",         "statistics=global",
    "statistics=thread",   "memory_accounting=atomic"};

// Those that the run is for, or some.
inline AblationOptions RandomAblation(Rng* rng) {
  AblationOptions ablation = TestAblation();
  if (getenv("VARVE_TEST_ABLATION") != nullptr || rng->OneIn(2)) {
    return ablation;
  }
  for (const char* each : kRandomAblations) {
    if (rng->OneIn(5)) {
      EXPECT_TRUE(Ok(ablation.Parse(each)));
    }
  }
  return ablation;
}

// Options of a database and of its families, all tiny.
inline Options RandomOptions(Rng* rng) {
  Options options = TinyOptions();
  const AblationOptions ablation = RandomAblation(rng);
  options.experiment = NewExperiment(ablation);
  options.paranoid_checks = rng->OneIn(2);
  options.write_buffer_size = rng->Pick<size_t>({64 << 10, 64 << 10, 1 << 20});
  options.max_write_buffer_number = rng->Between(2, 4);
  if (!rng->OneIn(3)) {
    options.block_cache =
        NewBlockCache(ablation.block_cache,
                      {.capacity_bytes = rng->Pick<size_t>({0, 8 << 10})});
  }
  options.use_direct_reads = rng->OneIn(4);
  options.allow_mmap_reads = !options.use_direct_reads && rng->OneIn(4);
  options.wal_write = rng->Pick<WriteMethod>(
      {WriteMethod::kCall, WriteMethod::kMap, WriteMethod::kAuto});
  options.level_compaction_dynamic_level_bytes = rng->OneIn(2);
  options.max_subcompactions = rng->Between(1, 3);
  options.manual_wal_flush = rng->OneIn(4);
  options.max_open_files = rng->Pick({-1, 10});
  options.cache_index_and_filter_blocks = rng->OneIn(4);
  options.block_size = rng->Pick<size_t>({256, 1 << 10, 4 << 10, 64 << 10});
  options.block_restart_interval = rng->Pick({1, 2, 16, 128});
  options.compression = DrawCompression(rng);
  if (rng->OneIn(2)) {
    options.filter_policy = NewBloomFilterPolicy(rng->Between(1, 20));
  }
  if (rng->OneIn(2)) options.index_type = IndexType::kTwoLevelIndexSearch;
  options.partition_filters = rng->OneIn(2);
  options.metadata_block_size = rng->Pick<uint64_t>({64, 500, 4 << 10});
  if (rng->OneIn(4)) {
    options.sst_file_manager =
        NewSstFileManager(Env::Default(), rng->Pick({0, 1 << 20}));
  }
  // Iterators of these databases must ask for all keys.
  options.prefix_extractor = rng->Pick<std::shared_ptr<const SliceTransform>>(
      {nullptr, NewFixedPrefixTransform(2), NewFixedPrefixTransform(6),
       NewCappedPrefixTransform(4), NewNoopTransform()});
  options.whole_key_filtering = rng->OneIn(2);
  options.memtable_prefix_bloom_size_ratio = rng->OneIn(2) ? 0.1 : 0;
  options.max_background_jobs = rng->Between(1, 4);
  options.max_total_wal_size = rng->Pick<uint64_t>({0, 0, 64 << 10, 1 << 20});
  options.atomic_flush = rng->OneIn(4);
  options.merge_operator = NewStringAppendOperator();
  options.max_successive_merges = rng->Pick<size_t>({0, 0, 1, 4});
  options.level0_file_num_compaction_trigger = rng->Between(1, 6);
  options.num_levels = rng->Pick({2, 3, 4, 7, 7, 7});
  options.target_file_size_base = rng->Pick<uint64_t>({64 << 10, 256 << 10});
  options.max_bytes_for_level_multiplier = rng->Between(2, 10);
  options.disable_auto_compactions = rng->OneIn(5);
  if (options.disable_auto_compactions) {
    options.level0_slowdown_writes_trigger = 1 << 20;
    options.level0_stop_writes_trigger = 1 << 21;
  }
  return options;
}

}  // namespace varve::test
