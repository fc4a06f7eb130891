// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/options_text.h"

#include <rocksdb/c.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "compat/rocksdb/options/enum_names.h"
#include "compat/rocksdb/options/option_facts.h"
#include "varve/comparator.h"
#include "varve/filter_policy.h"

namespace varve::rocksdb_c {
namespace {

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return "";
  return std::string(
      text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1));
}

// Returns the position after the brace that ends the value at `begin`, or npos.
size_t EndOfBraces(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::vector<std::string> SplitAtColons(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Status Malformed(const std::string& name) {
  return Status::InvalidArgument("Error parsing " + name);
}

Status SetNumbers(const std::string& name, const std::string& value,
                  std::vector<int>* numbers) {
  std::vector<int> parsed;
  for (const std::string& part : SplitAtColons(value)) {
    int number;
    if (!ParseField(part, &number)) return Malformed(name);
    parsed.push_back(number);
  }
  *numbers = std::move(parsed);
  return Status::OK();
}

// Sets the fields of a struct from "name=value;...".
template <typename Fields, size_t kCount>
Status SetFields(const std::string& text, const Field (&list)[kCount],
                 Fields* fields) {
  TextPairs pairs;
  Status status = SplitOptions(text, &pairs);
  for (const auto& [name, value] : pairs) {
    if (!status.ok()) break;
    const auto* const field =
        std::find_if(std::begin(list), std::end(list),
                     [&](const Field& one) { return name == one.name; });
    if (field != std::end(list) && !field->parse(fields, value)) {
      status = Malformed(name);
    }
  }
  return status;
}

// Takes "level:...", in which the first three are window_bits, level and
// strategy, or "{name=value;...}".
Status SetParameters(const std::string& name, const std::string& text,
                     CompressionParameters* parameters) {
  const std::pair<const char*, int*> numbers[] = {
      {"window_bits", &parameters->window_bits},
      {"level", &parameters->level},
      {"strategy", &parameters->strategy},
      {"max_dict_bytes", &parameters->max_dict_bytes},
      {"zstd_max_train_bytes", &parameters->zstd_max_train_bytes},
  };
  if (text.find('=') == std::string::npos) {
    const std::vector<std::string> parts = SplitAtColons(text);
    if (parts.size() < 3) return Malformed(name);
    for (size_t i = 0; i < std::min(parts.size(), std::size(numbers)); ++i) {
      if (!ParseField(parts[i], numbers[i].second)) return Malformed(name);
    }
    return Status::OK();
  }
  TextPairs pairs;
  Status status = SplitOptions(text, &pairs);
  if (!status.ok()) return status;
  for (const auto& [key, value] : pairs) {
    for (const auto& [field, number] : numbers) {
      if (key == field && !ParseField(value, number)) return Malformed(name);
    }
    if (key == "enabled") parameters->enabled = value == "true" || value == "1";
  }
  return status;
}

// Takes the value of prefix_extractor. One that is unknown gives none, as with
// RocksDB's own function.
void SetPrefixExtractor(const std::string& value, rocksdb_options_t* options) {
  Options parsed;
  if (!SetOption("prefix_extractor", value, &parsed).ok()) {
    parsed.prefix_extractor.reset();
  }
  options->prefix_extractor = std::move(parsed.prefix_extractor);
}

Status SetTableFactory(const std::string& text, rocksdb_options_t* options) {
  if (text == "PlainTable" || text.starts_with("id=PlainTable")) {
    options->table_format = TableFormat::kPlain;
    return Status::OK();
  }
  if (text == "CuckooTable" || text.starts_with("id=CuckooTable")) {
    options->table_format = TableFormat::kCuckoo;
    return Status::OK();
  }
  options->table_format = TableFormat::kBlockBased;
  if (text == "BlockBasedTable") return Status::OK();
  TextPairs pairs;
  Status status = SplitOptions(text, &pairs);
  for (const auto& [name, value] : pairs) {
    if (status.ok()) {
      status = SetTableOptionFromText(name, value, &options->table);
    }
  }
  return status;
}

void SetComparator(const std::string& value, rocksdb_options_t* options) {
  // RocksDB leaves an unknown name alone, too.
  if (value == "rocksdb.ReverseBytewiseComparator") {
    options->comparator = ReverseBytewiseComparator();
  } else if (value == "leveldb.BytewiseComparator") {
    options->comparator = nullptr;
  }
}

void SetMergeOperator(const std::string& value, rocksdb_options_t* options) {
  if (value == "uint64add" || value == "UInt64AddOperator" ||
      value.starts_with("id=UInt64AddOperator")) {
    rocksdb_options_set_uint64add_merge_operator(options);
  }
}

Status SetRateLimiter(const std::string& name, const std::string& value,
                      rocksdb_options_t* options) {
  uint64_t bytes;
  if (!ParseField(value, &bytes)) return Malformed(name);
  if (bytes > 0) options->rate_limiter = NewGenericRateLimiter(bytes);
  return Status::OK();
}

// Options that are not plain fields.
struct ObjectOption {
  std::string_view name;
  Status (*set)(const std::string& name, const std::string& value,
                rocksdb_options_t* options);
};
constexpr ObjectOption kObjectOptions[] = {
    {"block_based_table_factory",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       return SetTableFactory(value, o);
     }},
    {"table_factory",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       return SetTableFactory(value, o);
     }},
    {"compression_opts",
     [](const std::string& name, const std::string& value,
        rocksdb_options_t* o) {
       return SetParameters(name, value, &o->compression_parameters);
     }},
    {"bottommost_compression_opts",
     [](const std::string& name, const std::string& value,
        rocksdb_options_t* o) {
       return SetParameters(name, value, &o->bottommost_compression_parameters);
     }},
    {"compression_per_level",
     [](const std::string& name, const std::string& value,
        rocksdb_options_t* o) {
       return SetNumbers(name, value, &o->compression_per_level);
     }},
    {"max_bytes_for_level_multiplier_additional",
     [](const std::string& name, const std::string& value,
        rocksdb_options_t* o) {
       return SetNumbers(name, value,
                         &o->max_bytes_for_level_multiplier_additional);
     }},
    {"compaction_options_universal",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       return SetFields<UniversalCompactionOptionsFields>(
           value, kUniversalCompactionOptionsFields, &o->universal_compaction);
     }},
    {"compaction_options_fifo",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       return SetFields<FifoCompactionOptionsFields>(
           value, kFifoCompactionOptionsFields, &o->fifo_compaction);
     }},
    {"prefix_extractor",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       SetPrefixExtractor(value, o);
       return Status::OK();
     }},
    {"comparator",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       SetComparator(value, o);
       return Status::OK();
     }},
    {"merge_operator",
     [](const std::string&, const std::string& value, rocksdb_options_t* o) {
       SetMergeOperator(value, o);
       return Status::OK();
     }},
    {"rate_limiter_bytes_per_sec", SetRateLimiter},
};

// Objects without a text form here, and options of the past.
constexpr std::string_view kIgnored[] = {
    "memtable",
    "memtable_factory",
    "memtable_insert_with_hint_prefix_extractor",
    "compaction_filter",
    "compaction_filter_factory",
    "table_properties_collectors",
    "sst_partitioner_factory",
    "file_checksum_gen_factory",
    "statistics",
    "listeners",
    "env",
    "wal_filter",
    "blob_cache",
    "blob_compression_opts",
    "compression_manager",
    "blob_direct_write_partition_strategy",
    "seq_per_batch",
    "fail_if_options_file_error",
    "purge_redundant_kvs_while_flush",
    "max_mem_compaction_level",
    "verify_checksums_in_compaction",
    "soft_rate_limit",
    "hard_rate_limit",
    "rate_limit_delay_max_milliseconds",
    "bottommost_temperature",
    "memtable_veirfy_per_key_checksum_on_seek",
    "random_access_max_buffer_size",
    "preserve_deletes",
    "skip_log_error_on_recovery",
    "skip_checking_sst_file_sizes_on_db_open",
    "new_table_reader_for_compaction_inputs",
    "base_background_compactions",
    "access_hint_on_compaction_start",
};

Status SetObject(const std::string& name, const std::string& value,
                 rocksdb_options_t* options) {
  for (const ObjectOption& one : kObjectOptions) {
    if (name == one.name) return one.set(name, value, options);
  }
  return std::find(std::begin(kIgnored), std::end(kIgnored), name) !=
                 std::end(kIgnored)
             ? Status::OK()
             : Status::NotFound(name);
}

Status SetBlockCache(const std::string& name, const std::string& value,
                     rocksdb_block_based_table_options_t* table) {
  if (value == "nullptr") return Status::OK();
  // A number of bytes, or "capacity=...;...".
  TextPairs pairs = {{"capacity", value}};
  if (value.find('=') != std::string::npos) {
    Status status = SplitOptions(value, &pairs);
    if (!status.ok()) return status;
  }
  for (const auto& [key, text] : pairs) {
    size_t bytes;
    if (key != "capacity") continue;
    if (!ParseField(text, &bytes)) return Malformed(name);
    table->block_cache = NewBlockCache(bytes);
  }
  return Status::OK();
}

// Takes "bloomfilter:10:false", "ribbonfilter:10:0", or another text for none.
void SetFilterPolicy(const std::string& value,
                     rocksdb_block_based_table_options_t* table) {
  const std::vector<std::string> parts = SplitAtColons(value);
  double bits;
  table->filter_policy.reset();
  if (parts.size() >= 2 && parts[0].find("filter") != std::string::npos &&
      ParseField(parts[1], &bits)) {
    table->filter_policy = NewBloomFilterPolicy(bits);
    table->has_ribbon_filter = parts[0].starts_with("ribbon");
  }
}

}  // namespace

Status SplitOptions(const std::string& text, TextPairs* pairs) {
  pairs->clear();
  std::string rest = Trimmed(text);
  while (!rest.empty()) {
    const size_t equals = rest.find('=');
    if (equals == std::string::npos) {
      return Status::InvalidArgument("Mismatched key value pair, '=' expected");
    }
    const std::string name = Trimmed(rest.substr(0, equals));
    if (name.empty()) return Status::InvalidArgument("Empty key found");
    rest = Trimmed(rest.substr(equals + 1));
    std::string value;
    if (rest.starts_with('{')) {
      const size_t end = EndOfBraces(rest, 0);
      if (end == std::string::npos) {
        return Status::InvalidArgument(
            "Mismatched curly braces for nested options");
      }
      value = Trimmed(rest.substr(1, end - 2));
      rest = Trimmed(rest.substr(end));
      if (!rest.empty() && rest[0] != ';') {
        return Status::InvalidArgument("Unexpected chars after nested options");
      }
      if (!rest.empty()) rest.erase(0, 1);
    } else {
      const size_t end = std::min(rest.find(';'), rest.size());
      value = Trimmed(rest.substr(0, end));
      rest.erase(0, std::min(end + 1, rest.size()));
    }
    rest = Trimmed(rest);
    pairs->emplace_back(name, std::move(value));
  }
  return Status::OK();
}

const Field* FindOption(const std::string& name) {
  const std::string own = FieldOfSpelling(name);
  for (const Field& field : kOptionsFields) {
    if (own == field.name) return &field;
  }
  return nullptr;
}

Status SetOptionFromText(const std::string& name, const std::string& value,
                         rocksdb_options_t* options) {
  if (value.starts_with('{') && value.ends_with('}')) {
    return SetOptionFromText(name, value.substr(1, value.size() - 2), options);
  }
  const Field* const field = FindOption(name);
  if (field == nullptr) return SetObject(name, value, options);
  return field->parse(static_cast<OptionsFields*>(options), value)
             ? Status::OK()
             : Malformed(name);
}

Status SetTableOptionFromText(const std::string& name, const std::string& value,
                              rocksdb_block_based_table_options_t* table) {
  auto* const fields = static_cast<BlockBasedTableOptionsFields*>(table);
  for (const Field& field : kBlockBasedTableOptionsFields) {
    if (name != field.name) continue;
    return field.parse(fields, value) ? Status::OK() : Malformed(name);
  }
  if (name == "block_cache") return SetBlockCache(name, value, table);
  if (name == "filter_policy") {
    SetFilterPolicy(value, table);
    return Status::OK();
  }
  constexpr std::string_view kWithoutField[] = {
      "id",
      "metadata_cache_options",
      "cache_usage_options",
      "flush_block_policy_factory",
      "persistent_cache",
      "hash_index_allow_collision",
      "user_defined_index_factory",
      "enable_index_compression",
      "block_cache_compressed",
  };
  return std::find(std::begin(kWithoutField), std::end(kWithoutField), name) !=
                 std::end(kWithoutField)
             ? Status::OK()
             : Status::NotFound(name);
}

Status UnknownOption(const std::string& name) {
  return Status::InvalidArgument("Extra option not recognized", name);
}

}  // namespace varve::rocksdb_c
