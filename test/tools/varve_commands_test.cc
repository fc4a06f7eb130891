// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: `varve` does what its usage says, prints what `ldb` prints and tells
// by its exit code how it went. Method: run command lines in this process on
// databases made by it.
#include "tools/varve/varve_commands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/testing/tools.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::RunCommand;
using Outcome = test::CommandOutcome;

class VarveCommandsTest : public test::VarveCommandTest {};

TEST_F(VarveCommandsTest, GetsPutValues) {
  Put("0x61", "0x62");
  EXPECT_EQ(RunHere({"get", "a"}).out, "b\n");
  EXPECT_EQ(RunHere({"--hex", "get", "0x61"}).out, "0x62\n");
}

TEST_F(VarveCommandsTest, IgnoresCaseWhereTheDatabaseDoes) {
  ASSERT_EQ(RunHere({"--create_if_missing", "--ignore_case", "put", "Key", "v"})
                .exit_code,
            kExitOk);
  EXPECT_EQ(RunHere({"--ignore_case", "get", "KEY"}).out, "v\n");
  const Outcome outcome = RunHere({"get", "key"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_NE(outcome.error.find("case-insensitive"), std::string::npos);
}

TEST_F(VarveCommandsTest, DoesNotGetDeletedKeys) {
  Put("0x61", "0x62");
  EXPECT_EQ(RunHere({"delete", "a"}).out, "OK\n");
  const Outcome outcome = RunHere({"get", "a"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.error.find("NotFound"), std::string::npos);
}

TEST_F(VarveCommandsTest, ScansInTheFormOfLdb) {
  Put("0x", "0x");
  Put("0x6162", "0x2031");
  Put("0x61620063", "0x007f");
  Put("0xFF", "0xabcd");
  EXPECT_EQ(RunHere({"--hex", "scan"}).out,
            "0x : 0x\n"
            "0x6162 : 0x2031\n"
            "0x61620063 : 0x007F\n"
            "0xFF : 0xABCD\n");
  EXPECT_EQ(RunHere({"scan"}).out,
            " : \n"
            "ab :  1\n"
            "ab : \n"
            "\xFF : \xAB\xCD\n");
}

TEST_F(VarveCommandsTest, ScansFromInclusiveToExclusive) {
  for (const char* key : {"0x61", "0x62", "0x63", "0x64"}) Put(key, "0x31");
  EXPECT_EQ(RunHere({"scan", "--from=b", "--to=d"}).out, "b : 1\nc : 1\n");
  EXPECT_EQ(RunHere({"scan", "--from=bb", "--limit=1"}).out, "c : 1\n");
  EXPECT_EQ(RunHere({"--hex", "scan", "--to=0x62"}).out, "0x61 : 0x31\n");
  EXPECT_EQ(RunHere({"scan", "--limit=0"}).out, "");
  EXPECT_EQ(RunHere({"scan", "--from=d", "--to=b"}).out, "");
}

TEST_F(VarveCommandsTest, TakesDashesAsKeyAfterTwoDashes) {
  ASSERT_EQ(RunHere({"put", "--create_if_missing", "--", "--hex", "1"}).out,
            "OK\n");
  EXPECT_EQ(RunHere({"scan"}).out, "--hex : 1\n");
}

TEST_F(VarveCommandsTest, FailsWithoutDatabase) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"get", "a"},
                                             {"delete", "a"},
                                             {"scan"},
                                             {"levels"},
                                             {"stats"},
                                             {"check"},
                                             {"repair"},
                                             {"compact"},
                                             {"dump-manifest"},
                                             {"export-to", "-"},
                                             {"checkpoint", Db() + "2"}}) {
    const Outcome outcome = RunHere(arguments);
    EXPECT_EQ(outcome.exit_code, kExitFailure) << arguments[0];
    EXPECT_NE(outcome.error.find("no database in " + Db()), std::string::npos)
        << arguments[0] << ": " << outcome.error;
    EXPECT_FALSE(std::filesystem::exists(Db())) << arguments[0];
  }
  EXPECT_NE(RunHere({"put", "a", "b"}).error.find("--create_if_missing makes"),
            std::string::npos);
}

TEST_F(VarveCommandsTest, AdvisesIfTheDatabaseIsInUse) {
  Put("0x61", "0x62");
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), Db(), &db).ok());
  const Outcome outcome = RunHere({"put", "a", "b"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_NE(outcome.error.find(Db() + " is in use by another process"),
            std::string::npos)
      << outcome.error;
}

TEST_F(VarveCommandsTest, TakesCommandAndOptionsInAnyOrder) {
  Put("0x61", "0x62");
  EXPECT_EQ(RunCommand({"get", "--db", Db(), "a"}).out, "b\n");
  EXPECT_EQ(RunCommand({"get", "a", "--db", Db()}).out, "b\n");
  EXPECT_EQ(RunCommand({"--db", Db(), "scan", "--limit", "1"}).out, "a : b\n");
}

TEST_F(VarveCommandsTest, PutsManyAtOnce) {
  EXPECT_EQ(Succeed({"batchput", "--create_if_missing", "a", "1", "b", "2"}),
            "OK\n");
  EXPECT_EQ(Succeed({"batchput"}, "c\t3\nd\t4\t5\n\t\n"), "OK\n");
  EXPECT_EQ(Succeed({"batchput", "--hex"}, "0x65\t0x0A09\n"), "OK\n");
  EXPECT_EQ(Succeed({"scan", "--hex"}),
            "0x : 0x\n0x61 : 0x31\n0x62 : 0x32\n0x63 : 0x33\n"
            "0x64 : 0x340935\n0x65 : 0x0A09\n");
  EXPECT_EQ(RunHere({"batchput", "a"}).exit_code, kExitUsage);
  const Outcome outcome = RunHere({"batchput"}, "x\t1\nno tab\n");
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_NE(outcome.error.find("line 2"), std::string::npos) << outcome.error;
}

// Goes through the bytes as JSON's own readers see them.
TEST_F(VarveCommandsTest, PrintsJsonThatPythonReads) {
  const std::vector<std::string> texts = {
      "0x",         "0x00",     "0x22",          "0x5C",       "0x0A0D09",
      "0x7F",       "0x61C3A9", "0xE282AC",      "0xF09F9880", "0xFF",
      "0xC0AF",     "0xEDA080", "0xF4908080",    "0x61C3",     "0xE0808080",
      "0x27253C2F", "0xC280",   "0xEFBFBDEFBFBF"};
  for (const std::string& text : texts) Put(text, text);
  const std::string path = directory_.Sub("json");
  for (const bool hex : {false, true}) {
    std::vector<std::string> command = {"scan", "--json"};
    if (hex) command.push_back("--hex");
    test::WriteWholeFile(path, Succeed(command));
    const std::string found = test::RunOrFail(
        {"python3", "-c",
         "import json, sys\n"
         "def field(o, name):\n"
         "  if name in o: return o[name].encode().hex().upper()\n"
         "  return o[name + '_hex'].upper()\n"
         "for line in open(sys.argv[1], encoding='utf-8', newline='\\n'):\n"
         "  o = json.loads(line)\n"
         "  assert len(o) == 2\n"
         "  print('0x%s : 0x%s' % (field(o, 'key'), field(o, 'value')))\n",
         path});
    EXPECT_EQ(found, Succeed({"scan", "--hex"}));
  }
  EXPECT_EQ(Succeed({"get", "--json", "--hex", "0xFF"}),
            "{\"value_hex\":\"FF\"}\n");
  EXPECT_EQ(Succeed({"get", "--json", "\""}), "{\"value\":\"\\\"\"}\n");
}

TEST_F(VarveCommandsTest, EndsQuietlyWhenNobodyReads) {
  const std::string value(300000, 'v');
  ASSERT_EQ(Succeed({"batchput", "--create_if_missing", "a", value, "b", value,
                     "c", value}),
            "OK\n");
  for (const char* command : {"scan", "scan --json", "export-to -"}) {
    const test::ToolResult result = test::RunTool(
        {"bash", "-c",
         VARVE_TOOL_PATH " --db=" + Db() + " " + command + " | head -c 5"});
    EXPECT_EQ(result.out.size(), 5u);
    EXPECT_EQ(result.error, "") << command;
  }
}

TEST_F(VarveCommandsTest, SaysThatTheOutputIsFull) {
  Put("0x61", "0x62");
  FILE* const full = fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  FILE* const error = tmpfile();
  EXPECT_EQ(RunVarve({"--db=" + Db(), "scan"}, full, error), kExitFailure);
  fclose(full);
  rewind(error);
  char text[200] = {};
  ASSERT_NE(fgets(text, sizeof(text), error), nullptr);
  EXPECT_NE(std::string(text).find("No space left"), std::string::npos) << text;
  fclose(error);
}

TEST_F(VarveCommandsTest, RefusesWrongCommandLines) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"nosuch"},
      {"get"},
      {"get", "a", "b"},
      {"put", "a"},
      {"scan", "a"},
      {"scan", "--nosuch"},
      {"scan", "--limit=x"},
      {"scan", "--limit=-1"},
      {"scan", "--limit="},
      {"get", "a", "--from=a"},
      {"get", "a", "--create_if_missing"},
      {"get", "a", "--limit=1"},
      {"scan", "--hex=1"},
      {"scan", "--limit"},
      {"dump-wal"},
      {"check", "a"},
      {"--hex", "get", "61"},
      {"--hex", "get", "0x6"},
      {"--hex", "get", "0x6g"},
      {"--hex", "scan", "--from=a"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const Outcome outcome = RunHere(arguments);
    EXPECT_EQ(outcome.exit_code, kExitUsage)
        << testing::PrintToString(arguments);
    EXPECT_NE(outcome.error.find("usage:"), std::string::npos);
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(RunCommand({"scan"}).exit_code, kExitUsage);
}

TEST_F(VarveCommandsTest, TellsHowToUseIt) {
  const Outcome outcome = RunCommand({"--help"});
  EXPECT_EQ(outcome.exit_code, kExitOk);
  EXPECT_TRUE(outcome.out.starts_with("usage:"));
}

}  // namespace
}  // namespace varve
