// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: a dump of all column families brings all of them back, with names of
// any bytes and any known order, and a dump of one names it. Names that `varve
// families` prints can be typed. Method: dump databases, and ingest the dumps
// whole, cut and changed.

#include "test/testing/comparators.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "varve/merge_operator.h"

namespace varve {
namespace {

using test::RunCommand;
using testing::HasSubstr;
using testing::Not;
using Outcome = test::CommandOutcome;

const std::string kHardName("two words\n\0\\\xFF", 13);
constexpr char kHardNamePrinted[] = "two words\\x0A\\x00\\\\\\xFF";

class VarveDumpFamiliesTest : public test::VarveCommandTest {
 protected:
  std::string There() const { return directory_.Sub("there"); }
  Outcome RunThere(std::vector<std::string> arguments,
                   const std::string& input = "") {
    arguments.insert(arguments.begin(), "--db=" + There());
    return RunCommand(arguments, input);
  }

  // A family with a hard name, one in reverse order, an empty one, and one
  // with merge operands.
  void MakeFamilies(const Comparator* order = ReverseBytewiseComparator()) {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families(5);
    families[1].name = kHardName;
    families[2].name = "reverse";
    families[2].options.comparator = order;
    families[3].name = "empty";
    families[4].name = "sums";
    families[4].options.merge_operator = NewStringAppendOperator(";");
    std::vector<ColumnFamilyHandle*> handles;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, Db(), families, &handles, &db).ok());
    for (const size_t i : {0, 1, 2}) {
      const std::string value = "of " + std::to_string(i);
      ASSERT_TRUE(db->Put(WriteOptions(), handles[i], "a", value).ok());
      ASSERT_TRUE(db->Put(WriteOptions(), handles[i], "b", value).ok());
    }
    for (const char* const operand : {"1", "2", "3"}) {
      ASSERT_TRUE(db->Merge(WriteOptions(), handles[4], "k", operand).ok());
    }
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    ASSERT_TRUE(db->Close().ok());
  }
};

TEST_F(VarveDumpFamiliesTest, AllFamiliesComeBack) {
  MakeFamilies();
  const std::string dump = Succeed({"export-to", "--all-families", "-"});
  EXPECT_TRUE(dump.starts_with(
      "varve-dump 2\nvarve-dump-family leveldb.BytewiseComparator default\n"))
      << dump;
  EXPECT_THAT(dump, HasSubstr("varve-dump-family "
                              "rocksdb.ReverseBytewiseComparator reverse\n"
                              "b\tof 2\na\tof 2\n"));
  EXPECT_THAT(dump, HasSubstr("\nk\t1;2;3\nvarve-dump-end 7 "));
  const std::string file = directory_.Sub("dump");
  test::WriteWholeFile(file, dump);
  // A file and a stream, whose families come one by one.
  for (const bool streamed : {false, true}) {
    const Outcome outcome =
        RunThere({"ingest-from", "--create_if_missing", streamed ? "-" : file},
                 streamed ? dump : "");
    EXPECT_TRUE(Ended(outcome, kExitOk, {"OK, 7 entries\n"}));
    EXPECT_EQ(RunThere({"export-to", "--all-families", "-"}).out, dump);
    std::string expected = Succeed({"families", "--json"});
    EXPECT_THAT(expected, HasSubstr("\"name\":\"empty\""));
    std::filesystem::remove_all(There());
  }
  // Families that are there need no creation, and those that are not do.
  ASSERT_EQ(RunThere({"families", "create", "empty", "--create_if_missing"})
                .exit_code,
            kExitOk);
  EXPECT_TRUE(Ended(RunThere({"ingest-from", file}), kExitFailure, {},
                    {"no column family", "--create_if_missing"}));
}

TEST_F(VarveDumpFamiliesTest, ADumpOfOneFamilyNamesIt) {
  MakeFamilies();
  const std::string dump =
      Succeed({"export-to", "--family", kHardNamePrinted, "-"});
  EXPECT_EQ(dump.substr(0, dump.find("\na\t")),
            std::string("varve-dump 2\nvarve-dump-family "
                        "leveldb.BytewiseComparator ") +
                kHardNamePrinted);
  ASSERT_EQ(
      RunThere({"ingest-from", "--create_if_missing", "-"}, dump).exit_code,
      kExitOk);
  EXPECT_EQ(RunThere({"get", "--family", kHardNamePrinted, "a"}).out, "of 1\n");
  EXPECT_EQ(RunThere({"count"}).out, "0\n");
  // --family takes it elsewhere.
  ASSERT_EQ(RunThere({"ingest-from", "--family=default", "-"}, dump).exit_code,
            kExitOk);
  EXPECT_EQ(RunThere({"get", "a"}).out, "of 1\n");
  // The default family's dump is as ever, and says what it leaves out.
  const Outcome outcome = RunHere({"export-to", "-"});
  EXPECT_TRUE(outcome.out.starts_with("varve-dump 1\na\t")) << outcome.out;
  EXPECT_THAT(outcome.error, HasSubstr("--all_families"));
  EXPECT_EQ(RunThere({"export-to", "--family=default", "-"}).error, "");
}

TEST_F(VarveDumpFamiliesTest, ADumpOfManyGoesToNoSingleFamilyOrTable) {
  MakeFamilies();
  const std::string file = directory_.Sub("dump");
  Succeed({"export-to", "--all-families", file});
  EXPECT_TRUE(Ended(
      RunThere({"ingest-from", "--create_if_missing", "--family=x", file}),
      kExitFailure, {}, {"several column families"}));
  const std::string table = directory_.Sub("table.sst");
  EXPECT_TRUE(Ended(RunCommand({"write-sst", file, table}), kExitFailure, {},
                    {"several column families"}));
  EXPECT_FALSE(std::filesystem::exists(table));
  // A table has the order of its family.
  Succeed({"export-to", "--family=reverse", file});
  EXPECT_TRUE(Ended(RunCommand({"write-sst", file, table}), kExitOk,
                    {"OK, 2 entries\n"}));
  EXPECT_EQ(Succeed({"ingest-sst", "--family=reverse", table}),
            "OK, 1 tables\n");
  for (const char* const option : {"--family=x", "--from=a", "--ldb"}) {
    EXPECT_EQ(RunHere({"export-to", "--all-families", option, "-"}).exit_code,
              kExitUsage)
        << option;
  }
}

// What is wrong is noticed, and nothing is created.
TEST_F(VarveDumpFamiliesTest, NoticesDamage) {
  MakeFamilies();
  const std::string dump = Succeed({"export-to", "--all-families", "-"});
  const std::string file = directory_.Sub("dump");
  const auto expect_refused = [&](const std::string& text) {
    test::WriteWholeFile(file, text);
    EXPECT_EQ(RunThere({"ingest-from", "--create_if_missing", file}).exit_code,
              kExitDamage)
        << text;
    EXPECT_FALSE(std::filesystem::exists(There()));
  };
  for (size_t size = 0; size + 1 < dump.size(); ++size) {
    expect_refused(dump.substr(0, size));
  }
  for (const std::string from :
       {"family ", " reverse\n", "leveldb.BytewiseComparator default\n",
        "varve-dump-family leveldb.BytewiseComparator default\n"}) {
    std::string changed = dump;
    changed.replace(changed.find(from), from.size(), "\n");
    expect_refused(changed);
  }
  std::string renamed = dump;
  renamed.replace(renamed.find("reverse\n"), 7, "Reverse");
  expect_refused(renamed);
}

TEST_F(VarveDumpFamiliesTest, IsNotADumpOfAllWithAnUnknownOrder) {
  static const test::ReverseComparator kOdd;
  MakeFamilies(&kOdd);
  const std::string file = directory_.Sub("dump");
  EXPECT_TRUE(Ended(RunHere({"export-to", "--all-families", file}),
                    kExitFailure, {}, {"reverse", kOdd.Name()}));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(VarveDumpFamiliesTest, TakesNamesAsTheyArePrinted) {
  MakeFamilies();
  const std::string list = Succeed({"families"});
  EXPECT_THAT(list, HasSubstr(std::string("1 ") + kHardNamePrinted + ": "));
  for (const char* const command : {"scan", "count", "levels", "stats"}) {
    EXPECT_EQ(RunHere({command, "--family", kHardNamePrinted}).exit_code,
              kExitOk)
        << command;
  }
  // The name itself, if a command line can have it.
  Succeed({"families", "create", "a\\\\b"});
  EXPECT_THAT(Succeed({"families"}), HasSubstr(" a\\\\b: "));
  Succeed({"put", "--family=a\\b", "k", "v"});
  EXPECT_EQ(Succeed({"get", "--family=a\\\\b", "k"}), "v\n");
  // Of two names, the one that is printed like this.
  Succeed({"families", "create", "a\\\\\\\\b"});
  EXPECT_EQ(Succeed({"get", "--family=a\\\\b", "k"}), "v\n");
  EXPECT_EQ(Succeed({"count", "--family=a\\\\\\\\b"}), "0\n");
  Succeed({"families", "drop", kHardNamePrinted});
  EXPECT_THAT(Succeed({"families"}), Not(HasSubstr("two words")));
}

}  // namespace
}  // namespace varve
