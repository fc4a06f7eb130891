// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: `varve check` reports a log that a closed database has lost, in part or
// as a whole, and does not take other programs' files for damage; no command
// changes those. Method: a database is made by commands, its files are changed
// by hand.

#include <filesystem>

#include "test/testing/varve_command.h"
#include "tools/varve/varve_command_line.h"

namespace varve::test {
namespace {

class VarveCheckFilesTest : public VarveCommandTest {
 protected:
  void SetUp() override {
    Put("0x61", "0x31");
    Put("0x62", "0x32");
    log_ = FilesEndingIn(Db(), ".log").back();
    ASSERT_FALSE(ReadWholeFile(log_).empty());
    EXPECT_NE(Succeed({"check"}).find("no damage"), std::string::npos);
  }

  void ExpectDamaged() {
    const CommandOutcome outcome = RunHere({"check"});
    EXPECT_EQ(outcome.exit_code, kExitDamage) << outcome.out;
    EXPECT_NE(
        outcome.out.find("damaged: " +
                         std::string(std::filesystem::path(log_).filename())),
        std::string::npos)
        << outcome.out;
  }

  std::string log_;
};

TEST_F(VarveCheckFilesTest, ReportsALogThatIsMissing) {
  std::filesystem::remove(log_);
  ExpectDamaged();
}

TEST_F(VarveCheckFilesTest, ReportsALogThatWasEmptied) {
  std::filesystem::resize_file(log_, 0);
  ExpectDamaged();
}

TEST_F(VarveCheckFilesTest, ForeignFilesAreNoDamage) {
  const std::vector<std::string> names = {"/99.log", "/000099.log",
                                          "/000098.sst", "/MANIFEST-5",
                                          "/1732500000.log"};
  for (const std::string& name : names) WriteWholeFile(Db() + name, "notes\n");
  const std::string out = Succeed({"check"});
  EXPECT_NE(out.find("no damage"), std::string::npos) << out;
  EXPECT_NE(out.find("note: 000099.log"), std::string::npos) << out;
  EXPECT_EQ(Succeed({"get", "a"}), "1\n");
  Put("0x63", "0x33");
  Succeed({"compact"});
  Succeed({"repair"});
  EXPECT_EQ(Succeed({"get", "c"}), "3\n");
  for (const std::string& name : names) {
    EXPECT_EQ(ReadWholeFile(Db() + name), "notes\n") << name;
  }
}

}  // namespace
}  // namespace varve::test
