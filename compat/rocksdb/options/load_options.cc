// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions that read the newest OPTIONS file of a database, which RocksDB or
// the engine wrote. The engine's LoadLatestOptions would leave out the options
// that only RocksDB has.

#include <rocksdb/c.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/options/options.h"
#include "compat/rocksdb/options/options_text.h"
#include "varve/convert.h"

using varve::Env;
using varve::Status;
using varve::rocksdb_c::CopyBytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::SetOptionFromText;
using varve::rocksdb_c::SetTableOptionFromText;
using varve::rocksdb_c::UnknownOption;
using varve::rocksdb_c::Usable;

namespace {

struct Family {
  std::string name;
  std::unique_ptr<rocksdb_options_t> options;
};

struct Loaded {
  std::unique_ptr<rocksdb_options_t> database;
  std::vector<Family> families;
};

// Finds the file with the highest number.
Status FindFile(Env* env, const std::string& directory, std::string* path) {
  std::string name;
  Status status = varve::GetLatestOptionsFileName(directory, env, &name);
  if (status.IsNotFound()) {
    status = Status::NotFound("No options files found in the DB directory.",
                              directory);
  }
  *path = directory + "/" + name;
  return status;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && isspace(static_cast<unsigned char>(text[0])) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() &&
         isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

// Removes the backslashes before characters that have a meaning in the file.
std::string Unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    ++i;
    result += text[i] == 'n' ? '\n' : text[i] == 'r' ? '\r' : text[i];
  }
  return result;
}

// Removes a comment, which begins at a '#' without a backslash before it.
std::string_view WithoutComment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

// Reads the sections of a file.
class Reader {
 public:
  explicit Reader(bool ignore_unknown_options)
      : ignore_unknown_(ignore_unknown_options) {
    loaded_.database = std::make_unique<rocksdb_options_t>();
  }

  Status Read(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line =
          Trimmed(WithoutComment(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.empty()) continue;
      Status status = line.front() == '[' && line.back() == ']'
                          ? BeginSection(line.substr(1, line.size() - 2))
                          : SetOption(line);
      if (!status.ok()) return status;
    }
    if (loaded_.families.empty()) {
      return Status::Corruption(
          "A RocksDB Option file must have a single DBOptions section and the "
          "default column family");
    }
    return Status::OK();
  }

  Loaded Take() { return std::move(loaded_); }

 private:
  enum class Section { kOther, kDatabase, kFamily, kTable };

  // Takes the text between the brackets, such as CFOptions "default".
  Status BeginSection(std::string_view text) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view kind = text.substr(0, space);
    std::string_view name = Trimmed(text.substr(space));
    if (name.size() >= 2 && name.front() == '"' && name.back() == '"') {
      name = name.substr(1, name.size() - 2);
    }
    section_ = Section::kOther;
    if (kind == "DBOptions") section_ = Section::kDatabase;
    if (kind == "CFOptions") {
      section_ = Section::kFamily;
      loaded_.families.push_back(
          {Unescaped(name), std::make_unique<rocksdb_options_t>()});
    }
    if (kind.starts_with("TableOptions/")) {
      if (loaded_.families.empty() ||
          loaded_.families.back().name != Unescaped(name)) {
        return Status::InvalidArgument(
            "A section of table options is not "
            "after its column family",
            text);
      }
      if (kind == "TableOptions/BlockBasedTable") section_ = Section::kTable;
    }
    return Status::OK();
  }

  Status SetOption(std::string_view line) {
    if (section_ == Section::kOther) return Status::OK();
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return Status::InvalidArgument("A line has no '='", line);
    }
    const std::string name(Trimmed(line.substr(0, equals)));
    const std::string value = Unescaped(Trimmed(line.substr(equals + 1)));
    Status status;
    switch (section_) {
      case Section::kDatabase:
        status = SetOptionFromText(name, value, loaded_.database.get());
        break;
      case Section::kFamily:
        status = SetOptionFromText(name, value,
                                   loaded_.families.back().options.get());
        break;
      case Section::kTable:
        status = SetTableOptionFromText(
            name, value, &loaded_.families.back().options->table);
        break;
      case Section::kOther:
        break;
    }
    if (status.IsNotFound()) {
      status = ignore_unknown_ ? Status::OK() : UnknownOption(name);
    }
    return status;
  }

  const bool ignore_unknown_;
  Section section_ = Section::kOther;
  Loaded loaded_;
};

}  // namespace

extern "C" {

void rocksdb_load_latest_options(
    const char* db_path, rocksdb_env_t* env, bool ignore_unknown_options,
    rocksdb_cache_t* cache, rocksdb_options_t** db_options,
    size_t* num_column_families, char*** column_family_names,
    rocksdb_options_t*** column_family_options, char** errptr) {
  if (!Usable(errptr, Given{db_options, "db_options"},
              Given{num_column_families, "num_column_families"},
              Given{column_family_names, "column_family_names"},
              Given{column_family_options, "column_family_options"})) {
    return;
  }
  *db_options = nullptr;
  *num_column_families = 0;
  *column_family_names = nullptr;
  *column_family_options = nullptr;
  if (!Usable(errptr, Given{db_path, "db_path"}, Given{env, "env"})) return;
  std::string path;
  std::string text;
  Reader reader(ignore_unknown_options);
  Status status = FindFile(env->rep.get(), db_path, &path);
  if (status.ok()) status = ReadFileToString(env->rep.get(), path, &text);
  if (status.ok()) status = reader.Read(text);
  if (Failed(errptr, status)) return;

  Loaded loaded = reader.Take();
  const size_t count = loaded.families.size();
  *db_options = loaded.database.release();
  *num_column_families = count;
  *column_family_names = static_cast<char**>(malloc(count * sizeof(char*)));
  *column_family_options = static_cast<rocksdb_options_t**>(
      malloc(count * sizeof(rocksdb_options_t*)));
  for (size_t i = 0; i < count; ++i) {
    Family& family = loaded.families[i];
    if (cache != nullptr) family.options->table.block_cache = cache->rep;
    (*column_family_names)[i] = CopyBytes(family.name);
    (*column_family_options)[i] = family.options.release();
  }
}

void rocksdb_load_latest_options_destroy(
    rocksdb_options_t* db_options, char** list_column_family_names,
    rocksdb_options_t** list_column_family_options, size_t len) {
  rocksdb_options_destroy(db_options);
  for (size_t i = 0; i < len; ++i) {
    if (list_column_family_names != nullptr) free(list_column_family_names[i]);
    if (list_column_family_options != nullptr) {
      rocksdb_options_destroy(list_column_family_options[i]);
    }
  }
  free(list_column_family_names);
  free(list_column_family_options);
}

}  // extern "C"
