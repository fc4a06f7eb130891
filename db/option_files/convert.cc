// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/convert.h"

#include <algorithm>
#include <map>
#include <utility>

#include "db/option_files/newest_options.h"
#include "db/option_files/options_document.h"
#include "db/option_files/options_lines.h"
#include "db/options/options_check.h"

namespace varve {

namespace {

// Sets the options of the section, and checks their bounds.
Status ApplyAll(const ConfigOptions& config, OptionSection section,
                const OptionPairs& pairs, Options* options) {
  for (const auto& [name, value] : pairs) {
    Status status = ApplyLine(config, section, name, value, options);
    if (!status.ok()) return status;
  }
  return CheckOptions(*options);
}

OptionPairs PairsOf(const OptionsMap& changes) {
  OptionPairs pairs(changes.begin(), changes.end());
  std::sort(pairs.begin(), pairs.end());  // So that errors do not vary.
  return pairs;
}

Status ApplyToDatabase(const ConfigOptions& config, const DBOptions& base,
                       const OptionPairs& pairs, DBOptions* result) {
  Options options(base, ColumnFamilyOptions());
  Status status = ApplyAll(config, OptionSection::kDatabase, pairs, &options);
  if (status.ok()) *result = options;
  return status;
}

Status ApplyToFamily(const ConfigOptions& config,
                     const ColumnFamilyOptions& base, const OptionPairs& pairs,
                     ColumnFamilyOptions* result) {
  Options options(DBOptions(), base);
  Status status = ApplyAll(config, OptionSection::kFamily, pairs, &options);
  if (status.ok()) *result = options;
  return status;
}

void Append(const ConfigOptions& config, const OptionsLines& lines,
            std::string* text) {
  for (const OptionsLine& line : lines) {
    text->append(line.name).append("=").append(line.value);
    text->append(config.delimiter);
  }
}

// Sets the options of a part of a file.
Status ApplyLines(const ConfigOptions& config, const std::string& path,
                  OptionSection section, const OptionsLines& lines,
                  Options* options) {
  for (const OptionsLine& line : lines) {
    Status status = ApplyLine(config, section, line.name, line.value, options);
    if (!status.ok()) {
      return status.Annotate(path + ":" + std::to_string(line.line_number));
    }
  }
  return Status::OK();
}

Status Load(const ConfigOptions& config, const std::string& path,
            DBOptions* db_options,
            std::vector<ColumnFamilyDescriptor>* families) {
  families->clear();
  OptionsDocument document;
  Status status = ReadOptionsDocument(config.env, path, &document);
  Options database;
  if (status.ok()) {
    status = ApplyLines(config, path, OptionSection::kDatabase,
                        document.database, &database);
  }
  std::vector<ColumnFamilyDescriptor> loaded;
  for (const OptionsDocument::Family& family : document.families) {
    Options options;
    if (status.ok()) {
      status = ApplyLines(config, path, OptionSection::kFamily, family.lines,
                          &options);
    }
    if (status.ok()) {
      status = ApplyLines(config, path, OptionSection::kTable, family.table,
                          &options);
    }
    if (!status.ok()) return status;
    ClampNumbers(&options);
    loaded.emplace_back(family.name, options);
  }
  if (!status.ok()) return status;
  ClampNumbers(&database);
  *db_options = database;
  *families = std::move(loaded);
  return status;
}

// Returns InvalidArgument if both name an object, and not the same one.
Status CompareObjects(const std::string& family, const std::string& name,
                      const OptionsLines& stored, const OptionsLines& given) {
  constexpr const char* kNone = "nullptr";
  const OptionsLine* const one = FindLine(stored, name);
  const OptionsLine* const other = FindLine(given, name);
  if (one == nullptr || other == nullptr) return Status::OK();
  const std::string stored_name = ObjectName(one->value);
  const std::string given_name = ObjectName(other->value);
  if (stored_name == given_name || stored_name == kNone) return Status::OK();
  return Status::InvalidArgument(
      "column family " + family,
      name + " is " + given_name + ", the database's is " + stored_name);
}

}  // namespace

Status GetDBOptionsFromMap(const ConfigOptions& config, const DBOptions& base,
                           const OptionsMap& changes, DBOptions* result) {
  return ApplyToDatabase(config, base, PairsOf(changes), result);
}

Status GetDBOptionsFromString(const ConfigOptions& config,
                              const DBOptions& base, const std::string& text,
                              DBOptions* result) {
  OptionPairs pairs;
  Status status = SplitOptions(text, &pairs);
  return status.ok() ? ApplyToDatabase(config, base, pairs, result) : status;
}

Status GetColumnFamilyOptionsFromMap(const ConfigOptions& config,
                                     const ColumnFamilyOptions& base,
                                     const OptionsMap& changes,
                                     ColumnFamilyOptions* result) {
  return ApplyToFamily(config, base, PairsOf(changes), result);
}

Status GetColumnFamilyOptionsFromString(const ConfigOptions& config,
                                        const ColumnFamilyOptions& base,
                                        const std::string& text,
                                        ColumnFamilyOptions* result) {
  OptionPairs pairs;
  Status status = SplitOptions(text, &pairs);
  return status.ok() ? ApplyToFamily(config, base, pairs, result) : status;
}

Status GetOptionsFromString(const ConfigOptions& config, const Options& base,
                            const std::string& text, Options* result) {
  OptionPairs pairs;
  Options options = base;
  Status status = SplitOptions(text, &pairs);
  for (const auto& [name, value] : pairs) {
    if (!status.ok()) return status;
    status = ApplyLine(config, SectionOfName(name), name, value, &options);
  }
  if (status.ok()) status = CheckOptions(options);
  if (status.ok()) *result = options;
  return status;
}

Status GetStringFromDBOptions(const ConfigOptions& config,
                              const DBOptions& options, std::string* text) {
  text->clear();
  Append(config,
         LinesOf(OptionSection::kDatabase,
                 Options(options, ColumnFamilyOptions())),
         text);
  return Status::OK();
}

Status GetStringFromColumnFamilyOptions(const ConfigOptions& config,
                                        const ColumnFamilyOptions& options,
                                        std::string* text) {
  ConfigOptions nested = config;
  nested.delimiter = ";";
  text->clear();
  const Options all(DBOptions(), options);
  Append(config, LinesOf(OptionSection::kFamily, all), text);
  text->append("block_based_table_factory={");
  Append(nested, LinesOf(OptionSection::kTable, all), text);
  text->append("}").append(config.delimiter);
  return Status::OK();
}

Status StringToMap(const std::string& text, OptionsMap* map) {
  OptionPairs pairs;
  Status status = SplitOptions(text, &pairs);
  map->clear();
  if (!status.ok()) return status;
  for (auto& [name, value] : pairs) (*map)[name] = std::move(value);
  return status;
}

Status GetLatestOptionsFileName(const std::string& path, Env* env,
                                std::string* name) {
  name->clear();
  return FindNewestOptions(env, path, name);
}

Status LoadLatestOptions(const ConfigOptions& config, const std::string& path,
                         DBOptions* db_options,
                         std::vector<ColumnFamilyDescriptor>* families) {
  std::string name;
  Status status = GetLatestOptionsFileName(path, config.env, &name);
  if (!status.ok()) return status;
  return Load(config, path + "/" + name, db_options, families);
}

Status LoadOptionsFromFile(const ConfigOptions& config, const std::string& file,
                           DBOptions* db_options,
                           std::vector<ColumnFamilyDescriptor>* families) {
  return Load(config, file, db_options, families);
}

Status CheckOptionsCompatibility(
    const ConfigOptions& config, const std::string& path,
    const DBOptions& db_options,
    const std::vector<ColumnFamilyDescriptor>& families) {
  std::string name;
  OptionsDocument document;
  Status status = GetLatestOptionsFileName(path, config.env, &name);
  if (status.ok()) {
    status = ReadOptionsDocument(config.env, path + "/" + name, &document);
  }
  if (!status.ok()) return status;
  std::map<std::string, const ColumnFamilyOptions*> given;
  for (const ColumnFamilyDescriptor& one : families) {
    given[one.name] = &one.options;
  }
  for (const OptionsDocument::Family& family : document.families) {
    const auto found = given.find(family.name);
    if (found == given.end()) {
      return Status::InvalidArgument("column family " + family.name,
                                     "is the database's, and not given");
    }
    const OptionsLines lines =
        LinesOf(OptionSection::kFamily, Options(db_options, *found->second));
    for (const char* const object :
         {"comparator", "merge_operator", "table_factory"}) {
      status = CompareObjects(family.name, object, family.lines, lines);
      if (!status.ok()) return status;
    }
    given.erase(found);
  }
  if (given.empty() || db_options.create_missing_column_families) {
    return Status::OK();
  }
  return Status::InvalidArgument("column family " + given.begin()->first,
                                 "is not the database's");
}

}  // namespace varve
