// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the commands of `varve` that change whole databases do what they say.
// Method: run them on fixtures, whole and damaged, and on databases made here.
#include <unistd.h>

#include "test/testing/fixtures.h"
#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "test/testing/varve_command.h"
#include "varve/convert.h"
#include "varve/filter_policy.h"

namespace varve {
namespace {

using test::RunCommand;
using testing::HasSubstr;
using Outcome = test::CommandOutcome;

class VarveMaintenanceTest : public test::VarveCommandTest {};

TEST_F(VarveMaintenanceTest, RepairsDamagedDatabases) {
  for (const char* name : {"damaged-current-missing",
                           "damaged-manifest-missing", "damaged-manifest-empty",
                           "damaged-data-block", "damaged-sst-truncated"}) {
    UseFixture(name);
    EXPECT_EQ(RunHere({"check"}).exit_code, kExitDamage) << name;
    const Outcome outcome = RunHere({"repair", "--progress"});
    EXPECT_EQ(outcome.exit_code, kExitOk) << name << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr(Db() + "/lost\n")) << name;
    EXPECT_EQ(outcome.error, "repairing " + Db() + "\n") << name;
    EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n")) << name;
  }
}

TEST_F(VarveMaintenanceTest, KeepsAllWhenAHealthyDatabaseIsRepaired) {
  UseFixture("damage-base");
  const std::string before = Succeed({"scan", "--hex"});
  EXPECT_EQ(RunHere({"repair"}).error, "");
  EXPECT_EQ(Succeed({"scan", "--hex"}), before);
}

TEST_F(VarveMaintenanceTest, SaysWhereToLookForDamage) {
  UseFixture("damaged-data-block");
  EXPECT_TRUE(
      Ended(RunHere({"scan"}), kExitDamage, {}, {"varve check --db=" + Db()}));
}

TEST_F(VarveMaintenanceTest, Compacts) {
  for (const char* name : {"rocksdb-default-levels", "leveldb-default"}) {
    UseFixture(name);
    const std::string before = Succeed({"scan", "--hex"});
    const Outcome outcome = RunHere({"compact", "--progress"});
    EXPECT_EQ(outcome.out, "OK\n") << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr("compactions, "));
    EXPECT_EQ(Succeed({"scan", "--hex"}), before);
    EXPECT_THAT(Succeed({"levels"}), HasSubstr("level 0: 0 files"));
    EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n"));
  }
}

// A command is not the database's program, and has no options of its own.
TEST_F(VarveMaintenanceTest, KeepsTheOptionsOfTheDatabase) {
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 3 << 20;
  options.filter_policy = NewBloomFilterPolicy(7);
  options.compression = CompressionType::kZSTD;
  options.WAL_ttl_seconds = 3600;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, Db(), &db)));
  ColumnFamilyHandle* family = nullptr;
  options.write_buffer_size = 5 << 20;
  ASSERT_TRUE(Ok(db->CreateColumnFamily(options, "f", &family)));
  ASSERT_TRUE(Ok(db->DestroyColumnFamilyHandle(family)));
  db.reset();
  Succeed({"put", "a", "1"});
  Succeed({"put", "a", "1", "--family=f"});
  Succeed({"compact"});
  Succeed({"repair"});
  Succeed({"delete", "a"});
  DBOptions found;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_TRUE(Ok(LoadLatestOptions(ConfigOptions(), Db(), &found, &families)));
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(found.WAL_ttl_seconds, 3600u);
  for (const ColumnFamilyDescriptor& one : families) {
    EXPECT_EQ(one.options.write_buffer_size,
              size_t{one.name == "f" ? 5u : 3u} << 20);
    EXPECT_NE(one.options.filter_policy, nullptr);
    EXPECT_EQ(one.options.compression, CompressionType::kZSTD);
  }
}

TEST_F(VarveMaintenanceTest, CompactsARange) {
  UseFixture("rocksdb-default-levels");
  const std::string levels = Succeed({"levels"});
  // After all keys, so there is nothing to do.
  EXPECT_EQ(Succeed({"compact", "--hex", "--from=0xFFFF"}), "OK\n");
  EXPECT_EQ(Succeed({"compact", "--from=user", "--to=zz"}), "OK\n");
  EXPECT_NE(Succeed({"levels"}), levels);
  EXPECT_THAT(Succeed({"levels"}), HasSubstr("level 0: 0 files"));
}

TEST_F(VarveMaintenanceTest, MakesCheckpoints) {
  UseFixture("leveldb-default");
  const std::string before = Succeed({"scan", "--hex"});
  const std::string copy = directory_.Sub("copy");
  EXPECT_EQ(Succeed({"checkpoint", copy}), "OK\n");
  Succeed({"put", "later", "1"});
  EXPECT_EQ(RunCommand({"--db", copy, "scan", "--hex"}).out, before);
  EXPECT_EQ(RunCommand({"--db", copy, "check"}).exit_code, kExitOk);
  EXPECT_TRUE(Ended(RunHere({"checkpoint", copy}), kExitFailure, {}, {copy}));
}

// A checkpoint beside a writer is a state of the database: all keys up to some
// number, at least those that were there when the command began.
TEST_F(VarveMaintenanceTest, MakesCheckpointsBesideAWriter) {
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;  // Logs and tables come and go.
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
  const auto key_of = [](uint64_t i) {
    char text[24];
    snprintf(text, sizeof(text), "%08" PRIu64, i);
    return std::string(text);
  };
  std::atomic<uint64_t> written = 0;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop.load()) {
      const std::string key = key_of(written.load());
      ASSERT_TRUE(
          db->Put(WriteOptions(), key, key + std::string(300, 'v')).ok());
      ++written;
      // It names the last key of each full hundred.
      if (written.load() % 100 == 0) {
        ASSERT_TRUE(db->Put(WriteOptions(), "newest", key).ok());
      }
    }
  });
  int copies = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string copy = directory_.Sub("copy" + std::to_string(i));
    const uint64_t before = written.load();
    const Outcome outcome = RunHere({"checkpoint", copy});
    // A writer that does nothing else may be too fast.
    if (outcome.exit_code != kExitOk) {
      EXPECT_FALSE(std::filesystem::exists(copy)) << outcome.error;
      EXPECT_THAT(outcome.error, HasSubstr("changed")) << outcome.error;
      continue;
    }
    EXPECT_TRUE(RunCommand({"check", "--db=" + copy}).exit_code == kExitOk);
    std::unique_ptr<DB> read;
    ASSERT_TRUE(DB::Open(Options(), copy, &read).ok());
    std::unique_ptr<Iterator> iterator = read->NewIterator(ReadOptions());
    uint64_t count = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      if (iterator->key() == Slice("newest")) break;
      ASSERT_EQ(iterator->key().ToString(), key_of(count));
      ++count;
    }
    EXPECT_TRUE(iterator->status().ok());
    EXPECT_GE(count, before);
    iterator.reset();
    // The copy is one state: "newest" is the last key of a full hundred, of
    // the hundred before if the copy was made just before its Put.
    std::string newest;
    const Status found = read->Get(ReadOptions(), "newest", &newest);
    const bool just_filled = count > 0 && count % 100 == 0;
    if (!just_filled || newest != key_of(count - 1)) {
      const uint64_t full = just_filled ? count - 100 : count / 100 * 100;
      EXPECT_EQ(found.IsNotFound(), full == 0) << found.ToString();
      EXPECT_EQ(newest, full == 0 ? "" : key_of(full - 1)) << count;
    }
    ASSERT_TRUE(read->Put(WriteOptions(), "more", "1").ok());
    ASSERT_TRUE(read->Close().ok());
    ++copies;
  }
  stop.store(true);
  writer.join();
  EXPECT_GE(copies, 5);
  EXPECT_TRUE(db->Close().ok());
  const uint64_t keys = written.load() + (written.load() >= 100 ? 1 : 0);
  EXPECT_EQ(RunHere({"count"}).out, std::to_string(keys) + "\n");
}

// A reader without the right to write, or read-only media.
TEST_F(VarveMaintenanceTest, MakesCheckpointsWithoutTheRightToWrite) {
  std::string expected;
  {
    std::unique_ptr<DB> db;
    Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
    ASSERT_TRUE(db->Put({}, "flushed", "1").ok());
    ASSERT_TRUE(db->Flush({}).ok());
    ASSERT_TRUE(db->Put({}, "logged", "2").ok());
    ASSERT_TRUE(db->Close().ok());
  }
  namespace fs = std::filesystem;
  constexpr fs::perms kNobodyWrites =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  fs::permissions(directory_.path(), fs::perms::all);
  // With LOCK, and without, as in an image of the directory.
  for (const bool has_lock : {true, false}) {
    if (!has_lock) fs::remove(Db() + "/LOCK");
    for (const auto& entry : fs::directory_iterator(Db())) {
      fs::permissions(entry, kNobodyWrites, fs::perm_options::remove);
    }
    fs::permissions(Db(), kNobodyWrites, fs::perm_options::remove);
    const auto before = test::ReadDirectory(Db());
    const std::string copy = directory_.Sub(has_lock ? "copy" : "copy2");
    EXPECT_EQ(test::RunForked([&] {
                if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
                  return 2;
                }
                EXPECT_EQ(Succeed({"checkpoint", copy}), "OK\n");
                EXPECT_EQ(RunCommand({"--db", copy, "scan"}).out,
                          "flushed : 1\nlogged : 2\n");
                return HasFailure() ? 1 : 0;
              }),
              0);
    EXPECT_EQ(test::ReadDirectory(Db()), before);
    fs::permissions(Db(), fs::perms::owner_write, fs::perm_options::add);
  }
}

TEST_F(VarveMaintenanceTest, RefusesCheckpointsBesideOtherEngines) {
  UseFixture("leveldb-default");
  Put("0x61", "0x62");
  const std::string copy = directory_.Sub("copy");
  {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(Options(), Db(), &db).ok());
    EXPECT_EQ(RunHere({"checkpoint", copy}).exit_code, kExitOk);
    EXPECT_TRUE(Ended(RunHere({"checkpoint", copy}), kExitFailure, {},
                      {"exists already"}));
    EXPECT_EQ(RunCommand({"get", "--db=" + copy, "a"}).out, "b\n");
  }
  // As RocksDB and LevelDB hold it.
  UseFixture("leveldb-wal-only");
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Env::Default()->LockFile(Db() + "/LOCK", &lock).ok());
  EXPECT_TRUE(Ended(RunHere({"checkpoint", copy + "2"}), kExitFailure, {},
                    {"in use by another engine"}));
  EXPECT_TRUE(Env::Default()->UnlockFile(std::move(lock)).ok());
  EXPECT_FALSE(std::filesystem::exists(copy + "2"));
}

}  // namespace
}  // namespace varve
