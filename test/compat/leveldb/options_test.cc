// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the objects that programs implement or create for their options work:
// comparators, filter policies, caches, environments and loggers. Method: each
// counts its calls, and the same program runs with both libraries.
#include <gmock/gmock.h>
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/filter_policy.h>
#include <leveldb/helpers/memenv.h>
#include <leveldb/write_batch.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <map>
#include <mutex>

#include "test/compat/leveldb/program.h"

namespace leveldb_test {
namespace {

using leveldb::Slice;
using leveldb::Status;
using testing::HasSubstr;

class Backward : public leveldb::Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    ++calls;
    return b.compare(a);
  }
  const char* Name() const override { return "test.Backward"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
  mutable std::atomic<int> calls{0};
};

TEST(LevelDbOptionsTest, AProgramsComparatorOrdersTheKeys) {
  const TestDirectory directory;
  const Backward backward;
  leveldb::Options options = Creating();
  options.comparator = &backward;
  {
    const auto db = OpenOrDie(options, directory / "db");
    for (const char* key : {"a", "b", "c"}) {
      ASSERT_TRUE(db->Put({}, key, "").ok());
    }
    db->CompactRange(nullptr, nullptr);
    EXPECT_EQ(Scan(db.get()), "c= b= a= ");
    EXPECT_EQ(Get(db.get(), "b"), "");
  }
  EXPECT_GT(backward.calls, 0);
  leveldb::DB* db = nullptr;
  EXPECT_TRUE(
      leveldb::DB::Open(Creating(), directory / "db", &db).IsInvalidArgument());
  EXPECT_EQ(Scan(OpenOrDie(options, directory / "db").get()), "c= b= a= ");
}

TEST(LevelDbOptionsTest, TheBytewiseComparatorShortensKeys) {
  const leveldb::Comparator* const bytewise = leveldb::BytewiseComparator();
  EXPECT_STREQ(bytewise->Name(), "leveldb.BytewiseComparator");
  EXPECT_LT(bytewise->Compare("a", "b"), 0);
  std::string key = "abcdefg";
  bytewise->FindShortestSeparator(&key, "abzz");
  EXPECT_EQ(key, "abd");
  bytewise->FindShortSuccessor(&key);
  EXPECT_EQ(key, "b");
}

class LengthFilter : public leveldb::FilterPolicy {
 public:
  const char* Name() const override { return "test.LengthFilter"; }
  void CreateFilter(const Slice* keys, int count,
                    std::string* filter) const override {
    std::string lengths(64, '0');
    for (int i = 0; i < count; ++i) lengths[keys[i].size() % 64] = '1';
    *filter += lengths;
    ++created;
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    ++asked;
    return filter[key.size() % 64] == '1';
  }
  mutable std::atomic<int> created{0};
  mutable std::atomic<int> asked{0};
};

TEST(LevelDbOptionsTest, AProgramsFilterPolicyIsAsked) {
  const TestDirectory directory;
  const LengthFilter filter;
  leveldb::Options options = Creating();
  options.filter_policy = &filter;
  const auto db = OpenOrDie(options, directory / "db");
  ASSERT_TRUE(db->Put({}, "aa", "1").ok());
  ASSERT_TRUE(db->Put({}, "cc", "1").ok());
  db->CompactRange(nullptr, nullptr);
  EXPECT_EQ(Get(db.get(), "aa"), "1");
  EXPECT_EQ(Get(db.get(), "bbbb"), "NotFound: ");
  EXPECT_GT(filter.created, 0);
  EXPECT_GT(filter.asked, 0);
}

// LevelDB's filters are in tables that programs exchange. These bytes are of
// LevelDB 1.23.
TEST(LevelDbOptionsTest, TheBloomFilterHasLevelDbsBytes) {
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(
      leveldb::NewBloomFilterPolicy(10));
  EXPECT_STREQ(bloom->Name(), "leveldb.BuiltinBloomFilter2");
  std::vector<std::string> keys;
  std::vector<Slice> slices;
  for (int i = 0; i < 100; ++i)
    keys.push_back(std::string(i % 9, 'k') + std::to_string(i) + "\xff");
  for (const std::string& key : keys) slices.emplace_back(key);
  std::string filter = "before";
  bloom->CreateFilter(slices.data(), 100, &filter);
  ASSERT_EQ(filter.size(), 6U + 125 + 1);
  uint32_t sum = 0;
  for (const char c : filter) sum = sum * 31 + static_cast<unsigned char>(c);
  EXPECT_EQ(sum, 275298840U) << "LevelDB's sum";
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    wrong += bloom->KeyMayMatch("other" + std::to_string(i),
                                Slice(filter.data() + 6, 126));
  }
  EXPECT_LT(wrong, 40);
  for (const Slice& key : slices) {
    EXPECT_TRUE(bloom->KeyMayMatch(key, Slice(filter.data() + 6, 126)));
  }
  EXPECT_FALSE(bloom->KeyMayMatch("a", Slice("x", 1)));
}

// ---- Caches -----------------------------------------------------------------

std::string* deleted_values = nullptr;
void NoteDeleted(const Slice& key, void* /*value*/) {
  *deleted_values += key.ToString();
}

TEST(LevelDbOptionsTest, ALruCacheKeepsAProgramsEntries) {
  std::string deleted;
  deleted_values = &deleted;
  {
    const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
    int value = 7;
    cache->Release(cache->Insert("a", &value, 10, &NoteDeleted));
    leveldb::Cache::Handle* const handle = cache->Lookup("a");
    ASSERT_NE(handle, nullptr);
    EXPECT_EQ(cache->Value(handle), &value);
    EXPECT_EQ(cache->TotalCharge(), 10U);
    cache->Erase("a");
    EXPECT_EQ(cache->Lookup("a"), nullptr);
    EXPECT_EQ(deleted, "");  // The handle holds it.
    cache->Release(handle);
    EXPECT_EQ(deleted, "a");
    cache->Release(cache->Insert("b", &value, 10, &NoteDeleted));
    cache->Release(cache->Insert("b", &value, 10, &NoteDeleted));
    EXPECT_EQ(deleted, "ab");
    cache->Prune();
    EXPECT_EQ(deleted, "abb");
    cache->Release(cache->Insert("c", &value, 10, &NoteDeleted));
    EXPECT_NE(cache->NewId(), cache->NewId());
    // More than it may hold.
    for (int i = 0; i < 200; ++i) {
      cache->Release(
          cache->Insert(std::to_string(i), &value, 1 << 16, &NoteDeleted));
    }
    EXPECT_LE(cache->TotalCharge(), size_t{2} << 20);
    EXPECT_THAT(deleted, HasSubstr("c"));
  }
  EXPECT_THAT(deleted, HasSubstr("199"));
}

// Forwards to an LRU cache and counts.
class CountingCache : public leveldb::Cache {
 public:
  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice&, void*)) override {
    ++inserts;
    return lru_->Insert(key, value, charge, deleter);
  }
  Handle* Lookup(const Slice& key) override {
    Handle* const found = lru_->Lookup(key);
    ++(found != nullptr ? hits : misses);
    return found;
  }
  void Release(Handle* handle) override { lru_->Release(handle); }
  void* Value(Handle* handle) override { return lru_->Value(handle); }
  void Erase(const Slice& key) override { lru_->Erase(key); }
  uint64_t NewId() override { return lru_->NewId(); }
  size_t TotalCharge() const override { return lru_->TotalCharge(); }
  std::atomic<int> inserts{0};
  std::atomic<int> hits{0};
  std::atomic<int> misses{0};

 private:
  const std::unique_ptr<leveldb::Cache> lru_{leveldb::NewLRUCache(8 << 20)};
};

TEST(LevelDbOptionsTest, AProgramsCacheKeepsTheBlocks) {
  const TestDirectory directory;
  CountingCache cache;
  leveldb::Options options = Creating();
  options.block_cache = &cache;
  const auto db = OpenOrDie(options, directory / "db");
  const std::string value(500, 'v');
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(db->Put({}, std::to_string(i), value).ok());
  }
  db->CompactRange(nullptr, nullptr);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(Get(db.get(), std::to_string(i)), value);
    }
  }
  EXPECT_GT(cache.inserts, 10);
  EXPECT_GT(cache.hits, 1000);
  EXPECT_GT(cache.TotalCharge(), 1000U);
}

TEST(LevelDbOptionsTest, DatabasesShareACache) {
  const TestDirectory directory;
  const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(4 << 20));
  leveldb::Options options = Creating();
  options.block_cache = cache.get();
  for (const char* name : {"a", "b"}) {
    const auto db = OpenOrDie(options, directory / name);
    ASSERT_TRUE(db->Put({}, "k", std::string(2000, 'a')).ok());
    db->CompactRange(nullptr, nullptr);
    const size_t before = cache->TotalCharge();
    EXPECT_EQ(Get(db.get(), "k").size(), 2000U);
    EXPECT_GT(cache->TotalCharge(), before);
  }
}

// ---- Environments and loggers -----------------------------------------------

class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}
  Status NewWritableFile(const std::string& path,
                         leveldb::WritableFile** file) override {
    ++files_written;
    if (fails) return Status::IOError(path, "the test says so");
    return target()->NewWritableFile(path, file);
  }
  Status NewRandomAccessFile(const std::string& path,
                             leveldb::RandomAccessFile** file) override {
    ++files_read;
    return target()->NewRandomAccessFile(path, file);
  }
  Status LockFile(const std::string& path, leveldb::FileLock** lock) override {
    ++locks;
    return target()->LockFile(path, lock);
  }
  void Schedule(void (*function)(void*), void* argument) override {
    ++jobs;
    target()->Schedule(function, argument);
  }
  std::atomic<int> files_written{0};
  std::atomic<int> files_read{0};
  std::atomic<int> locks{0};
  std::atomic<int> jobs{0};
  std::atomic<bool> fails{false};
};

TEST(LevelDbOptionsTest, AProgramsEnvDoesAllTheWork) {
  const TestDirectory directory;
  CountingEnv env;
  leveldb::Options options = Creating();
  options.env = &env;
  options.write_buffer_size = 64 << 10;
  {
    const auto db = OpenOrDie(options, directory / "db");
    for (int i = 0; i < 3000; ++i) {
      ASSERT_TRUE(db->Put({}, std::to_string(i), std::string(100, 'x')).ok());
    }
    db->CompactRange(nullptr, nullptr);
    EXPECT_EQ(Get(db.get(), "2999"), std::string(100, 'x'));
  }
  EXPECT_GT(env.files_written, 3);
  EXPECT_GT(env.files_read, 0);
  EXPECT_EQ(env.locks, 1);
  EXPECT_GT(env.jobs, 0);
  EXPECT_EQ(Get(OpenOrDie(options, directory / "db").get(), "17"),
            std::string(100, 'x'));
  env.fails = true;
  leveldb::DB* db = nullptr;
  EXPECT_TRUE(leveldb::DB::Open(options, directory / "new", &db).IsIOError());
  env.fails = false;
  EXPECT_TRUE(leveldb::DestroyDB(directory / "db", options).ok());
}

TEST(LevelDbOptionsTest, AMemoryEnvHasNoFiles) {
  const TestDirectory directory;
  const std::unique_ptr<leveldb::Env> env(
      leveldb::NewMemEnv(leveldb::Env::Default()));
  leveldb::Options options = Creating();
  options.env = env.get();
  {
    const auto db = OpenOrDie(options, "/in/memory");
    ASSERT_TRUE(db->Put({}, "a", "1").ok());
  }
  EXPECT_EQ(Get(OpenOrDie(options, "/in/memory").get(), "a"), "1");
  EXPECT_TRUE(env->FileExists("/in/memory/CURRENT"));
  EXPECT_FALSE(std::filesystem::exists("/in/memory"));
  EXPECT_TRUE(env->CreateDir("/in/memory").ok());
}

class CollectingLogger : public leveldb::Logger {
 public:
  void Logv(const char* format, std::va_list arguments) override {
    char line[1000];
    vsnprintf(line, sizeof(line), format, arguments);
    const std::lock_guard<std::mutex> lock(mutex);
    lines.push_back(line);
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

TEST(LevelDbOptionsTest, AProgramsLoggerGetsTheLog) {
  const TestDirectory directory;
  CollectingLogger logger;
  leveldb::Options options = Creating();
  options.info_log = &logger;
  const auto db = OpenOrDie(options, directory / "db");
  ASSERT_TRUE(db->Put({}, "a", "1").ok());
  db->CompactRange(nullptr, nullptr);
  const std::lock_guard<std::mutex> lock(logger.mutex);
  EXPECT_GT(logger.lines.size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(directory / "db/LOG"));
}

TEST(LevelDbOptionsTest, TheDefaultEnvHasItsCalls) {
  const TestDirectory directory;
  leveldb::Env* const env = leveldb::Env::Default();
  const std::string path = directory / "file";
  ASSERT_TRUE(WriteStringToFile(env, "one", path).ok());
  leveldb::WritableFile* file = nullptr;
  ASSERT_TRUE(env->NewAppendableFile(path, &file).ok());
  EXPECT_TRUE(file->Append(" two").ok() && file->Sync().ok() &&
              file->Close().ok());
  delete file;
  std::string text;
  EXPECT_TRUE(ReadFileToString(env, path, &text).ok());
  EXPECT_EQ(text, "one two");
  uint64_t size = 0;
  EXPECT_TRUE(env->GetFileSize(path, &size).ok());
  EXPECT_EQ(size, 7U);
  leveldb::RandomAccessFile* random = nullptr;
  ASSERT_TRUE(env->NewRandomAccessFile(path, &random).ok());
  char scratch[8];
  Slice read;
  EXPECT_TRUE(random->Read(4, 3, &read, scratch).ok());
  EXPECT_EQ(read, Slice("two"));
  delete random;
  leveldb::SequentialFile* sequential = nullptr;
  ASSERT_TRUE(env->NewSequentialFile(path, &sequential).ok());
  EXPECT_TRUE(sequential->Skip(5).ok());
  EXPECT_TRUE(sequential->Read(8, &read, scratch).ok());
  EXPECT_EQ(read, Slice("wo"));
  delete sequential;
  EXPECT_TRUE(env->RenameFile(path, directory / "renamed").ok());
  EXPECT_FALSE(env->FileExists(path));
  std::vector<std::string> names;
  EXPECT_TRUE(env->GetChildren(directory / "", &names).ok());
  EXPECT_THAT(names, testing::Contains("renamed"));
  EXPECT_TRUE(env->CreateDir(directory / "sub").ok());
  EXPECT_FALSE(env->CreateDir(directory / "sub").ok());
  EXPECT_TRUE(env->DeleteDir(directory / "sub").ok());
  EXPECT_TRUE(env->DeleteFile(directory / "renamed").ok());
  EXPECT_TRUE(env->RemoveFile(directory / "none").IsNotFound());
  EXPECT_TRUE(env->NewSequentialFile(path, &sequential).IsNotFound());
  EXPECT_EQ(sequential, nullptr);
  leveldb::FileLock* lock = nullptr;
  leveldb::FileLock* second = nullptr;
  ASSERT_TRUE(env->LockFile(directory / "lock", &lock).ok());
  EXPECT_TRUE(env->LockFile(directory / "lock", &second).IsIOError());
  EXPECT_TRUE(env->UnlockFile(lock).ok());
  EXPECT_GT(env->NowMicros(), 1'600'000'000'000'000U);
  EXPECT_TRUE(env->GetTestDirectory(&text).ok());
  const std::string link = directory / "link";
  std::filesystem::create_directory_symlink(directory / "", link);
  setenv("TEST_TMPDIR", link.c_str(), 1);
  EXPECT_TRUE(env->GetTestDirectory(&text).ok());
  EXPECT_EQ(text, link);
  unsetenv("TEST_TMPDIR");
}

TEST(LevelDbOptionsTest, AFileThatCannotBeAppendedToStaysWhole) {
  const TestDirectory directory;
  const std::string path = directory / "file";
  const std::string content(1 << 20, 'x');
  leveldb::Env* const env = leveldb::Env::Default();
  ASSERT_TRUE(WriteStringToFile(env, content, path).ok());
  // LevelDB appends to the file itself; a copy has no room.
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {content.size() / 2, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  leveldb::WritableFile* file = nullptr;
  const Status status = env->NewAppendableFile(path, &file);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(status.ok(), !RunsOnVarve()) << status.ToString();
  EXPECT_EQ(status.ok(), file != nullptr);
  delete file;
  EXPECT_TRUE(ReadWhole(path) == content);
  EXPECT_FALSE(env->FileExists(path + ".append"));
}

TEST(LevelDbOptionsTest, TheDefaultEnvRunsJobsAndThreads) {
  struct Done {
    std::atomic<int> count{0};
    static void Note(void* done) { ++static_cast<Done*>(done)->count; }
  } done;
  leveldb::Env* const env = leveldb::Env::Default();
  env->Schedule(&Done::Note, &done);
  env->StartThread(&Done::Note, &done);
  while (done.count < 2) env->SleepForMicroseconds(100);
}

}  // namespace
}  // namespace leveldb_test
