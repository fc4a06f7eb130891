// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/marker.h"

#include <algorithm>
#include <vector>

namespace varve::compat {
namespace {

// The engine creates these when it converts a database of LevelDB, and removes
// them with any database. See db/recovery/leveldb_guard.h.
constexpr const char* kGuardDirectories[] = {"000001.dbtmp", "CURRENT.1"};
constexpr char kGuardFile[] = "+0.ldb";
constexpr char kGuardText[] =
    "It makes the repair functions of LevelDB and goleveldb fail, which would\n"
    "destroy this database. See VARVE.txt.\n";

std::string MarkerPath(const std::string& path) {
  return path + "/" + kMarkerName;
}

Status WriteGuard(Env* env, const std::string& path) {
  const std::string file = path + "/" + kGuardFile;
  if (env->FileExists(file).ok()) return Status::OK();
  Status status;
  for (const char* const name : kGuardDirectories) {
    const std::string directory = path + "/" + name;
    if (status.ok()) status = env->CreateDirIfMissing(directory);
    if (status.ok()) {
      status = WriteStringToFile(env, kGuardText, directory + "/README.txt",
                                 /*sync=*/false);
    }
  }
  if (!status.ok()) return status;
  return WriteStringToFile(env, kGuardText, file, /*sync=*/false);
}

}  // namespace

// The engine writes IDENTITY when it first opens a database for writing.
// RocksDB, which also has CURRENT, writes IDENTITY or OPTIONS files.
bool IsLevelDbDirectory(Env* env, const std::string& path) {
  if (env->FileExists(path + "/IDENTITY").ok()) return false;
  std::vector<std::string> names;
  if (!env->GetChildren(path, &names).ok()) return false;
  const auto has = [&names](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has("CURRENT") &&
         std::none_of(names.begin(), names.end(), [](const std::string& name) {
           return name.starts_with("OPTIONS-");
         });
}

Status WriteMarker(Env* env, const std::string& path, bool is_converted) {
  Status status = WriteGuard(env, path);
  if (!status.ok() || env->FileExists(MarkerPath(path)).ok()) return status;
  std::string text =
      "Varve's replacement of the LevelDB library uses this database.\n"
      "LevelDB itself cannot open it: it returns \"Corruption: VersionEdit:\n"
      "unknown tag\". Do not repair it with LevelDB or goleveldb, which would\n"
      "discard it. 000001.dbtmp, CURRENT.1 and +0.ldb make their repair\n"
      "functions fail. If files are in lost/ after such a repair, stop the\n"
      "program and run\n"
      "  varve repair --db=THIS_DIRECTORY\n\n";
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
