// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB opens the databases that each version of Varve has written, and
// this version reads them afterwards. Method: RocksDB's TransactionDB opens the
// fixtures varve-* with their OPTIONS files, reads all, commits what is
// prepared, and adds a key to each family.

#include "test/db/families/version_fixture.h"
#include "test/testing/rocksdb_library.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// Thread-safety: owned by one thread.
class RocksDbTransactions : public RocksDbLibrary {
 public:
  void Open(const std::string& path) {
    void* const env = Call<void*>("create_default_env");
    void* const no_cache = nullptr;
    CallChecked<void>("load_latest_options", path.c_str(), env,
                      /*ignore_unknown_options=*/false, no_cache, &options_,
                      &count_, &names_, &family_options_);
    Call<void>("env_destroy", env);
    ASSERT_GT(count_, 0u);
    database_options_ = Call<void*>("transactiondb_options_create");
    std::vector<void*> handles(count_);
    db_ = CallChecked<void*>("transactiondb_open_column_families", options_,
                             database_options_, path.c_str(),
                             static_cast<int>(count_), names_, family_options_,
                             handles.data());
    ASSERT_NE(db_, nullptr);
    for (size_t i = 0; i < count_; ++i) handles_[names_[i]] = handles[i];
    read_options_ = Call<void*>("readoptions_create");
  }
  void Close() {
    for (const auto& [name, handle] : handles_) {
      Call<void>("column_family_handle_destroy", handle);
    }
    Call<void>("transactiondb_close", db_);
    Call<void>("readoptions_destroy", read_options_);
    Call<void>("transactiondb_options_destroy", database_options_);
    Call<void>("load_latest_options_destroy", options_, names_, family_options_,
               count_);
  }

  std::vector<std::string> Families() const {
    std::vector<std::string> names;
    for (const auto& [name, handle] : handles_) names.push_back(name);
    return names;
  }
  // From the first entry, or backward from the last.
  EntryList Scan(const std::string& family, bool backward) {
    EntryList entries;
    void* const it = Call<void*>("transactiondb_create_iterator_cf", db_,
                                 read_options_, handles_.at(family));
    Call<void>(backward ? "iter_seek_to_last" : "iter_seek_to_first", it);
    while (Call<unsigned char>("iter_valid", it) != 0) {
      entries.emplace_back(Text("iter_key", it), Text("iter_value", it));
      Call<void>(backward ? "iter_prev" : "iter_next", it);
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    if (backward) std::reverse(entries.begin(), entries.end());
    return entries;
  }
  std::string Get(const std::string& family, const std::string& key) {
    size_t size = 0;
    char* const value =
        CallChecked<char*>("transactiondb_get_cf", db_, read_options_,
                           handles_.at(family), key.data(), key.size(), &size);
    if (value == nullptr) return "NotFound";
    std::string copy(value, size);
    Call<void>("free", static_cast<void*>(value));
    return copy;
  }
  void Put(const std::string& family, const std::string& key,
           const std::string& value) {
    void* const options = Call<void*>("writeoptions_create");
    CallChecked<void>("transactiondb_put_cf", db_, options, handles_.at(family),
                      key.data(), key.size(), value.data(), value.size());
    Call<void>("writeoptions_destroy", options);
  }
  void Flush(const std::string& family) {
    void* const options = Call<void*>("flushoptions_create");
    CallChecked<void>("transactiondb_flush_cf", db_, options,
                      handles_.at(family));
    Call<void>("flushoptions_destroy", options);
  }
  // Commits all prepared transactions, and returns their names in order.
  std::vector<std::string> CommitPrepared() {
    size_t count = 0;
    void** const found =
        Call<void**>("transactiondb_get_prepared_transactions", db_, &count);
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      size_t size = 0;
      char* const name = Call<char*>("transaction_get_name", found[i], &size);
      names.emplace_back(name, size);
      Call<void>("free", static_cast<void*>(name));
      CallChecked<void>("transaction_commit", found[i]);
      Call<void>("transaction_destroy", found[i]);
    }
    if (found != nullptr) Call<void>("free", static_cast<void*>(found));
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string Text(const char* call, void* it) {
    size_t size = 0;
    const char* const bytes = Call<const char*>(call, it, &size);
    return std::string(bytes, size);
  }

  void* options_ = nullptr;
  size_t count_ = 0;
  char** names_ = nullptr;
  void** family_options_ = nullptr;
  void* database_options_ = nullptr;
  void* read_options_ = nullptr;
  void* db_ = nullptr;
  std::map<std::string, void*> handles_;
};

class VersionInteropTest : public VersionTestBase,
                           public ::testing::WithParamInterface<std::string> {};

TEST_P(VersionInteropTest, RocksDbReadsAndContinuesIt) {
  Copy(FixturesDir() + "/" + GetParam());
  const auto expected = ReadFamilies(source_ + "/expected.txt");
  RocksDbTransactions rocksdb;
  ASSERT_TRUE(rocksdb.loaded());
  rocksdb.Open(path_);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(rocksdb.Families().size(), expected.size());
  for (const auto& [name, entries] : expected) {
    EXPECT_TRUE(SameEntries(entries, rocksdb.Scan(name, false))) << name;
    EXPECT_TRUE(SameEntries(entries, rocksdb.Scan(name, true))) << name;
    for (const auto& [key, value] : entries) {
      ASSERT_EQ(rocksdb.Get(name, key), value) << name << " " << key;
    }
  }
  const std::vector<std::string> prepared = ReadPrepared(source_);
  EXPECT_EQ(rocksdb.CommitPrepared(), prepared);
  for (const auto& [name, entries] : expected) {
    rocksdb.Put(name, "~~ added", "by RocksDB");
    rocksdb.Flush(name);
  }
  rocksdb.Close();
  ASSERT_FALSE(HasFailure());

  // RocksDB has dropped the note that keys are folded.
  options_.key_case = KeyCase::kSensitive;
  OpenAll();
  for (const bool compacted : {false, true}) {
    SCOPED_TRACE(compacted ? "compacted" : "as RocksDB left it");
    EXPECT_TRUE(Prepared().empty());
    for (const auto& [name, handle] : handles_) {
      EXPECT_EQ(GetIn(name, "~~ added"), "by RocksDB");
      ASSERT_TRUE(Ok(db_->Delete({}, handle, "~~ added")));
    }
    ExpectContents(prepared.empty() ? "expected.txt"
                                    : "expected-committed.txt");
    for (const auto& [name, handle] : handles_) {
      PutIn(name, "~~ added", "by RocksDB");
      ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                       handle, nullptr, nullptr)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VersionInteropTest,
                         ::testing::ValuesIn(FixtureNames("varve-")),
                         FixtureTestName);

}  // namespace
}  // namespace varve::test
