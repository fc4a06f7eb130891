// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: a table whose index is loaded at first use tells its properties before,
// is loaded once by however many threads, is charged for what it takes, and
// reports damage and failed reads to the read that needs the index, and only to
// that. Method: an Env that counts reads, holds them up, fails them, and spoils
// what they return. Threads that load, evict and ask.

#include "env/file_names.h"
#include "monitoring/statistics.h"
#include "table/build/table_builder.h"
#include "table/cache/block_cache.h"
#include "table/reader/table_cache.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/seed.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/gate.h"
#include "test/testing/threads/run_threads.h"
#include "varve/statistics.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

constexpr char kPath[] = "/db";
constexpr int kKeys = 200;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

// Tampers with reads.
class TamperingEnv : public EnvWrapper {
 public:
  using EnvWrapper::EnvWrapper;

  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    std::unique_ptr<RandomAccessFile> opened;
    Status s = EnvWrapper::NewRandomAccessFile(path, options, &opened);
    if (s.ok()) *file = std::make_unique<File>(std::move(opened), this);
    return s;
  }

  test::Gate gate;  // For reads.
  std::atomic<int> reads = 0;
  std::atomic<bool> fails = false;
  std::atomic<bool> spoils = false;  // 64 bytes in the middle.

 private:
  class File : public RandomAccessFile {
   public:
    File(std::unique_ptr<RandomAccessFile> target, TamperingEnv* env)
        : target_(std::move(target)), env_(env) {}
    Status Read(uint64_t offset, size_t count, Slice* result,
                char* scratch) const override {
      ++env_->reads;
      env_->gate.Wait();
      if (env_->fails) return Status::IOError("the device fails");
      Status s = target_->Read(offset, count, result, scratch);
      if (!s.ok() || !env_->spoils) return s;
      if (result->data() != scratch) {
        memcpy(scratch, result->data(), result->size());
        *result = Slice(scratch, result->size());
      }
      const size_t middle = result->size() / 2;
      memset(scratch + middle, 0xFF, std::min<size_t>(64, middle));
      return s;
    }

   private:
    const std::unique_ptr<RandomAccessFile> target_;
    TamperingEnv* const env_;
  };
};

class TableLoadingTest : public ::testing::Test {
 protected:
  TableLoadingTest() {
    EXPECT_TRUE(env_.CreateDirIfMissing(kPath).ok());
    base_.comparator = Comparator();
    base_.statistics = StatisticsImpl::Of(statistics_.get());
    base_.filter_policy = NewBloomFilterPolicy(10);
    base_.min_deferred_bytes = 0;
  }

  static std::string KeyAt(int i) {
    char text[32];
    snprintf(text, sizeof(text), "key%06d", i);
    return MakeInternalKey(text, PackTrailer(1, ValueType::kValue));
  }
  // Writes a table of one block for each key. The values are its number.
  TableFile Write(uint64_t number, int keys = kKeys, bool deletes = false,
                  ChecksumType checksum = ChecksumType::kXxh3) {
    std::unique_ptr<WritableFile> file;
    EXPECT_TRUE(
        env_.NewWritableFile(TableFileName(kPath, number), FileOptions(), &file)
            .ok());
    TableBuilderOptions options;
    options.comparator = Comparator();
    options.block_size = 1;
    options.filter_policy = base_.filter_policy;
    options.checksum = checksum;
    TableBuilder builder(options, file.get());
    for (int i = 0; i < keys; ++i) builder.Add(KeyAt(i), Number(number));
    if (deletes) builder.AddRangeTombstone("key0001", "key0002", 2);
    EXPECT_TRUE(builder.Finish().ok());
    EXPECT_TRUE(file->Close().ok());
    TableFile result{.number = number, .size = builder.FileSize()};
    return result;
  }
  static std::string Number(uint64_t number) { return std::to_string(number); }
  std::unique_ptr<TableCache> NewCache(bool charge = false,
                                       bool uncached_open = false) {
    FileOptions options{.uncached_open = uncached_open};
    return std::make_unique<TableCache>(kPath, &env_, options, base_, -1,
                                        charge);
  }
  // The value of a key, or the error.
  static std::string Read(TableCache* cache, const TableFile& file,
                          CachedTableHandle* handle, int key = 7) {
    const Table* table = nullptr;
    std::shared_ptr<Table> owner;
    const Status s = cache->Find(file, handle, &table, &owner);
    return s.ok() ? ValueIn(*table, key) : s.ToString();
  }
  static std::string ValueIn(const Table& table, int key) {
    LookupState state;
    std::string value;
    const Status s = test::Get(table, KeyAt(key), &state, &value);
    if (!s.ok()) return s.ToString();
    return state == LookupState::kFound ? value : "not found";
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  TamperingEnv env_{memory_.get()};
  std::shared_ptr<Statistics> statistics_ = CreateDBStatistics();
  TableReaderOptions base_;
};

TEST_F(TableLoadingTest, ACheckedTableIsLoadedAtItsFirstRead) {
  const TableFile file = Write(7);
  const auto cache = NewCache();
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  EXPECT_EQ(handle.table.load(), nullptr);
  const size_t before = cache->ApproximateMemoryUsage();
  EXPECT_LT(before, size_t{4000});
  std::shared_ptr<Table> described;
  ASSERT_TRUE(cache->FindDescription(file, &described).ok());
  EXPECT_FALSE(described->is_loaded());
  EXPECT_EQ(described->properties().num_entries, uint64_t{kKeys});

  EXPECT_EQ(Read(cache.get(), file, &handle), "7");
  EXPECT_TRUE(described->is_loaded());
  EXPECT_EQ(handle.table.load(), described.get());
  EXPECT_GT(cache->ApproximateMemoryUsage(), before + 16 * kKeys);
  const int reads = env_.reads;
  EXPECT_EQ(Read(cache.get(), file, &handle), "7");
  EXPECT_EQ(env_.reads.load(), reads + 1);  // Its block.
  EXPECT_EQ(Read(cache.get(), file, &handle, kKeys), "not found");
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNoFileOpens), 1u);
}

TEST_F(TableLoadingTest, AFirstReadWithoutACheckLoadsAtOnce) {
  const TableFile file = Write(7);
  const auto cache = NewCache();
  CachedTableHandle handle;
  EXPECT_EQ(Read(cache.get(), file, &handle), "7");
  // One read of the file's end, and one of the block.
  EXPECT_EQ(env_.reads.load(), 2);
}

TEST_F(TableLoadingTest, SmallTablesAreLoadedWhenTheyAreChecked) {
  base_.min_deferred_bytes = TableReaderOptions().min_deferred_bytes;
  const TableFile small = Write(7);
  TableFile large = Write(8, 10000);
  const auto cache = NewCache();
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(small, &handle).ok());
  EXPECT_NE(handle.table.load(), nullptr);
  EXPECT_EQ(env_.reads.load(), 1);
  EXPECT_EQ(Read(cache.get(), small, &handle), "7");

  CachedTableHandle large_handle;
  // The end of the file, which is large, and the index for its checksum.
  large.tail_size = large.size / 2;
  env_.reads = 0;
  ASSERT_TRUE(cache->Check(large, &large_handle).ok());
  EXPECT_EQ(large_handle.table.load(), nullptr);
  EXPECT_EQ(env_.reads.load(), 2);
  EXPECT_EQ(Read(cache.get(), large, &large_handle, 9999), "8");
  EXPECT_EQ(env_.reads.load(), 5);  // Filter, index, and the block.
}

TEST_F(TableLoadingTest, UncachedOpensLoadAllAtOnce) {
  const TableFile file = Write(7);
  const auto cache = NewCache(false, true);
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  // Footer, metaindex, properties, filter, index.
  EXPECT_EQ(env_.reads.load(), 5);
  EXPECT_EQ(Read(cache.get(), file, &handle), "7");
  EXPECT_EQ(env_.reads.load(), 6);
}

TEST_F(TableLoadingTest, ReadsReportFailuresAndTryAgain) {
  const TableFile file = Write(7);
  const auto cache = NewCache();
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  const size_t memory = cache->ApproximateMemoryUsage();
  env_.fails = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Read(cache.get(), file, &handle), "IO error: the device fails");
  }
  env_.fails = false;
  env_.spoils = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Read(cache.get(), file, &handle),
                HasSubstr("Corruption: block checksum mismatch"));
    const auto iterator = cache->NewIterator(ReadOptions(), file, &handle);
    iterator->SeekToFirst();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_THAT(iterator->status().ToString(), HasSubstr("000007.sst"));
  }
  env_.spoils = false;
  EXPECT_EQ(handle.table.load(), nullptr);
  EXPECT_EQ(cache->ApproximateMemoryUsage(), memory);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNoFileErrors), 9u);
  EXPECT_EQ(Read(cache.get(), file, &handle), "7");
  EXPECT_EQ(Read(cache.get(), file, &handle, kKeys - 1), "7");
}

TEST_F(TableLoadingTest, AnIndexDecodedInPartIsForgotten) {
  const TableFile file = Write(7, kKeys, false, ChecksumType::kNone);
  const auto cache = NewCache();
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  env_.spoils = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Read(cache.get(), file, &handle), HasSubstr("index: entry at"));
  }
  env_.spoils = false;
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_EQ(Read(cache.get(), file, &handle, i), "7");
  }
  const size_t memory = cache->ApproximateMemoryUsage();
  const auto other = NewCache();
  std::shared_ptr<Table> table;
  ASSERT_TRUE(other->Find(file, &table).ok());
  EXPECT_EQ(other->ApproximateMemoryUsage(), memory);
}

TEST_F(TableLoadingTest, ACheckFindsADamagedIndex) {
  const TableFile file = Write(7);
  std::string contents;
  ASSERT_TRUE(ReadFileToString(&env_, TableFileName(kPath, 7), &contents).ok());
  Footer footer;
  ASSERT_TRUE(footer.DecodeFrom(contents, "", contents.size()).ok());
  const auto write = [&] {
    ASSERT_TRUE(
        WriteStringToFile(&env_, contents, TableFileName(kPath, 7), false)
            .ok());
  };
  const size_t middle = footer.index.offset + footer.index.size / 2;
  contents[middle] ^= 1;
  write();
  CachedTableHandle handle;
  auto cache = NewCache();
  const Status checked = cache->Check(file, &handle);
  EXPECT_THAT(checked.ToString(),
              HasSubstr("Corruption: block checksum mismatch"));
  EXPECT_THAT(checked.ToString(),
              HasSubstr("offset " + std::to_string(footer.index.offset)));
  // Whoever needs no index finds nothing wrong.
  std::shared_ptr<Table> table;
  ASSERT_TRUE(cache->FindDescription(file, &table).ok());
  EXPECT_EQ(table->properties().num_entries, uint64_t{kKeys});
  EXPECT_EQ(Read(cache.get(), file, &handle), checked.ToString());
}

TEST_F(TableLoadingTest, RangeDeletionsAreThereBeforeTheIndex) {
  const TableFile file = Write(7, kKeys, true);
  const auto cache = NewCache();
  std::shared_ptr<Table> table;
  ASSERT_TRUE(cache->FindDescription(file, &table).ok());
  EXPECT_FALSE(table->is_loaded());
  ASSERT_NE(table->tombstones(), nullptr);
  CachedTableHandle handle;
  EXPECT_EQ(Read(cache.get(), file, &handle, 7), "7");
  const auto state = [&](int key) {
    LookupState found;
    std::string value;
    EXPECT_TRUE(
        test::GetAt(*table, ExtractUserKey(KeyAt(key)), 5, &found, &value)
            .ok());
    return found;
  };
  EXPECT_EQ(state(150), LookupState::kDeleted);
  EXPECT_EQ(state(50), LookupState::kFound);
}

TEST_F(TableLoadingTest, TheBlockCacheIsChargedForWhatIsLoaded) {
  const std::shared_ptr<Cache> blocks = NewBlockCache(size_t{8} << 20);
  base_.block_cache = static_cast<BlockCache*>(blocks.get());
  std::vector<TableFile> files;
  // One shard's.
  for (uint64_t i = 1; i <= 40; ++i) files.push_back(Write(13 * i, 1000));
  auto cache = NewCache(true);
  for (const TableFile& file : files) {
    CachedTableHandle handle;
    ASSERT_TRUE(cache->Check(file, &handle).ok());
  }
  const size_t described = blocks->GetUsage();
  EXPECT_EQ(described, cache->ApproximateMemoryUsage());
  CachedTableHandle handle;
  for (const TableFile& file : files) {
    std::shared_ptr<Table> table;
    ASSERT_TRUE(cache->Find(file, &table).ok());
    EXPECT_EQ(blocks->GetUsage(), cache->ApproximateMemoryUsage());
  }
  // A part of the tables had to go.
  EXPECT_GT(blocks->GetUsage(), described);
  EXPECT_LE(blocks->GetUsage(), blocks->GetCapacity() / 2 / 13 + 100000);
  EXPECT_EQ(Read(cache.get(), files[0], &handle), "13");
  cache.reset();
  EXPECT_EQ(blocks->GetUsage(), 0u);
  base_.block_cache = nullptr;
}

// The entries of a table, and how reading them ended.
std::string Scan(const Table& table) {
  std::string all;
  const auto iterator = table.NewIterator(ReadOptions());
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    all += iterator->key().ToString() + "=" + iterator->value().ToString();
    all.push_back('\n');
  }
  return all + iterator->status().ToString();
}

// Tables of other programs, and damaged and malicious ones.
TEST_F(TableLoadingTest, FixturesYieldTheSameInBothWays) {
  int deferred_tables = 0;
  int refused_tables = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::FixturesDir())) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".sst") && !path.ends_with(".ldb")) continue;
    SCOPED_TRACE(path);
    TableReaderOptions options = base_;
    options.file_name = path;
    options.file_size = entry.file_size();
    const auto open = [&](std::unique_ptr<Table>* table) {
      std::unique_ptr<RandomAccessFile> file;
      Status s =
          Env::Default()->NewRandomAccessFile(path, FileOptions(), &file);
      return s.ok() ? Table::Open(options, std::move(file), table) : s;
    };
    std::unique_ptr<Table> whole;
    const Status s = open(&whole);
    for (const IndexLoading loading :
         {IndexLoading::kAtFirstUse, IndexLoading::kVerifiedAtFirstUse}) {
      options.index_loading = loading;
      std::unique_ptr<Table> later;
      Status loaded = open(&later);
      if (loaded.ok()) {
        deferred_tables += !later->is_loaded();
        loaded = later->Load();
      }
      EXPECT_EQ(loaded.ToString(), s.ToString());
      if (!loaded.ok() || !s.ok()) {
        ++refused_tables;
        continue;
      }
      EXPECT_EQ(Scan(*later), Scan(*whole));
      EXPECT_EQ(later->ApproximateMemoryUsage(),
                whole->ApproximateMemoryUsage());
      EXPECT_EQ(later->core().filter.kind(), whole->core().filter.kind());
      later->VerifyChecksum().IgnoreError();
    }
    options.index_loading = IndexLoading::kAtOpen;
  }
  EXPECT_GT(deferred_tables, 100);
  EXPECT_GT(refused_tables, 10);
}

// B1 of table.h.
TEST_F(TableLoadingTest, ThreadsShareOneLoad) {
  constexpr int kThreads = 8;
  const TableFile file = Write(7);
  const auto cache = NewCache();
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  const int reads = env_.reads;
  env_.gate.Close();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  std::atomic<int> begun = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++begun;
      std::shared_ptr<Table> table;
      right += cache->Find(file, &table).ok() && table->is_loaded();
    });
  }
  env_.gate.AwaitWaiting(1);
  while (begun < kThreads) std::this_thread::yield();
  env_.gate.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), kThreads);
  EXPECT_EQ(env_.reads.load(), reads + 2);  // Filter and index.
}

// B2.
TEST_F(TableLoadingTest, DescriptionsDoNotWaitForALoad) {
  const TableFile file = Write(7, kKeys, true);
  const auto cache = NewCache();
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  const size_t memory = cache->ApproximateMemoryUsage();
  env_.gate.Close();
  std::thread loader([&] { EXPECT_EQ(Read(cache.get(), file, &handle), "7"); });
  env_.gate.AwaitWaiting(1);
  std::shared_ptr<Table> table;
  ASSERT_TRUE(cache->FindDescription(file, &table).ok());
  EXPECT_FALSE(table->is_loaded());
  EXPECT_NE(table->tombstones(), nullptr);
  EXPECT_EQ(table->properties().num_entries, uint64_t{kKeys} + 1);
  EXPECT_EQ(cache->ApproximateMemoryUsage(), memory);
  EXPECT_EQ(handle.table.load(), nullptr);
  env_.gate.Open();
  loader.join();
  EXPECT_GT(cache->ApproximateMemoryUsage(), memory);
}

// B3.
TEST_F(TableLoadingTest, ATableMayBeEvictedWhileItLoads) {
  const std::shared_ptr<Cache> blocks = NewBlockCache(size_t{8} << 20);
  base_.block_cache = static_cast<BlockCache*>(blocks.get());
  const TableFile file = Write(7);
  auto cache = NewCache(true);
  CachedTableHandle handle;
  ASSERT_TRUE(cache->Check(file, &handle).ok());
  env_.gate.Close();
  std::thread loader([&] { EXPECT_EQ(Read(cache.get(), file, &handle), "7"); });
  env_.gate.AwaitWaiting(1);
  cache->Evict(7);
  EXPECT_EQ(cache->ApproximateMemoryUsage(), 0u);
  env_.gate.Open();
  loader.join();
  // It was not in the cache any more, and is not charged.
  EXPECT_EQ(cache->ApproximateMemoryUsage(), 0u);
  cache.reset();
  EXPECT_EQ(blocks->GetUsage(), 0u);
  base_.block_cache = nullptr;
}

// Property: whoever finds a table through Find sees all of it, whatever others
// check, load, evict or measure, and whatever reads failed before.
TEST_F(TableLoadingTest, ThreadsLoadCheckEvictAndMeasure) {
  constexpr uint64_t kTables = 20;
  const uint64_t seed = test::TestSeed();
  const std::shared_ptr<Cache> blocks = NewBlockCache(size_t{1} << 20);
  base_.block_cache = static_cast<BlockCache*>(blocks.get());
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= kTables; ++i) files.push_back(Write(i));
  for (const bool charge : {false, true}) {
    auto cache = NewCache(charge);
    for (int round = 0; round < 20; ++round) {
      std::vector<CachedTableHandle> handles(kTables);
      std::atomic<int> wrong = 0;
      test::RunThreads(4, [&](uint64_t t) {
        test::Rng random(seed + t + 100 * static_cast<uint64_t>(round));
        for (int i = 0; i < 200; ++i) {
          const uint64_t n = random.Below(kTables);
          const TableFile& file = files[n];
          std::shared_ptr<Table> table;
          if (random.OneIn(8)) env_.fails = random.OneIn(2);
          switch (random.Below(5)) {
            case 0:
              cache->Check(file, &handles[n]).IgnoreError();
              break;
            case 1:
              if (cache->FindDescription(file, &table).ok()) {
                wrong += table->properties().num_entries != kKeys;
              }
              break;
            case 2:
              if (random.OneIn(4)) cache->Evict(file.number);
              cache->ApproximateMemoryUsage();
              break;
            default: {
              const int key = static_cast<int>(random.Below(kKeys));
              const std::string read =
                  Read(cache.get(), file, &handles[n], key);
              wrong += read != Number(file.number) &&
                       read != "IO error: the device fails";
            }
          }
        }
      });
      env_.fails = false;
      EXPECT_EQ(wrong.load(), 0);
      for (uint64_t n = 0; n < kTables; ++n) {
        EXPECT_EQ(Read(cache.get(), files[n], &handles[n]), Number(n + 1));
      }
    }
    cache.reset();
    // No charge is left, but for blocks, which go with their tables.
    EXPECT_EQ(blocks->GetUsage(), 0u);
  }
  base_.block_cache = nullptr;
}

}  // namespace
}  // namespace varve
