// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what makes LevelDB read freed memory gives an error or is harmless.
// Method: wrong calls, with Varve's library only.
#include <gmock/gmock.h>
#include <leveldb/c.h>
#include <leveldb/comparator.h>
#include <leveldb/helpers/memenv.h>
#include <leveldb/write_batch.h>
#include <malloc.h>
#include <sys/resource.h>

#include "test/compat/leveldb/program.h"
#include "test/testing/sanitizers.h"

namespace leveldb_test {
namespace {

using leveldb::Slice;
using leveldb::Status;
using testing::HasSubstr;

class LevelDbMisuseTest : public testing::Test {
 protected:
  void SetUp() override {
    // The run with LevelDB leaves these tests out: see CMakeLists.txt. So this
    // also fails if the other run is with LevelDB by mistake.
    ASSERT_TRUE(RunsOnVarve()) << "LevelDB reads freed memory here. Set "
                                  "LD_LIBRARY_PATH=" VARVE_LEVELDB_DIRECTORY;
  }
  const TestDirectory directory_;
};

TEST_F(LevelDbMisuseTest, CallsAfterDeleteReturnErrors) {
  leveldb::DB* const db = OpenOrDie(Creating(), directory_ / "db").release();
  ASSERT_TRUE(db->Put({}, "a", "1").ok());
  const leveldb::Snapshot* const snapshot = db->GetSnapshot();
  leveldb::WriteBatch batch;
  std::string value = "before";
  delete db;
  // OpenOrDie's compiler cannot know that the memory is still there.
  leveldb::DB* volatile hidden = db;
  leveldb::DB* const closed = hidden;
  EXPECT_THAT(closed->Put({}, "a", "2").ToString(), HasSubstr("closed"));
  EXPECT_TRUE(closed->Delete({}, "a").IsIOError());
  EXPECT_TRUE(closed->Write({}, &batch).IsIOError());
  EXPECT_TRUE(closed->Write({}, nullptr).IsIOError());
  EXPECT_TRUE(closed->Get({}, "a", &value).IsIOError());
  EXPECT_EQ(value, "before");
  const std::unique_ptr<leveldb::Iterator> iterator(closed->NewIterator({}));
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE(iterator->status().IsIOError());
  closed->ReleaseSnapshot(snapshot);
  EXPECT_FALSE(closed->GetProperty("leveldb.stats", &value));
  uint64_t size = 7;
  const leveldb::Range range("a", "z");
  closed->GetApproximateSizes(&range, 1, &size);
  EXPECT_EQ(size, 0U);
  closed->CompactRange(nullptr, nullptr);
  delete closed;
  EXPECT_TRUE(closed->Delete({}, "a").IsIOError());
  EXPECT_EQ(Get(OpenOrDie({}, directory_ / "db").get(), "a"), "1");
}

TEST_F(LevelDbMisuseTest, AnIteratorOutlivesItsDatabase) {
  auto db = OpenOrDie(Creating(), directory_ / "db");
  ASSERT_TRUE(db->Put({}, "a", "1").ok());
  std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator({}));
  db.reset();
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), Slice("1"));
  EXPECT_THAT(ReadWhole(directory_ / "db/LOG"),
              HasSubstr("deleted the database before 1 of its iterators"));
  leveldb::DB* second = nullptr;
  EXPECT_TRUE(leveldb::DB::Open({}, directory_ / "db", &second).IsIOError());
  iterator.reset();
  EXPECT_EQ(Get(OpenOrDie({}, directory_ / "db").get(), "a"), "1");
}

TEST_F(LevelDbMisuseTest, IteratorsStayWithinTheirEntries) {
  const auto db = OpenOrDie(Creating(), directory_ / "db");
  const std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator({}));
  iterator->Next();
  iterator->Prev();
  EXPECT_FALSE(iterator->Valid());
}

TEST_F(LevelDbMisuseTest, ASnapshotOfAnotherDatabaseIsRefused) {
  const auto a = OpenOrDie(Creating(), directory_ / "a");
  const auto b = OpenOrDie(Creating(), directory_ / "b");
  const leveldb::Snapshot* const snapshot = a->GetSnapshot();
  EXPECT_THAT(Get(b.get(), "k", snapshot), HasSubstr("another database"));
  leveldb::ReadOptions options;
  options.snapshot = snapshot;
  const std::unique_ptr<leveldb::Iterator> iterator(b->NewIterator(options));
  EXPECT_TRUE(iterator->status().IsInvalidArgument());
  a->ReleaseSnapshot(snapshot);
  b->ReleaseSnapshot(nullptr);
}

TEST_F(LevelDbMisuseTest, ASnapshotIsReleasedThroughAnotherDatabase) {
  auto a = OpenOrDie(Creating(), directory_ / "a");
  auto b = OpenOrDie(Creating(), directory_ / "b");
  const leveldb::Snapshot* const kept = b->GetSnapshot();
  b->ReleaseSnapshot(a->GetSnapshot());
  a->ReleaseSnapshot(a->GetSnapshot());
  EXPECT_EQ(Get(b.get(), "k", kept), "NotFound: ");
  b->ReleaseSnapshot(kept);
  a.reset();
  b.reset();
  for (const char* name : {"a/LOG", "b/LOG"}) {
    EXPECT_THAT(ReadWhole(directory_ / name),
                testing::Not(HasSubstr("before it released")));
  }
}

struct Nameless : leveldb::Comparator {
  int Compare(const Slice& a, const Slice& b) const override {
    return a.compare(b);
  }
  const char* Name() const override { return nullptr; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

TEST_F(LevelDbMisuseTest, NullOptionsAreRefused) {
  leveldb::DB* db = nullptr;
  const Nameless nameless;
  leveldb::Options options = Creating();
  options.comparator = &nameless;
  EXPECT_THAT(
      leveldb::DB::Open(options, directory_ / "db", &db).ToString(),
      testing::StrEq("Invalid argument: the name of the comparator is null"));
  options.comparator = nullptr;
  EXPECT_TRUE(
      leveldb::DB::Open(options, directory_ / "db", &db).IsInvalidArgument());
  options = Creating();
  options.env = nullptr;
  EXPECT_TRUE(
      leveldb::DB::Open(options, directory_ / "db", &db).IsInvalidArgument());
  EXPECT_TRUE(
      leveldb::DestroyDB(directory_ / "db", options).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "db"));
  options = Creating();
  options.compression = static_cast<leveldb::CompressionType>(9);
  EXPECT_TRUE(
      leveldb::DB::Open(options, directory_ / "db", &db).IsInvalidArgument());
}

TEST_F(LevelDbMisuseTest, TheLast1024DeletedDatabasesTakeLittleMemory) {
  const std::unique_ptr<leveldb::Env> memory(
      leveldb::NewMemEnv(leveldb::Env::Default()));
  leveldb::Options options = Creating();
  options.env = memory.get();
  leveldb::DB* first = nullptr;
  size_t bytes[2];
  for (size_t& allocated : bytes) {
    for (int i = 0; i < 1100; ++i) {
      leveldb::DB* const db = OpenOrDie(options, "/db").release();
      if (i == 100) first = db;
      delete db;
      ASSERT_TRUE(leveldb::DestroyDB("/db", options).ok());
    }
    allocated = mallinfo2().uordblks;
  }
  EXPECT_TRUE(first->Delete({}, "a").IsIOError());
  // Those of the first round are freed in the second.
  EXPECT_LT(bytes[1], bytes[0] + (16 << 10));
}

TEST_F(LevelDbMisuseTest, AClosedCHandleReturnsErrors) {
  leveldb_options_t* const options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_readoptions_t* const read = leveldb_readoptions_create();
  leveldb_writeoptions_t* const write = leveldb_writeoptions_create();
  char* error = nullptr;
  leveldb_t* const db =
      leveldb_open(options, (directory_ / "db").c_str(), &error);
  ASSERT_EQ(error, nullptr);
  leveldb_iterator_t* const iterator = leveldb_create_iterator(db, read);
  leveldb_close(db);
  leveldb_put(db, write, "k", 1, "v", 1, &error);
  EXPECT_STREQ(error, "IO error: the database was closed before this call");
  size_t size = 1;
  EXPECT_EQ(leveldb_get(db, read, "k", 1, &size, &error), nullptr);
  EXPECT_NE(error, nullptr);
  EXPECT_EQ(leveldb_property_value(db, "leveldb.stats"), nullptr);
  leveldb_put(db, write, "k", 1, "v", 1, nullptr);
  leveldb_iter_destroy(iterator);
  leveldb_close(db);  // Once more.
  leveldb_close(nullptr);
  leveldb_free(error);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  leveldb_options_destroy(options);
}

#ifndef VARVE_TEST_SANITIZED
TEST_F(LevelDbMisuseTest, AValueWithoutMemoryIsNotAMissingKey) {
  leveldb_options_t* const options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_cache_t* const cache = leveldb_cache_create_lru(size_t{64} << 30);
  leveldb_options_set_cache(options, cache);
  leveldb_readoptions_t* const read = leveldb_readoptions_create();
  leveldb_writeoptions_t* const write = leveldb_writeoptions_create();
  char* error = nullptr;
  leveldb_t* const db =
      leveldb_open(options, (directory_ / "db").c_str(), &error);
  ASSERT_EQ(error, nullptr);
  // So large that malloc asks the system for it.
  const std::string large(64 << 20, 'v');
  leveldb_put(db, write, "k", 1, large.data(), large.size(), &error);
  ASSERT_EQ(error, nullptr);
  leveldb_compact_range(db, nullptr, 0, nullptr, 0);
  size_t size = 1;
  // From now on its block is in the cache.
  leveldb_free(leveldb_get(db, read, "k", 1, &size, &error));
  ASSERT_EQ(size, large.size());
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  const rlimit little = {16 << 20, before.rlim_max};
  setrlimit(RLIMIT_AS, &little);
  char* const value = leveldb_get(db, read, "k", 1, &size, &error);
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(value, nullptr);
  EXPECT_EQ(size, 0U);
  EXPECT_STREQ(error, "IO error: no memory for the value");
  leveldb_free(error);
  leveldb_close(db);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  leveldb_options_destroy(options);
  leveldb_cache_destroy(cache);
}
#endif

}  // namespace
}  // namespace leveldb_test
