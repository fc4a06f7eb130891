// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB reads and writes what Varve wrote, and Varve what RocksDB
// wrote, in the same directory, as often as one likes. Method: db_bench makes
// databases with every compression, with and without filters; RocksDB's ldb
// and sst_dump, which must be installed, look at them and change them.

#include <set>
#include <string>

#include "test/testing/fixtures.h"
#include "test/testing/seed.h"
#include "test/testing/tools.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

struct Case {
  const char* compression;
  bool bloom;
};

class RocksDbToolsTest : public DbTestBase {
 protected:
  // Contents by Varve's iterator, without a change of the files.
  EntryList ReadByVarve() {
    std::unique_ptr<DB> db;
    EntryList entries;
    EXPECT_TRUE(Ok(DB::OpenForReadOnly(Options(), path_, &db)));
    if (db == nullptr) return entries;
    EXPECT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    EXPECT_TRUE(HasEntries(db.get(), entries));
    EXPECT_TRUE(Ok(db->VerifyChecksum()));
    return entries;
  }

  // All programs see the same.
  EntryList ExpectAllAgree() {
    const EntryList entries = ReadByVarve();
    EXPECT_TRUE(SameText(
        ScanLines(entries),
        RunOrFail({VARVE_TOOL_PATH, "scan", "--db=" + path_, "--hex"})));
    ExpectRocksDbAgrees(path_, entries);
    return entries;
  }

  // Changes by RocksDB: a put, a batch, an overwrite and a delete.
  void ChangeByRocksDb(const std::string& mark, EntryList* entries) {
    Entries model(entries->begin(), entries->end());
    ASSERT_GE(model.size(), 3u);
    const std::string overwritten = model.begin()->first;
    const std::string deleted = std::next(model.begin())->first;
    Ldb(path_, {"put", Hex("rocksdb put " + mark), Hex(mark)});
    Ldb(path_, {"batchput", Hex("rocksdb batch " + mark), Hex("1"),
                Hex(overwritten), Hex("overwritten " + mark)});
    Ldb(path_, {"delete", Hex(deleted)});
    model["rocksdb put " + mark] = mark;
    model["rocksdb batch " + mark] = "1";
    model[overwritten] = "overwritten " + mark;
    model.erase(deleted);
    *entries = ToList(model);
  }

  // Changes by Varve that go through memtables, level 0 and below; the last
  // ones stay in the log.
  void ChangeByVarve(const std::string& mark, EntryList* entries) {
    Entries model(entries->begin(), entries->end());
    Open();
    Rng rng(5);
    for (int i = 0; i < 4000; i++) {
      const std::string key = "varve " + Key(rng.Between(0, 1500));
      if (rng.OneIn(4)) {
        model.erase(key);
        Delete(key);
      } else {
        model[key] = mark + rng.Bytes(80);
        Put(key, model[key]);
      }
    }
    model["varve last"] = mark;
    Put("varve last", mark);
    EXPECT_TRUE(HasEntries(db_.get(), ToList(model), {}, false));
    Close();
    *entries = ToList(model);
  }
};

class RocksDbAfterDbBenchTest : public RocksDbToolsTest,
                                public ::testing::WithParamInterface<Case> {};

TEST_P(RocksDbAfterDbBenchTest, BothReadTheOthersWrites) {
  const std::vector<std::string> flags = {
      "--num=20000",
      "--threads=1",
      "--write_buffer_size=131072",
      "--compression_type=" + std::string(GetParam().compression),
      "--bloom_bits=" + std::string(GetParam().bloom ? "10" : "0"),
  };
  DbBench(path_, Command({"--benchmarks=fillrandom,compact"}, flags));
  DbBench(path_, Command({"--benchmarks=overwrite,deleterandom",
                          "--use_existing_db", "--num=20000", "--seed=7"},
                         flags));
  ASSERT_FALSE(HasFailure());
  // Tables in more than one level, and a log with something in it.
  std::set<std::string> levels;
  std::istringstream files(Ldb(path_, {"list_live_files_metadata"}));
  for (std::string line; std::getline(files, line);) {
    const size_t at = line.find("level ");
    if (at != std::string::npos) levels.insert(line.substr(at, 7));
  }
  EXPECT_GE(levels.size(), 2u);
  ASSERT_FALSE(FilesEndingIn(path_, ".log").empty());
  EXPECT_GT(ReadWholeFile(FilesEndingIn(path_, ".log").back()).size(), 0u);

  EntryList entries = ExpectAllAgree();
  EXPECT_GT(entries.size(), 1000u);
  EXPECT_LT(entries.size(), 20000u);
  ASSERT_FALSE(HasFailure());

  options_.filter_policy =
      GetParam().bloom ? NewBloomFilterPolicy(10) : nullptr;
  for (const auto& [name, type] : AllCompressions()) {
    if (name == std::string(GetParam().compression)) {
      options_.compression = type;
    }
  }
  for (const std::string mark : {"one", "two"}) {
    SCOPED_TRACE("round " + mark);
    ChangeByRocksDb(mark, &entries);
    ASSERT_TRUE(SameEntries(entries, ReadByVarve()));
    ChangeByVarve(mark, &entries);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(SameEntries(entries, ExpectAllAgree()));
    if (mark == "one") Ldb(path_, {"compact"});
    ASSERT_TRUE(SameEntries(entries, ExpectAllAgree()));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RocksDbAfterDbBenchTest,
    ::testing::Values(Case{"none", false}, Case{"none", true},
                      Case{"snappy", false}, Case{"snappy", true},
                      Case{"zlib", false}, Case{"bzip2", true},
                      Case{"lz4", false}, Case{"lz4", true},
                      Case{"lz4hc", false}, Case{"lz4hc", true},
                      Case{"zstd", false}, Case{"zstd", true}),
    [](const auto& test) {
      return test.param.compression +
             std::string(test.param.bloom ? "Bloom" : "");
    });

TEST_F(RocksDbToolsTest, ReadsCaseInsensitiveDatabasesAsTheyAreStored) {
  options_.key_case = KeyCase::kInsensitive;
  Open();
  Put("Straße", "1");
  Flush();
  Put("KEY", "2");
  Close();
  ExpectRocksDbAgrees(path_, {{"key", "2"}, {"strasse", "1"}});
  // Only a reader has seen it.
  Open();
  EXPECT_EQ(Get("Key"), "2");
  Close();
  // RocksDB writes a MANIFEST without the setting, and keys as they come.
  Ldb(path_, {"put", Hex("NEW"), Hex("3")});
  EXPECT_TRUE(TryOpen().IsInvalidArgument());
  options_.key_case = KeyCase::kSensitive;
  Open();
  EXPECT_TRUE(
      HasEntries(db_.get(), {{"NEW", "3"}, {"key", "2"}, {"strasse", "1"}}));
  Delete("NEW");
  Close();
  options_.key_case = KeyCase::kInsensitive;
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), {{"key", "2"}, {"strasse", "1"}}));
  EXPECT_EQ(Get("Key"), "2");
}

TEST_F(RocksDbToolsTest, UnusualKeysAndValuesPassBothWays) {
  EntryList entries = {{"", "value of the empty key"},
                       {std::string(1, '\0'), ""},
                       {"a", std::string(300000, 'v')},
                       {std::string(5000, 'k'), "long key"},
                       {std::string(3, '\xff'), "high bytes"}};
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return Slice(a.first).compare(b.first) < 0;
  });
  Open();
  for (const auto& [key, value] : entries) Put(key, value);
  Close();
  EXPECT_TRUE(SameEntries(entries, ExpectAllAgree()));
  Open();
  CompactAll();
  Close();
  EXPECT_TRUE(SameEntries(entries, ExpectAllAgree()));
}

TEST_F(RocksDbToolsTest, EmptyAndEmptiedDatabasesAreReadByRocksDb) {
  Open();
  Close();
  EXPECT_TRUE(SameEntries({}, ExpectAllAgree()));
  Open();
  for (int i = 0; i < 2000; i++) Put(Key(i), "v");
  Flush();
  for (int i = 0; i < 2000; i++) Delete(Key(i));
  CompactAll();
  Close();
  EXPECT_TRUE(SameEntries({}, ExpectAllAgree()));
  Ldb(path_, {"put", "0x61", "0x31"});
  EXPECT_TRUE(SameEntries({{"a", "1"}}, ExpectAllAgree()));
}

TEST_F(RocksDbToolsTest, DatabaseMadeByRocksDbIsContinued) {
  Ldb(path_, {"put", "0x61", "0x31", "--create_if_missing"});
  Ldb(path_, {"batchput", "0x62", "0x32", "0x63", "0x33"});
  EntryList entries = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  ASSERT_TRUE(SameEntries(entries, ReadByVarve()));
  options_.create_if_missing = false;
  ChangeByVarve("first", &entries);
  ASSERT_TRUE(SameEntries(entries, ExpectAllAgree()));
  ChangeByRocksDb("second", &entries);
  ASSERT_TRUE(SameEntries(entries, ReadByVarve()));
  Ldb(path_, {"compact"});
  ASSERT_TRUE(SameEntries(entries, ExpectAllAgree()));
}

// The log of a process that died is replayed by the other engine.
TEST_F(RocksDbToolsTest, RocksDbReplaysALogThatVarveLeft) {
  options_.write_buffer_size = 1 << 20;  // No flush runs.
  Open();
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Delete("nothing");
  batch.PutLogData("note");
  batch.Put("b", std::string(100000, 'b'));
  batch.SingleDelete("a");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  Put("c", "3");
  // As they are while the database is open: the copy was never closed.
  const std::string copy = dir_.Sub("copy");
  CopyDirectory(path_, copy);
  Close();
  const EntryList entries = {{"b", std::string(100000, 'b')}, {"c", "3"}};
  EXPECT_TRUE(SameText(ScanLines(entries), Ldb(copy, {"scan"})));
  Ldb(copy, {"put", Hex("d"), Hex("4")});
  path_ = copy;
  EXPECT_TRUE(
      SameEntries({entries[0], entries[1], {"d", "4"}}, ExpectAllAgree()));
}

TEST_F(RocksDbToolsTest, CheckpointIsReadAndContinuedByRocksDb) {
  EntryList entries;
  ChangeByVarve("before", &entries);
  if (HasFatalFailure()) return;
  Open();
  std::unique_ptr<Checkpoint> checkpoint;
  ASSERT_TRUE(Ok(Checkpoint::Create(db_.get(), &checkpoint)));
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(checkpoint->CreateCheckpoint(copy)));
  Put("behind", "the checkpoint");
  Close();
  path_ = copy;
  ExpectRocksDbAgrees(copy, entries);
  EXPECT_TRUE(SameEntries(entries, ExpectAllAgree()));
  ChangeByRocksDb("in the copy", &entries);
  EXPECT_TRUE(SameEntries(entries, ExpectAllAgree()));
}

// Static and dynamic level sizes, each level with a compression of its own.
TEST_F(RocksDbToolsTest, LevelsOfAnyShapeAreReadByRocksDb) {
  EntryList entries;
  options_.compression_per_level = {CompressionType::kNone,
                                    CompressionType::kLZ4};
  options_.bottommost_compression = CompressionType::kZSTD;
  options_.max_subcompactions = 3;
  for (const bool dynamic : {false, true, false}) {
    options_.level_compaction_dynamic_level_bytes = dynamic;
    ChangeByVarve(dynamic ? "dynamic" : "static", &entries);
    if (HasFatalFailure()) return;
    EXPECT_TRUE(SameEntries(entries, ExpectAllAgree()));
    Ldb(path_, {"compact"});
    EXPECT_TRUE(SameEntries(entries, ExpectAllAgree()));
  }
}

TEST_F(RocksDbToolsTest, BothRespectTheOthersLock) {
  Open();
  Put("a", "1");
  const ToolResult refused =
      RunTool({"ldb", "--db=" + path_, "--hex", "put", "0x62", "0x32"});
  EXPECT_NE(refused.exit_code, 0) << refused.Summary();
  EXPECT_TRUE(Contains(refused.error + refused.out, "lock"))
      << refused.Summary();
  EXPECT_EQ(Get("b"), "NotFound");
}

TEST_F(RocksDbToolsTest, VarveToolWritesAndReads) {
  const std::string db = "--db=" + path_;
  Open();
  Close();
  RunOrFail({VARVE_TOOL_PATH, "put", db, "--hex", "0x61", "0x31"});
  RunOrFail({VARVE_TOOL_PATH, "put", db, "b", "2"});
  RunOrFail({VARVE_TOOL_PATH, "put", db, "c", "3"});
  EXPECT_EQ(RunOrFail({VARVE_TOOL_PATH, "get", db, "a"}), "1\n");
  EXPECT_EQ(RunOrFail({VARVE_TOOL_PATH, "get", db, "--hex", "0x62"}), "0x32\n");
  RunOrFail({VARVE_TOOL_PATH, "delete", db, "b"});
  const ToolResult missing = RunTool({VARVE_TOOL_PATH, "get", db, "b"});
  EXPECT_NE(missing.exit_code, 0) << missing.Summary();
  EXPECT_EQ(RunOrFail({VARVE_TOOL_PATH, "scan", db}), "a : 1\nc : 3\n");
  EXPECT_EQ(RunOrFail({"ldb", db, "scan"}), "a : 1\nc : 3\n");
  EXPECT_EQ(RunOrFail({VARVE_TOOL_PATH, "scan", db, "--from=b"}), "c : 3\n");
  EXPECT_EQ(RunOrFail({VARVE_TOOL_PATH, "scan", db, "--to=c"}), "a : 1\n");
  EXPECT_EQ(RunOrFail({VARVE_TOOL_PATH, "scan", db, "--limit=1"}), "a : 1\n");
}

class RocksDbFixtureTest : public FixtureTest {};

// Tables of all types of index become Varve's, whose index has the first type.
TEST_F(RocksDbFixtureTest, LdbReadsWhatVarveCompacted) {
  for (const char* fixture :
       {"rocksdb-index-partitioned", "rocksdb-bloom-partitioned",
        "rocksdb-index-hash-large", "rocksdb-index-first-key"}) {
    SCOPED_TRACE(fixture);
    path_ = dir_.Sub(fixture);
    CopyFixture(fixture);
    ASSERT_TRUE(HasFile("expected.txt"));
    Open();
    const std::string added = "\xff\xff\xff added";
    Put(added, "by Varve");
    CompactAll();
    Close();
    EntryList expected = ReadExpected();
    expected.emplace_back(added, "by Varve");
    ExpectRocksDbAgrees(path_, expected);
  }
}

// LevelDB's library writes through db_bench; Varve opens what it left.
TEST_F(RocksDbToolsTest, LevelDbDatabaseHasEqualContents) {
  const std::vector<std::string> flags = {
      "--num=20000", "--seed=42", "--threads=1", "--write_buffer_size=262144",
      "--benchmarks=fillrandom,overwrite,deleterandom"};
  const std::string leveldb = dir_.Sub("leveldb");
  DbBench(leveldb, Command({"--engine=leveldb"}, flags));
  DbBench(path_, flags);
  ASSERT_FALSE(FilesEndingIn(leveldb, ".ldb").empty());
  const EntryList expected = ReadByVarve();
  EXPECT_GT(expected.size(), 1000u);
  path_ = leveldb;
  ASSERT_TRUE(SameEntries(expected, ReadByVarve()));
  // Varve goes on with it, and then RocksDB can.
  EntryList entries = expected;
  ChangeByVarve("varve", &entries);
  if (HasFatalFailure()) return;
  Open();
  CompactAll();
  Close();
  ASSERT_TRUE(SameEntries(entries, ExpectAllAgree()));
}

}  // namespace
}  // namespace varve::test
