// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases, batches, iterators and snapshots behave as LevelDB's.
// Method: the same program runs with both libraries.
#include <gmock/gmock.h>
#include <leveldb/write_batch.h>
#include <sys/wait.h>

#include <cstdio>

#include "test/compat/leveldb/program.h"

namespace leveldb_test {

int RunShell(const std::string& command, std::string* output) {
  output->clear();
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (size_t read; (read = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output->append(buffer, read);
  }
  const int result = pclose(pipe);
  return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

int RunHelper(bool on_varve, const std::string& arguments,
              std::string* output) {
  return RunShell(std::string("LD_LIBRARY_PATH=") +
                      (on_varve ? VARVE_LEVELDB_DIRECTORY : "") +
                      " " VARVE_LEVELDB_HELPER " " + arguments,
                  output);
}

namespace {

using leveldb::Slice;
using leveldb::Status;
using testing::HasSubstr;
using testing::StartsWith;

TEST(LevelDbTest, PutGetAndDelete) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  EXPECT_TRUE(db->Put(leveldb::WriteOptions(), "a", "1").ok());
  leveldb::WriteOptions sync;
  sync.sync = true;
  EXPECT_TRUE(db->Put(sync, "b", "").ok());
  EXPECT_EQ(Get(db.get(), "a"), "1");
  EXPECT_EQ(Get(db.get(), "b"), "");
  EXPECT_TRUE(db->Delete(leveldb::WriteOptions(), "a").ok());
  EXPECT_EQ(Get(db.get(), "a"), "NotFound: ");
}

TEST(LevelDbTest, AMissingKeyLeavesTheValueUnchanged) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "key", "long value").ok());
  std::string value = "before";
  EXPECT_TRUE(db->Get(leveldb::ReadOptions(), "none", &value).IsNotFound());
  EXPECT_EQ(value, "before");
  EXPECT_TRUE(db->Get(leveldb::ReadOptions(), "key", &value).ok());
  EXPECT_EQ(value, "long value");
}

TEST(LevelDbTest, OpenReportsMissingAndExistingDatabases) {
  const TestDirectory directory;
  leveldb::DB* db = nullptr;
  Status status = leveldb::DB::Open({}, directory / "db", &db);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_EQ(db, nullptr);
  EXPECT_EQ(status.ToString(),
            "Invalid argument: " + (directory / "db") +
                ": does not exist (create_if_missing is false)");
  OpenOrDie(Creating(), directory / "db");
  leveldb::Options options = Creating();
  options.error_if_exists = true;
  status = leveldb::DB::Open(options, directory / "db", &db);
  EXPECT_EQ(status.ToString(), "Invalid argument: " + (directory / "db") +
                                   ": exists (error_if_exists is true)");
}

TEST(LevelDbTest, OneProcessOpensADatabaseOnce) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  leveldb::DB* second = nullptr;
  EXPECT_TRUE(
      leveldb::DB::Open(Creating(), directory / "db", &second).IsIOError());
  EXPECT_EQ(second, nullptr);
}

TEST(LevelDbTest, BatchesAreAppliedInOrder) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  leveldb::WriteBatch batch;
  const size_t empty = batch.ApproximateSize();
  EXPECT_EQ(empty, 12U);
  batch.Put("a", "1");
  batch.Put("b", std::string(300, 'x'));
  batch.Delete("a");
  leveldb::WriteBatch more;
  more.Put("c", "3");
  batch.Append(more);
  const leveldb::WriteBatch copy = batch;
  EXPECT_EQ(batch.ApproximateSize(), 12U + 5 + 305 + 3 + 5);
  ASSERT_TRUE(db->Write(leveldb::WriteOptions(), &batch).ok());
  EXPECT_EQ(Scan(db.get()), "b=" + std::string(300, 'x') + " c=3 ");

  struct Recorder : leveldb::WriteBatch::Handler {
    void Put(const Slice& key, const Slice& value) override {
      text += "+" + key.ToString() + std::to_string(value.size());
    }
    void Delete(const Slice& key) override { text += "-" + key.ToString(); }
    std::string text;
  } recorder;
  EXPECT_TRUE(copy.Iterate(&recorder).ok());
  EXPECT_EQ(recorder.text, "+a1+b300-a+c1");
  batch.Clear();
  EXPECT_EQ(batch.ApproximateSize(), empty);
  // A batch can be written twice.
  EXPECT_TRUE(db->Write(leveldb::WriteOptions(), &more).ok());
  EXPECT_TRUE(db->Write(leveldb::WriteOptions(), &more).ok());
}

TEST(LevelDbTest, ANullBatchIsABarrier) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a", "1").ok());
  EXPECT_TRUE(db->Write(leveldb::WriteOptions(), nullptr).ok());
  leveldb::WriteOptions sync;
  sync.sync = true;
  EXPECT_TRUE(db->Write(sync, nullptr).ok());
  EXPECT_EQ(Get(db.get(), "a"), "1");
}

TEST(LevelDbTest, IteratorsMoveInBothDirections) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  for (const char* key : {"b", "d", "f"}) {
    ASSERT_TRUE(db->Put(leveldb::WriteOptions(), key, key).ok());
  }
  const std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator({}));
  EXPECT_FALSE(iterator->Valid());
  iterator->Seek("c");
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), Slice("d"));
  iterator->Prev();
  EXPECT_EQ(iterator->key(), Slice("b"));
  iterator->Prev();
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekToLast();
  EXPECT_EQ(iterator->value(), Slice("f"));
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
  iterator->Seek("g");
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE(iterator->status().ok());
}

TEST(LevelDbTest, AnIteratorCallsItsCleanups) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  std::string called;
  const auto append = [](void* text, void* letter) {
    *static_cast<std::string*>(text) += static_cast<const char*>(letter);
  };
  {
    const std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator({}));
    // LevelDB's own iterators have registered some before.
    for (const char* letter : {"a", "b", "c"}) {
      iterator->RegisterCleanup(append, &called, const_cast<char*>(letter));
    }
    EXPECT_EQ(called, "");
  }
  EXPECT_EQ(called.size(), 3U);
  called.clear();
  {
    const std::unique_ptr<leveldb::Iterator> empty(leveldb::NewEmptyIterator());
    for (const char* letter : {"a", "b", "c"}) {
      empty->RegisterCleanup(append, &called, const_cast<char*>(letter));
    }
  }
  EXPECT_EQ(called, "acb");
}

TEST(LevelDbTest, ErrorIteratorsHaveTheirStatus) {
  const std::unique_ptr<leveldb::Iterator> error(
      leveldb::NewErrorIterator(Status::Corruption("why")));
  error->SeekToFirst();
  EXPECT_FALSE(error->Valid());
  EXPECT_EQ(error->status().ToString(), "Corruption: why");
}

TEST(LevelDbTest, SnapshotsAndIteratorsSeeOneState) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a", "1").ok());
  const leveldb::Snapshot* const first = db->GetSnapshot();
  const std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator({}));
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a", "2").ok());
  const leveldb::Snapshot* const second = db->GetSnapshot();
  ASSERT_TRUE(db->Delete(leveldb::WriteOptions(), "a").ok());
  db->CompactRange(nullptr, nullptr);
  EXPECT_EQ(Get(db.get(), "a", first), "1");
  EXPECT_EQ(Get(db.get(), "a", second), "2");
  EXPECT_EQ(Get(db.get(), "a"), "NotFound: ");
  iterator->SeekToFirst();
  EXPECT_EQ(iterator->value(), Slice("1"));
  db->ReleaseSnapshot(first);
  db->ReleaseSnapshot(second);
}

TEST(LevelDbTest, PropertiesHaveLevelDbsFormat) {
  const TestDirectory directory;
  const auto db = OpenOrDie(Creating(), directory / "db");
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a\x01", "1").ok());
  db->CompactRange(nullptr, nullptr);
  std::string value;
  int tables = 0;
  for (int level = 0; level < 7; ++level) {
    ASSERT_TRUE(db->GetProperty(
        "leveldb.num-files-at-level" + std::to_string(level), &value));
    tables += std::stoi(value);
  }
  EXPECT_EQ(tables, 1);
  EXPECT_FALSE(db->GetProperty("leveldb.num-files-at-level7", &value));
  ASSERT_TRUE(db->GetProperty("leveldb.stats", &value));
  EXPECT_THAT(
      value,
      StartsWith("                               Compactions\n"
                 "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n"
                 "--------------------------------------------------\n  "));
  ASSERT_TRUE(db->GetProperty("leveldb.sstables", &value));
  EXPECT_THAT(value, StartsWith("--- level 0 ---\n"));
  EXPECT_THAT(value, HasSubstr("['a\\x01' @ "));
  EXPECT_THAT(value, HasSubstr(" : 1 .. 'a\\x01' @ "));
  EXPECT_THAT(value, HasSubstr(" : 1]\n"));
  ASSERT_TRUE(db->GetProperty("leveldb.approximate-memory-usage", &value));
  EXPECT_GT(std::stoll(value), 0);
  EXPECT_FALSE(db->GetProperty("leveldb.none", &value));
  EXPECT_FALSE(db->GetProperty("leveldb.estimate-num-keys", &value));
  EXPECT_FALSE(db->GetProperty("", &value));
  EXPECT_EQ(db->GetProperty("varve.estimate-num-keys", &value), RunsOnVarve());
}

TEST(LevelDbTest, SizesAndCompactions) {
  const TestDirectory directory;
  leveldb::Options options = Creating();
  options.compression = leveldb::kNoCompression;
  const auto db = OpenOrDie(options, directory / "db");
  const std::string value(1000, 'x');
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(
        db->Put(leveldb::WriteOptions(), std::to_string(10000 + i), value)
            .ok());
  }
  const Slice begin("10000");
  const Slice end("20000");
  db->CompactRange(&begin, &end);
  const leveldb::Range ranges[] = {{"10000", "11000"}, {"20000", "30000"}};
  uint64_t sizes[2] = {7, 7};
  db->GetApproximateSizes(ranges, 2, sizes);
  EXPECT_GT(sizes[0], 900000U);
  EXPECT_LT(sizes[0], 1200000U);
  EXPECT_EQ(sizes[1], 0U);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(
        db->Delete(leveldb::WriteOptions(), std::to_string(10000 + i)).ok());
  }
  db->CompactRange(nullptr, nullptr);
  db->GetApproximateSizes(ranges, 1, sizes);
  EXPECT_LT(sizes[0], 100000U);
}

TEST(LevelDbTest, DestroyRemovesTheDirectory) {
  const TestDirectory directory;
  OpenOrDie(Creating(), directory / "db")
      ->Put(leveldb::WriteOptions(), "a", "1");
  EXPECT_TRUE(leveldb::DestroyDB(directory / "db", {}).ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "db"));
  EXPECT_TRUE(leveldb::DestroyDB(directory / "db", {}).ok());
}

TEST(LevelDbTest, RepairBringsEntriesBack) {
  const TestDirectory directory;
  {
    const auto db = OpenOrDie(Creating(), directory / "db");
    ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a", "1").ok());
    db->CompactRange(nullptr, nullptr);
    ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "b", "2").ok());
  }
  std::filesystem::remove(directory / "db/CURRENT");
  EXPECT_TRUE(leveldb::RepairDB(directory / "db", {}).ok());
  leveldb::Options options;  // Does not create it.
  EXPECT_EQ(Scan(OpenOrDie(options, directory / "db").get()), "a=1 b=2 ");
}

TEST(LevelDbTest, DefaultImplementationsOfPutAndDeleteWriteABatch) {
  struct Recorder : leveldb::DB {
    Status Put(const leveldb::WriteOptions& options, const Slice& key,
               const Slice& value) override {
      return DB::Put(options, key, value);
    }
    Status Delete(const leveldb::WriteOptions& options,
                  const Slice& key) override {
      return DB::Delete(options, key);
    }
    Status Write(const leveldb::WriteOptions&,
                 leveldb::WriteBatch* batch) override {
      bytes += batch->ApproximateSize();
      return Status::OK();
    }
    Status Get(const leveldb::ReadOptions&, const Slice&,
               std::string*) override {
      return Status::OK();
    }
    leveldb::Iterator* NewIterator(const leveldb::ReadOptions&) override {
      return nullptr;
    }
    const leveldb::Snapshot* GetSnapshot() override { return nullptr; }
    void ReleaseSnapshot(const leveldb::Snapshot*) override {}
    bool GetProperty(const Slice&, std::string*) override { return false; }
    void GetApproximateSizes(const leveldb::Range*, int, uint64_t*) override {}
    void CompactRange(const Slice*, const Slice*) override {}
    size_t bytes = 0;
  } db;
  EXPECT_TRUE(db.Put({}, "k", "v").ok());
  EXPECT_TRUE(db.Delete({}, "k").ok());
  EXPECT_EQ(db.bytes, 12U + 5 + 12 + 3);
}

}  // namespace
}  // namespace leveldb_test
