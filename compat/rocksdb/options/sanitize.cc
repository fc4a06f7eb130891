// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/sanitize.h"

#include <rocksdb/c.h>

#include <algorithm>
#include <limits>

namespace varve::rocksdb_c {
namespace {

constexpr uint64_t kThirtyDays = 30 * 24 * 60 * 60;
// Represents a default that depends on other options.
constexpr uint64_t kDefaultAge = std::numeric_limits<uint64_t>::max() - 1;

void SanitizeDatabase(rocksdb_options_t* options) {
  if (options->max_open_files != -1) {
    options->max_open_files = std::clamp(options->max_open_files, 20, 4 << 20);
  }
  if (options->rate_limiter != nullptr && options->bytes_per_sync == 0) {
    options->bytes_per_sync = 1 << 20;
  }
  if (options->delayed_write_rate == 0) {
    options->delayed_write_rate =
        options->rate_limiter != nullptr
            ? options->rate_limiter->GetBytesPerSecond()
            : 16 << 20;
  }
}

void SanitizeMemtables(rocksdb_options_t* options) {
  options->write_buffer_size = std::clamp(options->write_buffer_size,
                                          size_t{64} << 10, size_t{64} << 30);
  if (options->arena_block_size == 0) {
    constexpr size_t kAlignment = 4 << 10;
    const size_t bytes =
        std::min(size_t{1} << 20, options->write_buffer_size / 8);
    options->arena_block_size =
        (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  options->max_write_buffer_number =
      std::max(options->max_write_buffer_number, 2);
  options->min_write_buffer_number_to_merge = std::clamp(
      options->min_write_buffer_number_to_merge, 1,
      options->atomic_flush != 0 ? 1 : options->max_write_buffer_number - 1);
  options->memtable_prefix_bloom_size_ratio =
      std::clamp(options->memtable_prefix_bloom_size_ratio, 0.0, 0.25);
}

void SanitizeLevels(rocksdb_options_t* options) {
  options->num_levels =
      std::max(options->num_levels,
               options->compaction_style == rocksdb_level_compaction ? 2 : 1);
  if (options->max_bytes_for_level_multiplier <= 0) {
    options->max_bytes_for_level_multiplier = 1;
  }
  options->level0_file_num_compaction_trigger =
      std::max(options->level0_file_num_compaction_trigger, 1);
  options->level0_slowdown_writes_trigger =
      std::max(options->level0_slowdown_writes_trigger,
               options->level0_file_num_compaction_trigger);
  options->level0_stop_writes_trigger =
      std::max(options->level0_stop_writes_trigger,
               options->level0_slowdown_writes_trigger);
  const uint64_t hard = options->hard_pending_compaction_bytes_limit;
  uint64_t& soft = options->soft_pending_compaction_bytes_limit;
  if (soft == 0 || (hard > 0 && soft > hard)) soft = hard;
  if (options->compaction_style != rocksdb_level_compaction) {
    options->level_compaction_dynamic_level_bytes = 0;
  }
  if (options->max_compaction_bytes == 0) {
    options->max_compaction_bytes = options->target_file_size_base * 25;
  }
}

void SanitizeAges(rocksdb_options_t* options) {
  const bool is_block_based = options->table_format == TableFormat::kBlockBased;
  if (options->ttl == kDefaultAge) {
    options->ttl = is_block_based ? kThirtyDays : 0;
  }
  uint64_t& period = options->periodic_compaction_seconds;
  const bool has_filter = options->compaction_filter != nullptr ||
                          options->compaction_filter_factory != nullptr;
  const bool is_universal =
      options->compaction_style == rocksdb_universal_compaction;
  if (period == kDefaultAge) {
    period = is_block_based && (has_filter || is_universal) ? kThirtyDays : 0;
  }
  if (is_universal) {
    if (period == 0) {
      period = options->ttl;
    } else if (options->ttl != 0) {
      period = std::min(period, options->ttl);
    }
  }
}

}  // namespace

rocksdb_options_t Sanitize(const rocksdb_options_t& options) {
  rocksdb_options_t sane = options;
  SanitizeDatabase(&sane);
  SanitizeMemtables(&sane);
  SanitizeLevels(&sane);
  SanitizeAges(&sane);
  return sane;
}

}  // namespace varve::rocksdb_c
