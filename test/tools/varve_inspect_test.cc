// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the commands of `varve` that only look tell what is there, find all
// damage, and change nothing. Method: run them on the fixtures of RocksDB and
// LevelDB, whole and damaged, and on databases made here.

#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_writer.h"
#include "test/testing/fixtures.h"
#include "test/testing/test_headers.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::RunCommand;
using testing::HasSubstr;
using Outcome = test::CommandOutcome;

// The distance of flipped bytes.
constexpr size_t kStride = 97;

class VarveInspectTest : public test::VarveCommandTest {
 protected:
  std::string Table(const std::string& suffix = ".sst") const {
    return test::FilesEndingIn(Db(), suffix).at(0);
  }
};

TEST_F(VarveInspectTest, ShowsATable) {
  UseFixture("damage-base");
  const std::string table = Db() + "/000009.sst";
  const Outcome usual = RunCommand({"dump-sst", table});
  EXPECT_EQ(usual.exit_code, kExitOk);
  EXPECT_THAT(usual.out, HasSubstr("format version: 5\n  checksums: XXH3\n"));
  EXPECT_THAT(usual.out, HasSubstr("  entries: 240\n"));
  EXPECT_THAT(usual.out, HasSubstr("  rocksdb.properties: offset 8306, 892"));
  EXPECT_THAT(usual.out, HasSubstr("index: 16 blocks\n  block 0: offset 0, "));
  EXPECT_EQ(usual.out.find(" sequence "), std::string::npos);
  const Outcome keys = RunCommand({"dump-sst", "--keys", table});
  EXPECT_THAT(keys.out, HasSubstr("  'user00000000' sequence 1 put '"));
  EXPECT_EQ(keys.out.find("index:"), std::string::npos);
  const Outcome blocks = RunCommand({"dump-sst", "--blocks", table});
  EXPECT_THAT(blocks.out, HasSubstr("block 15: offset 7411, 329 bytes, "));
  EXPECT_EQ(RunCommand({"dump-sst", "--verify", table}).out,
            "all blocks and keys are in order\n");
  EXPECT_THAT(RunCommand({"dump-sst", "--keys", "--hex", table}).out,
              HasSubstr("  0x757365723030303030303030 sequence 1 put 0x"));
}

TEST_F(VarveInspectTest, ShowsTablesOfOtherEngines) {
  UseFixture("leveldb-default");
  EXPECT_TRUE(Ended(
      RunCommand({"dump-sst", "--footer", "--keys", "--verify", Table(".ldb")}),
      kExitOk, {"format version: 0 (short footer)"}));
  UseFixture("rocksdb-rangedel-sst");
  EXPECT_THAT(RunCommand({"dump-sst", "--keys", Table()}).out,
              HasSubstr("range deletions\n  'user00000010' .. "
                        "'user00000030' sequence 61\n"));
}

TEST_F(VarveInspectTest, ShowsPartitions) {
  UseFixture("rocksdb-bloom-partitioned");
  EXPECT_TRUE(Ended(RunCommand({"dump-sst", Db() + "/000012.sst"}), kExitOk,
                    {"  index type: two-level\n",
                     "  index partitions: ", " blocks, filter: "}));
  EXPECT_EQ(RunCommand({"dump-sst", "--verify", Db() + "/000012.sst"}).out,
            "all blocks and keys are in order\n");
  UseFixture("rocksdb-index-hash");
  EXPECT_THAT(RunCommand({"dump-sst", "--properties", Table()}).out,
              HasSubstr("  index type: hash search\n"));
}

TEST_F(VarveInspectTest, ShowsTheRestOfADamagedTable) {
  UseFixture("damaged-data-block");
  const std::string table = Db() + "/000009.sst";
  EXPECT_TRUE(Ended(
      RunCommand({"dump-sst", "--keys", table}), kExitDamage,
      {"damaged: Corruption: block checksum", "'user00000000' sequence 1 put",
       "'user00000239' sequence 240 put"}));
  EXPECT_EQ(RunCommand({"dump-sst", table}).exit_code, kExitOk);
  EXPECT_EQ(RunCommand({"dump-sst", "--verify", table}).exit_code, kExitDamage);
  UseFixture("damaged-index-block");
  EXPECT_TRUE(
      Ended(RunCommand({"dump-sst", table}), kExitDamage, {"checksums: XXH3"}));
  for (const char* name : {"damaged-footer-magic", "damaged-sst-truncated",
                           "damaged-sst-zero-length", "damaged-sst-extended"}) {
    UseFixture(name);
    EXPECT_TRUE(
        Ended(RunCommand({"dump-sst", table}), kExitDamage, {}, {"000009.sst"}))
        << name;
  }
  EXPECT_EQ(RunCommand({"dump-sst", Db() + "/nosuch.sst"}).exit_code,
            kExitFailure);
}

TEST_F(VarveInspectTest, ShowsAManifest) {
  UseFixture("damage-base");
  const std::string text = Succeed({"dump-manifest"});
  EXPECT_THAT(text, HasSubstr("edit 1, to byte 35, 28 bytes\n"
                              "  comparator: leveldb.BytewiseComparator\n"));
  EXPECT_THAT(text, HasSubstr("edit 8, to byte 423"));
  EXPECT_THAT(text, HasSubstr("  remove from level 0: 000009\n"
                              "  add to level 1: 000009  9342 bytes  "
                              "'user00000000' .. 'user00000239'  "
                              "sequence 1 .. 240\n"));
  EXPECT_EQ(RunCommand({"dump-manifest", Db() + "/MANIFEST-000005"}).out, text);
  const std::string levels = Succeed({"levels"});
  EXPECT_THAT(levels, HasSubstr("level 1: 1 files, 9342 bytes\n  000009  "));
  EXPECT_TRUE(text.ends_with("in the end\n" + levels));
  EXPECT_THAT(Succeed({"levels", "--hex"}),
              HasSubstr("0x757365723030303030303030 .. 0x"));
}

TEST_F(VarveInspectTest, ShowsTheRestOfADamagedManifest) {
  UseFixture("damaged-manifest-bitflip-tail");
  EXPECT_TRUE(Ended(RunHere({"dump-manifest"}), kExitDamage, {"edit 7, "},
                    {"MANIFEST-000005 offset 407"}));
  UseFixture("damaged-manifest-truncated-tail");
  EXPECT_THAT(Succeed({"dump-manifest"}),
              HasSubstr("the last record was cut off: "));
  UseFixture("crafted-manifest-overlap");
  EXPECT_TRUE(Ended(RunHere({"dump-manifest"}), kExitDamage, {"add to level 1"},
                    {"overlap"}));
}

TEST_F(VarveInspectTest, ShowsALog) {
  UseFixture("damage-base");
  const std::string log = Db() + "/000010.log";
  EXPECT_TRUE(Ended(RunCommand({"dump-wal", log}), kExitOk,
                    {"record 1, to byte 79: sequence 302, 1 updates, "
                     "72 bytes\n  put 'user00000000' = 'wal0:"}));
  EXPECT_THAT(RunCommand({"dump-wal", "--hex", log}).out,
              HasSubstr("  put 0x757365723030303030303030 = 0x"));
  UseFixture("rocksdb-rangedel-wal");
  EXPECT_THAT(RunCommand({"dump-wal", Table(".log")}).out,
              HasSubstr("  delete range '"));
}

TEST_F(VarveInspectTest, ShowsTheRestOfADamagedLog) {
  const std::string log = Db() + "/000010.log";
  UseFixture("damaged-wal-truncated-tail");
  EXPECT_TRUE(Ended(RunCommand({"dump-wal", log}), kExitOk,
                    {"the last record was cut off"}));
  UseFixture("damaged-wal-bitflip-middle");
  EXPECT_TRUE(Ended(RunCommand({"dump-wal", log}), kExitDamage,
                    {"10 records\n"}, {"000010.log offset 790"}));
  UseFixture("refuse-write-prepared");
  EXPECT_TRUE(Ended(RunCommand({"dump-wal", Table(".log")}), kExitFailure, {},
                    {"WritePrepared"}));
}

// A reader of a log that is allocated ahead may pass a place just before the
// writer fills it, and find what was written behind it after that.
TEST_F(VarveInspectTest, ALogThatIsBeingWrittenIsNoDamage) {
  UseFixture("damage-base");
  const std::string log = Db() + "/000010.log";
  std::string whole;
  ASSERT_TRUE(ReadFileToString(Env::Default(), log, &whole).ok());
  std::string hole = whole;
  std::fill_n(hole.begin() + 79, 500, '\0');  // After the first record.
  ASSERT_TRUE(
      WriteStringToFile(Env::Default(), hole, log, /*sync=*/false).ok());
  EXPECT_EQ(RunCommand({"dump-wal", log}).exit_code, kExitDamage);
  std::unique_ptr<FileLock> lock;  // As a process that has the database open.
  ASSERT_TRUE(Env::Default()->LockFile(Db() + "/LOCK", &lock).ok());
  std::thread writer([&] {
    Env::Default()->SleepForMicroseconds(50000);
    std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
    file.write(whole.data(), static_cast<std::streamsize>(whole.size()));
  });
  const Outcome outcome = RunCommand({"dump-wal", log});
  writer.join();
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("1 records\nit is being written\n"));
}

TEST_F(VarveInspectTest, PrintsStatistics) {
  Put("0x61", "0x62");
  const std::string text = Succeed({"stats"});
  EXPECT_THAT(text, HasSubstr("Level  Files"));
  EXPECT_THAT(text, HasSubstr("varve.block.cache.hit COUNT : "));
  EXPECT_EQ(Succeed({"stats", "--property=varve.num-snapshots"}), "0\n");
  EXPECT_EQ(RunHere({"stats", "--property=nosuch"}).exit_code, kExitUsage);
}

// ---- check -----------------------------------------------------------------

TEST_F(VarveInspectTest, FindsNoDamageWhereThereIsNone) {
  for (const char* name : {"damage-base",
                           "damaged-wal-truncated-tail",
                           "damaged-wal-zero-tail",
                           "damaged-manifest-truncated-tail",
                           "handmade-minimal",
                           "leveldb-default",
                           "leveldb-wal-only",
                           "leveldb-iq80",
                           "leveldb-iq80-compacted",
                           "leveldb-pcmind",
                           "leveldb-goleveldb",
                           "leveldb-rusty",
                           "leveldb-rusty-zlib",
                           "leveldb-bedrock",
                           "leveldb-amulet",
                           "rocksdb-ingested",
                           "rocksdb-rangedel-sst",
                           "rocksdb-multiversion",
                           "rocksdb-clean-empty",
                           "rocksdb-wal-edges",
                           "rocksdb-zstd-dict"}) {
    UseFixture(name);
    const Outcome outcome = RunHere({"check"});
    EXPECT_EQ(outcome.exit_code, kExitOk) << name << "\n" << outcome.out;
    EXPECT_TRUE(outcome.out.ends_with("no damage\n")) << name;
    EXPECT_EQ(outcome.error, "") << name;
  }
}

TEST_F(VarveInspectTest, TheGuardAgainstLevelDbsRepairIsNoDamage) {
  UseFixture("leveldb-default");
  Succeed({"put", "key", "value"});
  ASSERT_TRUE(std::filesystem::exists(Db() + "/000001.dbtmp"));
  const std::string out = Succeed({"check"});
  EXPECT_THAT(out, Not(HasSubstr("000001.dbtmp")));
  EXPECT_TRUE(out.ends_with("no damage\n"));
}

TEST_F(VarveInspectTest, NamesDamagedFiles) {
  const std::map<std::string, std::string> damaged = {
      {"damaged-current-empty", "CURRENT"},
      {"damaged-current-garbage", "CURRENT"},
      {"damaged-current-missing", "CURRENT"},
      {"damaged-current-no-newline", "CURRENT"},
      {"damaged-data-block", "000009.sst"},
      {"damaged-filter", "000009.sst"},
      {"damaged-footer-magic", "000009.sst"},
      {"damaged-index-block", "000009.sst"},
      {"damaged-manifest-bitflip-first", "MANIFEST-000005"},
      {"damaged-manifest-bitflip-tail", "MANIFEST-000005"},
      {"damaged-manifest-empty", "MANIFEST-000005"},
      {"damaged-manifest-missing", "MANIFEST-000005"},
      {"damaged-manifest-truncated-flush", Db()},
      {"damaged-metaindex", "000009.sst"},
      {"damaged-properties", "000009.sst"},
      {"damaged-sst-extended", "000009.sst"},
      {"damaged-sst-missing", "000009.sst"},
      {"damaged-sst-truncated", "000009.sst"},
      {"damaged-sst-zero-length", "000009.sst"},
      {"damaged-wal-bitflip-last", "000010.log"},
      {"damaged-wal-bitflip-middle", "000010.log"},
      {"crafted-unsorted-keys", "000005.sst"},
      {"crafted-manifest-overlap", "MANIFEST-000001"}};
  for (const auto& [name, file] : damaged) {
    UseFixture(name);
    EXPECT_TRUE(Ended(RunHere({"check"}), kExitDamage,
                      {"damaged: " + file + ": "}, {"varve repair --db="}))
        << name;
  }
}

TEST_F(VarveInspectTest, NamesEachDamagedFile) {
  UseFixture("damage-base");
  test::FlipByte(Db() + "/000009.sst", 100);
  test::FlipByte(Db() + "/000011.sst", 100);
  test::FlipByte(Db() + "/000010.log", 100);
  EXPECT_TRUE(Ended(RunHere({"check"}), kExitDamage,
                    {"damaged: 000009.sst: ", "damaged: 000011.sst: ",
                     "damaged: 000010.log: "},
                    {"3 files"}));
}

// Returns whether a byte of a file belongs to the footer's padding after short
// handles, which has no meaning and is not read.
bool IsPadding(const std::string& name, size_t i, size_t file_size) {
  return name.ends_with(".sst") && i + 53 - 8 >= file_size &&
         i + 12 < file_size;
}

// Notes count: a flipped byte may look as if a crash had cut something off.
TEST_F(VarveInspectTest, NoticesAFlippedByteAnywhere) {
  UseFixture("damage-base");
  size_t flips = 0;
  for (const auto& [name, bytes] : test::ReadDirectory(Db())) {
    if (name == "IDENTITY" || name == "LOCK" || name.starts_with("OPTIONS")) {
      continue;
    }
    const std::string path = Db() + "/" + name;
    for (size_t i = flips % kStride; i < bytes.size(); i += kStride, ++flips) {
      if (IsPadding(name, i, bytes.size())) continue;
      test::FlipByte(path, i);
      const Outcome outcome = RunHere({"check"});
      // Some make an unknown feature of it.
      EXPECT_TRUE(outcome.exit_code == kExitDamage ||
                  outcome.exit_code == kExitFailure ||
                  outcome.out.find("note: ") != std::string::npos)
          << name << " byte " << i << "\n"
          << outcome.out;
      test::WriteWholeFile(path, bytes);
    }
  }
  EXPECT_GT(flips, 50u);
  EXPECT_EQ(RunHere({"check"}).exit_code, kExitOk);
}

TEST_F(VarveInspectTest, NotesALogThatHasLostItsEnd) {
  Put("0x61", "0x62");
  const std::string first = Table(".log");
  WriteBatch note;
  WalPredecessor{std::stoul(first.substr(first.rfind('/') + 1)), 1000}.EncodeTo(
      &note);
  const std::string next = Db() + "/000099.log";
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(Env::Default()->NewWritableFile(next, FileOptions(), &file).ok());
  wal::Writer writer(std::move(file), 99);
  ASSERT_TRUE(writer.AddRecord(note.Data()).ok());
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_THAT(RunCommand({"dump-wal", next}).out, HasSubstr("of 1000 bytes"));
  EXPECT_THAT(Succeed({"check"}),
              HasSubstr("of 1000 bytes, only the first 24 are left"));
}

// Recovery would stop before it, and the next write would discard the rest.
TEST_F(VarveInspectTest, NamesALogThatIsMissingBeforeOthers) {
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  options.max_write_buffer_number = 64;
  // The files end with their records.
  options.wal_write = WriteMethod::kCall;
  test::TempDir dir;
  const std::string source = dir.Sub("db");
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, source, &db).ok());
  // Nothing is flushed that a copy would have to wait for.
  db->CancelAllBackgroundWork(true);
  const std::string value(1000, 'v');
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(db->Put({}, std::to_string(1000 + i), value).ok());
  }
  const auto files = test::ReadDirectory(source);
  std::vector<std::string> logs;
  for (const auto& [name, bytes] : files) {
    if (name.ends_with(".log")) logs.push_back(name);
  }
  ASSERT_GE(logs.size(), 4u);
  const auto copy = [&](const std::string& changed, size_t size) {
    std::filesystem::remove_all(Db());
    std::filesystem::create_directory(Db());
    for (const auto& [name, bytes] : files) {
      if (name == "LOCK" || (name == changed && size == 0)) continue;
      test::WriteWholeFile(Db() + "/" + name,
                           name == changed ? bytes.substr(0, size) : bytes);
    }
  };
  copy("", 0);
  EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n"));
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const std::string& log = logs[which];
    const size_t whole = files.at(log).size();
    for (const size_t size : {size_t{0}, whole / 2, whole - 1}) {
      SCOPED_TRACE(log + " " + std::to_string(size));
      copy(log, size);
      EXPECT_TRUE(Ended(RunHere({"check"}), kExitDamage,
                        {"damaged: " + log + ": ", "later logs are not used"}));
    }
  }
  // Nothing after the last one is lost.
  copy(logs.back(), files.at(logs.back()).size() - 1);
  EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n"));
}

TEST_F(VarveInspectTest, DistinguishesMissingFeaturesFromDamage) {
  for (const char* name : {"refuse-wide-columns-sst", "refuse-plain-table",
                           "refuse-write-prepared", "refuse-blob-files"}) {
    UseFixture(name);
    const Outcome outcome = RunHere({"check"});
    EXPECT_EQ(outcome.exit_code, kExitFailure) << name;
    EXPECT_THAT(outcome.out, HasSubstr("refused: ")) << name;
    EXPECT_EQ(outcome.out.find("damaged: "), std::string::npos) << name;
    EXPECT_EQ(outcome.error.find("varve repair"), std::string::npos) << name;
  }
}

TEST_F(VarveInspectTest, ChecksCaseInsensitiveDatabases) {
  Succeed({"--create_if_missing", "--ignore_case", "put", "Key", "v"});
  EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n"));
}

// ---- Looking changes nothing -----------------------------------------------

TEST_F(VarveInspectTest, ChangesNoFixture) {
  for (const std::string& name : test::FixtureNames("")) {
    UseFixture(name);
    const auto before = test::ReadDirectory(Db());
    const std::vector<std::vector<std::string>> commands = {
        {"check"}, {"levels"}, {"stats"}, {"scan"}, {"dump-manifest"}};
    for (const std::vector<std::string>& command : commands) {
      const Outcome outcome = RunHere(command);
      EXPECT_LE(outcome.exit_code, kExitFailure) << name << " " << command[0];
      EXPECT_EQ(outcome.exit_code == kExitOk,
                outcome.error.empty() ||
                    outcome.error.starts_with("varve: warning: "))
          << name << " " << command[0] << "\n"
          << outcome.error;
      EXPECT_TRUE(test::ReadDirectory(Db()) == before)
          << name << " " << command[0];
    }
    for (const auto& [file, bytes] : before) {
      const std::string path = Db() + "/" + file;
      RunCommand({"dump-sst", "--keys", "--blocks", path});
      RunCommand({"dump-wal", path});
      RunCommand({"dump-manifest", path});
    }
    EXPECT_TRUE(test::ReadDirectory(Db()) == before) << name;
  }
}

}  // namespace
}  // namespace varve
