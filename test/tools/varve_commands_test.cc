// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: `varve` does what its usage says, prints what `ldb` prints and tells
// by its exit code how it went. Method: run command lines in this process on
// databases made by it.
#include "tools/varve_commands.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "test/testing/temp_dir.h"

namespace varve {
namespace {

struct Outcome {
  int exit_code;
  std::string out;
  std::string error;
};

Outcome RunCommand(const std::vector<std::string>& arguments) {
  char* out = nullptr;
  char* error = nullptr;
  size_t out_size = 0;
  size_t error_size = 0;
  FILE* const out_file = open_memstream(&out, &out_size);
  FILE* const error_file = open_memstream(&error, &error_size);
  const int exit_code = RunVarve(arguments, out_file, error_file);
  fclose(out_file);
  fclose(error_file);
  Outcome outcome{exit_code, std::string(out, out_size),
                  std::string(error, error_size)};
  free(out);
  free(error);
  return outcome;
}

class VarveCommandsTest : public testing::Test {
 protected:
  // The command line with this database.
  Outcome RunHere(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--db=" + directory_.Sub("db"));
    return RunCommand(arguments);
  }
  void Put(const std::string& key, const std::string& value) {
    const Outcome outcome =
        RunHere({"--create_if_missing", "--hex", "put", key, value});
    ASSERT_EQ(outcome.exit_code, kExitOk) << outcome.error;
    ASSERT_EQ(outcome.out, "OK\n");
  }

  test::TempDir directory_;
};

TEST_F(VarveCommandsTest, GetsWhatWasPut) {
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

TEST_F(VarveCommandsTest, DoesNotGetWhatWasDeleted) {
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

TEST_F(VarveCommandsTest, TakesDashesAsKeyBehindTwoDashes) {
  ASSERT_EQ(RunHere({"put", "--create_if_missing", "--", "--hex", "1"}).out,
            "OK\n");
  EXPECT_EQ(RunHere({"scan"}).out, "--hex : 1\n");
}

TEST_F(VarveCommandsTest, FailsWithoutDatabase) {
  EXPECT_EQ(RunHere({"scan"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"get", "a"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"put", "a", "b"}).exit_code, kExitFailure);
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
