// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an operator finds and settles prepared transactions by their names,
// whatever bytes these have. Method: `varve prepared` on the fixtures of
// RocksDB; the other commands that meet such transactions.

#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::Ended;
using testing::HasSubstr;

class VarvePreparedTest : public test::VarveCommandTest {
 protected:
  void UseFixture(const std::string& name) {
    test::CopyDirectory(test::FixturesDir() + "/" + name + "/db", Db());
  }
};

TEST_F(VarvePreparedTest, ListsAndSettles) {
  UseFixture("txn-prepared");
  const auto before = test::ReadDirectory(Db());
  EXPECT_TRUE(Ended(RunHere({"prepared"}), kExitOk,
                    {"first: ", " updates, ", "sec\\x00ond\\xFF: "}));
  EXPECT_TRUE(Ended(RunHere({"prepared", "--hex"}), kExitOk,
                    {"0x6669727374: ", "0x736563006F6E64FF: "}));
  EXPECT_TRUE(Ended(RunHere({"prepared", "--json"}), kExitOk,
                    {"{\"name\":\"first\",\"updates\":",
                     "{\"name_hex\":\"736563006F6E64FF\",\"updates\":"}));
  EXPECT_TRUE(test::ReadDirectory(Db()) == before);
  const std::string count = Succeed({"count"});
  EXPECT_EQ(RunHere({"prepared", "--commit=none"}).exit_code, kExitAbsent);
  EXPECT_EQ(Succeed({"prepared", "--rollback=first"}), "OK\n");
  EXPECT_EQ(Succeed({"count"}), count);
  EXPECT_EQ(Succeed({"prepared", "--commit=sec\\x00ond\\xFF", "--escaped"}),
            "OK\n");
  EXPECT_NE(Succeed({"count"}), count);
  EXPECT_EQ(Succeed({"prepared"}), "");
}

TEST_F(VarvePreparedTest, EndsLikeRocksDb) {
  for (const bool commits : {true, false}) {
    for (const std::string& name : test::FixtureNames("txn-")) {
      std::filesystem::remove_all(Db());
      UseFixture(name);
      const std::string source = test::FixturesDir() + "/" + name;
      std::istringstream names(test::ReadWholeFile(source + "/prepared.txt"));
      for (std::string hex; std::getline(names, hex);) {
        Succeed({"prepared", "--hex",
                 (commits ? "--commit=0x" : "--rollback=0x") + hex});
      }
      std::string expected;
      std::istringstream lines(test::ReadWholeFile(
          source +
          (commits ? "/expected-committed.txt" : "/expected-rolled-back.txt")));
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("default\t")) continue;
        const size_t tab = line.find('\t', 8);
        expected += "0x" + line.substr(8, tab - 8) + " : 0x" +
                    line.substr(tab + 1) + "\n";
      }
      EXPECT_EQ(Succeed({"scan", "--hex"}), expected) << name;
    }
  }
}

TEST_F(VarvePreparedTest, RefusesWrongUseAndOtherPolicies) {
  UseFixture("txn-prepared");
  EXPECT_EQ(RunHere({"prepared", "--commit=a", "--rollback=a"}).exit_code,
            kExitUsage);
  EXPECT_EQ(RunHere({"prepared", "--commit=a", "--json"}).exit_code,
            kExitUsage);
  std::filesystem::remove_all(Db());
  UseFixture("refuse-write-prepared");
  EXPECT_TRUE(
      Ended(RunHere({"prepared"}), kExitFailure, {}, {"WritePrepared"}));
}

TEST_F(VarvePreparedTest, CheckAndDumpWalShowThem) {
  UseFixture("txn-committed-later");
  EXPECT_TRUE(Ended(RunHere({"check"}), kExitOk,
                    {"note: transaction late: is prepared", "no damage\n"}));
  std::string dump;
  for (const std::string& log : test::FilesEndingIn(Db(), ".log")) {
    dump += test::RunCommand({"dump-wal", log}).out;
  }
  EXPECT_THAT(dump, HasSubstr("of the next prepare:"));
  EXPECT_THAT(dump, HasSubstr("  prepare 'late'\n"));
  EXPECT_THAT(dump, HasSubstr("  commit 'late'\n"));
  UseFixture("txn-prepared");
  Succeed({"prepared", "--rollback=first"});
}

}  // namespace
}  // namespace varve
