// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The options that text can set, one row each. A row is all that the engine has
// to know of an option apart from its use:
// - SetOption, DB::SetOptions, DB::SetDBOptions, OPTIONS files, options from
//   maps and varve_options_set find options by their rows;
// - DB::Open checks the bounds in the rows, and RaiseNumbers obeys kRaise;
// - the C functions that move numbers into bounds, and tools, ask BoundsOf.
// A test compares the rows with docs/options.md. Bounds that depend on other
// options are in CheckOptions (db/options/options_check.cc).

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "db/options/level_limit.h"
#include "varve/options.h"

namespace varve {

// The inclusive bounds of a number.
template <typename T>
struct OptionBounds {
  T low = std::numeric_limits<T>::lowest();
  T high = std::numeric_limits<T>::max();
};

// The names of an enumeration's values 0, 1, ... in text. There are no others.
template <typename Enum>
struct OptionNames {};
template <>
struct OptionNames<KeyCase> {
  static constexpr const char* kAll[] = {"sensitive", "insensitive"};
};
template <>
struct OptionNames<WalRecoveryMode> {
  static constexpr const char* kAll[] = {"absolute_consistency",
                                         "point_in_time"};
};
// RocksDB's names, for files.
inline constexpr const char* kWalRecoveryNamesInFiles[] = {
    "kAbsoluteConsistency", "kPointInTimeRecovery"};
template <>
struct OptionNames<WriteMethod> {
  static constexpr const char* kAll[] = {"call", "map", "auto"};
};
template <>
struct OptionNames<StatsLevel> {
  static constexpr const char* kAll[] = {
      "disable_all",           "except_histogram_or_timers",
      "except_timers",         "except_detailed_timers",
      "except_time_for_mutex", "all"};
};

template <>
struct OptionNames<IndexType> {
  static constexpr const char* kAll[] = {"kBinarySearch", "kHashSearch",
                                         "kTwoLevelIndexSearch"};
};

template <typename T>
concept NamedEnum = requires { OptionNames<T>::kAll; };

// A field of options. Its type decides on the syntax of its text.
template <typename T>
struct OptionField {
  using Bounds = std::conditional_t<std::is_arithmetic_v<T>, OptionBounds<T>,
                                    std::monostate>;
  T Options::*member;
  Bounds bounds;
};

// DB::SetOptions, or DB::SetDBOptions, may change the option. The engine reads
// it with the DB mutex held, and the prefix_extractor in a SuperVersion, too.
constexpr unsigned kMayChange = 1;
// Smaller numbers are raised to the low bound.
constexpr unsigned kRaise = 2;

struct OptionRow {
  template <typename T, typename Part>
  constexpr OptionRow(const char* its_name, T Part::*member, unsigned flags = 0)
      : OptionRow(its_name, member, {}, flags) {}
  template <typename T, typename Part>
  constexpr OptionRow(const char* its_name, T Part::*member,
                      typename OptionField<T>::Bounds bounds,
                      unsigned flags = 0)
      : name(its_name),
        field(OptionField<T>{member, bounds}),
        of_family(std::is_same_v<Part, ColumnFamilyOptions>),
        may_change((flags & kMayChange) != 0),
        raises((flags & kRaise) != 0) {}

  const char* name;
  std::variant<
      OptionField<bool>, OptionField<int>, OptionField<uint64_t>,
      OptionField<double>, OptionField<KeyCase>, OptionField<WalRecoveryMode>,
      OptionField<WriteMethod>, OptionField<StatsLevel>, OptionField<IndexType>,
      OptionField<CompressionType>, OptionField<std::vector<CompressionType>>,
      OptionField<std::optional<CompressionType>>,
      OptionField<std::shared_ptr<Cache>>,
      OptionField<std::shared_ptr<const FilterPolicy>>,
      OptionField<std::shared_ptr<const SliceTransform>>,
      OptionField<std::shared_ptr<RateLimiter>>>
      field;
  bool of_family;  // Not of a database.
  bool may_change;
  bool raises;
};

// The compression types, by their names in text.
struct CompressionTypeName {
  const char* name;
  const char* in_files;  // RocksDB's name.
  CompressionType type;
};
inline constexpr CompressionTypeName kCompressionNames[] = {
    {"none", "kNoCompression", CompressionType::kNone},
    {"snappy", "kSnappyCompression", CompressionType::kSnappy},
    {"zlib", "kZlibCompression", CompressionType::kZlib},
    {"bzip2", "kBZip2Compression", CompressionType::kBZip2},
    {"lz4", "kLZ4Compression", CompressionType::kLZ4},
    {"lz4hc", "kLZ4HCCompression", CompressionType::kLZ4HC},
    {"zstd", "kZSTD", CompressionType::kZSTD},
};
inline constexpr char kNoCompressionTypeInFiles[] = "kDisableCompressionOption";

static_assert(std::is_same_v<size_t, uint64_t>, "Varve needs a 64-bit machine");

// In the order of varve/options.h.
inline constexpr OptionRow kOptionTable[] = {
    {"create_if_missing", &Options::create_if_missing},
    {"create_missing_column_families",
     &Options::create_missing_column_families},
    {"error_if_exists", &Options::error_if_exists},
    {"paranoid_checks", &Options::paranoid_checks},
    {"key_case", &Options::key_case},
    {"wal_recovery_mode", &Options::wal_recovery_mode},
    {"avoid_flush_during_shutdown", &Options::avoid_flush_during_shutdown,
     kMayChange},
    {"atomic_flush", &Options::atomic_flush},
    {"max_open_files", &Options::max_open_files, {-1, 4 << 20}, kMayChange},
    {"use_direct_reads", &Options::use_direct_reads},
    {"allow_mmap_reads", &Options::allow_mmap_reads},
    {"bytes_per_sync", &Options::bytes_per_sync, kMayChange},
    {"manual_wal_flush", &Options::manual_wal_flush},
    {"wal_write", &Options::wal_write},
    {"wal_bytes_per_sync", &Options::wal_bytes_per_sync, kMayChange},
    {"max_total_wal_size", &Options::max_total_wal_size, kMayChange},
    {"WAL_ttl_seconds", &Options::WAL_ttl_seconds},
    {"WAL_size_limit_MB", &Options::WAL_size_limit_MB},
    {"max_background_jobs", &Options::max_background_jobs, {1, 64}, kMayChange},
    {"max_subcompactions", &Options::max_subcompactions, {1, 64}, kMayChange},
    {"rate_limiter", &Options::rate_limiter},
    {"stats_level", &Options::stats_level},

    {"max_successive_merges", &Options::max_successive_merges, kMayChange},
    {"write_buffer_size",
     &Options::write_buffer_size,
     {uint64_t{64} << 10, uint64_t{64} << 30},
     kMayChange | kRaise},
    {"max_write_buffer_number",
     &Options::max_write_buffer_number,
     {2, 64},
     kMayChange | kRaise},
    {"block_cache", &Options::block_cache},
    {"cache_index_and_filter_blocks", &Options::cache_index_and_filter_blocks},
    {"block_size", &Options::block_size, {1, uint64_t{16} << 20}},
    {"block_restart_interval", &Options::block_restart_interval, {1, 1024}},
    {"compression", &Options::compression},
    {"compression_per_level", &Options::compression_per_level},
    {"bottommost_compression", &Options::bottommost_compression},
    {"compression_level", &Options::compression_level},
    {"index_type", &Options::index_type},
    {"metadata_block_size",
     &Options::metadata_block_size,
     {1, uint64_t{1} << 30}},
    {"partition_filters", &Options::partition_filters},
    {"allow_ingest_behind", &Options::allow_ingest_behind},
    {"prefix_extractor", &Options::prefix_extractor, kMayChange},
    {"whole_key_filtering", &Options::whole_key_filtering},
    {"memtable_prefix_bloom_size_ratio",
     &Options::memtable_prefix_bloom_size_ratio,
     {0, 0.25},
     kMayChange},
    {"filter_policy", &Options::filter_policy},
    {"level0_file_num_compaction_trigger",
     &Options::level0_file_num_compaction_trigger,
     {.low = 1},
     kMayChange},
    {"level0_slowdown_writes_trigger", &Options::level0_slowdown_writes_trigger,
     kMayChange},
    {"level0_stop_writes_trigger", &Options::level0_stop_writes_trigger,
     kMayChange},
    {"soft_pending_compaction_bytes_limit",
     &Options::soft_pending_compaction_bytes_limit, kMayChange},
    {"hard_pending_compaction_bytes_limit",
     &Options::hard_pending_compaction_bytes_limit, kMayChange},
    {"target_file_size_base",
     &Options::target_file_size_base,
     {uint64_t{1} << 10, uint64_t{64} << 30},
     kMayChange},
    {"num_levels", &Options::num_levels, {2, kNumLevels}, kRaise},
    {"max_compaction_bytes", &Options::max_compaction_bytes, kMayChange},
    {"max_bytes_for_level_base",
     &Options::max_bytes_for_level_base,
     {.low = uint64_t{1} << 10},
     kMayChange},
    {"max_bytes_for_level_multiplier",
     &Options::max_bytes_for_level_multiplier,
     {1, 1000},
     kMayChange},
    {"level_compaction_dynamic_level_bytes",
     &Options::level_compaction_dynamic_level_bytes},
    {"ttl", &Options::ttl, kMayChange},
    {"periodic_compaction_seconds", &Options::periodic_compaction_seconds,
     kMayChange},
    {"disable_auto_compactions", &Options::disable_auto_compactions,
     kMayChange},
};

// Returns the bounds of a number. It does not compile without a row.
template <typename T, typename Part>
consteval OptionBounds<T> BoundsOf(T Part::*member) {
  for (const OptionRow& row : kOptionTable) {
    const auto* const field = std::get_if<OptionField<T>>(&row.field);
    if (field != nullptr && field->member == member) return field->bounds;
  }
  __builtin_unreachable();
}

}  // namespace varve
