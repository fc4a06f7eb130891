// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases that RocksDB writes with partitioned indexes and filters,
// with hash indexes, and with first keys in the index, read as RocksDB's writes
// say, and stay so when Varve goes on writing, with partitions or without; and
// RocksDB finds what Varve wrote with partitions, through its filters. Method:
// RocksDB's shared library is loaded beside Varve and driven by its C
// interface, with options drawn at random; a sorted map knows the contents.

#include "table/reader/table.h"
#include "test/testing/engines/rocksdb_database.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

class RocksDb : public RocksDbDatabase {
 public:
  const void* Snapshot() { return Call<const void*>("create_snapshot", db()); }
  void Release(const void* snapshot) {
    Call<void>("release_snapshot", db(), snapshot);
  }
  // Adds a table of these entries to the database.
  void Ingest(const std::string& path,
              const std::map<std::string, std::string>& entries) {
    void* const writer_options = Call<void*>("envoptions_create");
    void* const writer =
        Call<void*>("sstfilewriter_create", writer_options, options());
    CallChecked<void>("sstfilewriter_open", writer, path.c_str());
    for (const auto& [key, value] : entries) {
      CallChecked<void>("sstfilewriter_put", writer, key.data(), key.size(),
                        value.data(), value.size());
    }
    CallChecked<void>("sstfilewriter_finish", writer);
    Call<void>("sstfilewriter_destroy", writer);
    Call<void>("envoptions_destroy", writer_options);
    void* const how = Call<void*>("ingestexternalfileoptions_create");
    const char* const files[] = {path.c_str()};
    CallChecked<void>("ingest_external_file", db(),
                      static_cast<const char* const*>(files), size_t{1}, how);
    Call<void>("ingestexternalfileoptions_destroy", how);
  }
};

// With `partitions`, a two-level index is small enough to have partitions, and
// a filter has them too.
std::string RandomOptions(Rng* random, const std::string& index_type,
                          bool partitions) {
  const auto number = [](const char* name, int value) {
    return std::string(name) + "=" + std::to_string(value) + ";";
  };
  std::string table = "index_type=" + index_type + ";";
  table += number("metadata_block_size",
                  partitions ? 64 : random->Pick({64, 200, 1000, 4096}));
  table += number("block_size", random->Pick({100, 500, 4096}));
  table += number("format_version", random->Between(2, 5));
  // RocksDB takes these only with these types.
  if (index_type != "kHashSearch") {
    table += number("index_block_restart_interval", random->Pick({1, 4, 16}));
  }
  if (index_type == "kTwoLevelIndexSearch") {
    table +=
        number("partition_filters", !partitions && random->OneIn(4) ? 0 : 1);
  }
  table += std::string("checksum=") +
           random->Pick<const char*>(
               {"kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"}) +
           ";";
  table += std::string("index_shortening=") +
           random->Pick<const char*>({"kNoShortening", "kShortenSeparators",
                                      "kShortenSeparatorsAndSuccessor"}) +
           ";";
  table += number("enable_index_compression", random->Between(0, 1));
  const char* const filter =
      random->Pick<const char*>({"bloomfilter:10:false", "bloomfilter:10:false",
                                 "ribbonfilter:10", "nullptr"});
  table += std::string("filter_policy=") +
           (partitions ? "bloomfilter:10:false" : filter) + ";";
  const bool prefixes = index_type == "kHashSearch" || random->OneIn(3);
  if (prefixes) {
    table += number("whole_key_filtering", random->OneIn(3) ? 0 : 1);
  }
  std::string options = "create_if_missing=true;";
  options += number("write_buffer_size", 64 << 10);
  options += number("target_file_size_base", random->Pick({20000, 200000}));
  options += std::string("compression=") +
             random->Pick<const char*>({"kNoCompression", "kSnappyCompression",
                                        "kLZ4Compression", "kZSTD"}) +
             ";";
  if (prefixes) options += "prefix_extractor=rocksdb.FixedPrefix.5;";
  return options + "block_based_table_factory={" + table + "};";
}

class IndexTypesInteropTest : public DbTestBase {
 protected:
  std::string RandomKey(Rng* random) {
    // Hash indexes need keys that have a prefix.
    return std::string("k") + static_cast<char>('a' + random->Below(4)) +
           std::to_string(1000000 + random->Below(3000)) +
           std::string(random->Below(20), 'x');
  }

  void Write(RocksDb* rocksdb, Rng* random, int count) {
    for (int i = 0; i < count; ++i) {
      // Many versions of one key, which snapshots keep.
      const std::string key =
          random->OneIn(4) ? "ka1000042" : RandomKey(random);
      if (random->OneIn(10)) {
        rocksdb->Delete(key);
        model_.erase(key);
      } else {
        model_[key] = random->Bytes(random->Below(100));
        rocksdb->Put(key, model_[key]);
      }
      if (random->OneIn(50)) snapshots_.push_back(rocksdb->Snapshot());
      if (random->OneIn(700)) rocksdb->Flush();
      if (random->OneIn(2000)) rocksdb->CompactAll();
    }
  }

  // Of tables of all kinds that Varve writes.
  static Options VarveOptions(Rng* random) {
    Options options;
    options.write_buffer_size = 64 << 10;
    options.target_file_size_base = random->Pick<uint64_t>({20000, 200000});
    options.block_size = random->Pick<size_t>({100, 500, 4096});
    if (!random->OneIn(4)) {
      options.index_type = IndexType::kTwoLevelIndexSearch;
    }
    options.metadata_block_size = random->Pick<uint64_t>({64, 500, 4096});
    options.partition_filters = !random->OneIn(4);
    if (!random->OneIn(4)) options.filter_policy = NewBloomFilterPolicy(10);
    options.cache_index_and_filter_blocks = random->OneIn(2);
    options.block_cache =
        NewBlockCache(random->Pick<size_t>({0, 64 << 10, 8 << 20}));
    return options;
  }

  EntryList Expected() const { return {model_.begin(), model_.end()}; }

  // Reads all in all ways.
  void Check(Rng* random) {
    EXPECT_TRUE(HasEntries(db_.get(), Expected()));
    EXPECT_TRUE(Ok(db_->VerifyChecksum()));
    std::vector<Slice> keys;
    std::vector<std::string> asked;
    for (const auto& [key, value] : model_) {
      asked.push_back(key);
      asked.push_back(key + "!");
    }
    for (int i = 0; i < 1000; ++i) asked.push_back(RandomKey(random));
    asked.emplace_back();
    asked.emplace_back("zzz");
    const auto it = db_->NewIterator({});
    for (const std::string& key : asked) {
      keys.push_back(key);
      const auto place = model_.find(key);
      ASSERT_EQ(Get(key), place == model_.end() ? "NotFound" : place->second);
      it->Seek(key);
      const auto next = model_.lower_bound(key);
      ASSERT_EQ(it->Valid(), next != model_.end());
      if (it->Valid()) {
        ASSERT_EQ(it->key().ToString(), next->first);
      }
      it->SeekForPrev(key);
      const auto after = model_.upper_bound(key);
      ASSERT_EQ(it->Valid(), after != model_.begin());
      if (it->Valid()) {
        ASSERT_EQ(it->key().ToString(), std::prev(after)->first);
      }
    }
    std::vector<std::string> values;
    const auto statuses = db_->MultiGet({}, keys, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto place = model_.find(asked[i]);
      ASSERT_EQ(statuses[i].ok(), place != model_.end());
      if (statuses[i].ok()) {
        ASSERT_EQ(values[i], place->second);
      }
    }
  }

  // Returns how many of the tables have each type of index.
  std::map<uint32_t, int> IndexTypes() {
    static const InternalKeyComparator comparator(BytewiseComparator());
    std::map<uint32_t, int> types;
    for (const std::string& path : FilesEndingIn(path_, ".sst")) {
      TableReaderOptions options;
      options.comparator = &comparator;
      options.file_name = path;
      options.file_size = std::filesystem::file_size(path);
      std::unique_ptr<RandomAccessFile> file;
      std::unique_ptr<Table> table;
      EXPECT_TRUE(
          Ok(Env::Default()->NewRandomAccessFile(path, FileOptions(), &file)));
      EXPECT_TRUE(Ok(Table::Open(options, std::move(file), &table)));
      if (table == nullptr) continue;
      ++types[table->properties().index_type];
      partitions_ += table->properties().index_partitions;
      if (table->core().filter_partitions != nullptr) {
        filter_partitions_ += table->core().filter_partitions->size();
      }
    }
    return types;
  }

  std::map<std::string, std::string> model_;
  std::vector<const void*> snapshots_;
  uint64_t partitions_ = 0;
  size_t filter_partitions_ = 0;
};

constexpr const char* kIndexTypes[] = {
    "kTwoLevelIndexSearch", "kHashSearch", "kTwoLevelIndexSearch",
    "kBinarySearchWithFirstKey", "kTwoLevelIndexSearch"};

TEST_F(IndexTypesInteropTest, RandomDatabasesReadAsTheyWereWritten) {
  Rng random(TestSeed());
  std::map<uint32_t, int> types;
  const int rounds = EnvironmentInt("VARVE_INDEX_TYPE_ROUNDS", 10);
  for (int round = 0; round < rounds; ++round) {
    RocksDb rocksdb;
    ASSERT_TRUE(rocksdb.loaded());
    path_ = dir_.Sub("db" + std::to_string(round));
    model_.clear();
    const std::string options = RandomOptions(
        &random,
        kIndexTypes[static_cast<size_t>(round) % std::size(kIndexTypes)],
        round < static_cast<int>(std::size(kIndexTypes)));
    SCOPED_TRACE(options);
    ASSERT_NO_FATAL_FAILURE(rocksdb.Open(path_, options));
    Write(&rocksdb, &random, random.Between(500, 5000));
    const bool ingests = random.OneIn(2);
    if (ingests) {
      rocksdb.Flush();
      std::map<std::string, std::string> ingested;
      for (int i = 0; i < 300; ++i) {
        ingested[RandomKey(&random)] = random.Bytes(20);
      }
      rocksdb.Ingest(path_ + ".ingested", ingested);
      for (const auto& [key, value] : ingested) model_[key] = value;
      Write(&rocksdb, &random, 300);
    }
    if (random.OneIn(2)) rocksdb.Flush();
    for (const void* snapshot : snapshots_) rocksdb.Release(snapshot);
    snapshots_.clear();
    rocksdb.Close();
    for (const auto& [type, count] : IndexTypes()) types[type] += count;

    options_ = VarveOptions(&random);
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
    ASSERT_NO_FATAL_FAILURE(Check(&random));
    db_.reset();
    const std::string copy = path_ + "-repaired";
    CopyDirectory(path_, copy);
    ASSERT_TRUE(Ok(RepairDB(copy, options_)));
    // Only the MANIFEST tells how old an ingested table is.
    if (!ingests) {
      ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, copy, &db_)));
      EXPECT_TRUE(HasEntries(db_.get(), Expected()));
      db_.reset();
    }
    // Varve's own tables, beside RocksDB's.
    Open();
    for (int i = 0; i < 300; ++i) {
      const std::string key = RandomKey(&random);
      model_[key] = "varve";
      Put(key, "varve");
    }
    Flush();
    ASSERT_NO_FATAL_FAILURE(Check(&random));
    CompactAll();
    ASSERT_NO_FATAL_FAILURE(Check(&random));
    Close();
    ExpectRocksDbAgrees(path_, Expected());
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    std::filesystem::remove_all(path_);
    std::filesystem::remove_all(copy);
  }
  for (const uint32_t type : {1u, 2u, 3u}) {
    EXPECT_TRUE(rounds < 5 || types[type] > 0) << type;
  }
  EXPECT_GT(partitions_, 0u);
  EXPECT_GT(filter_partitions_, 0u);
}

TEST_F(IndexTypesInteropTest, EnginesWritePartitionsInTurn) {
  Rng random(TestSeed());
  const int rounds = EnvironmentInt("VARVE_INDEX_TYPE_ROUNDS", 2);
  for (int round = 0; round < rounds; ++round) {
    path_ = dir_.Sub("turns" + std::to_string(round));
    model_.clear();
    for (int session = 0; session < 4; ++session) {
      options_ = VarveOptions(&random);
      options_.create_if_missing = true;
      if (session == 0) {  // Both kinds of partitions are there in each run.
        options_.index_type = IndexType::kTwoLevelIndexSearch;
        options_.partition_filters = true;
        options_.filter_policy = NewBloomFilterPolicy(10);
      }
      Open();
      ASSERT_NO_FATAL_FAILURE(Check(&random));
      for (int i = 0; i < 2000; ++i) {
        // Many versions of one key, which snapshots keep.
        const std::string key =
            random.OneIn(4) ? "ka1000042" : RandomKey(&random);
        model_[key] = random.Bytes(random.Below(100));
        Put(key, model_[key]);
        if (random.OneIn(50)) snapshots_.push_back(db_->GetSnapshot());
        if (random.OneIn(700)) Flush();
      }
      Flush();
      if (random.OneIn(2)) CompactAll();
      ASSERT_NO_FATAL_FAILURE(Check(&random));
      for (const void* snapshot : snapshots_) {
        db_->ReleaseSnapshot(static_cast<const Snapshot*>(snapshot));
      }
      snapshots_.clear();
      Close();
      for (const auto& [type, count] : IndexTypes()) {
        EXPECT_TRUE(type == 0 || type == 2);
      }
      ExpectRocksDbAgrees(path_, Expected());

      RocksDb rocksdb;
      ASSERT_TRUE(rocksdb.loaded());
      const std::string options =
          RandomOptions(&random, "kTwoLevelIndexSearch", true);
      SCOPED_TRACE(options);
      ASSERT_NO_FATAL_FAILURE(rocksdb.Open(path_, options));
      for (const auto& [key, value] : model_) {
        ASSERT_EQ(rocksdb.Get(key), value);
        ASSERT_EQ(rocksdb.Get(key + "!"), "NotFound");
      }
      Write(&rocksdb, &random, 500);
      if (random.OneIn(2)) rocksdb.CompactAll();
      for (const void* snapshot : snapshots_) rocksdb.Release(snapshot);
      snapshots_.clear();
      rocksdb.Close();
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    std::filesystem::remove_all(path_);
  }
  EXPECT_GT(partitions_, 0u);
  EXPECT_GT(filter_partitions_, 0u);
}

}  // namespace
}  // namespace varve::test
