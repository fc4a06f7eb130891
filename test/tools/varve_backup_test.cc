// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: `varve backup`, `restore` and `backups` do what they say, also beside a
// process that has the database open, and refuse what would lose data. Method:
// the commands on small databases, one of which a child holds open.

#include <regex>

#include "test/testing/db/backup_fixture.h"
#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "tools/varve/varve_commands.h"

namespace varve::test {
namespace {

class VarveBackupTest : public BackupTestBase {
 protected:
  CommandOutcome Run(const std::vector<std::string>& arguments) {
    return RunCommand(arguments);
  }
  CommandOutcome RunBackup(const std::vector<std::string>& more = {}) {
    return Run(Command({"backup", "--db=" + path_, "--to=" + backups_}, more));
  }
  CommandOutcome RunRestore(const std::vector<std::string>& more = {}) {
    return Run(
        Command({"restore", "--from=" + backups_, "--db=" + restored_}, more));
  }
  CommandOutcome RunList(const std::vector<std::string>& more = {}) {
    return Run(Command({"backups", "--from=" + backups_}, more));
  }
  void Fill(const std::string& key) {
    Open();
    Put(key, Noise(1000));
    Flush();
    Close();
  }
};

TEST_F(VarveBackupTest, BacksUpListsAndRestores) {
  Fill("a");
  const EntryList first = ContentsOf(path_);
  CommandOutcome outcome = RunBackup();
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_TRUE(outcome.out.starts_with("backup 1: ")) << outcome.out;
  Fill("b");
  const EntryList second = ContentsOf(path_);
  EXPECT_EQ(RunBackup({"--flush", "--threads=3", "--rate=100000000"}).exit_code,
            kExitOk);
  outcome = RunList({"--verify"});
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_TRUE(std::regex_match(
      outcome.out, std::regex("1  [-0-9: ]+  [0-9.]+ MB  [0-9]+ files  "
                              "verified\n2  [^\n]*verified\n")))
      << outcome.out;
  EXPECT_EQ(RunRestore({"--id=1"}).out, "restored backup 1\n");
  EXPECT_TRUE(SameEntries(first, ContentsOf(restored_)));
  outcome = RunRestore();
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_NE(outcome.error.find("--replace"), std::string::npos);
  EXPECT_TRUE(SameEntries(first, ContentsOf(restored_)));
  EXPECT_EQ(RunRestore({"--replace"}).out, "restored backup 2\n");
  EXPECT_TRUE(SameEntries(second, ContentsOf(restored_)));
  EXPECT_EQ(RunBackup({"--keep=1"}).exit_code, kExitOk);
  outcome = RunList({"--json"});
  EXPECT_TRUE(std::regex_match(
      outcome.out, std::regex("\\{\"id\":3,\"time\":[0-9]+,\"bytes\":[0-9]+,"
                              "\"files\":[0-9]+,\"metadata\":\"\"\\}\n")))
      << outcome.out;
}

TEST_F(VarveBackupTest, ReportsDamage) {
  Fill("a");
  RunBackup();
  Open();
  Put("b", "1");
  CompactAll();
  Close();
  RunBackup();
  const EntryList second = ContentsOf(path_);
  Flip(FilesIn("shared_checksum")[0], 30);
  CommandOutcome outcome = RunList();
  EXPECT_EQ(outcome.exit_code, kExitOk);
  outcome = RunList({"--verify"});
  EXPECT_EQ(outcome.exit_code, kExitDamage);
  EXPECT_NE(outcome.out.find("1  "), std::string::npos);
  EXPECT_NE(outcome.out.find("damaged: Corruption"), std::string::npos);
  outcome = RunRestore({"--id=1"});
  EXPECT_EQ(outcome.exit_code, kExitDamage);
  EXPECT_NE(
      outcome.error.find("varve backups --from=" + backups_ + " --verify"),
      std::string::npos)
      << outcome.error;
  EXPECT_EQ(outcome.error.find("varve repair"), std::string::npos);
  // What was restored of it is removed, but nothing that was there.
  EXPECT_FALSE(std::filesystem::exists(restored_));
  std::filesystem::create_directory(restored_);
  WriteWholeFile(restored_ + "/notes", "mine");
  EXPECT_EQ(RunRestore({"--id=1"}).exit_code, kExitDamage);
  EXPECT_EQ(ReadWholeFile(restored_ + "/notes"), "mine");
  std::filesystem::remove_all(restored_);
  EXPECT_EQ(RunRestore({"--id=7"}).exit_code, kExitFailure);
  EXPECT_EQ(RunRestore({"--id=0"}).exit_code, kExitUsage);
  std::filesystem::remove(FilesIn("private/2")[0]);
  outcome = RunList();
  EXPECT_EQ(outcome.exit_code, kExitDamage);
  EXPECT_NE(outcome.out.find("\n2  damaged: "), std::string::npos)
      << outcome.out;
  EXPECT_EQ(Run({"backups", "--from=" + dir_.Sub("none")}).exit_code,
            kExitFailure);
  EXPECT_EQ(Run({"backups"}).exit_code, kExitUsage);
  EXPECT_EQ(Run({"backup", "--db=" + path_}).exit_code, kExitUsage);
  EXPECT_EQ(RunBackup({"--threads=0"}).exit_code, kExitUsage);
  EXPECT_EQ(
      Run({"backup", "--db=" + dir_.Sub("none"), "--to=" + backups_}).exit_code,
      kExitFailure);
}

TEST_F(VarveBackupTest, BacksUpBesideAWriter) {
  Fill("a");
  std::unique_ptr<DB> db;
  // The child's database stays open until it ends.
  ForkedHolder holder([&] {
    return DB::Open(options_, path_, &db).ok() && db->Put({}, "b", "1").ok() &&
           db->FlushWAL(false).ok();
  });
  ASSERT_TRUE(holder.ok());
  const CommandOutcome outcome = RunBackup();
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.error;
  EXPECT_NE(outcome.error.find("is open in"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().string().find(".backup-"), std::string::npos);
  }
  EXPECT_EQ(RunRestore().exit_code, kExitOk);
  const EntryList entries = ContentsOf(restored_);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].first, "b");
  // But it is not replaced.
  EXPECT_EQ(Run({"restore", "--from=" + backups_, "--db=" + path_, "--replace"})
                .exit_code,
            kExitBusy);
}

}  // namespace
}  // namespace varve::test
