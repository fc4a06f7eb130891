// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Command lines of the program `varve`, run in this process.

#include <stdlib.h>

#include "test/testing/directory.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "tools/varve/varve_commands.h"

namespace varve::test {

struct CommandOutcome {
  int exit_code = -1;
  std::string out;
  std::string error;
};

inline CommandOutcome RunCommand(const std::vector<std::string>& arguments,
                                 const std::string& input = "") {
  char* out = nullptr;
  char* error = nullptr;
  size_t out_size = 0;
  size_t error_size = 0;
  FILE* const in_file = tmpfile();
  fwrite(input.data(), 1, input.size(), in_file);
  rewind(in_file);
  FILE* const out_file = open_memstream(&out, &out_size);
  FILE* const error_file = open_memstream(&error, &error_size);
  const int exit_code = RunVarve(arguments, out_file, error_file, in_file);
  fclose(in_file);
  fclose(out_file);
  fclose(error_file);
  CommandOutcome outcome{exit_code, std::string(out, out_size),
                         std::string(error, error_size)};
  free(out);
  free(error);
  return outcome;
}

// Returns whether a command ended with this code, and printed these parts.
inline ::testing::AssertionResult Ended(
    const CommandOutcome& outcome, int exit_code,
    const std::vector<std::string>& out = {},
    const std::vector<std::string>& error = {}) {
  std::string missing;
  for (const std::string& part : out) {
    if (outcome.out.find(part) == std::string::npos) missing += part + "; ";
  }
  for (const std::string& part : error) {
    if (outcome.error.find(part) == std::string::npos) missing += part + "; ";
  }
  return ::testing::AssertionResult(outcome.exit_code == exit_code &&
                                    missing.empty())
         << "exit code " << outcome.exit_code
         << ", not in its output: " << missing << "\n"
         << outcome.out << outcome.error;
}

// A database of the test's own, which is not there at first.
class VarveCommandTest : public testing::Test {
 protected:
  std::string Db() const { return directory_.Sub("db"); }
  CommandOutcome RunHere(std::vector<std::string> arguments,
                         const std::string& input = "") {
    arguments.insert(arguments.begin(), "--db=" + Db());
    return RunCommand(arguments, input);
  }
  // Its output; the command must succeed.
  std::string Succeed(const std::vector<std::string>& arguments,
                      const std::string& input = "") {
    const CommandOutcome outcome = RunHere(arguments, input);
    EXPECT_EQ(outcome.exit_code, kExitOk)
        << testing::PrintToString(arguments) << "\n"
        << outcome.error;
    return outcome.out;
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_EQ(Succeed({"--create_if_missing", "--hex", "put", key, value}),
              "OK\n");
  }
  // Makes the database a copy of one of test/fixtures.
  void UseFixture(const std::string& name) {
    CopyDirectory(FixturesDir() + "/" + name + "/db", Db());
  }

  test::TempDir directory_;
};

}  // namespace varve::test
