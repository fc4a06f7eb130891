// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options/options_update.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "util/bytes/parse_double.h"
#include "varve/rate_limiter.h"

namespace varve {

namespace {

using Compressions = std::vector<CompressionType>;
using MaybeCompression = std::optional<CompressionType>;

struct NamedOption {
  const char* name;
  std::variant<int Options::*, uint64_t Options::*, double Options::*,
               bool Options::*, CompressionType Options::*,
               Compressions Options::*, MaybeCompression Options::*,
               KeyCase Options::*, WalRecoveryMode Options::*,
               WriteMethod Options::*, StatsLevel Options::*,
               std::shared_ptr<Cache> Options::*,
               std::shared_ptr<const FilterPolicy> Options::*,
               std::shared_ptr<RateLimiter> Options::*>
      field;
  // Whether DB::SetOptions may change it. The engine reads such an option with
  // the DB mutex held.
  bool may_change = false;
};

constexpr bool kMayChange = true;

static_assert(sizeof(size_t) == sizeof(uint64_t),
              "Varve needs a 64-bit machine");
constexpr NamedOption kNamedOptions[] = {
    {"create_if_missing", &Options::create_if_missing},
    {"create_missing_column_families",
     &Options::create_missing_column_families},
    {"error_if_exists", &Options::error_if_exists},
    {"paranoid_checks", &Options::paranoid_checks},
    {"key_case", &Options::key_case},
    {"wal_recovery_mode", &Options::wal_recovery_mode},
    {"avoid_flush_during_shutdown", &Options::avoid_flush_during_shutdown},
    {"atomic_flush", &Options::atomic_flush},
    {"max_successive_merges", &Options::max_successive_merges, kMayChange},
    {"write_buffer_size", &Options::write_buffer_size, kMayChange},
    {"max_write_buffer_number", &Options::max_write_buffer_number, kMayChange},
    {"block_cache", &Options::block_cache},
    {"max_open_files", &Options::max_open_files},
    {"cache_index_and_filter_blocks", &Options::cache_index_and_filter_blocks},
    {"use_direct_reads", &Options::use_direct_reads},
    {"bytes_per_sync", &Options::bytes_per_sync},
    {"manual_wal_flush", &Options::manual_wal_flush},
    {"wal_write", &Options::wal_write},
    {"wal_bytes_per_sync", &Options::wal_bytes_per_sync},
    {"max_total_wal_size", &Options::max_total_wal_size},
    {"block_size", &Options::block_size},
    {"block_restart_interval", &Options::block_restart_interval},
    {"compression", &Options::compression},
    {"compression_per_level", &Options::compression_per_level},
    {"bottommost_compression", &Options::bottommost_compression},
    {"compression_level", &Options::compression_level},
    {"filter_policy", &Options::filter_policy},
    {"max_background_jobs", &Options::max_background_jobs},
    {"max_subcompactions", &Options::max_subcompactions},
    {"level0_file_num_compaction_trigger",
     &Options::level0_file_num_compaction_trigger, kMayChange},
    {"level0_slowdown_writes_trigger", &Options::level0_slowdown_writes_trigger,
     kMayChange},
    {"level0_stop_writes_trigger", &Options::level0_stop_writes_trigger,
     kMayChange},
    {"soft_pending_compaction_bytes_limit",
     &Options::soft_pending_compaction_bytes_limit, kMayChange},
    {"hard_pending_compaction_bytes_limit",
     &Options::hard_pending_compaction_bytes_limit, kMayChange},
    {"num_levels", &Options::num_levels},
    {"target_file_size_base", &Options::target_file_size_base, kMayChange},
    {"max_compaction_bytes", &Options::max_compaction_bytes, kMayChange},
    {"max_bytes_for_level_base", &Options::max_bytes_for_level_base,
     kMayChange},
    {"max_bytes_for_level_multiplier", &Options::max_bytes_for_level_multiplier,
     kMayChange},
    {"level_compaction_dynamic_level_bytes",
     &Options::level_compaction_dynamic_level_bytes},
    {"ttl", &Options::ttl, kMayChange},
    {"periodic_compaction_seconds", &Options::periodic_compaction_seconds,
     kMayChange},
    {"disable_auto_compactions", &Options::disable_auto_compactions,
     kMayChange},
    {"rate_limiter", &Options::rate_limiter},
    {"stats_level", &Options::stats_level},
};

const NamedOption* FindOption(std::string_view name) {
  for (const NamedOption& known : kNamedOptions) {
    if (name == known.name) return &known;
  }
  return nullptr;
}

// Parses a decimal number. An integer may have a unit suffix: 64M is 64 << 20.
template <typename Number>
  requires std::is_arithmetic_v<Number>
bool Parse(std::string_view text, Number* value) {
  if constexpr (!std::numeric_limits<Number>::is_integer) {
    return ParseDouble(text, value);
  } else {
    const char* const end = text.data() + text.size();
    Number number;
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc()) return false;
    constexpr char kUnits[] = "kKmMgGtT";
    int shift = 0;
    if (end - rest == 1) {
      for (int i = 0; kUnits[i] != '\0'; ++i) {
        if (*rest == kUnits[i]) shift = 10 * (i / 2 + 1);
      }
    }
    if (rest + (shift > 0 ? 1 : 0) != end) return false;
    if (shift > 0 && number < 0) return false;
    if (shift >= std::numeric_limits<Number>::digits ||
        number > std::numeric_limits<Number>::max() >> shift) {
      if (number != 0) return false;
      shift = 0;
    }
    *value = static_cast<Number>(number << shift);
    return true;
  }
}

bool Parse(std::string_view text, bool* value) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return false;
  }
  *value = text == "true" || text == "1";
  return true;
}

// Parses one of `names`, which are in the order of the values 0, 1, ...
template <typename Enum>
bool ParseName(std::string_view text, std::initializer_list<const char*> names,
               Enum* value) {
  int number = 0;
  for (const char* name : names) {
    if (text == name) {
      *value = static_cast<Enum>(number);
      return true;
    }
    ++number;
  }
  return false;
}

bool Parse(std::string_view text, KeyCase* value) {
  return ParseName(text, {"sensitive", "insensitive"}, value);
}

bool Parse(std::string_view text, WalRecoveryMode* value) {
  return ParseName(text, {"absolute_consistency", "point_in_time"}, value);
}

bool Parse(std::string_view text, WriteMethod* value) {
  return ParseName(text, {"call", "map", "auto"}, value);
}

bool Parse(std::string_view text, StatsLevel* value) {
  return ParseName(
      text,
      {"disable_all", "except_histogram_or_timers", "except_timers",
       "except_detailed_timers", "except_time_for_mutex", "all"},
      value);
}

bool Parse(std::string_view text, CompressionType* value) {
  constexpr std::pair<const char*, CompressionType> kTypes[] = {
      {"none", CompressionType::kNone}, {"snappy", CompressionType::kSnappy},
      {"zlib", CompressionType::kZlib}, {"bzip2", CompressionType::kBZip2},
      {"lz4", CompressionType::kLZ4},   {"lz4hc", CompressionType::kLZ4HC},
      {"zstd", CompressionType::kZSTD},
  };
  for (const auto& [name, type] : kTypes) {
    if (text != name) continue;
    *value = type;
    return true;
  }
  return false;
}

bool Parse(std::string_view text, Compressions* value) {
  Compressions types;
  while (!text.empty()) {
    const size_t colon = std::min(text.find(':'), text.size());
    CompressionType type;
    if (!Parse(text.substr(0, colon), &type)) return false;
    types.push_back(type);
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  *value = std::move(types);
  return true;
}

bool Parse(std::string_view text, MaybeCompression* value) {
  CompressionType type = CompressionType::kNone;
  if (!text.empty() && !Parse(text, &type)) return false;
  *value = text.empty() ? MaybeCompression() : type;
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<Cache>* value) {
  size_t bytes;
  if (!Parse(text, &bytes)) return false;
  *value = NewBlockCache(bytes);
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<const FilterPolicy>* value) {
  constexpr std::string_view kBloom = "bloomfilter:";
  double bits_per_key;
  if (text.empty()) {
    value->reset();
    return true;
  }
  if (!text.starts_with(kBloom) ||
      !Parse(text.substr(kBloom.size()), &bits_per_key)) {
    return false;
  }
  *value = NewBloomFilterPolicy(bits_per_key);
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<RateLimiter>* value) {
  uint64_t bytes_per_second;
  if (!Parse(text, &bytes_per_second)) return false;
  *value =
      bytes_per_second == 0 ? nullptr : NewGenericRateLimiter(bytes_per_second);
  return true;
}

Status ParseInto(const NamedOption& option, const Slice& text,
                 Options* options) {
  const bool valid = std::visit(
      [&](auto field) {
        return Parse(text.ToStringView(), &(options->*field));
      },
      option.field);
  if (valid) return Status::OK();
  return Status::InvalidArgument(option.name, "cannot be " + text.ToString());
}

}  // namespace

Status SetOption(const Slice& name, const Slice& value, Options* options) {
  const NamedOption* const option = FindOption(name.ToStringView());
  if (option == nullptr) {
    return Status::InvalidArgument(name,
                                   "is no option, or none that text can set");
  }
  return ParseInto(*option, value, options);
}

Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     Options* options) {
  for (const auto& [name, text] : changes) {
    const NamedOption* const option = FindOption(name);
    if (option == nullptr || !option->may_change) {
      return Status::InvalidArgument(name, "is no option that can be changed");
    }
    Status status = ParseInto(*option, text, options);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

}  // namespace varve
