// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: what `varve export-to` writes, `varve ingest-from` reads back, whatever
// the bytes, and damage to the text is noticed. Method: dump databases of hard
// bytes and of the fixtures, and ingest them; cut and change dumps anywhere.
#include <sys/stat.h>

#include "test/testing/run_tool.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::RunCommand;
using Outcome = test::CommandOutcome;

class VarveTransferTest : public test::VarveCommandTest {
 protected:
  // All bytes, and empty keys and values.
  void PutHardBytes() {
    WriteBatch batch;
    batch.Put("", "empty key");
    batch.Put("empty value", "");
    std::string all;
    for (int i = 0; i < 256; ++i) {
      const std::string byte(1, static_cast<char>(i));
      batch.Put(byte, byte + "\n" + byte);
      all += byte;
    }
    batch.Put(all, all);
    batch.Put("\\x41", "\\\\\tvarve-dump-end 1");
    batch.Put("varve-dump-end ", "varve-dump 1");
    batch.Put("long", std::string(100000, '\0'));
    Options options;
    options.create_if_missing = true;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
    ASSERT_TRUE(db->Write(WriteOptions(), &batch).ok());
    ASSERT_TRUE(db->Close().ok());
  }
  // Another database.
  Outcome RunThere(std::vector<std::string> arguments,
                   const std::string& input = "") {
    arguments.insert(arguments.begin(), "--db=" + There());
    return RunCommand(arguments, input);
  }
  std::string There() const { return directory_.Sub("there"); }
  // Neither may make the database when what is read is no whole dump.
  void ExpectRefused(const std::string& dump, const std::string& what) {
    const std::string file = directory_.Sub("dump");
    test::WriteWholeFile(file, dump);
    const Outcome outcome =
        RunThere({"ingest-from", "--create_if_missing", file});
    EXPECT_EQ(outcome.exit_code, kExitDamage) << what;
    EXPECT_NE(outcome.error, "") << what;
    EXPECT_FALSE(std::filesystem::exists(There())) << what;
  }
};

TEST_F(VarveTransferTest, BringsBackAnyBytes) {
  PutHardBytes();
  const std::string file = directory_.Sub("dump");
  Succeed({"export-to", file});
  for (const char c : test::ReadWholeFile(file)) {
    ASSERT_TRUE(c == '\n' || c == '\t' || (c >= ' ' && c <= '~'));
  }
  const Outcome outcome =
      RunThere({"ingest-from", "--create_if_missing", file});
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_EQ(outcome.out, "OK, 262 entries\n");
  EXPECT_EQ(RunThere({"scan", "--hex"}).out, Succeed({"scan", "--hex"}));
}

TEST_F(VarveTransferTest, GoesThroughStandardOutputAndInput) {
  PutHardBytes();
  for (const std::vector<std::string>& form :
       std::vector<std::vector<std::string>>{{}, {"--ldb"}}) {
    std::vector<std::string> command = {"export-to", "-"};
    command.insert(command.end(), form.begin(), form.end());
    const std::string dump = Succeed(command);
    EXPECT_EQ(
        RunThere({"ingest-from", "--create_if_missing", "-"}, dump).exit_code,
        kExitOk);
    EXPECT_EQ(RunThere({"scan", "--hex"}).out, Succeed({"scan", "--hex"}));
    std::filesystem::remove_all(There());
  }
  // ldb's scan has no end mark. ldb's dump is RocksDB's.
  const std::string scan = Succeed({"scan", "--hex"});
  EXPECT_EQ(
      RunThere({"ingest-from", "--create_if_missing", "-"}, scan).exit_code,
      kExitOk);
  EXPECT_EQ(RunThere({"scan", "--hex"}).out, scan);
}

TEST_F(VarveTransferTest, ReadsAPipe) {
  PutHardBytes();
  const std::string dump = Succeed({"export-to", "-"});
  const std::string pipe = directory_.Sub("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { test::WriteWholeFile(pipe, dump); });
  const Outcome outcome =
      RunThere({"ingest-from", "--create_if_missing", pipe});
  writer.join();
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_EQ(RunThere({"scan", "--hex"}).out, Succeed({"scan", "--hex"}));
}

TEST_F(VarveTransferTest, AnExportThatFailsLeavesTheOldOne) {
  UseFixture("damaged-data-block");
  const std::string file = directory_.Sub("dump");
  test::WriteWholeFile(file, "the old one");
  EXPECT_EQ(RunHere({"export-to", file}).exit_code, kExitDamage);
  EXPECT_EQ(test::ReadWholeFile(file), "the old one");
  for (const auto& [name, bytes] : test::ReadDirectory(directory_.path())) {
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
  }
  // The export leaves other files alone.
  test::WriteWholeFile(file + ".tmp", "precious");
  // A link stays one, and a file keeps its mode.
  std::filesystem::remove_all(Db());
  Put("0x61", "0x31");
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  Succeed({"export-to", file});
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(test::ReadWholeFile(file + ".tmp"), "precious");
  const mode_t mask = umask(022);
  Succeed({"export-to", file + "_new"});
  umask(mask);
  ASSERT_EQ(stat((file + "_new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644u);
  const std::string dump = test::ReadWholeFile(file);
  const std::string target = directory_.Sub("target");
  const std::string link = directory_.Sub("link");
  std::filesystem::create_symlink(target, link);
  Succeed({"export-to", link});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(test::ReadWholeFile(target), dump);
  // A device cannot be replaced.
  EXPECT_TRUE(Ended(RunHere({"export-to", "/dev/full"}), kExitFailure));
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

TEST_F(VarveTransferTest, ExportsARange) {
  for (const char* key : {"0x61", "0x62", "0x63"}) Put(key, "0x31");
  EXPECT_EQ(Succeed({"export-to", "-", "--from=b", "--to=c", "--ldb"}),
            "0x62 ==> 0x31\nKeys in range: 1\n");
  EXPECT_EQ(Succeed({"export-to", "-", "--hex", "--from=0x64"}),
            "varve-dump 1\nvarve-dump-end 0 00000000\n");
  // The CRC-32C of "b\t1\n", as any other program has it.
  EXPECT_EQ(Succeed({"export-to", "-", "--from=b", "--to=c"}),
            "varve-dump 1\nb\t1\nvarve-dump-end 1 2e9d2d5d\n");
}

TEST_F(VarveTransferTest, ExchangesDumpsWithLdb) {
  Put("0x61", "0x0062");
  Put("0xFF", "0x");
  const std::string file = directory_.Sub("dump");
  const std::string there = There();
  Succeed({"export-to", "--ldb", file});
  EXPECT_EQ(test::RunOrFail({"bash", "-c",
                             "ldb --db=" + there +
                                 " load --hex --create_if_missing < " + file}),
            "");
  EXPECT_EQ(RunThere({"scan", "--hex"}).out, Succeed({"scan", "--hex"}));
  const std::string dump =
      test::RunOrFail({"ldb", "--db=" + there, "dump", "--hex"});
  EXPECT_EQ(dump, Succeed({"export-to", "--ldb", "-"}));
}

TEST_F(VarveTransferTest, RefusesAnyCutOrChange) {
  for (const char* key : {"0x61", "0x5C", "0x00"}) Put(key, "0x315CFF");
  for (const bool ldb : {false, true}) {
    std::vector<std::string> command = {"export-to", "-"};
    if (ldb) command.push_back("--ldb");
    const std::string dump = Succeed(command);
    // The last line end may be missing.
    for (size_t size = 0; size + 1 < dump.size(); ++size) {
      ExpectRefused(dump.substr(0, size), "cut to " + std::to_string(size));
    }
    ExpectRefused(dump + "more\n", "more behind it");
    if (ldb) continue;  // Which has no checksum.
    for (size_t i = 0; i < dump.size(); ++i) {
      std::string changed = dump;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      // The last line end is not needed.
      if (i + 1 == dump.size()) continue;
      ExpectRefused(changed, "changed at " + std::to_string(i));
    }
  }
  ExpectRefused("0x61 ==> 0x62\nKeys in range: 2\n", "a wrong count");
  ExpectRefused("0x61 ==> 0x6\nKeys in range: 1\n", "half a byte");
  ExpectRefused("hello\n", "something else");
}

TEST_F(VarveTransferTest, ExportsEachFixtureThatCanBeRead) {
  for (const char* name :
       {"rocksdb-default-levels", "leveldb-default", "leveldb-wal-only",
        "rocksdb-multiversion", "rocksdb-rangedel-sst", "rocksdb-wal-edges"}) {
    UseFixture(name);
    const auto before = test::ReadDirectory(Db());
    const std::string dump = Succeed({"export-to", "-"});
    EXPECT_TRUE(test::ReadDirectory(Db()) == before) << name;
    EXPECT_EQ(
        RunThere({"ingest-from", "--create_if_missing", "-"}, dump).exit_code,
        kExitOk)
        << name;
    EXPECT_EQ(RunThere({"scan", "--hex"}).out, Succeed({"scan", "--hex"}))
        << name;
    std::filesystem::remove_all(There());
  }
}

}  // namespace
}  // namespace varve
