// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options/options_check.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "db/options/option_table.h"
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

template <typename T>
Status CheckBounds(const char* name, T value, const OptionBounds<T>& bounds) {
  if (value >= bounds.low && value <= bounds.high) return Status::OK();
  return Status::InvalidArgument(
      std::string(name) + " is " + std::to_string(value) + ", must be in [" +
      std::to_string(bounds.low) + ", " + std::to_string(bounds.high) + "]");
}

Status CheckCompression(const char* name, CompressionType type) {
  return CompressionSupported(type)
             ? Status::OK()
             : Status::InvalidArgument(name, NotBuiltInText(type));
}

Status CheckCompression(const char* name,
                        const std::optional<CompressionType>& type) {
  return type ? CheckCompression(name, *type) : Status::OK();
}

Status CheckCompression(const char* name,
                        const std::vector<CompressionType>& types) {
  Status status;
  for (size_t i = 0; status.ok() && i < types.size(); ++i) {
    status = CheckCompression(name, types[i]);
  }
  return status;
}

template <typename T>
Status CheckRow(const char* name, const OptionField<T>& field,
                const Options& options) {
  const T& value = options.*field.member;
  if constexpr (std::is_arithmetic_v<T>) {
    return CheckBounds(name, value, field.bounds);
  } else if constexpr (NamedEnum<T>) {
    // A cast can create other values.
    constexpr int kCount = std::size(OptionNames<T>::kAll);
    return CheckBounds<int>(name, static_cast<int>(value), {0, kCount - 1});
  } else if constexpr (requires { CheckCompression(name, value); }) {
    return CheckCompression(name, value);
  } else {
    return Status::OK();
  }
}

// 0 stands for the library's default.
OptionBounds<int> CompressionLevelBounds(CompressionType type) {
  switch (type) {
    case CompressionType::kLZ4HC:
      return {0, 12};
    case CompressionType::kZlib:
      return {0, 9};
    default:
      return {-7, 22};
  }
}

}  // namespace

void RaiseNumbers(Options* options) {
  // Only what changes is written: others may read the rest at the same time.
  const auto raise = [](auto* number, auto least) {
    if (*number < least) *number = least;
  };
  for (const OptionRow& row : kOptionTable) {
    if (!row.raises) continue;
    std::visit(
        [&]<typename T>(const OptionField<T>& field) {
          if constexpr (std::is_arithmetic_v<T>) {
            raise(&(options->*field.member), field.bounds.low);
          }
        },
        row.field);
  }
  // -1 has a meaning of its own.
  if (options->max_open_files >= 0) {
    raise(&options->max_open_files, kMinOpenFiles);
  }
}

void ClampNumbers(Options* options) {
  const auto clamp = [](auto* number, const auto& bounds) {
    *number = std::clamp(*number, bounds.low, bounds.high);
  };
  for (const OptionRow& row : kOptionTable) {
    std::visit(
        [&]<typename T>(const OptionField<T>& field) {
          if constexpr (std::is_arithmetic_v<T>) {
            clamp(&(options->*field.member), field.bounds);
          }
        },
        row.field);
  }
  clamp(&options->compression_level,
        CompressionLevelBounds(options->compression));
  if (options->max_compaction_bytes != 0) {
    options->max_compaction_bytes =
        std::max(options->max_compaction_bytes, options->target_file_size_base);
  }
  RaiseNumbers(options);
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
  for (const OptionRow& row : kOptionTable) {
    Status status = std::visit(
        [&](const auto& field) { return CheckRow(row.name, field, o); },
        row.field);
    if (!status.ok()) return status;
  }
  if (o.allow_mmap_reads && o.use_direct_reads) {
    return Status::InvalidArgument(
        "allow_mmap_reads and use_direct_reads exclude each other");
  }
  const Status checks[] = {
      CheckBounds("compression_level", o.compression_level,
                  CompressionLevelBounds(o.compression)),
      CheckBounds("level0_slowdown_writes_trigger", bounds.level0_slowdown,
                  {.low = o.level0_file_num_compaction_trigger}),
      CheckBounds("level0_stop_writes_trigger", bounds.level0_stop,
                  {.low = bounds.level0_slowdown}),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (o.max_compaction_bytes != 0 &&
      o.max_compaction_bytes < o.target_file_size_base) {
    return Status::InvalidArgument(
        "max_compaction_bytes is below target_file_size_base");
  }
  if (o.allow_ingest_behind && o.num_levels < 3) {
    return Status::InvalidArgument(
        "allow_ingest_behind needs a num_levels of 3 or more");
  }
  if (o.allow_ingest_behind && o.ttl != 0) {
    // Tables of the last level but one would be due for ever.
    return Status::InvalidArgument(
        "allow_ingest_behind and ttl contradict each other");
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
