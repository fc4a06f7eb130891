// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/marker.h"

#include <algorithm>
#include <vector>

namespace varve::compat {
namespace {

std::string MarkerPath(const std::string& path) {
  return path + "/" + kMarkerName;
}

}  // namespace

// The engine writes IDENTITY when it first opens a database for writing.
// RocksDB, which also has CURRENT, writes IDENTITY or OPTIONS files.
bool IsLevelDbDirectory(Env* env, const std::string& path) {
  std::vector<std::string> names;
  if (!env->GetChildren(path, &names).ok()) return false;
  const auto has = [&names](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has("CURRENT") && !has("IDENTITY") &&
         std::none_of(names.begin(), names.end(), [](const std::string& name) {
           return name.starts_with("OPTIONS-");
         });
}

Status WriteMarker(Env* env, const std::string& path, bool is_converted) {
  if (env->FileExists(MarkerPath(path)).ok()) return Status::OK();
  std::string text =
      "Varve's replacement of the LevelDB library uses this database.\n"
      "LevelDB itself cannot open it: it returns \"Corruption: VersionEdit:\n"
      "unknown tag\". Do not repair it with LevelDB, which would discard "
      "it.\n\n";
  if (is_converted) {
    text += "LevelDB created the database, and Varve has converted it.\n\n";
  }
  text +=
      "To use the database with LevelDB again, stop the program and run\n"
      "  varve-leveldb --to-leveldb THIS_DIRECTORY NEW_DIRECTORY\n"
      "or write its entries to a text file with\n"
      "  varve export-to --db=THIS_DIRECTORY FILE\n";
  return WriteStringToFile(env, text, MarkerPath(path), /*sync=*/true);
}

void RemoveMarker(Env* env, const std::string& path) {
  if (!env->RemoveFile(MarkerPath(path)).ok()) return;
  // It fails if other files are there, which stay.
  env->RemoveDir(path).IgnoreError();
}

}  // namespace varve::compat
