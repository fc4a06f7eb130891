// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the commands of `varve` warn if a log is damaged or missing, and those
// that write or copy refuse such a database before they change anything.
// Method: damage the log of a small database, and compare its files.

#include <filesystem>

#include "test/testing/fixtures.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "tools/varve/varve_commands.h"

namespace varve {
namespace {

constexpr char kWarning[] = "varve: warning: updates may be lost: ";

class VarveLostUpdatesTest : public test::VarveCommandTest {
 protected:
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
    for (const char* const key : {"a", "b", "c"}) {
      ASSERT_TRUE(db->Put(WriteOptions(), key, std::string(100, 'v')).ok());
    }
    ASSERT_TRUE(db->Close().ok());
    log_ = test::FilesEndingIn(Db(), ".log").back();
  }

  // In the second of the three records.
  void DamageLog() {
    std::string bytes = test::ReadWholeFile(log_);
    bytes[bytes.find('v', bytes.find("b", bytes.find("vvv")))] ^= 1;
    test::WriteWholeFile(log_, bytes);
  }

  // The names and contents of all files.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(Db())) {
      files[entry.path().string()] =
          entry.is_directory() ? "" : test::ReadWholeFile(entry.path());
    }
    return files;
  }

  void ExpectRefused() {
    const auto before = Files();
    const std::string dump = directory_.Sub("dump");
    test::WriteWholeFile(dump, "varve-dump 1\nvarve-dump-end 0 00000000\n");
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{
             {"put", "d", "1"},
             {"put", "--family=new", "--create_if_missing", "d", "1"},
             {"merge", "--merge_operator=max", "d", "1"},
             {"delete", "a"},
             {"delete-range", "a", "b"},
             {"batchput", "d", "1"},
             {"ingest-from", dump},
             {"ingest-sst", dump},
             {"export-to", directory_.Sub("exported")},
             {"families", "create", "new"},
             {"prepared", "--commit=x"},
             {"compact"},
             {"checkpoint", directory_.Sub("copy")},
             {"backup", "--to=" + directory_.Sub("backups")}}) {
      const test::CommandOutcome outcome = RunHere(command);
      EXPECT_EQ(outcome.exit_code, kExitDamage) << command[0];
      EXPECT_TRUE(outcome.error.starts_with(kWarning)) << outcome.error;
      for (const char* const advice : {"varve repair", "--accept_loss"}) {
        EXPECT_NE(outcome.error.find(advice), std::string::npos)
            << outcome.error;
      }
    }
    EXPECT_EQ(Files(), before);
    for (const char* const name : {"exported", "copy", "backups"}) {
      EXPECT_FALSE(std::filesystem::exists(directory_.Sub(name))) << name;
    }
  }

  std::string log_;
};

TEST_F(VarveLostUpdatesTest, ADamagedLogIsWarnedOfAndRefused) {
  DamageLog();
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"get", "a"}, {"scan"}, {"count"}, {"stats"}, {"prepared"}}) {
    const test::CommandOutcome outcome = RunHere(command);
    EXPECT_EQ(outcome.exit_code, kExitOk) << command[0];
    EXPECT_TRUE(outcome.error.starts_with(kWarning)) << outcome.error;
    EXPECT_NE(outcome.error.find(".log"), std::string::npos) << outcome.error;
  }
  ExpectRefused();
  const test::CommandOutcome outcome =
      RunHere({"put", "--accept_loss", "d", "1"});
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_TRUE(outcome.error.starts_with(kWarning)) << outcome.error;
  // From then on, the database is what it is.
  EXPECT_EQ(RunHere({"scan", "--keys"}).out, "a\nd\n");
  EXPECT_EQ(RunHere({"put", "e", "1"}).error, "");
}

TEST_F(VarveLostUpdatesTest, AMissingLogIsWarnedOfAndRefused) {
  std::filesystem::remove(log_);
  EXPECT_TRUE(RunHere({"scan"}).error.starts_with(kWarning));
  ExpectRefused();
  EXPECT_EQ(RunHere({"export-to", "--accept_loss", "-"}).exit_code, kExitOk);
  EXPECT_EQ(RunHere({"checkpoint", "--accept_loss", directory_.Sub("copy")})
                .exit_code,
            kExitOk);
}

TEST_F(VarveLostUpdatesTest, KeysWithoutCaseMakeNoDifference) {
  std::filesystem::remove_all(Db());
  Succeed({"put", "--create_if_missing", "--ignore_case", "a", "1"});
  std::filesystem::remove(test::FilesEndingIn(Db(), ".log").back());
  const test::CommandOutcome outcome = RunHere({"prepared", "--commit=x"});
  EXPECT_EQ(outcome.exit_code, kExitDamage);
  EXPECT_TRUE(outcome.error.starts_with(kWarning)) << outcome.error;
}

// As a crash leaves it.
TEST_F(VarveLostUpdatesTest, ATornEndIsNeither) {
  // The database was not closed: closing says how far its logs go.
  Options options;
  const std::string open = directory_.Sub("open");
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
  ASSERT_TRUE(db->Put(WriteOptions(), "d", std::string(100, 'w')).ok());
  test::CopyDirectory(Db(), open);
  ASSERT_TRUE(db->Close().ok());
  const std::string log = test::FilesEndingIn(open, ".log").back();
  const std::string bytes = test::ReadWholeFile(log);
  std::filesystem::resize_file(log, bytes.find_last_of('w') - 10);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"scan"}, {"put", "e", "1"}, {"scan"}}) {
    std::vector<std::string> arguments = {"--db=" + open};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const test::CommandOutcome outcome = test::RunCommand(arguments);
    EXPECT_EQ(outcome.exit_code, kExitOk) << command[0];
    EXPECT_EQ(outcome.error, "") << command[0];
  }
}

TEST_F(VarveLostUpdatesTest, AMissingCurrentIsDamage) {
  std::filesystem::remove(Db() + "/CURRENT");
  for (const char* const command : {"scan", "families", "levels", "prepared"}) {
    const test::CommandOutcome outcome = RunHere({command});
    EXPECT_EQ(outcome.exit_code, kExitDamage) << command;
    EXPECT_NE(outcome.error.find("varve repair may help"), std::string::npos)
        << outcome.error;
    EXPECT_NE(outcome.error.find("use varve check"), std::string::npos)
        << outcome.error;
    EXPECT_EQ(outcome.error.find("RepairDB"), std::string::npos);
  }
}

}  // namespace
}  // namespace varve
