// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: `varve` does what its usage says, prints what `ldb` prints and tells
// by its exit code how it went. Method: run command lines in this process on
// databases made by it.
#include "tools/varve/varve_commands.h"

#include <unistd.h>

#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "tools/varve/varve_text.h"

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

TEST_F(VarveCommandsTest, MessagesShowWhatToType) {
  Put("0x61", "0x62");
  EXPECT_TRUE(
      RunHere({"get", "--escaped", "\\x0"})
          .error.starts_with("varve: '\\x0' has a backslash that begins "
                             "neither \\\\ nor \\xHH\n"));
  EXPECT_NE(RunHere({"get", "--family=a\x01", "a"})
                .error.find("no column family a\\x01 in"),
            std::string::npos);
  EXPECT_NE(RunCommand({"help"}).out.find("5 other failure"),
            std::string::npos);
}

TEST_F(VarveCommandsTest, SaysHowManyEntriesOfABatchAreKept) {
  std::string lines;
  for (int i = 0; i < 3; ++i) {
    lines += std::to_string(i) + "\t" + std::string(1 << 20, 'v') + "\n";
  }
  const Outcome outcome =
      RunHere({"batchput", "--create_if_missing"}, lines + "b\t1\nc\n");
  EXPECT_NE(outcome.error.find("3 entries stay written: standard input line 5"),
            std::string::npos)
      << outcome.error;
  EXPECT_EQ(RunHere({"count"}).out, "3\n");
}

TEST_F(VarveCommandsTest, DoesNotGetDeletedKeys) {
  Put("0x61", "0x62");
  EXPECT_EQ(RunHere({"delete", "a"}).out, "OK\n");
  const Outcome outcome = RunHere({"get", "a"});
  EXPECT_EQ(outcome.exit_code, kExitAbsent);
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
            "ab\\x00c : \\x00\\x7F\n"
            "\\xFF : \\xAB\\xCD\n");
  EXPECT_EQ(RunHere({"scan", "--raw"}).out, std::string(" : \n"
                                                        "ab :  1\n"
                                                        "ab\0c : \0\x7F\n"
                                                        "\xFF : \xAB\xCD\n",
                                                        29));
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
  EXPECT_EQ(RunHere({"get", "--", "-h"}).exit_code, kExitAbsent);
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
  EXPECT_EQ(outcome.exit_code, kExitBusy);
  EXPECT_NE(outcome.error.find(Db() + " is in use by process " +
                               std::to_string(getpid()) + ", this one"),
            std::string::npos)
      << outcome.error;
}

TEST_F(VarveCommandsTest, TakesCommandAndOptionsInAnyOrder) {
  Put("0x61", "0x62");
  EXPECT_EQ(RunCommand({"get", "--db", Db(), "a"}).out, "b\n");
  EXPECT_EQ(RunCommand({"get", "a", "--db", Db()}).out, "b\n");
  EXPECT_EQ(RunCommand({"--db", Db(), "scan", "--limit", "1"}).out, "a : b\n");
}

// The output has everything, but no byte that a terminal obeys.
TEST_F(VarveCommandsTest, PrintsEveryByteVisibly) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::vector<std::string> texts = {
      "",
      all,
      std::string(1000, '\0'),
      std::string(300000, '\xFF'),
      std::string(131071, 'a') + "\\\xC3\xA9",
      "\\x41",
      "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80",  // Visible.
      "\xC2\x9B"
      "31m\xE2\x80\xAE\xE2\x81\xA6\xEF\xBB\xBF\xD8\x9C",
      "\xC3",
      "\xE2\x82",
      "\xF0\x9F\x98",
      "a\xC3"};
  for (const std::string& text : texts) {
    ASSERT_EQ(RunHere({"put", "--create_if_missing", "k", "-"}, text).out,
              "OK\n");
    std::string printed = Succeed({"get", "k"});
    ASSERT_TRUE(printed.ends_with('\n'));
    printed.pop_back();
    for (const char c : printed) {
      ASSERT_TRUE(static_cast<uint8_t>(c) >= ' ' && c != '\x7F');
    }
    std::string decoded;
    ASSERT_TRUE(DecodeText(printed, &decoded));
    EXPECT_TRUE(decoded == text) << printed.substr(0, 100);
    EXPECT_TRUE(Succeed({"get", "--raw", "k"}) == text);
    EXPECT_TRUE(Succeed({"scan", "--raw", "--values"}) == text + "\n");
    EXPECT_TRUE(Succeed({"scan"}) == "k : " + printed + "\n");
  }
  EXPECT_EQ(Printable(texts[6]), texts[6]);
  EXPECT_EQ(Printable(texts[7]),
            "\\xC2\\x9B31m\\xE2\\x80\\xAE\\xE2\\x81\\xA6\\xEF\\xBB\\xBF"
            "\\xD8\\x9C");
  ASSERT_EQ(RunHere({"put", "k", "-"}, texts[7]).out, "OK\n");
  EXPECT_EQ(Succeed({"get", "--json", "k"}),
            "{\"value\":\"\\u009B31m\\u202E\\u2066\\uFEFF\\u061C\"}\n");
}

TEST_F(VarveCommandsTest, TakesItsOutputAsInput) {
  const std::string key("\\\0\t\xFF", 4);
  std::string hex = "0x" + Slice(key).ToString(true);
  Put(hex, hex);
  const std::string printed = Printable(key);
  EXPECT_EQ(Succeed({"get", "--escaped", printed}), printed + "\n");
  EXPECT_EQ(Succeed({"scan", "--escaped", "--prefix=" + printed}),
            printed + " : " + printed + "\n");
  EXPECT_EQ(Succeed({"batchput", "--escaped"}, printed + "\t1\\x0A\n"), "OK\n");
  EXPECT_EQ(Succeed({"scan", "--hex"}), hex + " : 0x310A\n");
  EXPECT_EQ(Succeed({"put", "--escaped", printed, "\\x00"}), "OK\n");
  EXPECT_EQ(Succeed({"get", "--hex", "--raw", hex}), std::string(1, '\0'));
  EXPECT_EQ(Succeed({"delete", "--escaped", printed}), "OK\n");
  EXPECT_EQ(Succeed({"count"}), "0\n");
  EXPECT_EQ(RunHere({"batchput", "--escaped"}, "a\t\\z\n").exit_code,
            kExitFailure);
}

TEST_F(VarveCommandsTest, PutsStandardInput) {
  const std::string value(5000000, '\0');
  EXPECT_EQ(RunHere({"put", "--create_if_missing", "k", "-"}, value).out,
            "OK\n");
  EXPECT_TRUE(Succeed({"get", "--raw", "k"}) == value);
  // Neither a hexadecimal value nor an option.
  EXPECT_EQ(Succeed({"put", "--hex", "0x6B", "-"}, "0x"), "OK\n");
  EXPECT_EQ(Succeed({"get", "k"}), "0x\n");
  EXPECT_EQ(Succeed({"put", "-", "-"}, ""), "OK\n");
  EXPECT_EQ(Succeed({"get", "-"}), "\n");
  EXPECT_EQ(Succeed({"put", "--hex", "0x6B", "0x2D"}), "OK\n");
  EXPECT_EQ(Succeed({"get", "k"}), "-\n");
  EXPECT_EQ(Succeed({"batchput", "k", "-"}), "OK\n");
  EXPECT_EQ(Succeed({"get", "k"}), "-\n");
  // Input that cannot be read makes no database.
  FILE* const directory = fopen("/", "r");
  ASSERT_NE(directory, nullptr);
  FILE* const error = tmpfile();
  EXPECT_EQ(
      RunVarve({"--db=" + Db() + "2", "--create_if_missing", "put", "k", "-"},
               error, error, directory),
      kExitFailure);
  fclose(directory);
  fclose(error);
  EXPECT_FALSE(std::filesystem::exists(Db() + "2"));
}

TEST_F(VarveCommandsTest, ScansAndCountsParts) {
  for (const char* key :
       {"0x", "0x61", "0x6161", "0x61FF", "0x62", "0xFE", "0xFF", "0xFFFF"}) {
    Put(key, "0x31");
  }
  const auto keys = [this](std::vector<std::string> options) {
    std::vector<std::string> count = options;
    options.insert(options.begin(), {"scan", "--keys", "--hex"});
    std::string text = Succeed(options);
    const auto lines = std::count(text.begin(), text.end(), '\n');
    count.insert(count.begin(), {"count", "--hex"});
    if (std::find(count.begin(), count.end(), "--reverse") == count.end()) {
      EXPECT_EQ(Succeed(count), std::to_string(lines) + "\n");
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  };
  EXPECT_EQ(keys({"--prefix=0x61"}), "0x61 0x6161 0x61FF ");
  EXPECT_EQ(keys({"--prefix=0x61", "--reverse"}), "0x61FF 0x6161 0x61 ");
  EXPECT_EQ(keys({"--prefix=0xFF"}), "0xFF 0xFFFF ");
  EXPECT_EQ(keys({"--prefix=0xFE"}), "0xFE ");
  EXPECT_EQ(keys({"--prefix=0x61FF"}), "0x61FF ");
  EXPECT_EQ(keys({"--prefix=0x63"}), "");
  EXPECT_EQ(keys({"--prefix=0x"}),
            "0x 0x61 0x6161 0x61FF 0x62 0xFE 0xFF 0xFFFF ");
  EXPECT_EQ(keys({"--prefix=0x61", "--from=0x6161"}), "0x6161 0x61FF ");
  EXPECT_EQ(keys({"--prefix=0x61", "--from=0x", "--to=0x61FF"}),
            "0x61 0x6161 ");
  EXPECT_EQ(keys({"--prefix=0x61", "--from=0x62"}), "");
  EXPECT_EQ(keys({"--reverse", "--from=0x62", "--to=0xFF"}), "0xFE 0x62 ");
  EXPECT_EQ(Succeed({"scan", "--reverse", "--limit=2", "--hex"}),
            "0xFFFF : 0x31\n0xFF : 0x31\n");
  EXPECT_EQ(Succeed({"scan", "--reverse", "--limit=0"}), "");
  EXPECT_EQ(Succeed({"scan", "--values", "--prefix=b"}), "1\n");
  EXPECT_EQ(Succeed({"scan", "--keys", "--values", "--prefix=b"}), "b : 1\n");
  EXPECT_EQ(Succeed({"scan", "--keys", "--json", "--prefix=b"}),
            "{\"key\":\"b\"}\n");
  EXPECT_EQ(Succeed({"scan", "--values", "--json", "--prefix=b"}),
            "{\"value\":\"1\"}\n");
  EXPECT_EQ(Succeed({"count", "--open-files=16", "--progress"}), "8\n");
}

TEST_F(VarveCommandsTest, FindsPrefixesOfKeysWithoutCase) {
  for (const char* key : {"Stra\xC3\x9F"
                          "e",
                          "STRASSE 2", "Stra", "strb"}) {
    ASSERT_EQ(
        RunHere({"put", "--create_if_missing", "--ignore_case", key, "1"}).out,
        "OK\n");
  }
  EXPECT_EQ(Succeed({"count", "--ignore_case", "--prefix=STRA"}), "3\n");
  EXPECT_EQ(Succeed({"scan", "--ignore_case", "--keys", "--prefix=strass"}),
            "strasse\nstrasse 2\n");
}

TEST_F(VarveCommandsTest, DeletesRanges) {
  for (const char* key : {"0x61", "0x62", "0x63", "0x6300"}) Put(key, "0x31");
  EXPECT_EQ(Succeed({"delete-range", "b", "c"}), "OK\n");
  EXPECT_EQ(Succeed({"scan", "--keys"}), "a\nc\nc\\x00\n");
  EXPECT_EQ(Succeed({"delete-range", "c", "c"}), "OK\n");
  EXPECT_EQ(Succeed({"delete-range", "--hex", "0x63", "0x6300"}), "OK\n");
  EXPECT_EQ(Succeed({"scan", "--keys"}), "a\nc\\x00\n");
  const Outcome outcome = RunHere({"delete-range", "b", "a"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_EQ(outcome.error,
            "varve: FROM comes after TO\nvarve help delete-range tells "
            "more.\n");
  EXPECT_EQ(Succeed({"count"}), "2\n");
}

TEST_F(VarveCommandsTest, NamesTheUnknownOption) {
  for (const char* option : {"-x", "-", "--nosuch", "--nosuch=1", "--", "-1"}) {
    const Outcome outcome = RunHere({"get", option});
    const std::string text = outcome.error;
    if (option == std::string("-")) {
      EXPECT_NE(text.find("no database"), std::string::npos) << text;
      continue;
    }
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    const std::string name =
        option == std::string("--nosuch=1") ? "--nosuch" : option;
    EXPECT_NE(text.find(name == "--" ? "takes 1 arguments, not 0"
                                     : "there is no option " + name),
              std::string::npos)
        << text;
  }
}

TEST_F(VarveCommandsTest, ExitCodesTellFailuresApart) {
  EXPECT_EQ(kExitOk, 0);
  EXPECT_EQ(kExitAbsent, 1);
  EXPECT_EQ(kExitUsage, 2);
  EXPECT_EQ(kExitDamage, 3);
  EXPECT_EQ(kExitBusy, 4);
  EXPECT_EQ(kExitFailure, 5);
  EXPECT_EQ(RunHere({"get", "a"}).exit_code, kExitFailure);
  Put("0x61", "0x62");
  EXPECT_EQ(RunHere({"get", "b"}).exit_code, kExitAbsent);
  EXPECT_EQ(RunHere({"get", "b", "--json", "--raw"}).exit_code, kExitUsage);
  EXPECT_EQ(RunHere({"stats", "--property=nosuch"}).exit_code, kExitUsage);
  EXPECT_EQ(RunHere({"export-to", Db() + "/no/such"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"checkpoint", Db()}).exit_code, kExitFailure);
  EXPECT_EQ(RunCommand({"dump-sst", "/no/such"}).exit_code, kExitFailure);
  EXPECT_EQ(RunCommand({"dump-sst", VARVE_TOOL_PATH}).exit_code, kExitDamage);
  {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(Options(), Db(), &db).ok());
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"put", "a", "b"},
                                               {"delete", "a"},
                                               {"delete-range", "a", "b"},
                                               {"batchput", "a", "b"},
                                               {"compact"},
                                               {"repair"}}) {
      EXPECT_EQ(RunHere(arguments).exit_code, kExitBusy) << arguments[0];
    }
    EXPECT_EQ(RunHere({"get", "b"}).exit_code, kExitAbsent);
  }
  UseFixture("damaged-data-block");
  EXPECT_EQ(RunHere({"scan"}).exit_code, kExitDamage);
  EXPECT_EQ(RunHere({"count"}).exit_code, kExitDamage);
  EXPECT_EQ(RunHere({"check"}).exit_code, kExitDamage);
  UseFixture("refuse-wide-columns-sst");
  EXPECT_EQ(RunHere({"scan"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"check"}).exit_code, kExitFailure);
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
      {"get", "-x"},
      {"put", "a", "-1"},
      {"scan", "--=1"},
      {"get", "a", "--raw", "--json"},
      {"get", "a", "--hex", "--escaped"},
      {"get", "--escaped", "a\\"},
      {"get", "--escaped", "\\x4"},
      {"scan", "--prefix"},
      {"scan", "--open_files=4194305"},
      {"scan", "--open_files=-1"},
      {"count", "--limit=1"},
      {"delete-range", "a"},
      {"levels", "--open_files=1"},
      {"help", "help", "help"},
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
