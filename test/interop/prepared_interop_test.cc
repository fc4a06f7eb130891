// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB's TransactionDB can open one directory with prepared
// transactions in turn, and each settles what the other has prepared. Method:
// in random sessions either engine writes, prepares, commits, rolls back and
// flushes, and then closes or is killed. Merges show what is applied twice. The
// other engine, or the same one, then reads everything as in a model.
// VARVE_SESSIONS sets the number of sessions.

#include <filesystem>
#include <set>

#include "db/engine/db_impl.h"
#include "test/testing/directory.h"
#include "test/testing/model_db.h"
#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

const std::vector<std::string>& FamilyNames() {
  static const std::vector<std::string> names = {"default", "meta"};
  return names;
}

// A put, or a merge of a string.
struct Update {
  std::string family;
  std::string key;
  std::string value;
  bool is_merge = false;
};
using Updates = std::vector<Update>;

class Engine {
 public:
  virtual ~Engine() = default;
  virtual void Open(const std::string& path) = 0;
  virtual void Close() = 0;
  virtual void Write(const Updates& updates) = 0;
  virtual void Prepare(const std::string& name, const Updates& updates) = 0;
  // True if a commit can apply further updates before the prepared ones.
  virtual bool AddsUpdates() const { return false; }
  virtual void Commit(const std::string& name, const Updates& first) = 0;
  virtual void Rollback(const std::string& name) = 0;
  virtual void Flush(const std::string& family) = 0;
  virtual std::set<std::string> Prepared() = 0;
  virtual Entries Scan(const std::string& family) = 0;
  // Waits for what runs in the background.
  virtual void Await() {}
};

class VarveEngine final : public Engine {
 public:
  void Open(const std::string& path) override {
    Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.avoid_flush_during_shutdown = true;
    options.merge_operator = NewStringAppendOperator();
    db_ = std::make_unique<DBImpl>(options, path, /*read_only=*/false);
    ASSERT_TRUE(Ok(db_->Open(/*name_is_safe=*/false,
                             {ColumnFamilyDescriptor("meta", options)})));
    for (const std::string& name : FamilyNames()) {
      handles_[name].reset(db_->NewHandle(name));
    }
  }
  void Close() override {
    handles_.clear();
    EXPECT_TRUE(Ok(db_->Close()));
    db_.reset();
  }
  void Write(const Updates& updates) override {
    WriteBatch batch = BatchOf(updates);
    ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  }
  void Prepare(const std::string& name, const Updates& updates) override {
    WriteBatch batch = BatchOf(updates);
    ASSERT_TRUE(Ok(db_->WritePrepared({}, name, &batch)));
  }
  bool AddsUpdates() const override { return true; }
  void Commit(const std::string& name, const Updates& first) override {
    WriteBatch batch = BatchOf(first);
    ASSERT_TRUE(
        Ok(db_->CommitPrepared({}, name, first.empty() ? nullptr : &batch)));
  }
  void Rollback(const std::string& name) override {
    ASSERT_TRUE(Ok(db_->RollbackPrepared({}, name)));
  }
  void Flush(const std::string& family) override {
    ASSERT_TRUE(Ok(db_->Flush({}, handles_.at(family).get())));
  }
  std::set<std::string> Prepared() override {
    std::set<std::string> names;
    for (const PreparedSection& section : db_->PreparedSections()) {
      names.insert(section.name);
    }
    return names;
  }
  Entries Scan(const std::string& family) override {
    Entries entries;
    const auto it = db_->NewIterator({}, handles_.at(family).get());
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      entries[it->key().ToString()] = it->value().ToString();
    }
    EXPECT_TRUE(Ok(it->status()));
    return entries;
  }
  void Await() override { EXPECT_TRUE(Ok(db_->WaitForCompact())); }

 private:
  WriteBatch BatchOf(const Updates& updates) {
    WriteBatch batch;
    for (const auto& [family, key, value, is_merge] : updates) {
      ColumnFamilyHandle* const handle = handles_.at(family).get();
      is_merge ? batch.Merge(handle, key, value)
               : batch.Put(handle, key, value);
    }
    return batch;
  }

  std::unique_ptr<DBImpl> db_;
  std::map<std::string, std::unique_ptr<ColumnFamilyHandle>> handles_;
};

class RocksDbEngine final : public Engine, private RocksDbLibrary {
 public:
  using RocksDbLibrary::loaded;

  void Open(const std::string& path) override {
    void* const defaults = Call<void*>("options_create");
    options_ = Call<void*>("options_create");
    CallChecked<void>("get_options_from_string", defaults,
                      "create_if_missing=true;"
                      "create_missing_column_families=true;"
                      "avoid_flush_during_shutdown=true;"
                      "disable_auto_compactions=true;"
                      "merge_operator=stringappend",
                      options_);
    Call<void>("options_destroy", defaults);
    database_options_ = Call<void*>("transactiondb_options_create");
    transaction_options_ = Call<void*>("transaction_options_create");
    write_options_ = Call<void*>("writeoptions_create");
    read_options_ = Call<void*>("readoptions_create");
    std::vector<const char*> names;
    std::vector<void*> family_options;
    for (const std::string& name : FamilyNames()) {
      names.push_back(name.c_str());
      family_options.push_back(options_);
    }
    std::vector<void*> handles(names.size());
    db_ = CallChecked<void*>("transactiondb_open_column_families", options_,
                             database_options_, path.c_str(),
                             static_cast<int>(names.size()), names.data(),
                             family_options.data(), handles.data());
    ASSERT_NE(db_, nullptr);
    for (size_t i = 0; i < names.size(); ++i) handles_[names[i]] = handles[i];
    size_t count = 0;
    void** const found =
        Call<void**>("transactiondb_get_prepared_transactions", db_, &count);
    for (size_t i = 0; i < count; ++i) {
      size_t size = 0;
      char* const name = Call<char*>("transaction_get_name", found[i], &size);
      prepared_[std::string(name, size)] = found[i];
      Call<void>("free", static_cast<void*>(name));
    }
    if (found != nullptr) Call<void>("free", static_cast<void*>(found));
  }
  void Close() override {
    for (const auto& [name, transaction] : prepared_) {
      Call<void>("transaction_destroy", transaction);
    }
    prepared_.clear();
    for (const auto& [name, handle] : handles_) {
      Call<void>("column_family_handle_destroy", handle);
    }
    handles_.clear();
    Call<void>("transactiondb_close", db_);
    Call<void>("readoptions_destroy", read_options_);
    Call<void>("writeoptions_destroy", write_options_);
    Call<void>("transaction_options_destroy", transaction_options_);
    Call<void>("transactiondb_options_destroy", database_options_);
    Call<void>("options_destroy", options_);
  }
  void Write(const Updates& updates) override {
    void* const transaction = Begin(updates);
    CallChecked<void>("transaction_commit", transaction);
    Call<void>("transaction_destroy", transaction);
  }
  void Prepare(const std::string& name, const Updates& updates) override {
    void* const transaction = Begin(updates);
    CallChecked<void>("transaction_set_name", transaction, name.data(),
                      name.size());
    CallChecked<void>("transaction_prepare", transaction);
    prepared_[name] = transaction;
  }
  void Commit(const std::string& name, const Updates& /*first*/) override {
    Settle("transaction_commit", name);
  }
  void Rollback(const std::string& name) override {
    Settle("transaction_rollback", name);
  }
  void Flush(const std::string& family) override {
    void* const options = Call<void*>("flushoptions_create");
    CallChecked<void>("transactiondb_flush_cf", db_, options,
                      handles_.at(family));
    Call<void>("flushoptions_destroy", options);
  }
  std::set<std::string> Prepared() override {
    std::set<std::string> names;
    for (const auto& [name, transaction] : prepared_) names.insert(name);
    return names;
  }
  Entries Scan(const std::string& family) override {
    Entries entries;
    void* const it = Call<void*>("transactiondb_create_iterator_cf", db_,
                                 read_options_, handles_.at(family));
    for (Call<void>("iter_seek_to_first", it);
         Call<unsigned char>("iter_valid", it) != 0;
         Call<void>("iter_next", it)) {
      entries[Text("iter_key", it)] = Text("iter_value", it);
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    return entries;
  }

 private:
  void Settle(const char* call, const std::string& name) {
    void* const transaction = prepared_.at(name);
    CallChecked<void>(call, transaction);
    Call<void>("transaction_destroy", transaction);
    prepared_.erase(name);
  }
  std::string Text(const char* call, void* it) {
    size_t size = 0;
    const char* const bytes = Call<const char*>(call, it, &size);
    return std::string(bytes, size);
  }
  void* Begin(const Updates& updates) {
    void* const none = nullptr;
    void* const transaction = Call<void*>(
        "transaction_begin", db_, write_options_, transaction_options_, none);
    for (const auto& [family, key, value, is_merge] : updates) {
      CallChecked<void>(
          is_merge ? "transaction_merge_cf" : "transaction_put_cf", transaction,
          handles_.at(family), key.data(), key.size(), value.data(),
          value.size());
    }
    return transaction;
  }

  void* options_ = nullptr;
  void* database_options_ = nullptr;
  void* transaction_options_ = nullptr;
  void* write_options_ = nullptr;
  void* read_options_ = nullptr;
  void* db_ = nullptr;
  std::map<std::string, void*> handles_;
  std::map<std::string, void*> prepared_;
};

class PreparedInteropTest : public ::testing::Test {
 protected:
  // A transaction has keys of its own: RocksDB locks keys of prepared ones.
  Updates RandomUpdates(const std::string& owner) {
    Updates updates;
    for (int i = rng_.Between(0, 5); i > 0; --i) {
      updates.push_back({FamilyNames()[rng_.Below(2)],
                         owner + "/" + std::to_string(rng_.Below(5)),
                         std::to_string(++values_), rng_.OneIn(2)});
    }
    return updates;
  }
  void Apply(const Updates& updates) {
    for (const auto& [family, key, value, is_merge] : updates) {
      Entries* const entries = &contents_[family];
      if (is_merge) {
        Append(key, value, entries);
      } else {
        (*entries)[key] = value;
      }
    }
  }
  void ExpectAll(Engine* engine) {
    std::set<std::string> names;
    for (const auto& [name, updates] : prepared_) names.insert(name);
    ASSERT_EQ(engine->Prepared(), names);
    for (const std::string& name : FamilyNames()) {
      ASSERT_EQ(engine->Scan(name), contents_[name]) << name;
    }
  }
  void Step(Engine* engine) {
    const uint64_t action = rng_.Below(10);
    if (action < 3) {
      const Updates updates = RandomUpdates("plain");
      engine->Write(updates);
      Apply(updates);
    } else if (action < 6) {
      std::string name = "t?" + std::to_string(rng_.Below(4));
      name[1] = rng_.OneIn(2) ? '\0' : '\xff';
      if (prepared_.count(name) != 0) return;
      prepared_[name] = RandomUpdates(name);
      engine->Prepare(name, prepared_[name]);
    } else if (action < 9) {
      if (prepared_.empty()) return;
      auto settled = prepared_.begin();
      std::advance(settled, rng_.Below(prepared_.size()));
      const auto& [name, updates] = *settled;
      if (rng_.OneIn(2)) {
        Updates first;
        if (engine->AddsUpdates() && rng_.OneIn(2)) first = RandomUpdates(name);
        engine->Commit(name, first);
        Apply(first);
        Apply(updates);
      } else {
        engine->Rollback(name);
      }
      prepared_.erase(settled);
    } else {
      engine->Flush(FamilyNames()[rng_.Below(2)]);
    }
  }

  TempDir dir_;
  Rng rng_{TestSeed()};
  std::map<std::string, Entries> contents_;
  std::map<std::string, Updates> prepared_;
  int values_ = 0;
};

TEST_F(PreparedInteropTest, EachEngineSettlesWhatTheOtherPrepared) {
  const int sessions = EnvironmentInt("VARVE_SESSIONS", 12);
  std::string path = dir_.Sub("db0");
  for (int i = 0; i < sessions; ++i) {
    const bool is_varve = rng_.OneIn(2);
    SCOPED_TRACE("session " + std::to_string(i) +
                 (is_varve ? ", Varve" : ", RocksDB"));
    std::unique_ptr<Engine> engine;
    if (is_varve) {
      engine = std::make_unique<VarveEngine>();
    } else {
      auto rocksdb = std::make_unique<RocksDbEngine>();
      ASSERT_TRUE(rocksdb->loaded());
      engine = std::move(rocksdb);
    }
    ASSERT_NO_FATAL_FAILURE(engine->Open(path));
    ASSERT_NO_FATAL_FAILURE(ExpectAll(engine.get()));
    for (int step = rng_.Between(0, 15); step > 0; --step) Step(engine.get());
    ASSERT_NO_FATAL_FAILURE(ExpectAll(engine.get()));
    if (rng_.OneIn(2)) {
      engine->Close();
      continue;
    }
    // As a kill leaves it.
    engine->Await();
    const std::string copy = dir_.Sub("db" + std::to_string(i + 1));
    CopyDirectory(path, copy);
    engine->Close();
    std::filesystem::remove_all(path);
    path = copy;
  }
}

// RocksDB finds the copies of sections that Varve's opens have made, also those
// of an open that did not come to its end.
TEST_F(PreparedInteropTest, RocksDbTakesOverManyOpens) {
  const std::string path = dir_.Sub("db");
  VarveEngine varve;
  varve.Open(path);
  prepared_["a"] = {{"meta", "k", "1", true}};
  prepared_["b"] = {{"default", "k", "2", true}};
  for (const auto& [name, updates] : prepared_) varve.Prepare(name, updates);
  const Updates updates = {{"default", "x", "y", false}};
  varve.Write(updates);
  Apply(updates);
  varve.Flush("default");
  varve.Close();
  for (int i = 0; i < 3; ++i) {
    // Before the open of Varve, with the log of it beside the older ones.
    const std::string before = dir_.Sub("before");
    CopyDirectory(path, before);
    varve.Open(path);
    varve.Await();
    CopyDirectory(path, dir_.Sub("open"));
    varve.Close();
    std::string newest;
    for (const auto& [name, bytes] : ReadDirectory(dir_.Sub("open"))) {
      if (name.ends_with(".log")) newest = name;
    }
    std::filesystem::copy_file(dir_.Sub("open") + "/" + newest,
                               before + "/" + newest,
                               std::filesystem::copy_options::skip_existing);
    RocksDbEngine rocksdb;
    ASSERT_TRUE(rocksdb.loaded());
    ASSERT_NO_FATAL_FAILURE(rocksdb.Open(before));
    ASSERT_NO_FATAL_FAILURE(ExpectAll(&rocksdb));
    rocksdb.Close();
    std::filesystem::remove_all(before);
    std::filesystem::remove_all(dir_.Sub("open"));
  }
}

}  // namespace
}  // namespace varve::test
