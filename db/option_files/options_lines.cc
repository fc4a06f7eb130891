// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/option_files/options_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <unordered_map>

#include "db/options/option_text.h"
#include "db/options/options_update.h"
#include "varve/compaction_filter.h"
#include "varve/comparator.h"
#include "varve/merge_operator.h"
#include "varve/rate_limiter.h"
#include "varve/write_buffer_manager.h"

namespace varve {

namespace {

constexpr char kNone[] = "nullptr";
constexpr char kCompressionOptions[] = "compression_opts";
// RocksDB's number for the library's default level, which is 0 in Varve.
constexpr char kDefaultLevel[] = "32767";
// RocksDB's number for the default of an age.
constexpr std::string_view kDefaultAge = "18446744073709551614";

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Returns the position after the brace that ends the text's first one, or npos.
size_t EndOfBraces(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::string_view WithoutBraces(std::string_view text) {
  text = Trimmed(text);
  if (text.starts_with('{') && EndOfBraces(text) == text.size()) {
    text = Trimmed(text.substr(1, text.size() - 2));
  }
  return text;
}

template <typename Object>
std::string NameOrNone(const Object& object) {
  return object == nullptr ? kNone : object->Name();
}

// Escapes a value that would end the line. Only names of the program's objects
// can be such values.
std::string InALine(std::string value) {
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\') {
      ++i;
    } else if (value[i] == '#' || value[i] == '\n' || value[i] == '\r') {
      return EscapeOption(value);
    }
  }
  return value;
}

Status Malformed(const std::string& name, std::string_view value) {
  return Status::InvalidArgument(name, "cannot be " + std::string(value));
}

// Another object than Varve has, or a value of an enumeration that only RocksDB
// has.
Status Unsupported(const ConfigOptions& config, const std::string& name,
                   std::string_view value) {
  return config.ignore_unsupported_options
             ? Status::OK()
             : Status::NotSupported(name, "there is no " + std::string(value));
}

bool IsEnumerator(std::string_view text) {
  return text.size() > 1 && text[0] == 'k' && text[1] >= 'A' && text[1] <= 'Z';
}

// Returns the text of compression_opts with another level.
std::string WithLevel(std::string_view text, const std::string& level) {
  OptionPairs pairs;
  SplitOptions(WithoutBraces(text), &pairs).IgnoreError();
  bool has_level = false;
  std::string result = "{";
  for (auto& [name, value] : pairs) {
    if (name == "level") {
      has_level = true;
      value = level;
    }
    result.append(name).append("=").append(value).append(";");
  }
  if (!has_level) result.append("level=").append(level).append(";");
  return result + "}";
}

// Takes "name=value;..." or, from older versions of RocksDB,
// "window_bits:level:strategy:...".
Status SetCompressionOptions(const std::string& name, std::string_view value,
                             Options* options) {
  std::string text;
  OptionPairs pairs;
  if (value.find('=') == std::string_view::npos) {
    const size_t colon = value.find(':');
    if (colon == std::string_view::npos) return Malformed(name, value);
    value.remove_prefix(colon + 1);
    text = value.substr(0, value.find(':'));
  } else {
    Status status = SplitOptions(value, &pairs);
    if (!status.ok()) return status;
    for (const auto& [field, number] : pairs) {
      if (field == "level") text = number;
    }
    if (text.empty()) return Status::OK();
  }
  return ParseOption(*FindOption("compression_level"),
                     text == kDefaultLevel ? "0" : text, options);
}

Status SetComparator(const ConfigOptions& config, const std::string& name,
                     std::string_view value, Options* options) {
  for (const Comparator* const known :
       {BytewiseComparator(), ReverseBytewiseComparator()}) {
    if (value != known->Name()) continue;
    options->comparator = known;
    return Status::OK();
  }
  return Unsupported(config, name, value);
}

Status SetMergeOperator(const ConfigOptions& config, const std::string& name,
                        std::string_view value, Options* options) {
  if (value == kNone) {
    options->merge_operator = nullptr;
    return Status::OK();
  }
  std::shared_ptr<MergeOperator> known = FindMergeOperator(ObjectName(value));
  if (known == nullptr) return Unsupported(config, name, value);
  OptionPairs pairs;
  if (value.find('=') != std::string_view::npos) {
    Status status = SplitOptions(value, &pairs);
    if (!status.ok()) return status;
  }
  for (const auto& [field, text] : pairs) {
    if (field == "delimiter") {
      known = NewStringAppendOperator(UnescapeOption(text));
    }
  }
  options->merge_operator = std::move(known);
  return Status::OK();
}

// Takes the name of an object that only the program has.
Status SetOwnObject(const ConfigOptions& config, const std::string& name,
                    std::string_view value, Options* options) {
  if (value != kNone) return Unsupported(config, name, value);
  if (name == "compaction_filter") {
    options->compaction_filter = nullptr;
  } else {
    options->compaction_filter_factory = nullptr;
  }
  return Status::OK();
}

Status SetTable(const ConfigOptions& config, const std::string& name,
                std::string_view value, Options* options) {
  constexpr std::string_view kBlockBased = "BlockBasedTable";
  if (value == kBlockBased) return Status::OK();
  OptionPairs pairs;
  if (value.find('=') == std::string_view::npos) {
    return Unsupported(config, name, value);
  }
  Status status = SplitOptions(value, &pairs);
  for (const auto& [field, text] : pairs) {
    if (!status.ok()) break;
    if (field == "id") {
      if (text != kBlockBased) return Unsupported(config, name, text);
      continue;
    }
    status = ApplyLine(config, OptionSection::kTable, field, text, options);
  }
  return status;
}

// Objects that a number of bytes creates.
Status SetFromBytes(const std::string& name, std::string_view value,
                    Options* options) {
  uint64_t bytes = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, bytes);
  if (read.ec != std::errc() || read.ptr != end) return Malformed(name, value);
  if (name == "rate_limiter_bytes_per_sec") {
    return ParseOption(*FindOption("rate_limiter"), value, options);
  }
  if (bytes > 0 && options->write_buffer_manager == nullptr) {
    options->write_buffer_manager = std::make_shared<WriteBufferManager>(bytes);
  }
  return Status::OK();
}

// Takes the options that have no row of their name. Returns NotFound for
// others.
Status SetSpecial(const ConfigOptions& config, OptionSection section,
                  const std::string& name, std::string_view value,
                  Options* options) {
  if (section == OptionSection::kDatabase) {
    return name == "rate_limiter_bytes_per_sec" ||
                   name == "db_write_buffer_size"
               ? SetFromBytes(name, value, options)
               : Status::NotFound();
  }
  if (section == OptionSection::kTable) return Status::NotFound();
  if (name == "comparator") return SetComparator(config, name, value, options);
  if (name == "merge_operator") {
    return SetMergeOperator(config, name, value, options);
  }
  if (name == "compaction_filter" || name == "compaction_filter_factory") {
    return SetOwnObject(config, name, value, options);
  }
  if (name == "table_factory" || name == "block_based_table_factory") {
    return SetTable(config, name, value, options);
  }
  if (name == kCompressionOptions) {
    return SetCompressionOptions(name, value, options);
  }
  return Status::NotFound();
}

// Returns whether this engine decides on the line's value. RocksDB derives
// arena_block_size from write_buffer_size. If that has become smaller, a line
// from before would make each memtable full at once.
bool IsEngines(OptionSection section, const OptionsLine& line) {
  if (line.name == "wal_dir" || line.name == "arena_block_size") return true;
  const OptionRow* const row = FindOption(line.name);
  return row != nullptr && SectionOf(*row) == section;
}

void KeepOthers(OptionSection section, const OptionsLines& earlier,
                OptionsLines* lines) {
  const size_t own_count = lines->size();
  for (const OptionsLine& line : earlier) {
    const auto own = std::find_if(
        lines->begin(), lines->end(),
        [&](const OptionsLine& one) { return one.name == line.name; });
    const bool is_own = own != lines->end();
    if (line.name == kCompressionOptions) {
      std::string level = kDefaultLevel;
      if (is_own) {
        OptionPairs pairs;
        SplitOptions(WithoutBraces(own->value), &pairs).IgnoreError();
        if (!pairs.empty()) level = pairs[0].second;
        own->value = WithLevel(line.value, level);
      } else {
        lines->push_back(line);
        lines->back().value = WithLevel(line.value, level);
      }
    } else if (is_own &&
               static_cast<size_t>(own - lines->begin()) < own_count) {
      // It can have parameters that the engine's object does not show.
      if (line.name == "merge_operator" &&
          ObjectName(line.value) == own->value) {
        own->value = line.value;
      }
    } else if (!is_own && !IsEngines(section, line)) {
      lines->push_back(line);
    }
  }
}

// Returns the numbers of "7.8.3".
std::array<int, 3> VersionNumbers(std::string_view text) {
  std::array<int, 3> numbers = {};
  for (int& number : numbers) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc()) break;
    text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
  }
  return numbers;
}

}  // namespace

std::string ObjectName(std::string_view value) {
  value = WithoutBraces(value);
  constexpr std::string_view kId = "id=";
  if (value.starts_with(kId)) {
    value = value.substr(kId.size(), value.find(';') - kId.size());
  }
  return std::string(Trimmed(value));
}

OptionsLines LinesOf(OptionSection section, const Options& options) {
  OptionsLines lines;
  const auto add = [&](const std::string& name, std::string value) {
    lines.push_back({name, InALine(std::move(value)),
                     /*is_own=*/!RocksDbHas(section, name)});
  };
  for (const OptionRow& row : kOptionTable) {
    if (SectionOf(row) != section) continue;
    std::optional<std::string> text = OptionText(row, options);
    if (!text) continue;
    if (std::string_view(row.name) != "compression_level") {
      add(row.name, std::move(*text));
    } else if (*text != "0") {
      add(kCompressionOptions, "{level=" + *text + ";}");
    }
  }
  if (section == OptionSection::kFamily) {
    add("comparator", NameOrNone(options.comparator));
    add("merge_operator", options.merge_operator == nullptr
                              ? kNone
                              : options.merge_operator->OptionsText());
    add("compaction_filter", NameOrNone(options.compaction_filter));
    add("compaction_filter_factory",
        NameOrNone(options.compaction_filter_factory));
    add("table_factory", "BlockBasedTable");
  }
  return lines;
}

OptionsDocument::Family FamilyLinesOf(const std::string& name,
                                      const Options& options) {
  return {name, LinesOf(OptionSection::kFamily, options),
          LinesOf(OptionSection::kTable, options)};
}

Status ApplyLine(const ConfigOptions& config, OptionSection section,
                 const std::string& name, std::string_view value,
                 Options* options) {
  value = WithoutBraces(value);
  Status status = SetSpecial(config, section, name, value, options);
  if (!status.IsNotFound()) return status;
  const OptionRow* const row = FindOption(name);
  if (row != nullptr && (SectionOf(*row) == section ||
                         (SectionOf(*row) == OptionSection::kTable &&
                          section == OptionSection::kFamily))) {
    if ((name == "ttl" || name == "periodic_compaction_seconds") &&
        value == kDefaultAge) {
      value = "0";
    }
    status = ParseOption(*row, value, options);
    return !status.ok() && IsEnumerator(value)
               ? Unsupported(config, name, value)
               : status;
  }
  if (config.ignore_unknown_options || RocksDbHas(section, name)) {
    return Status::OK();
  }
  return Status::InvalidArgument(name, "is no option");
}

OptionSection SectionOfName(std::string_view name) {
  const OptionRow* const row = FindOption(name);
  const bool is_database = row != nullptr
                               ? !row->of_family
                               : RocksDbHas(OptionSection::kDatabase, name);
  return is_database ? OptionSection::kDatabase : OptionSection::kFamily;
}

void KeepOtherLines(const OptionsDocument& earlier, OptionsDocument* document) {
  if (VersionNumbers(earlier.version) > VersionNumbers(document->version)) {
    document->version = earlier.version;
  }
  KeepOthers(OptionSection::kDatabase, earlier.database, &document->database);
  std::unordered_map<std::string_view, const OptionsDocument::Family*> families;
  for (const OptionsDocument::Family& one : earlier.families) {
    families[one.name] = &one;
  }
  for (OptionsDocument::Family& family : document->families) {
    const auto found = families.find(family.name);
    if (found == families.end()) continue;
    KeepOthers(OptionSection::kFamily, found->second->lines, &family.lines);
    KeepOthers(OptionSection::kTable, found->second->table, &family.table);
  }
}

Status SplitOptions(std::string_view text, OptionPairs* pairs) {
  pairs->clear();
  text = Trimmed(text);
  while (!text.empty()) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
      return Status::InvalidArgument("options have no '='", text);
    }
    const std::string_view name = Trimmed(text.substr(0, equals));
    if (name.empty()) {
      return Status::InvalidArgument("an option has no name", text);
    }
    text = Trimmed(text.substr(equals + 1));
    size_t end = std::min(text.find(';'), text.size());
    std::string_view value = Trimmed(text.substr(0, end));
    if (text.starts_with('{')) {
      const size_t closed = EndOfBraces(text);
      if (closed == std::string_view::npos) {
        return Status::InvalidArgument("braces do not match", text);
      }
      value = Trimmed(text.substr(1, closed - 2));
      end = closed;
      const std::string_view rest = Trimmed(text.substr(closed));
      if (!rest.empty() && rest[0] != ';') {
        return Status::InvalidArgument("text after braces", rest);
      }
      if (!rest.empty()) end = static_cast<size_t>(rest.data() - text.data());
    }
    pairs->emplace_back(name, value);
    text = Trimmed(text.substr(std::min(end + 1, text.size())));
  }
  return Status::OK();
}

}  // namespace varve
