// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's functions for options as text and OPTIONS files; see
// varve/rocksdb.h and varve/convert.h. Options that have no effect in Varve are
// passed over, and keep the value of the base. So does a merge operator, which
// text only names.

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "varve/convert.h"
#include "varve/rocksdb/options.h"

namespace VARVE_ROCKSDB_NAMESPACE {

struct ConfigOptions : varve::ConfigOptions {
  enum SanityLevel : unsigned char {
    kSanityLevelNone = 1,
    kSanityLevelLooselyCompatible = 2,
    kSanityLevelExactMatch = 0xff,
  };

  // No effect.
  SanityLevel sanity_level = kSanityLevelExactMatch;
  bool input_strings_escaped = true;
};

namespace internal {

// Returns the options that are no objects of RocksDB's classes.
inline varve::DBOptions PlainOptions(const DBOptions& options) {
  varve::DBOptions out = options;
  if (options.wal_recovery_mode == WALRecoveryMode::kAbsoluteConsistency) {
    out.wal_recovery_mode = varve::WalRecoveryMode::kAbsoluteConsistency;
  }
  return out;
}

// Returns the family's options, of the table also those that ToVarve may leave
// out.
inline varve::ColumnFamilyOptions PlainOptions(
    const ColumnFamilyOptions& options) {
  varve::ColumnFamilyOptions out = ToVarve(options);
  out.merge_operator =
      static_cast<const varve::ColumnFamilyOptions&>(options).merge_operator;
  if (options.table_factory == nullptr) return out;
  const BlockBasedTableOptions& table = options.table_factory->options();
  out.index_type =
      table.index_type == BlockBasedTableOptions::kTwoLevelIndexSearch
          ? varve::IndexType::kTwoLevelIndexSearch
          : varve::IndexType::kBinarySearch;
  out.metadata_block_size = table.metadata_block_size;
  out.partition_filters = table.partition_filters;
  out.whole_key_filtering = table.whole_key_filtering;
  return out;
}

// The inverse.
inline void FromVarve(const varve::DBOptions& from, DBOptions* to) {
  static_cast<varve::DBOptions&>(*to) = from;
  to->wal_recovery_mode =
      from.wal_recovery_mode == varve::WalRecoveryMode::kAbsoluteConsistency
          ? WALRecoveryMode::kAbsoluteConsistency
          : WALRecoveryMode::kPointInTimeRecovery;
}

inline void FromVarve(const varve::ColumnFamilyOptions& from,
                      ColumnFamilyOptions* to) {
  static_cast<varve::ColumnFamilyOptions&>(*to) = from;
  to->compression = static_cast<CompressionType>(from.compression);
  to->bottommost_compression =
      from.bottommost_compression
          ? static_cast<CompressionType>(*from.bottommost_compression)
          : kDisableCompressionOption;
  to->compression_per_level.clear();
  for (const varve::CompressionType type : from.compression_per_level) {
    to->compression_per_level.push_back(static_cast<CompressionType>(type));
  }
  to->compression_opts.level =
      from.compression_level != 0
          ? from.compression_level
          : CompressionOptions::kDefaultCompressionLevel;
  BlockBasedTableOptions table;
  if (to->table_factory != nullptr) table = to->table_factory->options();
  table.block_cache = from.block_cache;
  table.cache_index_and_filter_blocks = from.cache_index_and_filter_blocks;
  table.block_size = from.block_size;
  table.block_restart_interval = from.block_restart_interval;
  table.filter_policy = from.filter_policy;
  table.index_type = from.index_type == varve::IndexType::kTwoLevelIndexSearch
                         ? BlockBasedTableOptions::kTwoLevelIndexSearch
                         : BlockBasedTableOptions::kBinarySearch;
  table.metadata_block_size = from.metadata_block_size;
  table.partition_filters = from.partition_filters;
  table.whole_key_filtering = from.whole_key_filtering;
  to->table_factory = std::make_shared<TableFactory>(table);
}

inline Status FromVarve(
    const Status& status,
    const std::vector<varve::ColumnFamilyDescriptor>& families,
    std::vector<ColumnFamilyDescriptor>* result) {
  result->clear();
  for (const varve::ColumnFamilyDescriptor& family : families) {
    result->emplace_back(family.name, ColumnFamilyOptions());
    FromVarve(family.options, &result->back().options);
  }
  return status;
}

inline ConfigOptions Configured(bool input_strings_escaped,
                                bool ignore_unknown_options) {
  ConfigOptions config;
  config.input_strings_escaped = input_strings_escaped;
  config.ignore_unknown_options = ignore_unknown_options;
  return config;
}

}  // namespace internal

using varve::GetLatestOptionsFileName;
using varve::StringToMap;

inline Status GetDBOptionsFromMap(
    const ConfigOptions& config, const DBOptions& base,
    const std::unordered_map<std::string, std::string>& changes,
    DBOptions* result) {
  varve::DBOptions options;
  Status status = varve::GetDBOptionsFromMap(
      config, internal::PlainOptions(base), changes, &options);
  if (!status.ok()) return status;
  DBOptions changed = base;
  internal::FromVarve(options, &changed);
  *result = std::move(changed);
  return status;
}
inline Status GetDBOptionsFromMap(
    const DBOptions& base,
    const std::unordered_map<std::string, std::string>& changes,
    DBOptions* result, bool input_strings_escaped = false,
    bool ignore_unknown_options = false) {
  return GetDBOptionsFromMap(
      internal::Configured(input_strings_escaped, ignore_unknown_options), base,
      changes, result);
}
inline Status GetDBOptionsFromString(const ConfigOptions& config,
                                     const DBOptions& base,
                                     const std::string& text,
                                     DBOptions* result) {
  std::unordered_map<std::string, std::string> changes;
  Status status = StringToMap(text, &changes);
  return status.ok() ? GetDBOptionsFromMap(config, base, changes, result)
                     : status;
}
inline Status GetDBOptionsFromString(const DBOptions& base,
                                     const std::string& text,
                                     DBOptions* result) {
  return GetDBOptionsFromString(ConfigOptions(), base, text, result);
}

inline Status GetColumnFamilyOptionsFromMap(
    const ConfigOptions& config, const ColumnFamilyOptions& base,
    const std::unordered_map<std::string, std::string>& changes,
    ColumnFamilyOptions* result) {
  varve::ColumnFamilyOptions options;
  Status status = varve::GetColumnFamilyOptionsFromMap(
      config, internal::PlainOptions(base), changes, &options);
  if (!status.ok()) return status;
  ColumnFamilyOptions changed = base;
  internal::FromVarve(options, &changed);
  *result = std::move(changed);
  return status;
}
inline Status GetColumnFamilyOptionsFromMap(
    const ColumnFamilyOptions& base,
    const std::unordered_map<std::string, std::string>& changes,
    ColumnFamilyOptions* result, bool input_strings_escaped = false,
    bool ignore_unknown_options = false) {
  return GetColumnFamilyOptionsFromMap(
      internal::Configured(input_strings_escaped, ignore_unknown_options), base,
      changes, result);
}
inline Status GetColumnFamilyOptionsFromString(const ConfigOptions& config,
                                               const ColumnFamilyOptions& base,
                                               const std::string& text,
                                               ColumnFamilyOptions* result) {
  std::unordered_map<std::string, std::string> changes;
  Status status = StringToMap(text, &changes);
  return status.ok()
             ? GetColumnFamilyOptionsFromMap(config, base, changes, result)
             : status;
}
inline Status GetColumnFamilyOptionsFromString(const ColumnFamilyOptions& base,
                                               const std::string& text,
                                               ColumnFamilyOptions* result) {
  return GetColumnFamilyOptionsFromString(ConfigOptions(), base, text, result);
}

inline Status GetBlockBasedTableOptionsFromMap(
    const ConfigOptions& config, const BlockBasedTableOptions& base,
    const std::unordered_map<std::string, std::string>& changes,
    BlockBasedTableOptions* result) {
  std::string text;
  for (const auto& [name, value] : changes) {
    text.append(name).append("={").append(value).append("};");
  }
  ColumnFamilyOptions family;
  family.table_factory = std::make_shared<TableFactory>(base);
  Status status = GetColumnFamilyOptionsFromMap(
      config, family, {{"block_based_table_factory", text}}, &family);
  if (status.ok()) *result = family.table_factory->options();
  return status;
}
inline Status GetBlockBasedTableOptionsFromMap(
    const BlockBasedTableOptions& base,
    const std::unordered_map<std::string, std::string>& changes,
    BlockBasedTableOptions* result, bool input_strings_escaped = false,
    bool ignore_unknown_options = false) {
  return GetBlockBasedTableOptionsFromMap(
      internal::Configured(input_strings_escaped, ignore_unknown_options), base,
      changes, result);
}
inline Status GetBlockBasedTableOptionsFromString(
    const ConfigOptions& config, const BlockBasedTableOptions& base,
    const std::string& text, BlockBasedTableOptions* result) {
  std::unordered_map<std::string, std::string> changes;
  Status status = StringToMap(text, &changes);
  return status.ok()
             ? GetBlockBasedTableOptionsFromMap(config, base, changes, result)
             : status;
}

inline Status GetStringFromDBOptions(const ConfigOptions& config,
                                     const DBOptions& options,
                                     std::string* text) {
  return varve::GetStringFromDBOptions(config, internal::PlainOptions(options),
                                       text);
}
inline Status GetStringFromColumnFamilyOptions(
    const ConfigOptions& config, const ColumnFamilyOptions& options,
    std::string* text) {
  return varve::GetStringFromColumnFamilyOptions(
      config, internal::ToVarve(options), text);
}

// The cache is the families' if it is not null.
inline Status LoadOptionsFromFile(const ConfigOptions& config,
                                  const std::string& file,
                                  DBOptions* db_options,
                                  std::vector<ColumnFamilyDescriptor>* families,
                                  std::shared_ptr<Cache>* cache = nullptr) {
  varve::DBOptions options;
  std::vector<varve::ColumnFamilyDescriptor> loaded;
  Status status = varve::LoadOptionsFromFile(config, file, &options, &loaded);
  if (!status.ok()) return status;
  for (varve::ColumnFamilyDescriptor& family : loaded) {
    if (cache != nullptr) family.options.block_cache = *cache;
  }
  *db_options = DBOptions();
  internal::FromVarve(options, db_options);
  return internal::FromVarve(status, loaded, families);
}
inline Status LoadLatestOptions(const ConfigOptions& config,
                                const std::string& path, DBOptions* db_options,
                                std::vector<ColumnFamilyDescriptor>* families,
                                std::shared_ptr<Cache>* cache = nullptr) {
  std::string name;
  Status status = GetLatestOptionsFileName(path, config.env, &name);
  return status.ok() ? LoadOptionsFromFile(config, path + "/" + name,
                                           db_options, families, cache)
                     : status;
}
inline Status LoadLatestOptions(const std::string& path, Env* env,
                                DBOptions* db_options,
                                std::vector<ColumnFamilyDescriptor>* families,
                                bool ignore_unknown_options = false,
                                std::shared_ptr<Cache>* cache = nullptr) {
  ConfigOptions config = internal::Configured(true, ignore_unknown_options);
  config.env = env;
  return LoadLatestOptions(config, path, db_options, families, cache);
}

inline Status CheckOptionsCompatibility(
    const ConfigOptions& config, const std::string& path,
    const DBOptions& db_options,
    const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<varve::ColumnFamilyDescriptor> given;
  for (const ColumnFamilyDescriptor& family : families) {
    given.emplace_back(family.name, internal::ToVarve(family.options));
  }
  return varve::CheckOptionsCompatibility(
      config, path, internal::PlainOptions(db_options), given);
}

}  // namespace VARVE_ROCKSDB_NAMESPACE
