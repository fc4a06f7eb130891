// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Databases with column families in memory, whose files tests damage: files as
// strings, and a fixture that compares what opens with the states of a history.

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {

inline constexpr const char* kPath = "/db";

using Files = std::map<std::string, std::string>;
using State = std::map<std::string, Entries>;  // By family.

inline void Restore(Env* env, const Files& files) {
  ASSERT_TRUE(Ok(env->CreateDirIfMissing(kPath)));
  for (const auto& [name, bytes] : files) {
    ASSERT_TRUE(Ok(WriteStringToFile(env, bytes, kPath + ("/" + name), false)));
  }
}

inline Files Save(Env* env, const std::string& path = kPath) {
  std::vector<std::string> names;
  env->GetChildren(path, &names).IgnoreError();  // lost/ may not exist.
  Files files;
  for (const std::string& name : names) {
    if (name.starts_with("LO") || name == "lost") continue;
    EXPECT_TRUE(Ok(ReadFileToString(env, path + ("/" + name), &files[name])));
  }
  return files;
}

inline bool IsA(const std::string& name, FileKind wanted) {
  uint64_t number = 0;
  FileKind type;
  return ParseFileName(name, &number, &type) && type == wanted;
}

// Returns the name of the newest log.
inline std::string NewestLog(const Files& files) {
  std::string newest;
  for (const auto& [name, bytes] : files) {
    if (IsA(name, FileKind::kWal)) newest = name;
  }
  return newest;
}

// A database in memory, open with all of its families.
class Opened {
 public:
  Opened() : env_(NewMemoryEnv(Env::Default())) {}
  ~Opened() { Drop(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  Status Open(DBOptions options, const std::vector<std::string>& names,
              bool read_only = false) {
    Drop();
    options.env = env_.get();
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, FamilyOptions());
    }
    std::vector<ColumnFamilyHandle*> handles;
    const Status status =
        read_only
            ? DB::OpenForReadOnly(options, kPath, families, &handles, &db_)
            : DB::Open(options, kPath, families, &handles, &db_);
    for (ColumnFamilyHandle* handle : handles) {
      handles_[handle->GetName()] = handle;
    }
    return status;
  }
  void Drop() {
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  State Read() {
    State state;
    for (const auto& [name, handle] : handles_) {
      const auto it = db_->NewIterator({}, handle);
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        state[name][it->key().ToString()] = it->value().ToString();
      }
      if (read_status_.ok()) read_status_ = it->status();
    }
    return state;
  }
  static ColumnFamilyOptions FamilyOptions() {
    Options options = TinyOptions();
    options.disable_auto_compactions = true;
    return options;
  }

  // Returns the first error of a read.
  const Status& read_status() const { return read_status_; }

  Env* env() { return env_.get(); }
  DB* db() { return db_.get(); }
  std::map<std::string, ColumnFamilyHandle*>& handles() { return handles_; }

 private:
  const std::unique_ptr<Env> env_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
  Status read_status_;
};

class FamilyStatesTest : public ::testing::Test {
 protected:
  FamilyStatesTest() {
    options_ = TinyOptions();
    options_.create_missing_column_families = true;
    options_.avoid_flush_during_shutdown = true;
    options_.statistics = NewTestStatistics();
  }

  // Returns the number of the state, or -1 if it never was one.
  int Find(const State& found) const {
    for (size_t i = states_.size(); i-- > 0;) {
      bool same = true;
      for (const std::string& name : names_) {
        const auto place = states_[i].find(name);
        const auto other = found.find(name);
        static const Entries kNone;
        same = same && (place == states_[i].end() ? kNone : place->second) ==
                           (other == found.end() ? kNone : other->second);
      }
      if (same) return static_cast<int>(i);
    }
    return -1;
  }

  State Repaired(Opened* world) {
    DBOptions options = options_;
    options.env = world->env();
    options.statistics = nullptr;
    const Status repaired =
        RepairDB(kPath, Options(options, Opened::FamilyOptions()));
    EXPECT_TRUE(Ok(repaired));
    if (!repaired.ok()) return {};
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(DB::ListColumnFamilies(options, kPath, &names)));
    EXPECT_TRUE(Ok(world->Open(options, names)));
    State state = world->db() != nullptr ? world->Read() : State();
    world->Drop();
    return state;
  }

  // Expects all these entries, and perhaps more.
  void ExpectAll(const State& found, const State& expected) const {
    for (size_t id = 0; id < names_.size(); ++id) {
      const auto entries = expected.find(names_[id]);
      if (entries == expected.end()) continue;
      auto place = found.find(names_[id]);
      // The MANIFEST had the name.
      if (place == found.end()) {
        place = found.find("family-" + std::to_string(id));
      }
      ASSERT_NE(place, found.end()) << names_[id];
      for (const auto& [key, value] : entries->second) {
        const auto same = place->second.find(key);
        ASSERT_NE(same, place->second.end()) << names_[id] << " " << key;
        ASSERT_EQ(same->second, value) << names_[id] << " " << key;
      }
    }
  }

  DBOptions options_;
  std::unique_ptr<Opened> opened_;
  std::vector<std::string> names_;  // By id.
  std::vector<State> states_;       // After each batch, the empty one first.
  Files files_;
};

}  // namespace varve::test
