// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the commands of `varve` apply the merge operators that the OPTIONS file
// names, or the one of --merge_operator to the family that they name, and leave
// operands alone without any. Method: run them on databases with operands in
// logs and tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/testing/fixtures.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "varve/merge_operator.h"

namespace varve {
namespace {

using test::RunCommand;
using testing::HasSubstr;
using Outcome = test::CommandOutcome;

constexpr char kAppend[] = "--merge_operator=stringappend";

class VarveMergeTest : public test::VarveCommandTest {
 protected:
  void Merge(const std::string& key, const std::string& operand) {
    EXPECT_EQ(Succeed({"merge", kAppend, "--create_if_missing", key, operand}),
              "OK\n");
  }
  // As if the program had an operator of its own.
  void ForgetOperators() {
    for (const std::string& path : test::FilesStartingWith(Db(), "OPTIONS-")) {
      std::filesystem::remove(path);
    }
  }
};

TEST_F(VarveMergeTest, ReadsApplyOperands) {
  Succeed({"put", "--create_if_missing", "with", "v"});
  Merge("with", "a");
  Merge("with", "b");
  Merge("without", "c");
  for (const bool compacted : {false, true}) {
    // Without the operator, the operands stay, although the table is new.
    ForgetOperators();
    if (compacted) Succeed({"compact"});
    EXPECT_EQ(Succeed({"get", kAppend, "with"}), "v,a,b\n");
    EXPECT_EQ(Succeed({"get", kAppend, "--json", "with"}),
              "{\"value\":\"v,a,b\"}\n");
    EXPECT_EQ(Succeed({"scan", kAppend}), "with : v,a,b\nwithout : c\n");
    EXPECT_EQ(Succeed({"scan", kAppend, "--reverse"}),
              "without : c\nwith : v,a,b\n");
    EXPECT_EQ(Succeed({"count", kAppend}), "2\n");
    EXPECT_THAT(Succeed({"export-to", kAppend, "-"}),
                HasSubstr("\nwith\tv,a,b\nwithout\tc\nvarve-dump-end 2 "));
  }
  Succeed({"compact", kAppend});
  ForgetOperators();
  EXPECT_EQ(Succeed({"scan"}), "with : v,a,b\nwithout : c\n");
}

TEST_F(VarveMergeTest, AddsNumbersInHexadecimal) {
  const std::string one = "0x0100000000000000";
  for (int i = 0; i < 3; ++i) {
    Succeed({"merge", "--merge_operator=uint64add", "--create_if_missing",
             "--hex", "0x6B", one});
  }
  EXPECT_EQ(Succeed({"get", "--merge_operator", "UInt64AddOperator", "--hex",
                     "0x6B"}),
            "0x0300000000000000\n");
  // From standard input.
  const std::string four("\4\0\0\0\0\0\0\0", 8);
  Succeed({"merge", "--merge_operator=uint64add", "k", "-"}, four);
  EXPECT_EQ(Succeed({"get", "--merge_operator=uint64add", "--hex", "0x6B"}),
            "0x0700000000000000\n");
}

TEST_F(VarveMergeTest, AnOperatorIsOfOneFamily) {
  Succeed({"merge", kAppend, "--family=red", "--create_if_missing", "k", "a"});
  Succeed({"merge", kAppend, "--family=red", "k", "b"});
  Merge("k", "c");
  EXPECT_EQ(Succeed({"get", kAppend, "--family=red", "k"}), "a,b\n");
  EXPECT_EQ(Succeed({"get", kAppend, "k"}), "c\n");
  ForgetOperators();
  Succeed({"compact", kAppend, "--family=red"});
  ForgetOperators();
  EXPECT_EQ(Succeed({"get", "--family=red", "k"}), "a,b\n");
  EXPECT_EQ(RunHere({"get", "k"}).exit_code, kExitFailure);
}

TEST_F(VarveMergeTest, SaysThatTheOperatorIsMissing) {
  Merge("k", "a");
  ForgetOperators();
  for (const char* command : {"get", "scan", "count"}) {
    std::vector<std::string> arguments = {command};
    if (arguments[0] == "get") arguments.push_back("k");
    EXPECT_TRUE(
        Ended(RunHere(arguments), kExitFailure, {}, {"--merge_operator=OP"}))
        << command;
  }
  EXPECT_TRUE(Ended(RunHere({"merge", "k", "a"}), kExitUsage, {},
                    {"--merge_operator=OP is missing"}));
  EXPECT_TRUE(Ended(RunHere({"get", "--merge_operator=add", "k"}), kExitUsage,
                    {}, {"no merge operator 'add'", "uint64add"}));
  EXPECT_EQ(RunHere({"put", kAppend, "k", "a"}).exit_code, kExitUsage);
}

TEST_F(VarveMergeTest, RefusesAnotherOperatorThanTheStoredOne) {
  Merge("k", "a");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"merge", "--merge_operator=max", "k", "b"},
           {"compact", "--merge_operator=max"}}) {
    EXPECT_TRUE(Ended(RunHere(command), kExitUsage, {},
                      {"MaxOperator", "default has StringAppendOperator"}));
  }
  EXPECT_EQ(Succeed({"get", "--merge_operator=max", "k"}), "a\n");
  EXPECT_EQ(Succeed({"merge", kAppend, "--family=red", "--create_if_missing",
                     "k", "a"}),
            "OK\n");
}

TEST_F(VarveMergeTest, SaysHowToTypeANumber) {
  EXPECT_TRUE(Ended(RunHere({"merge", "--merge_operator=uint64add",
                             "--create_if_missing", "c", "258"}),
                    kExitUsage, {},
                    {"type --hex 0x63 0x0201000000000000 to add 258"}));
  EXPECT_FALSE(std::filesystem::exists(Db()));
  EXPECT_TRUE(Ended(RunHere({"merge", "--merge_operator=uint64add",
                             "--create_if_missing", "c", "-"},
                            "x"),
                    kExitUsage, {}, {"0x0100000000000000 to add 1"}));
  Succeed({"merge", "--merge_operator=uint64add", "--create_if_missing",
           "--hex", "0x63", "0x0201000000000000"});
}

TEST_F(VarveMergeTest, DumpsShowOperands) {
  Succeed({"put", "--create_if_missing", "k", "v"});
  Merge("k", "a");
  Succeed({"merge", kAppend, "--family=red", "--create_if_missing", "k", "b"});
  const std::string log = test::FilesEndingIn(Db(), ".log").back();
  EXPECT_THAT(RunCommand({"dump-wal", log}).out,
              HasSubstr("  family 1 red: merge 'k' + 'b'\n"));
  // An iterator of a table shows what no operator has touched.
  ForgetOperators();
  Succeed({"compact"});
  std::string keys;
  for (const std::string& table : test::FilesEndingIn(Db(), ".sst")) {
    keys += RunCommand({"dump-sst", "--keys", table}).out;
  }
  EXPECT_THAT(keys, HasSubstr(" merge 'a'\n"));
  EXPECT_THAT(Succeed({"check"}), HasSubstr("no damage\n"));
}

// A write of the tool keeps what the file says, with parameters.
TEST_F(VarveMergeTest, TakesOperatorsFromTheOptionsFile) {
  Options options;
  options.create_if_missing = true;
  options.merge_operator = NewStringAppendOperator("+");
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
  ASSERT_TRUE(db->Merge(WriteOptions(), "k", "a").ok());
  ASSERT_TRUE(db->Merge(WriteOptions(), "k", "b").ok());
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  EXPECT_EQ(Succeed({"get", "k"}), "a+b\n");
  EXPECT_EQ(Succeed({"merge", kAppend, "k", "c"}), "OK\n");
  Succeed({"put", "--family=other", "--create_if_missing", "x", "1"});
  EXPECT_TRUE(Ended(RunHere({"merge", "--family=other", "x", "2"}), kExitUsage,
                    {}, {"--merge_operator=OP is missing"}));
  EXPECT_EQ(Succeed({"scan"}), "k : a+b+c\n");
  Succeed({"compact"});
  ForgetOperators();
  EXPECT_EQ(Succeed({"get", "k"}), "a+b+c\n");
}

TEST_F(VarveMergeTest, ShowsOperandsWithoutAnOperator) {
  Succeed({"put", "--create_if_missing", "k", "v"});
  Merge("k", "a");
  Merge("k", "b");
  Succeed({"put", "plain", "p\\"});
  ForgetOperators();
  for (const bool compacted : {false, true}) {
    if (compacted) Succeed({"compact"});
    EXPECT_EQ(Succeed({"get", "--operands", "k"}), "v\na\nb\n");
    EXPECT_EQ(Succeed({"get", "--operands", "--json", "k"}),
              "{\"operand\":\"v\"}\n{\"operand\":\"a\"}\n"
              "{\"operand\":\"b\"}\n");
    EXPECT_EQ(Succeed({"get", "--operands", "--hex", "0x6B"}),
              "0x76\n0x61\n0x62\n");
    EXPECT_EQ(Succeed({"get", "--operands", "plain"}), "p\\\\\n");
  }
  EXPECT_EQ(RunHere({"get", "--operands", "none"}).exit_code, kExitAbsent);
  Succeed({"delete", "k"});
  EXPECT_EQ(RunHere({"get", "--operands", "k"}).exit_code, kExitAbsent);
  EXPECT_EQ(RunHere({"get", "--operands", "--raw", "k"}).exit_code, kExitUsage);
}

}  // namespace
}  // namespace varve
