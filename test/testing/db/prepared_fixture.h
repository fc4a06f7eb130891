// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Databases with prepared transactions in tests: a fixture on files in memory,
// which lose power or whose process is killed, and the state that it compares.

#include "db/engine/db_impl.h"
#include "test/testing/db/family_states.h"
#include "varve/merge_operator.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {

// The place of prepared transactions in a State: their updates, by name.
inline constexpr const char* kPrepared = "(prepared)";

inline std::string RecordsOf(const WriteBatch& batch) {
  return batch.Data().substr(12);
}

class PreparedTest : public ::testing::Test {
 protected:
  PreparedTest() {
    options_ = TinyOptions();
    options_.env = &env_;
    options_.disable_auto_compactions = true;
    options_.create_missing_column_families = true;
    options_.avoid_flush_during_shutdown = true;
    options_.merge_operator = NewStringAppendOperator();
  }
  ~PreparedTest() override { Drop(); }

  // Opens the database with the families in names_.
  Status TryOpen(bool read_only = false) {
    Drop();
    std::vector<ColumnFamilyDescriptor> others;
    for (const std::string& name : names_) {
      if (name != kDefaultColumnFamilyName) others.emplace_back(name, options_);
    }
    db_ = std::make_unique<DBImpl>(options_, kPath, read_only);
    const Status status = db_->Open(/*name_is_safe=*/false, others);
    if (!status.ok()) {
      db_.reset();
      return status;
    }
    for (const std::string& name : names_) {
      handles_[name].reset(db_->NewHandle(name));
    }
    return status;
  }
  void Open() { ASSERT_TRUE(Ok(TryOpen())); }
  // Lets go of the database, which is closed if it is still open.
  void Drop() {
    handles_.clear();
    db_.reset();
  }
  void Reopen() {
    handles_.clear();
    ASSERT_TRUE(Ok(db_->Close()));
    Open();
  }
  // Continues with the files of the process, as after a kill.
  void Kill() {
    // No job may change what is being copied.
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    const Files files = Save(&env_);
    Drop();
    Replace(files);
    Open();
  }
  // Replaces the database, which is not open. The files are durable.
  void Replace(const Files& files) {
    ASSERT_TRUE(Ok(DestroyDB(kPath, options_)));
    ASSERT_TRUE(Ok(env_.CreateDirIfMissing(kPath)));
    for (const auto& [name, bytes] : files) {
      ASSERT_TRUE(
          Ok(WriteStringToFile(&env_, bytes, kPath + ("/" + name), true)));
    }
    for (const char* const path : {kPath, "/"}) {
      std::unique_ptr<Directory> directory;
      ASSERT_TRUE(Ok(env_.NewDirectory(path, &directory)));
      ASSERT_TRUE(Ok(directory->Sync()));
    }
  }
  void PowerCut(const CrashOptions& options) {
    env_.SetFilesystemActive(false);
    Drop();
    ASSERT_TRUE(Ok(env_.CrashAndReset(options)));
    Open();
  }

  ColumnFamilyHandle* At(const std::string& family) {
    return handles_.at(family).get();
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(Ok(db_->Put({}, key, value)));
  }
  void Flush(const std::string& family = kDefaultColumnFamilyName) {
    ASSERT_TRUE(Ok(db_->Flush({}, At(family))));
  }
  // Returns the value, or "-".
  std::string Get(const std::string& key,
                  const std::string& family = kDefaultColumnFamilyName) {
    std::string value;
    const Status s = db_->Get({}, At(family), key, &value);
    return s.IsNotFound() ? "-" : s.ok() ? value : s.ToString();
  }
  // Prepares a transaction that puts name => value.
  void PreparePut(const std::string& name, const std::string& value) {
    WriteBatch batch;
    batch.Put(name, value);
    ASSERT_TRUE(Ok(db_->WritePrepared({}, name, &batch)));
  }
  std::vector<std::string> Prepared() {
    std::vector<std::string> names;
    for (const PreparedSection& section : db_->PreparedSections()) {
      names.push_back(section.name);
    }
    return names;
  }
  size_t LogCount() {
    // Obsolete files are removed first.
    EXPECT_TRUE(Ok(db_->WaitForCompact()));
    size_t count = 0;
    for (const auto& [name, bytes] : Save(&env_)) {
      count += IsA(name, FileKind::kWal) ? 1 : 0;
    }
    return count;
  }
  uint64_t LogBytes() {
    EXPECT_TRUE(Ok(db_->WaitForCompact()));
    uint64_t sum = 0;
    for (const auto& [name, bytes] : Save(&env_)) {
      sum += IsA(name, FileKind::kWal) ? bytes.size() : 0;
    }
    return sum;
  }
  State Read() {
    State state;
    for (const auto& [name, handle] : handles_) {
      const auto it = db_->NewIterator({}, handle.get());
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        state[name][it->key().ToString()] = it->value().ToString();
      }
      EXPECT_TRUE(Ok(it->status()));
    }
    for (const PreparedSection& section : db_->PreparedSections()) {
      state[kPrepared][section.name] = RecordsOf(section.updates);
    }
    return state;
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  FaultInjectionEnv env_{memory_.get()};
  Options options_;
  std::vector<std::string> names_ = {kDefaultColumnFamilyName, "a"};
  std::unique_ptr<DBImpl> db_;
  std::map<std::string, std::unique_ptr<ColumnFamilyHandle>> handles_;
};

}  // namespace varve::test
