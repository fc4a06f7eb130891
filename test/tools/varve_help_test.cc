// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the help of `varve` fits a screen, and help and man page know every
// command and option. Method: compare them with the table of commands.

#include <regex>

#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "tools/varve/varve_command_line.h"

namespace varve {
namespace {

using test::RunCommand;

constexpr size_t kScreenLines = 32;
constexpr size_t kScreenColumns = 80;

const std::string kPackaging = test::FixturesDir() + "/../../packaging";

void ExpectFitsScreen(const std::string& text) {
  std::istringstream lines(text);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_LE(line.size(), kScreenColumns) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  EXPECT_LE(count, kScreenLines) << text;
  EXPECT_TRUE(text.starts_with("usage: varve "));
}

// The options that a text speaks of.
std::set<std::string> OptionsIn(const std::string& text) {
  std::set<std::string> options;
  const std::regex option("--([a-z_]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), option), end;
       it != end; ++it) {
    options.insert((*it)[1]);
  }
  return options;
}

TEST(VarveHelpTest, FitsAScreen) {
  ExpectFitsScreen(RunCommand({"--help"}).out);
  EXPECT_EQ(RunCommand({"-h"}).out, RunCommand({"help"}).out);
  for (const Command& command : Commands()) {
    const test::CommandOutcome outcome = RunCommand({"help", command.name});
    EXPECT_EQ(outcome.exit_code, kExitOk);
    ExpectFitsScreen(outcome.out);
    EXPECT_TRUE(outcome.out.starts_with(std::string("usage: varve ") +
                                        command.name + " "));
    EXPECT_EQ(RunCommand({command.name, "--help"}).out, outcome.out);
    EXPECT_EQ(RunCommand({"--help", command.name}).out, outcome.out);
  }
}

TEST(VarveHelpTest, NamesEveryCommandAndOption) {
  const std::string overview = RunCommand({"help"}).out;
  for (const Command& command : Commands()) {
    EXPECT_NE(overview.find(command.run == RunHelp
                                ? std::string("varve help ")
                                : std::string("\n  ") + command.name + " "),
              std::string::npos)
        << command.name;
    for (const OptionSpec& option : TEST_CommandOptions()) {
      // Besides the options of ldb and db_bench, which some texts name.
      const std::string line = std::string("\n  --") + option.name;
      const std::string usage = std::string("--") + option.name + "=DIR";
      const std::string help = command.help;
      EXPECT_EQ(ListsOption(command.options, option.name),
                help.find(line + " ") != help.npos ||
                    help.find(line + "=") != help.npos ||
                    help.find(usage) < help.find('\n'))
          << command.name << " " << option.name;
    }
  }
}

TEST(VarveHelpTest, RefusesHelpOnUnknownCommands) {
  EXPECT_EQ(RunCommand({"help", "nosuch"}).exit_code, kExitUsage);
  EXPECT_EQ(RunCommand({"nosuch", "--help"}).exit_code, kExitUsage);
  EXPECT_TRUE(RunCommand({"--version"}).out.starts_with("varve "));
}

TEST(VarveHelpTest, NamesACommandThatIsClose) {
  for (const auto& [wrong, right] :
       std::vector<std::pair<std::string, std::string>>{
           {"gte", "get"}, {"scna", "scan"}, {"back-up", "backup"}}) {
    const std::string message =
        "varve: unknown command '" + wrong + "': did you mean " + right + "?\n";
    EXPECT_TRUE(RunCommand({wrong}).error.starts_with(message + "usage:"));
    EXPECT_TRUE(RunCommand({"help", wrong}).error.starts_with(message));
  }
  for (const char* const wrong : {"nosuch", "x", "xy"}) {
    EXPECT_EQ(RunCommand({wrong}).error.find("did you mean"),
              std::string::npos);
  }
}

TEST(VarveHelpTest, ListsTheProperties) {
  test::TempDir directory;
  const std::string db = "--db=" + directory.Sub("db");
  RunCommand({"put", db, "--create_if_missing", "a", "1"});
  const test::CommandOutcome outcome =
      RunCommand({"stats", db, "--property=nope"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  // They are those of the header.
  std::string header =
      test::ReadWholeFile(kPackaging + "/../include/varve/db.h");
  const size_t begin = header.find("The properties are:");
  header = header.substr(
      begin, header.find("A name can also begin with", begin) - begin);
  const std::regex property("varve\\.[a-z-]+(<N>)?");
  for (std::sregex_iterator it(header.begin(), header.end(), property), end;
       it != end; ++it) {
    const std::string name = it->str();
    EXPECT_NE(outcome.error.find("  " + name + "\n"), std::string::npos)
        << name;
    if (name.ends_with("<N>")) continue;
    EXPECT_EQ(RunCommand({"stats", db, "--property=" + name}).exit_code,
              kExitOk)
        << name;
  }
}

TEST(VarveHelpTest, ManPageNamesEveryCommandAndOption) {
  std::string page = test::ReadWholeFile(kPackaging + "/varve.1");
  page = std::regex_replace(page, std::regex("\\\\-"), "-");
  for (const Command& command : Commands()) {
    const std::regex entry(std::string("\n\\.TP\n\\.BI? ?R? ") + command.name +
                           "[ \n]");
    EXPECT_TRUE(std::regex_search(page, entry)) << command.name;
  }
  const std::set<std::string> known = OptionsIn(page);
  for (const OptionSpec& option : TEST_CommandOptions()) {
    EXPECT_TRUE(known.contains(option.name)) << option.name;
  }
}

}  // namespace
}  // namespace varve
