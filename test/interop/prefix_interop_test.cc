// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB and Varve use each other's filters of prefixes, and no key is
// missed when the extractor changes between them. Method: RocksDB's shared
// library is loaded beside Varve and driven by its C interface. Both write one
// database in turn, with extractors and filters drawn at random, and each
// iterates within prefixes; a sorted map knows the contents. The filters of
// equal keys are equal.

#include "test/testing/engines/rocksdb_database.h"
#include "test/testing/seed.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/filter_policy.h"
#include "varve/slice_transform.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

// How keys get prefixes and filters.
struct Filters {
  std::string extractor = "fixed:5";  // Or "nullptr".
  bool whole_keys = true;
  bool partitions = false;
};

class RocksDb : public RocksDbDatabase {
 public:
  void Open(const std::string& path, const Filters& filters) {
    std::string table = "filter_policy=bloomfilter:10:false;";
    table += filters.whole_keys ? "" : "whole_key_filtering=false;";
    if (filters.partitions) {
      table +=
          "index_type=kTwoLevelIndexSearch;partition_filters=true;"
          "metadata_block_size=128;";
    }
    RocksDbDatabase::Open(
        path,
        "create_if_missing=true;compression=kNoCompression;prefix_extractor=" +
            filters.extractor + ";block_based_table_factory={" + table + "};");
  }
  bool Has(const std::string& key) { return Get(key) != "NotFound"; }
  // Returns the keys from the target to the end of its prefix.
  std::string KeysFrom(const std::string& target) {
    void* const read = Call<void*>("readoptions_create");
    Call<void>("readoptions_set_prefix_same_as_start", read,
               static_cast<unsigned char>(1));
    void* const it = Call<void*>("create_iterator", db(), read);
    std::string keys;
    Call<void>("iter_seek", it, target.data(), target.size());
    while (Call<unsigned char>("iter_valid", it) != 0) {
      size_t size = 0;
      const char* const key = Call<const char*>("iter_key", it, &size);
      keys += std::string(key, size) + " ";
      Call<void>("iter_next", it);
    }
    Call<void>("iter_destroy", it);
    Call<void>("readoptions_destroy", read);
    return keys;
  }
  // Returns the value of a ticker.
  uint64_t Ticker(const std::string& name) {
    char* const text = Call<char*>("options_statistics_get_string", options());
    const std::string all = text;
    Call<void>("free", static_cast<void*>(text));
    const std::string before = "rocksdb." + name + " COUNT : ";
    const size_t at = all.find(before);
    EXPECT_NE(at, std::string::npos) << name;
    return strtoull(all.c_str() + at + before.size(), nullptr, 10);
  }
};

class PrefixInteropTest : public DbTestBase {
 protected:
  PrefixInteropTest() {
    options_.statistics = NewTestStatistics();
    options_.compression = CompressionType::kNone;
    options_.write_buffer_size = 4 << 20;
  }

  void OpenVarve(const Filters& filters) {
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.whole_key_filtering = filters.whole_keys;
    options_.index_type = filters.partitions ? IndexType::kTwoLevelIndexSearch
                                             : IndexType::kBinarySearch;
    options_.partition_filters = filters.partitions;
    options_.metadata_block_size = 128;
    ASSERT_TRUE(
        Ok(SetOption("prefix_extractor", filters.extractor, &options_)));
    Open();
  }
  std::string KeysFrom(const std::string& target) {
    const auto it = db_->NewIterator({.prefix_same_as_start = true});
    std::string keys;
    for (it->Seek(target); it->Valid(); it->Next()) {
      keys += it->key().ToString() + " ";
    }
    EXPECT_TRUE(Ok(it->status()));
    return keys;
  }
  uint64_t Useful() const {
    return options_.statistics->getTickerCount(Ticker::kPrefixFilterUseful);
  }
  // The keys "k000a0", "k000a1", ..., "k000c9", "k002a0", ...
  static std::vector<std::string> SomeKeys() {
    std::vector<std::string> keys;
    for (int i = 0; i < 1000; i += 2) {
      char text[16];
      snprintf(text, sizeof(text), "k%03d", i);
      for (const char* end : {"a0", "a1", "b0", "c9"}) {
        keys.push_back(text + std::string(end));
      }
    }
    return keys;
  }
  // Returns the only table of the database, and the body of its filter.
  std::string FilterOf(const std::string& path) {
    const auto files = FilesEndingIn(path, ".sst");
    EXPECT_EQ(files.size(), 1u);
    std::ifstream file(files.front(), std::ios::binary);
    const testing::TableBytes table(
        std::string(std::istreambuf_iterator<char>(file), {}));
    EXPECT_EQ(table.properties().prefix_extractor, "rocksdb.FixedPrefix.5");
    EXPECT_TRUE(table.properties().prefix_filtering);
    const auto filter =
        table.meta_blocks().find("fullfilter.rocksdb.BuiltinBloomFilter");
    EXPECT_NE(filter, table.meta_blocks().end());
    return filter == table.meta_blocks().end()
               ? ""
               : table.ReadBlock(filter->second);
  }
};

TEST_F(PrefixInteropTest, FiltersOfEqualKeysAreEqual) {
  for (const bool whole_keys : {true, false}) {
    const Filters filters{.whole_keys = whole_keys};
    const std::string theirs = dir_.Sub(whole_keys ? "rw" : "rp");
    RocksDb rocksdb;
    rocksdb.Open(theirs, filters);
    db_.reset();
    std::filesystem::remove_all(path_);
    OpenVarve(filters);
    for (const std::string& key : SomeKeys()) {
      rocksdb.Put(key, "v");
      Put(key, "v");
    }
    rocksdb.Flush();
    Flush();
    rocksdb.Close();
    Close();
    const std::string filter = FilterOf(path_);
    EXPECT_FALSE(filter.empty());
    const std::string other = FilterOf(theirs);
    ASSERT_EQ(filter.size(), other.size());
    if (whole_keys) {
      EXPECT_TRUE(filter == other);
      continue;
    }
    // RocksDB adds an empty prefix, too.
    for (size_t i = 0; i < filter.size(); ++i) {
      ASSERT_EQ(filter[i] & ~other[i], 0) << "byte " << i;
    }
  }
}

TEST_F(PrefixInteropTest, VarveAsksFiltersOfRocksDb) {
  for (const bool partitions : {false, true}) {
    for (const bool whole_keys : {true, false}) {
      const Filters filters{.whole_keys = whole_keys, .partitions = partitions};
      std::filesystem::remove_all(path_);
      RocksDb rocksdb;
      rocksdb.Open(path_, filters);
      for (const std::string& key : SomeKeys()) rocksdb.Put(key, "v");
      rocksdb.Flush();
      rocksdb.Close();
      OpenVarve(filters);
      const uint64_t before = Useful();
      for (int i = 0; i < 1000; ++i) {
        char prefix[16];
        snprintf(prefix, sizeof(prefix), "k%03da", i);
        const std::string p = prefix;
        ASSERT_EQ(KeysFrom(p), i % 2 == 0 ? p + "0 " + p + "1 " : "") << p;
        ASSERT_EQ(Get(p + "1"), i % 2 == 0 ? "v" : "NotFound");
      }
      EXPECT_GT(Useful() - before, 450u);
      Close();
    }
  }
}

TEST_F(PrefixInteropTest, RocksDbAsksFiltersOfVarve) {
  for (const bool partitions : {false, true}) {
    for (const bool whole_keys : {true, false}) {
      const Filters filters{.whole_keys = whole_keys, .partitions = partitions};
      std::filesystem::remove_all(path_);
      OpenVarve(filters);
      for (const std::string& key : SomeKeys()) Put(key, "v");
      Flush();
      Close();
      RocksDb rocksdb;
      rocksdb.Open(path_, filters);
      for (int i = 0; i < 1000; ++i) {
        char prefix[16];
        snprintf(prefix, sizeof(prefix), "k%03da", i);
        const std::string p = prefix;
        ASSERT_EQ(rocksdb.KeysFrom(p), i % 2 == 0 ? p + "0 " + p + "1 " : "");
        ASSERT_EQ(rocksdb.Has(p + "1"), i % 2 == 0);
      }
      EXPECT_GT(rocksdb.Ticker("bloom.filter.prefix.useful"), 450u);
      rocksdb.Close();
    }
  }
}

TEST_F(PrefixInteropTest, BothFindAllKeysInTurn) {
  Rng random(TestSeed());
  const int sessions = EnvironmentInt("VARVE_PREFIX_SESSIONS", 20);
  std::map<std::string, std::string> model;
  const auto random_key = [&random] {
    // RocksDB asserts that all keys that it finds have a prefix.
    std::string key(5 + random.Below(4), 0);
    for (char& c : key) c = random.Pick({'a', 'b', 'c', '\x7F'});
    return key;
  };
  for (int session = 0; session < sessions && !HasFailure(); ++session) {
    const Filters filters{
        .extractor = random.Pick<const char*>(
            {"nullptr", "fixed:2", "fixed:5", "capped:3", "rocksdb.Noop"}),
        .whole_keys = random.OneIn(2),
        .partitions = random.OneIn(3)};
    const bool is_varve = random.OneIn(2);
    SCOPED_TRACE("session " + std::to_string(session) + ", " +
                 (is_varve ? "Varve, " : "RocksDB, ") + filters.extractor);
    RocksDb rocksdb;
    if (is_varve) {
      OpenVarve(filters);
    } else {
      rocksdb.Open(path_, filters);
    }
    for (uint64_t i = random.Below(300); i > 0; --i) {
      const std::string key = random_key();
      if (random.OneIn(3)) {
        is_varve ? Delete(key) : rocksdb.Delete(key);
        model.erase(key);
      } else {
        is_varve ? Put(key, "v") : rocksdb.Put(key, "v");
        model[key] = "v";
      }
    }
    if (random.OneIn(2)) is_varve ? Flush() : rocksdb.Flush();
    if (random.OneIn(4)) is_varve ? CompactAll() : rocksdb.CompactAll();
    Options parsed;
    ASSERT_TRUE(Ok(SetOption("prefix_extractor", filters.extractor, &parsed)));
    const SliceTransform* const extractor = parsed.prefix_extractor.get();
    for (int i = 0; i < 200; ++i) {
      const std::string target = random_key();
      std::string expected;
      for (auto at = model.lower_bound(target); at != model.end(); ++at) {
        if (extractor != nullptr &&
            extractor->Transform(at->first) != extractor->Transform(target)) {
          break;
        }
        expected += at->first + " ";
      }
      ASSERT_EQ(is_varve ? KeysFrom(target) : rocksdb.KeysFrom(target),
                expected)
          << target;
      ASSERT_EQ(is_varve ? Get(target) != "NotFound" : rocksdb.Has(target),
                model.count(target) != 0);
    }
    if (is_varve) {
      Close();
    } else {
      rocksdb.Close();
    }
  }
}

TEST_F(PrefixInteropTest, SstDumpShowsTheExtractor) {
  OpenVarve({.extractor = "capped:7"});
  Put("a", "v");
  Flush();
  Close();
  const std::string shown = RunOrFail(
      {"sst_dump", "--file=" + path_, "--show_properties", "--command=none"});
  EXPECT_TRUE(Contains(shown, "prefix extractor name: rocksdb.CappedPrefix.7"))
      << shown;
}

}  // namespace
}  // namespace varve::test
