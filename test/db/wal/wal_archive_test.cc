// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: obsolete logs go to the archive only if an option says so, and leave it
// by their age and the size of all. Method: a database with a clock that tests
// move, and the calls that meet the archive.

#include "db/wal/wal_archive.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

class MovedClockEnv final : public EnvWrapper {
 public:
  MovedClockEnv() : EnvWrapper(Env::Default()) {}
  uint64_t NowMicros() override {
    return target()->NowMicros() + moved_s_ * 1000000;
  }
  void Move(uint64_t seconds) { moved_s_ += seconds; }

 private:
  std::atomic<uint64_t> moved_s_{0};
};

class WalArchiveTest : public DbTestBase {
 protected:
  WalArchiveTest() {
    options_.env = &env_;
    options_.disable_auto_compactions = true;
  }

  std::vector<std::string> Archived() const {
    return FilesEndingIn(path_ + "/archive", ".log");
  }
  // Makes `count` logs obsolete.
  void Fill(int count, size_t bytes = 10) {
    for (int i = 0; i < count; ++i) {
      Put("k", std::string(bytes, 'v'));
      Flush();
    }
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
  }

  MovedClockEnv env_;
};

TEST_F(WalArchiveTest, IsNotThereWithoutAnOption) {
  Open();
  Fill(3);
  Reopen();
  EXPECT_FALSE(std::filesystem::exists(path_ + "/archive"));
}

TEST_F(WalArchiveTest, LogsLeaveByTheirAge) {
  options_.WAL_ttl_seconds = 3600;
  Open();
  Fill(3);
  EXPECT_EQ(Archived().size(), 3u);
  env_.Move(3000);
  Fill(1);
  EXPECT_EQ(Archived().size(), 4u);
  // The files' dates are of the real clock.
  env_.Move(601);
  Fill(1);
  EXPECT_EQ(Archived().size(), 0u);
}

TEST_F(WalArchiveTest, AnOpenRemovesOldOnes) {
  options_.WAL_ttl_seconds = 3600;
  Open();
  Fill(3);
  Close();
  env_.Move(3700);
  Open();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Archived().size(), 0u);
}

TEST_F(WalArchiveTest, LogsLeaveByTheSizeOfAll) {
  options_.WAL_size_limit_MB = 1;
  options_.write_buffer_size = 8 << 20;
  options_.compression = CompressionType::kNone;
  Open();
  Fill(5, 300 << 10);
  const std::vector<std::string> logs = Archived();
  ASSERT_EQ(logs.size(), 3u);
  uint64_t bytes = 0;
  for (const std::string& log : logs) bytes += ReadWholeFile(log).size();
  EXPECT_LE(bytes, 1u << 20);
  // The newest ones stay.
  Put("k", "v");
  std::unique_ptr<TransactionLogIterator> stream;
  EXPECT_TRUE(Ok(db_->GetUpdatesSince(3, &stream)));
  EXPECT_TRUE(db_->GetUpdatesSince(2, &stream).IsNotFound());
}

TEST_F(WalArchiveTest, FilesStayWhileRemovalIsDisabled) {
  options_.WAL_ttl_seconds = 3600;
  Open();
  Fill(2);
  ASSERT_TRUE(Ok(db_->DisableFileDeletions()));
  env_.Move(3700);
  Fill(1);
  EXPECT_EQ(Archived().size(), 2u);
  ASSERT_TRUE(Ok(db_->EnableFileDeletions()));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Archived().size(), 0u);
}

TEST_F(WalArchiveTest, DestroyRemovesIt) {
  options_.WAL_ttl_seconds = 3600;
  Open();
  Fill(2);
  Close();
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_FALSE(std::filesystem::exists(path_));
  // Other files stay.
  Open();
  Fill(2);
  Close();
  WriteWholeFile(path_ + "/archive/note.txt", "mine");
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/archive/note.txt"));
  EXPECT_TRUE(Archived().empty());
}

TEST_F(WalArchiveTest, CheckpointsDoNotHaveIt) {
  options_.WAL_ttl_seconds = 3600;
  Open();
  Fill(2);
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(copy)));
  EXPECT_FALSE(std::filesystem::exists(copy + "/archive"));
}

TEST_F(WalArchiveTest, RepairLeavesIt) {
  options_.WAL_ttl_seconds = 1000000;
  Open();
  Fill(2);
  Put("last", "v");
  Close();
  const std::vector<std::string> before = Archived();
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  for (const std::string& log : before) {
    EXPECT_TRUE(std::filesystem::exists(log)) << log;
  }
  Open();
  EXPECT_EQ(Get("last"), "v");
}

// A new log does not get the number of an archived one.
TEST_F(WalArchiveTest, NumbersAreNotUsedAgain) {
  options_.WAL_ttl_seconds = 1000000;
  Open();
  Put("a", "1");
  Close();
  std::filesystem::create_directory(path_ + "/archive");
  WriteWholeFile(path_ + "/archive/000500.log", "");
  Open();
  Put("b", "2");
  VectorWalPtr logs;
  ASSERT_TRUE(Ok(db_->GetSortedWalFiles(&logs)));
  EXPECT_GT(logs.back()->LogNumber(), 500u);
}

}  // namespace
}  // namespace varve::test
