// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/unsupported_wal.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "env/file_names.h"

namespace varve {

namespace {

// RocksDB's options files have a few KB.
constexpr uint64_t kMaxOptionsBytes = 1 << 20;

// Returns the value of the field, which begins a line, or "" if it is missing.
std::string FindField(std::string_view options, std::string_view name) {
  const std::string field = std::string(name) + "=";
  while (!options.empty()) {
    const size_t end = options.find('\n');
    std::string_view line = options.substr(0, end);
    options.remove_prefix(end == std::string_view::npos ? options.size()
                                                        : end + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(field)) continue;
    std::string value;
    for (size_t i = field.size(); i < line.size(); ++i) {
      // Characters that would end the value are escaped.
      if (line[i] == '\\' && i + 1 < line.size()) ++i;
      value += line[i];
    }
    return value;
  }
  return "";
}

}  // namespace

Status CheckLogDirectory(Env* env, const std::string& db_path,
                         uint64_t options_number, uint64_t first_log) {
  const std::string path = OptionsFileName(db_path, options_number);
  uint64_t size = 0;
  std::string options;
  if (!env->GetFileSize(path, &size).ok() || size > kMaxOptionsBytes ||
      !ReadFileToString(env, path, &options).ok()) {
    return Status::OK();
  }
  const std::string directory = FindField(options, "wal_dir");
  std::vector<std::string> names;
  if (directory.empty() || env->FileExists(CurrentFileName(directory)).ok() ||
      !env->GetChildren(directory, &names).ok()) {
    return Status::OK();
  }
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(name, &number, &type) || type != FileKind::kWal ||
        number < first_log) {
      continue;
    }
    const std::string log = directory + "/" + name;
    if (env->GetFileSize(log, &size).ok() && size > 0) {
      return Status::NotSupported(
          path, "a directory for the logs (wal_dir), with updates in " + log);
    }
  }
  return Status::OK();
}

}  // namespace varve
