// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: tables are opened once, however many ask at the same time, never more
// files than allowed are open, what tables know of themselves stays when their
// files are closed (but not with the ablation), and files that are not what the
// MANIFEST says are refused. Method: an Env that counts open files, holds
// openings up until all threads ask, and pretends to have no descriptors left.
#include "table/reader/table_cache.h"

#include "env/file_names.h"
#include "monitoring/instrumented_file.h"
#include "monitoring/statistics.h"
#include "table/build/table_builder.h"
#include "table/cache/block_cache.h"
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

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

// Counts opened files and those open now.
class CountingEnv : public EnvWrapper {
 public:
  using EnvWrapper::EnvWrapper;

  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    gate.Wait();
    if (open_files >= descriptors) return Status::FromErrno(path, EMFILE);
    std::unique_ptr<RandomAccessFile> opened;
    Status s = EnvWrapper::NewRandomAccessFile(path, options, &opened);
    if (!s.ok()) return s;
    ++open_files;
    ++opens;
    *file = std::make_unique<CountedFile>(std::move(opened), this);
    return s;
  }

  // Opens the gate, once `count` openings wait there.
  void ReleaseWhenWaiting(int count) {
    gate.AwaitWaiting(count);
    gate.Open();
  }

  test::Gate gate;
  std::atomic<int> opens = 0;
  std::atomic<int> reads = 0;
  std::atomic<int> open_files = 0;
  std::atomic<int> descriptors = 1000000;

 private:
  class CountedFile : public RandomAccessFile {
   public:
    CountedFile(std::unique_ptr<RandomAccessFile> target, CountingEnv* env)
        : target_(std::move(target)), env_(env) {}
    ~CountedFile() override { --env_->open_files; }
    Status Read(uint64_t offset, size_t count, Slice* result,
                char* scratch) const override {
      ++env_->reads;
      return target_->Read(offset, count, result, scratch);
    }

   private:
    const std::unique_ptr<RandomAccessFile> target_;
    CountingEnv* const env_;
  };
};

class TableCacheTest : public ::testing::Test {
 protected:
  TableCacheTest() {
    EXPECT_TRUE(env_.CreateDirIfMissing(kPath).ok());
    base_.comparator = Comparator();
    base_.statistics = StatisticsImpl::Of(statistics_.get());
  }

  // Writes a table that holds its own number.
  TableFile Write(uint64_t number, bool leveldb_name = false) {
    const std::string path = leveldb_name ? LevelDbTableFileName(kPath, number)
                                          : TableFileName(kPath, number);
    std::unique_ptr<WritableFile> file;
    EXPECT_TRUE(env_.NewWritableFile(path, FileOptions(), &file).ok());
    TableBuilderOptions options;
    options.comparator = Comparator();
    TableBuilder builder(options, file.get());
    builder.Add(KeyAt(1), std::to_string(number));
    EXPECT_TRUE(builder.Finish().ok());
    EXPECT_TRUE(file->Close().ok());
    TableFile result{.number = number, .size = builder.FileSize()};
    return result;
  }
  static std::string KeyAt(SequenceNumber sequence) {
    return MakeInternalKey("key", PackTrailer(sequence, ValueType::kValue));
  }
  std::unique_ptr<TableCache> NewCache(int max_open_files,
                                       bool uncached_open = false) {
    FileOptions options{.uncached_open = uncached_open};
    return std::make_unique<TableCache>(kPath, &env_, options, base_,
                                        max_open_files);
  }
  // The number in the table, or the error.
  static std::string Read(TableCache* cache, const TableFile& file) {
    std::shared_ptr<Table> table;
    const Status s = cache->Find(file, &table);
    return s.ok() ? ContentOf(*table) : s.ToString();
  }
  // The same, through what the file's metadata remember.
  static std::string Read(TableCache* cache, const TableFile& file,
                          CachedTableHandle* handle) {
    const Table* table = nullptr;
    std::shared_ptr<Table> owner;
    const Status s = cache->Find(file, handle, &table, &owner);
    return s.ok() ? ContentOf(*table) : s.ToString();
  }
  static std::string ContentOf(const Table& table) {
    LookupState state;
    std::string value;
    const Status s = test::Get(table, KeyAt(1), &state, &value);
    if (!s.ok()) return s.ToString();
    return state == LookupState::kFound ? value : "not found";
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  CountingEnv env_{memory_.get()};
  std::shared_ptr<Statistics> statistics_ = CreateDBStatistics();
  TableReaderOptions base_;
};

TEST_F(TableCacheTest, OpensOnceAndReads) {
  const TableFile file = Write(7);
  const auto cache = NewCache(-1);
  EXPECT_EQ(Read(cache.get(), file), "7");
  EXPECT_EQ(Read(cache.get(), file), "7");
  EXPECT_EQ(env_.opens.load(), 1);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNoFileOpens), 1u);
  EXPECT_GT(cache->ApproximateMemoryUsage(), 0u);
  const auto it = cache->NewIterator(ReadOptions(), file);
  cache->Evict(7);
  EXPECT_EQ(cache->ApproximateMemoryUsage(), 0u);
  EXPECT_EQ(env_.open_files.load(), 1);
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "7");
}

TEST_F(TableCacheTest, OpensLevelDbNames) {
  const TableFile file = Write(7, true);
  const auto cache = NewCache(-1);
  EXPECT_EQ(Read(cache.get(), file), "7");
}

// table_file_calls is what the probe table_open has.
TEST_F(TableCacheTest, CallsOfAnOpeningAreCounted) {
  const std::vector<TableFile> files = {Write(7), Write(8)};
  for (const bool uncached : {false, true}) {
    const auto cache = NewCache(1, uncached);
    for (int round = 0; round < 3; ++round) {
      for (const TableFile& file : files) {
        const uint64_t calls = table_file_calls;
        const int done = env_.opens + env_.reads;
        Read(cache.get(), file);
        EXPECT_GT(table_file_calls, calls);
        EXPECT_EQ(table_file_calls - calls,
                  static_cast<uint64_t>(env_.opens + env_.reads - done));
      }
    }
  }
  const auto cache = NewCache(-1);
  std::shared_ptr<Table> table;
  const uint64_t calls = table_file_calls;
  ASSERT_TRUE(cache->Find(files[0], &table).ok());
  EXPECT_EQ(table_file_calls - calls, 2u);
}

TEST_F(TableCacheTest, RefusesFilesThatAreNotTheManifests) {
  TableFile file = Write(7);
  const auto cache = NewCache(-1);
  file.size += 1;
  EXPECT_EQ(
      Read(cache.get(), file),
      "Corruption: /db/000007.sst: size differs from MANIFEST: expected " +
          std::to_string(file.size) + ", found " +
          std::to_string(file.size - 1));
  file.number = 8;
  EXPECT_EQ(Read(cache.get(), file),
            "Corruption: /db/000008.sst: the table file is missing");
  const auto it = cache->NewIterator(ReadOptions(), file);
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsCorruption());
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNoFileErrors), 3u);
  EXPECT_EQ(env_.open_files.load(), 0);
  // Errors are not kept.
  file.number = 7;
  file.size -= 1;
  EXPECT_EQ(Read(cache.get(), file), "7");
}

TEST_F(TableCacheTest, ClosedFilesAreOpenedAgainAndNothingElseIsRead) {
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= 20; ++i) files.push_back(Write(i));
  const auto cache = NewCache(16);
  std::vector<CachedTableHandle> handles(files.size());
  std::vector<const Table*> tables;
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(Read(cache.get(), files[i], &handles[i]), std::to_string(i + 1));
    tables.push_back(handles[i].table.load());
    EXPECT_LE(env_.open_files.load(), 16);
  }
  EXPECT_EQ(cache->TEST_OpenFiles(), 16u);
  EXPECT_EQ(env_.opens.load(), 20);
  const int reads = env_.reads;
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(Read(cache.get(), files[i], &handles[i]), std::to_string(i + 1));
    EXPECT_EQ(handles[i].table.load(), tables[i]);
  }
  EXPECT_EQ(env_.open_files.load(), 16);
  EXPECT_GE(env_.opens.load(), 24);
  // One block of each table.
  EXPECT_EQ(env_.reads.load(), reads + 20);
}

TEST_F(TableCacheTest, UncachedOpensForgetTheLeastRecentlyUsedTable) {
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= 20; ++i) files.push_back(Write(i));
  const auto cache = NewCache(16, true);
  for (int i = 0; i < 16; ++i) Read(cache.get(), files[i]);
  EXPECT_EQ(env_.open_files.load(), 16);
  Read(cache.get(), files[0]);
  Read(cache.get(), files[16]);
  EXPECT_EQ(env_.open_files.load(), 16);
  EXPECT_EQ(env_.opens.load(), 17);
  Read(cache.get(), files[0]);
  EXPECT_EQ(env_.opens.load(), 17);
  Read(cache.get(), files[1]);
  EXPECT_EQ(env_.opens.load(), 18);
  EXPECT_EQ(env_.open_files.load(), 16);
  // One that is in use is kept.
  std::shared_ptr<Table> held;
  ASSERT_TRUE(cache->Find(files[0], &held).ok());
  for (int i = 1; i < 17; ++i) Read(cache.get(), files[i]);
  const int opens = env_.opens;
  Read(cache.get(), files[0]);
  EXPECT_EQ(env_.opens.load(), opens);
}

TEST_F(TableCacheTest, ManyTablesStayWithinTheLimit) {
  constexpr int kLimit = 1000;
  const auto cache = NewCache(kLimit);
  for (uint64_t i = 1; i <= 2 * kLimit; ++i) {
    // Numbers with gaps, as between tables and logs.
    EXPECT_EQ(Read(cache.get(), Write(2 * i)), std::to_string(2 * i));
    EXPECT_LE(env_.open_files.load(), kLimit);
  }
  EXPECT_EQ(env_.open_files.load(), kLimit);
}

TEST_F(TableCacheTest, ClosesSomeWhenDescriptorsRunOut) {
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= 20; ++i) files.push_back(Write(i));
  env_.descriptors = 10;
  const auto cache = NewCache(-1);
  for (const TableFile& file : files) {
    EXPECT_EQ(Read(cache.get(), file), std::to_string(file.number));
  }
  EXPECT_LE(env_.open_files.load(), 10);
  for (const TableFile& file : files) {
    EXPECT_EQ(Read(cache.get(), file), std::to_string(file.number));
  }
  // All that are open are closed before it gives up.
  env_.descriptors = 0;
  EXPECT_THAT(Read(cache.get(), Write(21)), HasSubstr("Too many open files"));
  EXPECT_EQ(env_.open_files.load(), 0);
  EXPECT_EQ(cache->TEST_OpenFiles(), 0u);
  env_.descriptors = 1;
  EXPECT_EQ(Read(cache.get(), files[0]), "1");
}

TEST_F(TableCacheTest, ConcurrentOpenersShareOneOpen) {
  constexpr int kThreads = 8;
  const TableFile file = Write(7);
  TableFile missing{.number = 8};
  const auto cache = NewCache(-1);
  env_.gate.Close();
  std::atomic<int> right = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { right += Read(cache.get(), file) == "7"; });
    threads.emplace_back([&] {
      refused += Read(cache.get(), missing).starts_with("Corruption");
    });
  }
  // One for each of the two files.
  env_.ReleaseWhenWaiting(2);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), kThreads);
  EXPECT_EQ(refused.load(), kThreads);
  EXPECT_EQ(env_.opens.load(), 1);
}

TEST_F(TableCacheTest, RemembersTablesThatStayOpen) {
  const TableFile file = Write(7);
  const auto cache = NewCache(-1);
  {
    CachedTableHandle handle;
    EXPECT_EQ(Read(cache.get(), file, &handle), "7");
    EXPECT_NE(handle.table.load(), nullptr);
    const CachedTableHandle copy = handle;
    EXPECT_EQ(copy.table.load(), nullptr);
    EXPECT_EQ(copy.owner, nullptr);
    // It needs the cache no longer.
    cache->Evict(7);
    EXPECT_EQ(env_.open_files.load(), 1);
    EXPECT_EQ(Read(cache.get(), file, &handle), "7");
    EXPECT_EQ(env_.opens.load(), 1);
    handle = copy;
    EXPECT_NE(handle.table.load(), nullptr);
  }
  EXPECT_EQ(env_.open_files.load(), 0);
}

TEST_F(TableCacheTest, RemembersNothingWhenTablesAreForgotten) {
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= 20; ++i) files.push_back(Write(i));
  const auto cache = NewCache(10, true);
  std::vector<CachedTableHandle> handles(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(Read(cache.get(), files[i], &handles[i]),
              std::to_string(files[i].number));
    EXPECT_EQ(handles[i].table.load(), nullptr);
  }
  EXPECT_LE(env_.open_files.load(), 10);
}

TEST_F(TableCacheTest, ForgetsTablesThatTakeTooMuchOfTheBlockCache) {
  const std::shared_ptr<Cache> blocks = NewBlockCache(size_t{1} << 20);
  base_.block_cache = static_cast<BlockCache*>(blocks.get());
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= 2000; ++i) files.push_back(Write(i));
  auto cache = std::make_unique<TableCache>(kPath, &env_, FileOptions(), base_,
                                            -1, true);
  std::vector<CachedTableHandle> handles(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(Read(cache.get(), files[i], &handles[i]), std::to_string(i + 1));
    EXPECT_EQ(handles[i].table.load(), nullptr);
  }
  const size_t tables = cache->ApproximateMemoryUsage();
  EXPECT_GT(tables, blocks->GetCapacity() / 4);
  EXPECT_LE(tables, blocks->GetCapacity() / 2);
  EXPECT_GE(blocks->GetUsage(), tables);
  EXPECT_LE(blocks->GetUsage(), blocks->GetCapacity());
  const int opens = env_.opens;
  EXPECT_EQ(Read(cache.get(), files[0]), "1");
  EXPECT_EQ(env_.opens.load(), opens + 1);
  // Files are closed with their tables.
  EXPECT_LT(env_.open_files.load(), 2000);
  cache.reset();
  EXPECT_EQ(blocks->GetUsage(), 0u);
  EXPECT_EQ(env_.open_files.load(), 0);
  base_.block_cache = nullptr;
}

TEST_F(TableCacheTest, RemembersNoErrors) {
  TableFile missing{.number = 8};
  const auto cache = NewCache(-1);
  CachedTableHandle handle;
  EXPECT_THAT(Read(cache.get(), missing, &handle), HasSubstr("is missing"));
  EXPECT_EQ(handle.table.load(), nullptr);
  EXPECT_EQ(Read(cache.get(), Write(8), &handle), "8");
}

TEST_F(TableCacheTest, ThreadsRememberOneTable) {
  constexpr int kThreads = 8;
  const auto cache = NewCache(-1);
  for (uint64_t round = 1; round <= 50; ++round) {
    const TableFile file = Write(round);
    CachedTableHandle handle;
    std::atomic<int> right = 0;
    test::RunThreads(kThreads, [&](int) {
      right += Read(cache.get(), file, &handle) == std::to_string(round);
    });
    EXPECT_EQ(right.load(), kThreads);
    EXPECT_EQ(handle.table.load(), handle.owner.get());
  }
  EXPECT_EQ(env_.opens.load(), 50);
}

TEST_F(TableCacheTest, ThreadsReadWhileTablesComeAndGo) {
  const uint64_t seed = test::TestSeed();
  std::vector<TableFile> files;
  for (uint64_t i = 1; i <= 40; ++i) files.push_back(Write(i));
  const auto cache = NewCache(16);
  std::atomic<int> wrong = 0;
  test::RunThreads(4, [&](uint64_t t) {
    test::Rng random(seed + t);
    for (int i = 0; i < 2000; ++i) {
      const TableFile& file = files[random.Below(files.size())];
      wrong += Read(cache.get(), file) != std::to_string(file.number);
      if (random.OneIn(20)) cache->Evict(file.number);
      if (random.OneIn(200)) cache->ApproximateMemoryUsage();
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_LE(env_.open_files.load(), 16);
}

}  // namespace
}  // namespace varve
