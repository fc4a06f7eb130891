// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts that the tests of LevelDB's interface share. They see LevelDB's
// headers only.

#include <gtest/gtest.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace leveldb_test {

// Returns true if the process runs with Varve's library.
inline bool RunsOnVarve() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find(VARVE_LEVELDB_DIRECTORY "/lib") != line.npos) return true;
  }
  return false;
}

// A directory that is removed with its content.
class TestDirectory {
 public:
  TestDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "leveldb_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

inline std::string ReadWhole(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::unique_ptr<leveldb::DB> OpenOrDie(const leveldb::Options& options,
                                              const std::string& path) {
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, path, &db);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::unique_ptr<leveldb::DB>(db);
}

inline leveldb::Options Creating() {
  leveldb::Options options;
  options.create_if_missing = true;
  return options;
}

// Returns the value, or the text of the error.
inline std::string Get(leveldb::DB* db, const std::string& key,
                       const leveldb::Snapshot* snapshot = nullptr) {
  leveldb::ReadOptions options;
  options.snapshot = snapshot;
  std::string value;
  const leveldb::Status status = db->Get(options, key, &value);
  return status.ok() ? value : status.ToString();
}

// Returns all entries as "key=value " in order.
inline std::string Scan(leveldb::DB* db) {
  const std::unique_ptr<leveldb::Iterator> iterator(
      db->NewIterator(leveldb::ReadOptions()));
  std::string out;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    out +=
        iterator->key().ToString() + "=" + iterator->value().ToString() + " ";
  }
  EXPECT_TRUE(iterator->status().ok());
  return out;
}

// Runs a shell command. Returns its exit code, and its output in *output.
int RunShell(const std::string& command, std::string* output);
// Runs leveldb_helper with Varve's library, or with LevelDB's.
int RunHelper(bool on_varve, const std::string& arguments, std::string* output);

}  // namespace leveldb_test
