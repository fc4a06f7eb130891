// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB say the same of the tables of a directory, and each
// opens what the other did to single tables. Method: RocksDB's shared library
// and its tools, on directories that either engine wrote.

#include <sstream>

#include "test/testing/rocksdb_library.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/table_properties.h"

namespace varve::test {
namespace {

class LiveFilesInteropTest : public DbTestBase {
 protected:
  LiveFilesInteropTest() { options_.disable_auto_compactions = true; }

  // Opens the directory by RocksDB, calls `work`, and closes it.
  template <typename Work>
  void ByRocksDb(Work work) {
    void* const options = rocksdb_.Call<void*>("options_create");
    rocksdb_.Call<void>("options_set_create_if_missing", options,
                        static_cast<unsigned char>(1));
    rocksdb_.Call<void>("options_set_disable_auto_compactions", options, 1);
    rocksdb_.Call<void>("options_set_compression", options, 0);
    void* const db =
        rocksdb_.CallChecked<void*>("open", options, path_.c_str());
    ASSERT_NE(db, nullptr);
    work(db);
    rocksdb_.Call<void>("close", db);
    rocksdb_.Call<void>("options_destroy", options);
  }

  std::string RocksDbTables(void* db) {
    std::ostringstream out;
    const void* const files = rocksdb_.Call<const void*>("livefiles", db);
    const int count = rocksdb_.Call<int>("livefiles_count", files);
    const auto text = [&](const char* name, int i) {
      return std::string(rocksdb_.Call<const char*>(name, files, i));
    };
    const auto key = [&](const char* name, int i) {
      size_t size = 0;
      const char* const bytes =
          rocksdb_.Call<const char*>(name, files, i, &size);
      return std::string(bytes, size);
    };
    for (int i = 0; i < count; ++i) {
      out << text("livefiles_name", i) << " level "
          << rocksdb_.Call<int>("livefiles_level", files, i) << " bytes "
          << rocksdb_.Call<size_t>("livefiles_size", files, i) << " "
          << key("livefiles_smallestkey", i) << ".."
          << key("livefiles_largestkey", i) << " entries "
          << rocksdb_.Call<uint64_t>("livefiles_entries", files, i)
          << " deletions "
          << rocksdb_.Call<uint64_t>("livefiles_deletions", files, i) << "\n";
    }
    rocksdb_.Call<void>("livefiles_destroy", files);
    return out.str();
  }

  std::string VarveTables() {
    std::ostringstream out;
    std::vector<LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    for (const LiveFileMetaData& table : tables) {
      out << table.name << " level " << table.level << " bytes " << table.size
          << " " << table.smallestkey << ".." << table.largestkey << " entries "
          << table.num_entries << " deletions " << table.num_deletions << "\n";
    }
    return out.str();
  }

  void RocksDbPut(void* db, const std::string& key, const std::string& value) {
    void* const options = rocksdb_.Call<void*>("writeoptions_create");
    rocksdb_.CallChecked<void>("put", db, options, key.data(), key.size(),
                               value.data(), value.size());
    rocksdb_.Call<void>("writeoptions_destroy", options);
  }
  void RocksDbFlush(void* db) {
    void* const options = rocksdb_.Call<void*>("flushoptions_create");
    rocksdb_.CallChecked<void>("flush", db, options);
    rocksdb_.Call<void>("flushoptions_destroy", options);
  }

  RocksDbLibrary rocksdb_;
};

TEST_F(LiveFilesInteropTest, BothDescribeTheSameTables) {
  Open();
  Do("put a 1, put c 1, flush, delete a, delete_range b d, put e 1, flush");
  std::vector<LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  ASSERT_EQ(tables.size(), 2u);
  const std::string by_varve = VarveTables();
  Close();
  ByRocksDb([&](void* db) {
    EXPECT_EQ(RocksDbTables(db), by_varve);
    RocksDbPut(db, "m", "1");
    RocksDbPut(db, "n", "1");
    RocksDbFlush(db);
    // Loads the counts.
    const char* const no_key = nullptr;
    rocksdb_.Call<void>("compact_range", db, no_key, size_t{0}, no_key,
                        size_t{0});
    RocksDbPut(db, "z", "1");
    RocksDbFlush(db);
  });
  std::string by_rocksdb;
  ByRocksDb([&](void* db) { by_rocksdb = RocksDbTables(db); });
  Open();
  EXPECT_EQ(VarveTables(), by_rocksdb);
}

// The tools of RocksDB print Varve's properties.
TEST_F(LiveFilesInteropTest, ToolsShowCollectedProperties) {
  class Collector final : public TablePropertiesCollector {
   public:
    Status AddUserKey(const Slice& /*key*/, const Slice& /*value*/,
                      EntryType /*type*/, uint64_t /*sequence*/,
                      uint64_t /*file_size*/) override {
      ++count_;
      return Status::OK();
    }
    Status Finish(UserCollectedProperties* properties) override {
      (*properties)["my.count"] = std::to_string(count_);
      return Status::OK();
    }
    UserCollectedProperties GetReadableProperties() const override {
      return {};
    }
    const char* Name() const override { return "Mine"; }
    bool NeedCompact() const override { return true; }

   private:
    int count_ = 0;
  };
  class Factory final : public TablePropertiesCollectorFactory {
   public:
    TablePropertiesCollector* CreateTablePropertiesCollector(
        Context /*context*/) override {
      return new Collector;
    }
    const char* Name() const override { return "Mine"; }
  };
  options_.table_properties_collector_factories = {std::make_shared<Factory>(),
                                                   std::make_shared<Factory>()};
  Open();
  Do("put a 1, put b 1, flush");
  Close();
  const std::string properties = RunOrFail(
      {"sst_dump", "--file=" + path_, "--command=none", "--show_properties"});
  EXPECT_TRUE(Contains(properties, "my.count")) << properties;
  EXPECT_TRUE(Contains(properties, "property collectors names: [Mine,Mine]"))
      << properties;
  // The mark is in the MANIFEST as RocksDB has it, so that RocksDB opens it.
  ByRocksDb(
      [&](void* db) { EXPECT_TRUE(Contains(RocksDbTables(db), "a..b")); });
  Open();
  TablePropertiesCollection all;
  ASSERT_TRUE(Ok(db_->GetPropertiesOfAllTables(nullptr, &all)));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.begin()->second->user_collected_properties.at("my.count"), "2");
}

// Either engine removes tables of a range; the other one finds the rest.
TEST_F(LiveFilesInteropTest, EitherRemovesTables) {
  Open();
  std::vector<LiveFileMetaData> tables;
  for (const char* key : {"a", "c", "e", "g"}) {
    Do(std::string("put ") + key + " 1, flush");
    db_->GetLiveFilesMetaData(&tables);
    ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {tables[0].name}, 4)));
  }
  Slice begin("a");
  Slice end("b");
  RangePtr range{&begin, &end};
  ASSERT_TRUE(Ok(db_->DeleteFilesInRanges(nullptr, &range, 1)));
  Close();
  ByRocksDb([&](void* db) {
    EXPECT_FALSE(Contains(RocksDbTables(db), "a..a"));
    EXPECT_TRUE(Contains(RocksDbTables(db), "c..c"));
    rocksdb_.CallChecked<void>("delete_file_in_range", db, "c", size_t{1}, "d",
                               size_t{1});
    RocksDbPut(db, "x", "2");
  });
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), {{"e", "1"}, {"g", "1"}, {"x", "2"}}));
}

// The order of the ages is as RocksDB demands it, which checks it at open.
TEST_F(LiveFilesInteropTest, RocksDbReadsWhatWasCompactedWithinLevel0) {
  Open();
  std::map<std::string, std::string> model;
  for (int table = 0; table < 8; ++table) {
    for (int i = 0; i < 40; i += 1 + table % 3) {
      const std::string key = Key(i);
      if ((i + table) % 7 == 0) {
        Delete(key);
        model.erase(key);
      } else {
        model[key] = std::to_string(table);
        Put(key, model[key]);
      }
    }
    Flush();
  }
  const auto by_age = [this] {
    ColumnFamilyMetaData family;
    db_->GetColumnFamilyMetaData(nullptr, &family);
    std::vector<std::string> names;
    for (const auto& table : family.levels[0].files) {
      names.push_back(table.name);
    }
    return names;
  };
  // Among the others, the newest, and the oldest.
  std::vector<std::string> names = by_age();
  ASSERT_EQ(names.size(), 8u);
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {names[2], names[4]}, 0)));
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {names[0], names[1]}, 0)));
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {names[6], names[7]}, 0)));
  ASSERT_EQ(by_age().size(), 4u);
  Close();
  ExpectRocksDbAgrees(path_, ToList(model));
  const std::string checked =
      RunOrFail({"ldb", "--db=" + path_, "checkconsistency"});
  EXPECT_TRUE(Contains(checked, "OK")) << checked;
  ByRocksDb([&](void* db) { RocksDbPut(db, "x", "2"); });
  model["x"] = "2";
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model)));
}

// RocksDB opens a copy of the files that Varve lists.
TEST_F(LiveFilesInteropTest, RocksDbOpensACopyOfTheLiveFiles) {
  Open();
  Do("put a 1, flush, put b 2");
  std::vector<LiveFileStorageInfo> files;
  LiveFilesStorageInfoOptions options;
  options.wal_size_for_flush = UINT64_MAX;
  ASSERT_TRUE(Ok(db_->GetLiveFilesStorageInfo(options, &files)));
  const std::string copy = dir_.Sub("copy");
  std::filesystem::create_directory(copy);
  for (const LiveFileStorageInfo& file : files) {
    const std::string name = "/" + file.relative_filename;
    WriteWholeFile(copy + name,
                   file.replacement_contents.empty()
                       ? ReadWholeFile(path_ + name).substr(0, file.size)
                       : file.replacement_contents);
  }
  Close();
  path_ = copy;
  ByRocksDb([&](void* db) { RocksDbPut(db, "c", "3"); });
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}, {"c", "3"}}));
}

}  // namespace
}  // namespace varve::test
