// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The lines of LOG that tell the options of a database.

#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/options/enum_names.h"
#include "compat/rocksdb/options/log.h"
#include "compat/rocksdb/options/option_facts.h"
#include "compat/rocksdb/options/sanitize.h"
#include "compat/rocksdb/options/slice_transform.h"
#include "varve/compaction_filter.h"
#include "varve/comparator.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"

namespace varve::rocksdb_c {
namespace {

using Lines = std::vector<std::string>;

std::string PointerText(const void* pointer) {
  char text[32];
  snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

template <typename Pointer>
std::string NameOf(const Pointer& object) {
  return object != nullptr ? object->Name() : "None";
}

std::string WordOf(bool value) { return value ? "true" : "false"; }

// Returns the value as RocksDB's LOG has it.
std::string ValueText(const Field& field, const void* fields) {
  std::string text = field.text(fields);
  int number;
  if (!ParseField(text, &number)) return text;
  const std::string_view name = field.name;
  if (name == "enforce_single_del_contracts" || name == "enable_blob_files" ||
      name == "enable_blob_gc" || name == "cf_allow_ingest_behind" ||
      name == "memtable_batch_lookup_optimization" ||
      name == "enable_blob_direct_write" ||
      name == "compression_options_use_zstd_dict_trainer") {
    return WordOf(number != 0);
  }
  return EnumTextOf(name, number).value_or(text);
}

void AddOption(const std::string& name, const std::string& value,
               Lines* lines) {
  constexpr size_t kWidth = 48;
  std::string option = "Options." + name;
  if (option.size() < kWidth) option.insert(0, kWidth - option.size(), ' ');
  lines->push_back(option + ": " + value);
}

void AddAccepted(const std::string& name, const std::string& value,
                 Lines* lines) {
  lines->push_back("accepted, no effect: " + name + " = " + value);
}

// Adds the fields of a database, or of a column family.
void AddFields(const rocksdb_options_t& options, bool of_family, Lines* lines) {
  const auto* const fields = static_cast<const OptionsFields*>(&options);
  for (const Field& field : kOptionsFields) {
    if (IsFamilyOption(field.name) != of_family) continue;
    AddOption(SpellingOf(field.name), ValueText(field, fields), lines);
  }
}

// Adds the fields that were set and have no effect.
void AddAcceptedFields(std::span<const Field> list, const void* fields,
                       const std::string& prefix, Lines* lines) {
  for (const Field& field : list) {
    if (field.kind != FieldKind::kAccepted || field.is_default(fields)) {
      continue;
    }
    AddAccepted(prefix + SpellingOf(field.name), ValueText(field, fields),
                lines);
  }
}

void AddAcceptedOptions(const rocksdb_options_t& options, bool of_family,
                        Lines* lines) {
  const auto* const fields = static_cast<const OptionsFields*>(&options);
  for (const Field& field : kOptionsFields) {
    if (IsFamilyOption(field.name) != of_family) continue;
    AddAcceptedFields({&field, 1}, fields, "", lines);
  }
}

const char* FormatName(TableFormat format) {
  switch (format) {
    case TableFormat::kPlain:
      return "PlainTable";
    case TableFormat::kCuckoo:
      return "CuckooTable";
    case TableFormat::kBlockBased:
      break;
  }
  return "BlockBasedTable";
}

const char* FormatName(MemtableFormat format) {
  switch (format) {
    case MemtableFormat::kVector:
      return "VectorRepFactory";
    case MemtableFormat::kHashSkipList:
      return "HashSkipListRepFactory";
    case MemtableFormat::kHashLinkList:
      return "HashLinkListRepFactory";
    case MemtableFormat::kSkipList:
      break;
  }
  return "SkipListFactory";
}

void AddParameters(const std::string& name,
                   const CompressionParameters& parameters, Lines* lines) {
  const std::pair<const char*, std::string> values[] = {
      {".window_bits", std::to_string(parameters.window_bits)},
      {".level", std::to_string(parameters.level)},
      {".strategy", std::to_string(parameters.strategy)},
      {".max_dict_bytes", std::to_string(parameters.max_dict_bytes)},
      {".enabled", WordOf(parameters.enabled)},
  };
  for (const auto& [parameter, value] : values) {
    AddOption(name + parameter, value, lines);
  }
}

// Adds table_factory's options, which are several lines in one as in RocksDB.
void AddTable(const rocksdb_block_based_table_options_t& table, Lines* lines) {
  const auto* const fields =
      static_cast<const BlockBasedTableOptionsFields*>(&table);
  std::string text = "           table_factory options:";
  for (const Field& field : kBlockBasedTableOptionsFields) {
    text += std::string("\n  ") + field.name + ": " + field.text(fields);
  }
  text += "\n  block_cache: " + PointerText(table.block_cache.get());
  if (table.block_cache != nullptr) {
    text += "\n  block_cache_options:\n    capacity : " +
            std::to_string(table.block_cache->GetCapacity());
  }
  text += "\n  filter_policy: " + (table.filter_policy != nullptr
                                       ? NameOf(table.filter_policy)
                                       : "nullptr");
  lines->push_back(std::move(text));
}

void AddCompression(const rocksdb_options_t& options, Lines* lines) {
  for (size_t i = 0; i < options.compression_per_level.size(); ++i) {
    AddOption("compression[" + std::to_string(i) + "]",
              CompressionText(options.compression_per_level[i]), lines);
  }
  AddParameters("compression_opts", options.compression_parameters, lines);
  AddParameters("bottommost_compression_opts",
                options.bottommost_compression_parameters, lines);
}

// Adds what the library was built with.
void AddBuild(Lines* lines) {
  lines->push_back("Compression algorithms supported:");
  constexpr std::pair<const char*, CompressionType> kTypes[] = {
      {"kSnappyCompression", CompressionType::kSnappy},
      {"kZlibCompression", CompressionType::kZlib},
      {"kBZip2Compression", CompressionType::kBZip2},
      {"kLZ4Compression", CompressionType::kLZ4},
      {"kLZ4HCCompression", CompressionType::kLZ4HC},
      {"kZSTD", CompressionType::kZSTD},
  };
  for (const auto& [name, type] : kTypes) {
    lines->push_back(std::string("\t") + name +
                     " supported: " + (CompressionSupported(type) ? "1" : "0"));
  }
  lines->push_back("Jemalloc supported: 0");
}

// Adds what was set by objects and has no effect.
void AddAcceptedObjects(const rocksdb_options_t& options, Lines* lines) {
  if (options.table_format != TableFormat::kBlockBased) {
    AddAccepted("table_factory", FormatName(options.table_format), lines);
  }
  if (options.memtable_format != MemtableFormat::kSkipList) {
    AddAccepted("memtable_factory", FormatName(options.memtable_format), lines);
  }
  if (options.compaction_style == rocksdb_universal_compaction) {
    AddAccepted("compaction_style", "kCompactionStyleUniversal", lines);
  }
  if (options.table.has_ribbon_filter) {
    AddAccepted("filter_policy", "Ribbon (a Bloom filter is used)", lines);
  }
  if (options.blob_cache != nullptr) AddAccepted("blob_cache", "set", lines);
  for (const int factor : options.max_bytes_for_level_multiplier_additional) {
    AddAccepted("max_bytes_for_level_multiplier_additional",
                std::to_string(factor), lines);
  }
  CompressionParameters used = options.compression_parameters;
  used.level = CompressionParameters().level;
  if (used != CompressionParameters()) {
    AddAccepted("compression_opts", "set (except level)", lines);
  }
  if (options.bottommost_compression_parameters != CompressionParameters()) {
    AddAccepted("bottommost_compression_opts", "set", lines);
  }
  for (const std::string& collector : options.deletion_collectors) {
    AddAccepted("table_properties_collectors", collector, lines);
  }
}

// Returns whether LOG has the options: not if only warnings are wanted.
bool ShowsOptions(const rocksdb_options_t& options) {
  return options.info_log != nullptr ||
         options.info_log_level <= static_cast<int>(LogLevel::kInfo);
}

void AddDatabase(const rocksdb_options_t& options, Lines* lines) {
  AddBuild(lines);
  AddFields(Sanitize(options), /*of_family=*/false, lines);
  AddOption("env", PointerText(options.env.get()), lines);
  AddOption("info_log", PointerText(options.info_log.get()), lines);
  AddOption("statistics", PointerText(options.statistics.get()), lines);
  AddOption("rate_limiter", PointerText(options.rate_limiter.get()), lines);
  AddOption("write_buffer_manager",
            PointerText(options.write_buffer_manager.get()), lines);
  AddOption("row_cache",
            options.row_cache != nullptr
                ? std::to_string(options.row_cache->GetCapacity())
                : "None",
            lines);
}

void AddFamily(const rocksdb_options_t& options, const std::string& family,
               Lines* lines) {
  lines->push_back("--------------- Options for column family [" + family +
                   "]:");
  const Comparator* const comparator =
      options.comparator != nullptr ? options.comparator : BytewiseComparator();
  AddOption("comparator", NameOf(comparator), lines);
  AddOption("merge_operator", NameOf(options.merge_operator), lines);
  AddOption("compaction_filter", NameOf(options.compaction_filter), lines);
  AddOption("compaction_filter_factory",
            NameOf(options.compaction_filter_factory), lines);
  AddOption("memtable_factory", FormatName(options.memtable_format), lines);
  AddOption("table_factory", FormatName(options.table_format), lines);
  AddTable(options.table, lines);
  AddOption("prefix_extractor",
            options.prefix_extractor != nullptr
                ? options.prefix_extractor->Name()
                : "nullptr",
            lines);
  AddFields(Sanitize(options), /*of_family=*/true, lines);
  AddCompression(options, lines);
  std::string collectors;
  for (const std::string& collector : options.deletion_collectors) {
    collectors += collector + ";";
  }
  AddOption("table_properties_collectors", collectors, lines);
}

}  // namespace

void LogDatabaseOptions(const rocksdb_options_t& options, Logger* log) {
  if (log == nullptr) return;
  Lines lines;
  if (ShowsOptions(options)) AddDatabase(options, &lines);
  AddAcceptedOptions(options, /*of_family=*/false, &lines);
  if (options.row_cache != nullptr) AddAccepted("row_cache", "set", &lines);
  if (!options.checksum_handoff_file_types.empty()) {
    AddAccepted("checksum_handoff_file_types", "set", &lines);
  }
  LogLines(lines, log);
}

void LogFamilyOptions(const rocksdb_options_t& options,
                      const std::string& family, Logger* log) {
  if (log == nullptr) return;
  Lines lines;
  if (ShowsOptions(options)) AddFamily(options, family, &lines);
  AddAcceptedOptions(options, /*of_family=*/true, &lines);
  AddAcceptedFields(
      kBlockBasedTableOptionsFields,
      static_cast<const BlockBasedTableOptionsFields*>(&options.table),
      "table_factory.", &lines);
  AddAcceptedObjects(options, &lines);
  LogLines(lines, log);
}

}  // namespace varve::rocksdb_c
