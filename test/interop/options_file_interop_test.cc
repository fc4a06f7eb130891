// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: each engine uses the OPTIONS files of the other. RocksDB's tools open a
// database with the options and families that Varve's file has, RocksDB loads
// its options from it and keeps its own through Varve's sessions, and Varve
// loads RocksDB's. Method: ldb, and RocksDB's library in turn with Varve.

#include "test/testing/directory.h"
#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/column_family.h"
#include "varve/convert.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class FamiliesOptionsFileTest : public ::testing::Test {
 protected:
  FamiliesOptionsFileTest() {
    Ldb({"put", "k", "v", "--create_if_missing"});
    Ldb({"create_column_family", "one"});
    Ldb({"create_column_family", "two"});
    Ldb({"put", "k", "two", "--column_family=two"});
    EXPECT_FALSE(OptionsFiles().empty());
  }
  ~FamiliesOptionsFileTest() override { Close(); }

  // Not in hexadecimal.
  std::string Ldb(const std::vector<std::string>& arguments) const {
    return RunOrFail(Command({"ldb", "--db=" + path_}, arguments));
  }
  void Open(const std::vector<std::string>& names) {
    DBOptions options;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, ColumnFamilyOptions());
    }
    ASSERT_TRUE(Ok(DB::Open(options, path_, families, &handles_, &db_)));
  }
  void Close() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  std::vector<std::string> OptionsFiles() const {
    return FilesStartingWith(path_, "OPTIONS-");
  }
  void ExpectLdbUsesAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::string option = "--column_family=" + name;
      EXPECT_EQ(Ldb({"put", "ldb", name, option}), "OK\n");
      EXPECT_TRUE(Contains(Ldb({"scan", "--try_load_options", option}), name));
    }
    EXPECT_TRUE(Contains(Ldb({"scan", "--column_family=two"}), "k : two"));
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

TEST_F(FamiliesOptionsFileTest, FollowsTheFamilies) {
  Open({"default", "one", "two"});
  ASSERT_TRUE(Ok(db_->Put({}, handles_[1], "k", "v")));
  ASSERT_TRUE(Ok(db_->Flush({}, handles_[1])));
  Close();
  ExpectLdbUsesAll({"default", "one", "two"});
  Open({"default", "one", "two"});
  ASSERT_TRUE(Ok(db_->DropColumnFamily(handles_[1])));
  Close();
  ExpectLdbUsesAll({"default", "two"});
  Open({"default", "two"});
  ColumnFamilyHandle* handle = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "thr]ee \"#:\\", &handle)));
  handles_.push_back(handle);
  Close();
  ExpectLdbUsesAll({"default", "two", "thr]ee \"#:\\"});
  Open({"default", "two", "thr]ee \"#:\\", "four"});
  Close();
  ExpectLdbUsesAll({"default", "two", "thr]ee \"#:\\", "four"});
  EXPECT_LE(OptionsFiles().size(), 2u);
}

// RocksDB, through its C interface.
class RocksDb {
 public:
  // Loads the newest file and returns the number of families.
  size_t Load(const std::string& path) {
    Release();
    void* const env = library_.Call<void*>("create_default_env");
    library_.CallChecked<void>("load_latest_options", path.c_str(), env,
                               /*ignore_unknown_options=*/false,
                               static_cast<void*>(nullptr), &database_, &count_,
                               &names_, &families_);
    library_.Call<void>("env_destroy", env);
    return count_;
  }
  ~RocksDb() { Release(); }

  template <typename T>
  T Get(const char* name) const {
    return library_.Call<T>(name, database_);
  }
  template <typename T>
  T GetOfFamily(const char* name, size_t family) const {
    return library_.Call<T>(name, families_[family]);
  }
  std::string Name(size_t family) const { return names_[family]; }

  // Opens the database with the loaded options, writes, and closes it, which
  // leaves RocksDB's own file.
  void Use(const std::string& path) {
    std::vector<void*> handles(count_);
    void* const db = library_.CallChecked<void*>(
        "open_column_families", database_, path.c_str(),
        static_cast<int>(count_), const_cast<const char* const*>(names_),
        const_cast<const void* const*>(families_), handles.data());
    ASSERT_NE(db, nullptr);
    void* const write = library_.Call<void*>("writeoptions_create");
    for (void* const handle : handles) {
      library_.CallChecked<void>("put_cf", db, write, handle, "rocksdb",
                                 size_t{7}, "v", size_t{1});
      library_.Call<void>("column_family_handle_destroy", handle);
    }
    library_.Call<void>("writeoptions_destroy", write);
    library_.Call<void>("close", db);
  }

 private:
  void Release() {
    if (database_ == nullptr) return;
    library_.Call<void>("load_latest_options_destroy", database_, names_,
                        families_, count_);
    database_ = nullptr;
  }

  const RocksDbLibrary library_;
  void* database_ = nullptr;
  size_t count_ = 0;
  char** names_ = nullptr;
  void** families_ = nullptr;
};

class OptionsInTurnTest : public ::testing::Test {
 protected:
  void Open(DBOptions options,
            const std::vector<ColumnFamilyDescriptor>& families) {
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(Ok(DB::Open(options, path_, families, &handles, &db_)));
    for (ColumnFamilyHandle* const handle : handles) {
      EXPECT_TRUE(Ok(db_->Put({}, handle, "varve", "v")));
      delete handle;
    }
    db_.reset();
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  std::unique_ptr<DB> db_;
};

TEST_F(OptionsInTurnTest, RocksDbLoadsWhatVarveWrites) {
  DBOptions database;
  database.max_background_jobs = 7;
  database.max_total_wal_size = 123456789;
  database.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  database.wal_write = WriteMethod::kCall;
  ColumnFamilyOptions family;
  family.write_buffer_size = 3 << 20;
  family.num_levels = 5;
  family.compression = CompressionType::kZSTD;
  family.compression_level = 3;
  family.bottommost_compression = CompressionType::kLZ4;
  family.max_bytes_for_level_multiplier = 7.3;
  family.filter_policy = NewBloomFilterPolicy(9.5);
  family.merge_operator = NewUInt64AddOperator();
  family.level_compaction_dynamic_level_bytes = false;
  ColumnFamilyOptions reverse;
  reverse.comparator = ReverseBytewiseComparator();
  Open(database, {{"default", family}, {"reverse", reverse}});

  RocksDb rocksdb;
  ASSERT_EQ(rocksdb.Load(path_), 2u);
  EXPECT_EQ(rocksdb.Name(1), "reverse");
  EXPECT_EQ(rocksdb.Get<int>("options_get_max_background_jobs"), 7);
  EXPECT_EQ(rocksdb.Get<uint64_t>("options_get_max_total_wal_size"),
            123456789u);
  EXPECT_EQ(rocksdb.Get<int>("options_get_wal_recovery_mode"), 1);
  EXPECT_EQ(rocksdb.GetOfFamily<size_t>("options_get_write_buffer_size", 0),
            size_t{3} << 20);
  EXPECT_EQ(rocksdb.GetOfFamily<int>("options_get_num_levels", 0), 5);
  EXPECT_EQ(rocksdb.GetOfFamily<int>("options_get_compression", 0), 7);
  EXPECT_EQ(rocksdb.GetOfFamily<int>("options_get_bottommost_compression", 0),
            4);
  EXPECT_EQ(rocksdb.GetOfFamily<double>(
                "options_get_max_bytes_for_level_multiplier", 0),
            7.3);
  rocksdb.Use(path_);

  // RocksDB's file has the same.
  DBOptions loaded;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_TRUE(Ok(LoadLatestOptions({}, path_, &loaded, &families)));
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(loaded.max_background_jobs, 7);
  EXPECT_EQ(loaded.wal_recovery_mode, WalRecoveryMode::kAbsoluteConsistency);
  const ColumnFamilyOptions& again = families[0].options;
  EXPECT_EQ(again.write_buffer_size, family.write_buffer_size);
  EXPECT_EQ(again.compression, family.compression);
  EXPECT_EQ(again.compression_level, 3);
  EXPECT_EQ(again.bottommost_compression, family.bottommost_compression);
  EXPECT_EQ(again.max_bytes_for_level_multiplier, 7.3);
  EXPECT_FALSE(again.level_compaction_dynamic_level_bytes);
  EXPECT_EQ(again.filter_policy->BuiltinBloomBitsPerKey(), 9.5);
  EXPECT_STREQ(again.merge_operator->Name(), family.merge_operator->Name());
  EXPECT_EQ(families[1].options.comparator, ReverseBytewiseComparator());
  Open(loaded, families);
}

// Draws options and changes them in sessions of both engines.
TEST_F(OptionsInTurnTest, RandomSessionsKeepTheOptionsOfBoth) {
  Rng rng(TestSeed());
  RocksDb rocksdb;
  Open({}, {{"default", {}}});
  ASSERT_EQ(rocksdb.Load(path_), 1u);
  rocksdb.Use(path_);
  const std::string text =
      ReadWholeFile(FilesStartingWith(path_, "OPTIONS-").back());
  int kept = 0;
  for (int i = EnvironmentInt("OPTIONS_SESSIONS", 8); i > 0; --i) {
    DBOptions loaded;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Ok(LoadLatestOptions({}, path_, &loaded, &families)));
    loaded.max_background_jobs = rng.Between(2, 9);
    families[0].options.write_buffer_size = (1 + rng.Below(9)) << 20;
    families[0].options.ttl = rng.Below(3);
    if (rng.OneIn(3)) {
      families.emplace_back("f" + std::to_string(i), ColumnFamilyOptions());
    }
    Open(loaded, families);
    // The lines of RocksDB alone are still there.
    const std::string newest =
        ReadWholeFile(FilesStartingWith(path_, "OPTIONS-").back());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (Contains(line, "table_cache_numshardbits") ||
          Contains(line, "bloom_locality") || Contains(line, "checksum=")) {
        EXPECT_TRUE(Contains(newest, line + "\n")) << line;
        ++kept;
      }
    }
    ASSERT_EQ(rocksdb.Load(path_), families.size());
    EXPECT_EQ(rocksdb.Get<int>("options_get_max_background_jobs"),
              loaded.max_background_jobs);
    EXPECT_EQ(rocksdb.GetOfFamily<size_t>("options_get_write_buffer_size", 0),
              families[0].options.write_buffer_size);
    if (rng.OneIn(2)) rocksdb.Use(path_);
  }
  EXPECT_GT(kept, 0);
}

}  // namespace
}  // namespace varve::test
