// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options/options_check.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "db/options/level_limit.h"
#include "monitoring/statistics.h"
#include "table/cache/block_cache.h"
#include "util/base/experiment.h"
#include "util/base/process_wide.h"
#include "util/bytes/compression.h"
#include "varve/cache.h"

namespace varve {

namespace {

constexpr uint64_t kMaxDefaultCacheBytes = 32 << 20;
constexpr int kMinOpenFiles = 16;
constexpr int kMinWriteBufferNumber = 2;
constexpr int kMinLevels = 2;

template <typename T>
Status CheckBounds(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return Status::OK();
  return Status::InvalidArgument(
      std::string(name) + " is " + std::to_string(value) + ", must be in [" +
      std::to_string(low) + ", " + std::to_string(high) + "]");
}

template <typename T>
Status CheckBounds(const char* name, std::type_identity_t<T> value,
                   const OptionBounds<T>& bounds) {
  return CheckBounds(name, value, bounds.low, bounds.high);
}

// Checks that an enumerator is in [0, last]. A cast can create other values.
template <typename Enum>
Status CheckEnum(const char* name, Enum value, Enum last) {
  return CheckBounds(name, static_cast<int>(value), 0, static_cast<int>(last));
}

// 0 stands for the library's default.
Status CheckCompressionLevel(int level, CompressionType type) {
  constexpr const char* kName = "compression_level";
  switch (type) {
    case CompressionType::kLZ4HC:
      return CheckBounds(kName, level, 0, 12);
    case CompressionType::kZlib:
      return CheckBounds(kName, level, 0, 9);
    default:
      return CheckBounds(kName, level, -7, 22);
  }
}

}  // namespace

void RaiseNumbers(Options* options) {
  const auto raise = [](auto* number, auto least) {
    if (*number < least) *number = least;
  };
  if (options->max_open_files >= 0) {
    raise(&options->max_open_files, kMinOpenFiles);
  }
  raise(&options->write_buffer_size, kWriteBufferSizeBounds.low);
  raise(&options->max_write_buffer_number, kMinWriteBufferNumber);
  raise(&options->num_levels, kMinLevels);
}

StallBounds WriterBounds(const Options& options) {
  static constinit ProcessWide<const Options> process_defaults;
  const Options* const defaults = &process_defaults.Get();
  StallBounds bounds;
  int& slowdown = bounds.level0_slowdown;
  slowdown = options.level0_slowdown_writes_trigger;
  if (slowdown == defaults->level0_slowdown_writes_trigger) {
    slowdown = std::max(slowdown, options.level0_file_num_compaction_trigger);
  }
  int& stop = bounds.level0_stop;
  stop = options.level0_stop_writes_trigger;
  if (stop == defaults->level0_stop_writes_trigger) {
    stop = std::max(stop, slowdown);
  }
  uint64_t& soft = bounds.pending_slowdown;
  uint64_t& hard = bounds.pending_stop;
  soft = options.soft_pending_compaction_bytes_limit;
  hard = options.hard_pending_compaction_bytes_limit;
  if (hard != 0 && soft > hard) {
    if (soft == defaults->soft_pending_compaction_bytes_limit) {
      soft = hard;
    } else if (hard == defaults->hard_pending_compaction_bytes_limit) {
      hard = soft;
    }
  }
  return bounds;
}

int MaxFlushes(const Options& options) {
  return std::max(1, options.max_background_jobs / 4);
}

int MaxCompactions(const Options& options) {
  return std::max(1, options.max_background_jobs - MaxFlushes(options));
}

Status CheckOptions(const Options& given) {
  Options o = given;
  RaiseNumbers(&o);
  const StallBounds bounds = WriterBounds(o);
  if (o.comparator == nullptr) {
    return Status::InvalidArgument("comparator is null");
  }
  const char* const name = o.comparator->Name();
  if (name == nullptr || name[0] == '\0') {
    return Status::InvalidArgument("the comparator has no name");
  }
  if (o.env == nullptr) return Status::InvalidArgument("env is null");
  if (std::find(o.listeners.begin(), o.listeners.end(), nullptr) !=
      o.listeners.end()) {
    return Status::InvalidArgument("listeners: one is null");
  }
  if (!CompressionSupported(o.compression)) {
    return Status::InvalidArgument("compression",
                                   NotBuiltInText(o.compression));
  }
  std::vector<CompressionType> types = o.compression_per_level;
  if (o.bottommost_compression) types.push_back(*o.bottommost_compression);
  for (const CompressionType type : types) {
    if (!CompressionSupported(type)) {
      return Status::InvalidArgument(
          "compression_per_level or bottommost_compression",
          NotBuiltInText(type));
    }
  }
  const Status checks[] = {
      CheckBounds("write_buffer_size", o.write_buffer_size,
                  kWriteBufferSizeBounds),
      CheckBounds("max_write_buffer_number", o.max_write_buffer_number,
                  kMinWriteBufferNumber, 64),
      CheckBounds("max_open_files", o.max_open_files, kMaxOpenFilesBounds),
      CheckBounds("block_size", o.block_size, kBlockSizeBounds),
      CheckBounds("block_restart_interval", o.block_restart_interval,
                  kBlockRestartIntervalBounds),
      CheckCompressionLevel(o.compression_level, o.compression),
      CheckBounds("max_background_jobs", o.max_background_jobs, 1, 64),
      CheckBounds("max_subcompactions", o.max_subcompactions, 1, 64),
      CheckBounds("level0_file_num_compaction_trigger",
                  o.level0_file_num_compaction_trigger, 1, INT_MAX),
      CheckBounds("level0_slowdown_writes_trigger", bounds.level0_slowdown,
                  o.level0_file_num_compaction_trigger, INT_MAX),
      CheckBounds("level0_stop_writes_trigger", bounds.level0_stop,
                  bounds.level0_slowdown, INT_MAX),
      CheckBounds("num_levels", o.num_levels, kMinLevels, kNumLevels),
      CheckBounds("target_file_size_base", o.target_file_size_base,
                  kTargetFileSizeBounds),
      CheckBounds<uint64_t>("max_bytes_for_level_base",
                            o.max_bytes_for_level_base, 1 << 10, UINT64_MAX),
      CheckBounds("max_bytes_for_level_multiplier",
                  o.max_bytes_for_level_multiplier, 1.0, 1000.0),
      CheckEnum("wal_recovery_mode", o.wal_recovery_mode,
                WalRecoveryMode::kPointInTime),
      CheckEnum("wal_write", o.wal_write, WriteMethod::kAuto),
      CheckEnum("key_case", o.key_case, KeyCase::kInsensitive),
      CheckEnum("stats_level", o.stats_level, StatsLevel::kAll),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (o.max_compaction_bytes != 0 &&
      o.max_compaction_bytes < o.target_file_size_base) {
    return Status::InvalidArgument(
        "max_compaction_bytes is below target_file_size_base");
  }
  if (bounds.pending_stop != 0 &&
      bounds.pending_slowdown > bounds.pending_stop) {
    return Status::InvalidArgument(
        "soft_pending_compaction_bytes_limit is above "
        "hard_pending_compaction_bytes_limit");
  }
  return Status::OK();
}

void MakeSharedParts(Options* options) {
  const Experiment* const experiment = options->experiment.get();
  if (options->block_cache == nullptr) {
    CacheOptions cache_options;
    cache_options.capacity_bytes =
        std::min<uint64_t>(kMaxDefaultCacheBytes, MemoryLimit() / 8);
    options->block_cache =
        experiment != nullptr && experiment->new_block_cache != nullptr
            ? experiment->new_block_cache(cache_options)
            : NewBlockCache(cache_options);
  }
  if (options->statistics == nullptr &&
      options->stats_level != StatsLevel::kDisableAll) {
    const StatisticsOptions statistics_options = {.level =
                                                      options->stats_level};
    options->statistics =
        experiment != nullptr && experiment->new_statistics != nullptr
            ? experiment->new_statistics(statistics_options)
            : CreateDBStatistics(statistics_options);
  }
}

}  // namespace varve
