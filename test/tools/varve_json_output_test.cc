// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: with --json, each command prints objects, a line each, with the members
// that its help names, whatever the bytes. Method: parse what is printed for
// databases of hard names, of damage, and of several families.

#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "tools/varve/varve_json.h"

namespace varve {
namespace {

using Object = std::map<std::string, std::string>;

class VarveJsonOutputTest : public test::VarveCommandTest {
 protected:
  // The members of each line, numbers as text.
  static std::vector<Object> Parse(const std::string& text) {
    std::vector<Object> objects;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      JsonReader reader(line);
      Object object;
      EXPECT_TRUE(reader.ReadObject([&](const std::string& name) {
        EXPECT_FALSE(object.contains(name)) << line;
        return reader.ReadScalar(&object[name]);
      })) << line;
      EXPECT_EQ(reader.offset(), line.size()) << line;
      objects.push_back(object);
    }
    return objects;
  }
  std::vector<Object> RunJson(std::vector<std::string> arguments,
                              int exit_code = kExitOk) {
    arguments.push_back("--json");
    const test::CommandOutcome outcome = RunHere(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.error;
    return Parse(outcome.out);
  }
};

TEST_F(VarveJsonOutputTest, Count) {
  Put("0x61", "0x62");
  EXPECT_EQ(RunJson({"count"}), (std::vector<Object>{{{"keys", "1"}}}));
}

TEST_F(VarveJsonOutputTest, Levels) {
  Put("0x22FF", "0x62");
  Put("0x61", "0x62");
  Succeed({"compact"});
  Succeed({"put", "--family=q\"", "--create_if_missing", "k\n", "v"});
  Succeed({"compact", "--family=q\""});
  const std::vector<Object> tables = RunJson({"levels"});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].at("family"), "default");
  EXPECT_EQ(tables[0].at("family_id"), "0");
  EXPECT_EQ(tables[0].at("smallest_hex"), "22FF");
  EXPECT_EQ(tables[0].at("largest"), "a");
  EXPECT_EQ(tables[0].at("largest_is_included"), "true");
  EXPECT_EQ(tables[1].at("family"), "q\"");
  EXPECT_EQ(tables[1].at("smallest"), "k\n");
  for (const char* const name :
       {"level", "number", "bytes", "smallest_sequence", "largest_sequence"}) {
    uint64_t number = 0;
    EXPECT_TRUE(ParseNumber(tables[1].at(name), 10, &number)) << name;
  }
  EXPECT_EQ(RunJson({"levels", "--family=q\""}).size(), 1u);
  EXPECT_EQ(RunJson({"levels", "--hex"})[1].at("smallest_hex"), "6B0A");
}

TEST_F(VarveJsonOutputTest, Check) {
  Put("0x61", "0x62");
  Succeed({"compact"});
  std::vector<Object> lines = RunJson({"check"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("kind"), "summary");
  EXPECT_EQ(lines[0].at("tables"), "1");
  EXPECT_EQ(lines[0].at("damaged"), "0");
  const std::string table = test::FilesEndingIn(Db(), ".sst").at(0);
  std::string bytes = test::ReadWholeFile(table);
  bytes[5] ^= 1;
  test::WriteWholeFile(table, bytes);
  test::WriteWholeFile(Db() + "/000999.dbtmp", "x");
  lines = RunJson({"check"}, kExitDamage);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].at("kind"), "note");
  EXPECT_EQ(lines[0].at("file"), "000999.dbtmp");
  EXPECT_EQ(lines[1].at("kind"), "damaged");
  EXPECT_EQ(Db() + "/" + lines[1].at("file"), table);
  EXPECT_NE(lines[1].at("message"), "");
  EXPECT_EQ(lines[2].at("damaged"), "1");
  EXPECT_EQ(lines[2].at("refused"), "0");
  EXPECT_EQ(lines[2].at("unreadable"), "0");
}

TEST_F(VarveJsonOutputTest, Stats) {
  Put("0x61", "0x62");
  std::map<std::string, std::string> values;
  for (const Object& line : RunJson({"stats"})) {
    const auto quantile = line.find("quantile");
    values[line.at("name") +
           (quantile == line.end() ? "" : "@" + quantile->second)] =
        line.at("value");
  }
  EXPECT_TRUE(values.contains("compaction.Sum.SizeBytes"));
  EXPECT_TRUE(values.contains("varve_number_keys_read_total"));
  EXPECT_TRUE(values.contains("varve_db_get_seconds@0.99"));
  const std::vector<Object> one =
      RunJson({"stats", "--property=varve.estimate-num-keys"});
  EXPECT_EQ(one, (std::vector<Object>{
                     {{"name", "varve.estimate-num-keys"}, {"text", "1"}}}));
  EXPECT_EQ(RunHere({"stats", "--json", "--property=none"}).exit_code,
            kExitUsage);
}

TEST_F(VarveJsonOutputTest, Families) {
  Succeed({"families", "create", "\\xFF", "--create_if_missing"});
  const std::vector<Object> families = RunJson({"families"});
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].at("name"), "default");
  EXPECT_EQ(families[1].at("name_hex"), "FF");
}

}  // namespace
}  // namespace varve
