// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: of a database that was closed, a log that is missing, emptied, cut
// between two records or replaced by an older copy is noticed, and never taken
// for one that held no more. Method: a database with updates in its log is
// closed, its files are changed by hand, and it is opened in each way.

#include "db/version/version_edit.h"
#include "db/wal/wal_reader.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbLostLogsTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_.statistics = NewTestStatistics();
    Open();
    Put("in a table", "0");
    Flush();
    PutSynced("a", "1");
  }

  void PutSynced(const std::string& key, const std::string& value) {
    ASSERT_TRUE(Ok(db_->Put({.sync = true}, key, value)));
  }

  std::string Log() const { return FilesEndingIn(path_, ".log").back(); }

  Status OpenAs(WalRecoveryMode mode) {
    options_.wal_recovery_mode = mode;
    return TryOpen();
  }

  // Expects that missing updates are refused or reported, and that all others
  // exist.
  void ExpectNoticed(const std::string& about) {
    CopyDirectory(path_, dir_.Sub("kept"));
    EXPECT_TRUE(
        IsCorruption(OpenAs(WalRecoveryMode::kAbsoluteConsistency), about));
    // Without a change to the database.
    EXPECT_TRUE(OpenAs(WalRecoveryMode::kAbsoluteConsistency).IsCorruption());
    EXPECT_TRUE(IsCorruption(DB::OpenForReadOnly(options_, path_, &db_)));
    options_.wal_recovery_mode = WalRecoveryMode::kPointInTime;
    for (const bool for_writing : {false, true}) {
      const uint64_t before = Noticed();
      ASSERT_TRUE(Ok(for_writing ? TryOpen()
                                 : DB::OpenForReadOnly(options_, path_, &db_)));
      EXPECT_EQ(Noticed(), before + 1);
      EXPECT_EQ(Get("in a table"), "0");
    }
    EXPECT_TRUE(Contains(ReadWholeFile(path_ + "/LOG"), "updates may be lost"));
    // It is said once: what is there now is all that there is to be.
    PutSynced("then", "2");
    Close();
    const uint64_t before = Noticed();
    ASSERT_TRUE(Ok(OpenAs(WalRecoveryMode::kAbsoluteConsistency)));
    EXPECT_EQ(Noticed(), before);
    EXPECT_EQ(Get("then"), "2");
    Close();
  }

  uint64_t Noticed() const {
    return options_.statistics->getTickerCount(Ticker::kLogsIncomplete);
  }
};

TEST_F(DbLostLogsTest, AClosedDatabaseOpensInEachMode) {
  Close();
  for (const auto mode :
       {WalRecoveryMode::kAbsoluteConsistency, WalRecoveryMode::kPointInTime}) {
    ASSERT_TRUE(Ok(OpenAs(mode)));
    EXPECT_EQ(Get("a"), "1");
    PutSynced("a", "1");
    Close();
  }
  EXPECT_EQ(Noticed(), 0u);
}

TEST_F(DbLostLogsTest, AMissingOneIsNoticed) {
  Close();
  std::filesystem::remove(Log());
  ExpectNoticed(".log");
}

TEST_F(DbLostLogsTest, AMissingOneOfADatabaseThatWasKilledIsNoticed) {
  CopyDirectory(path_, dir_.Sub("killed"));
  Close();
  path_ = dir_.Sub("killed");
  std::filesystem::remove(Log());
  ExpectNoticed(".log");
}

TEST_F(DbLostLogsTest, AnEmptiedOneIsNoticed) {
  Close();
  std::filesystem::resize_file(Log(), 0);
  ExpectNoticed(".log");
}

TEST_F(DbLostLogsTest, AnOlderCopyIsNoticed) {
  const std::string older = ReadWholeFile(Log());
  PutSynced("b", "2");
  Close();
  const std::string log = Log();
  // It may end in zeros.
  const size_t older_end = older.find_last_not_of('\0') + 1;
  ASSERT_TRUE(ReadWholeFile(log).starts_with(older.substr(0, older_end)));
  WriteWholeFile(log, older);
  ExpectNoticed(".log");
}

// A log that is empty when the database is closed keeps its number.
TEST_F(DbLostLogsTest, ACopyFromAnEarlierSessionIsNoticed) {
  Flush();
  Close();
  Open();
  WriteBatch note;
  note.PutLogData(std::string(1000, 'n'));
  ASSERT_TRUE(Ok(db_->Write({}, &note)));
  Close();
  const std::string longer = ReadWholeFile(Log());
  Open();
  PutSynced("b", "2");
  Close();
  ASSERT_LT(ReadWholeFile(Log()).size(), longer.size());
  WriteWholeFile(Log(), longer);
  ExpectNoticed(".log");
}

// A database that was opened without pending work has a note beside its
// MANIFEST (db/version/logs_end_note.h).
class DbLostLogsWithANoteTest : public DbLostLogsTest {
 protected:
  void SetUp() override {
    DbLostLogsTest::SetUp();
    Flush();
    Close();
    Open();
    PutSynced("b", "2");
    Close();
    const std::vector<std::string> files = FilesEndingIn(path_, ".dbtmp");
    ASSERT_EQ(files.size(), 1u);
    note_ = files[0];
  }
  Status OpenStrictly() {
    return OpenAs(WalRecoveryMode::kAbsoluteConsistency);
  }

  std::string note_;
};

TEST_F(DbLostLogsWithANoteTest, AMissingOneIsNoticed) {
  std::filesystem::remove(Log());
  ExpectNoticed(".log");
}

TEST_F(DbLostLogsWithANoteTest, AnEmptiedOneIsNoticed) {
  std::filesystem::resize_file(Log(), 0);
  ExpectNoticed(".log");
}

TEST_F(DbLostLogsWithANoteTest, TheNoteGoesWithTheNextOpen) {
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_EQ(Get("b"), "2");
  db_.reset();
  EXPECT_TRUE(std::filesystem::exists(note_));
  ASSERT_TRUE(Ok(OpenStrictly()));
  EXPECT_EQ(Get("b"), "2");
  EXPECT_FALSE(std::filesystem::exists(note_));
  EXPECT_EQ(Noticed(), 0u);
}

// As after a power cut, or for another MANIFEST.
TEST_F(DbLostLogsWithANoteTest, ADamagedNoteIsNone) {
  const std::string bytes = ReadWholeFile(note_);
  std::vector<std::string> damaged = {bytes + "x"};
  for (size_t i = 0; i < bytes.size(); ++i) {
    damaged.push_back(bytes.substr(0, i));
    damaged.push_back(bytes);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 1);
  }
  CopyDirectory(path_, dir_.Sub("whole"));
  for (const std::string& text : damaged) {
    CopyDirectory(dir_.Sub("whole"), path_);
    WriteWholeFile(note_, text);
    std::filesystem::resize_file(Log(), 0);
    ASSERT_TRUE(Ok(OpenStrictly()));
    EXPECT_EQ(Get("a"), "1");
    EXPECT_EQ(Get("b"), "NotFound");
    db_.reset();
  }
}

TEST_F(DbLostLogsWithANoteTest, ANoteOfAnotherMomentIsNone) {
  const std::string manifest = FilesStartingWith(path_, "MANIFEST").back();
  WriteWholeFile(manifest, ReadWholeFile(manifest) + std::string(7, '\0'));
  // Zeros at the end are no edit. So it ends where it ended.
  std::filesystem::resize_file(Log(), 0);
  EXPECT_TRUE(OpenStrictly().IsCorruption());
  ASSERT_TRUE(Ok(OpenAs(WalRecoveryMode::kPointInTime)));
  Put("c", "3");
  Flush();
  Close();
  // The new MANIFEST has another number.
  WriteWholeFile(note_, std::string(28, 'n'));
  ASSERT_TRUE(Ok(OpenStrictly()));
  EXPECT_EQ(Get("c"), "3");
}

TEST_F(DbLostLogsWithANoteTest, DestroyRemovesTheNote) {
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(DbLostLogsWithANoteTest, RepairKeepsAllUpdates) {
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  ASSERT_TRUE(Ok(OpenStrictly()));
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "2");
}

TEST_F(DbLostLogsTest, EachLengthOfTheLogIsNoticed) {
  for (int i = 0; i < 5; ++i) PutSynced(Key(i), std::string(30, 'v'));
  Close();
  CopyDirectory(path_, dir_.Sub("whole"));
  const std::string log = Log();
  const std::string bytes = ReadWholeFile(log);
  for (size_t size = 0; size < bytes.size(); ++size) {
    CopyDirectory(dir_.Sub("whole"), path_);
    WriteWholeFile(log, bytes.substr(0, size));
    const Status status = OpenAs(WalRecoveryMode::kAbsoluteConsistency);
    ASSERT_TRUE(status.IsCorruption()) << size << ": " << status.ToString();
    const uint64_t before = Noticed();
    ASSERT_TRUE(Ok(OpenAs(WalRecoveryMode::kPointInTime)));
    ASSERT_EQ(Noticed(), before + 1) << size;
    ASSERT_EQ(Get("in a table"), "0");
    db_.reset();
  }
}

// Any of several logs with updates may be missing.
TEST_F(DbLostLogsTest, AnyOfSeveralIsNoticed) {
  db_.reset();
  options_.max_write_buffer_number = 6;
  options_.avoid_flush_during_shutdown = true;
  // No flush, so that all logs are needed.
  class NoFlushEnv : public EnvWrapper {
   public:
    using EnvWrapper::EnvWrapper;
    Status Schedule(std::function<void()>, Priority) override {
      return Status::OK();
    }
  };
  NoFlushEnv env(Env::Default());
  options_.env = &env;
  Open();
  std::set<std::string> logs;
  for (int i = 0; logs.size() < 4; ++i) {
    PutSynced(Key(i), std::string(5000, 'v'));
    for (const auto& log : FilesEndingIn(path_, ".log")) logs.insert(log);
  }
  PutSynced("last", "1");
  // The jobs that never run must not be waited for: as if it were killed, but
  // for the note.
  Close();
  options_.env = Env::Default();
  CopyDirectory(path_, dir_.Sub("whole"));
  for (const std::string& log : FilesEndingIn(path_, ".log")) {
    for (const bool remove : {false, true}) {
      CopyDirectory(dir_.Sub("whole"), path_);
      if (remove) {
        std::filesystem::remove(log);
      } else {
        std::filesystem::resize_file(log, 0);
      }
      const Status status = OpenAs(WalRecoveryMode::kAbsoluteConsistency);
      EXPECT_TRUE(status.IsCorruption()) << log << ": " << status.ToString();
      const uint64_t before = Noticed();
      ASSERT_TRUE(Ok(OpenAs(WalRecoveryMode::kPointInTime))) << log;
      EXPECT_EQ(Noticed(), before + 1) << log;
      // The recovered writes are a prefix.
      EntryList found;
      ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
      // Skips "a" and "in a table", written earlier.
      for (size_t i = 2; i < found.size() && found[i].first != "last"; ++i) {
        ASSERT_EQ(found[i].first, Key(static_cast<int>(i) - 2)) << log;
      }
      db_.reset();
    }
  }
}

// A restore of the MANIFEST from one backup, and of the rest from another.
TEST_F(DbLostLogsTest, AManifestOlderThanTheTablesIsNoticed) {
  Close();
  CopyDirectory(path_, dir_.Sub("older"));
  Do("open, put b 2, flush");
  PutSynced("c", "3");
  Close();
  const std::string old_manifest =
      FilesStartingWith(dir_.Sub("older"), "MANIFEST").back();
  std::filesystem::copy(old_manifest, path_,
                        std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy(dir_.Sub("older") + "/CURRENT", path_ + "/CURRENT",
                        std::filesystem::copy_options::overwrite_existing);
  const auto files = ReadDirectory(path_);
  for (const auto mode :
       {WalRecoveryMode::kAbsoluteConsistency, WalRecoveryMode::kPointInTime}) {
    EXPECT_TRUE(IsCorruption(OpenAs(mode)));
  }
  // With the old logs, too, it is a database that once was; but the tables
  // have updates that are later.
  for (const std::string& log : FilesEndingIn(path_, ".log")) {
    std::filesystem::remove(log);
  }
  std::filesystem::copy(FilesEndingIn(dir_.Sub("older"), ".log").back(), path_);
  const size_t tables = FilesEndingIn(path_, ".sst").size();
  for (const auto mode :
       {WalRecoveryMode::kAbsoluteConsistency, WalRecoveryMode::kPointInTime}) {
    EXPECT_TRUE(IsCorruption(OpenAs(mode)));
  }
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), tables);
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  ASSERT_TRUE(Ok(TryOpen()));
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "2");
}

// The note is in force only until the database is opened again.
TEST_F(DbLostLogsTest, TheNoteIsOfTheLastEditOnly) {
  Close();
  const auto edits = [this] {
    std::vector<VersionEdit> result;
    const std::string path = FilesStartingWith(path_, "MANIFEST").back();
    std::unique_ptr<SequentialFile> file;
    EXPECT_TRUE(Ok(Env::Default()->NewSequentialFile(path, {}, &file)));
    wal::Reader reader(std::move(file), path, 0);
    Slice record;
    while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
      EXPECT_TRUE(Ok(result.emplace_back().DecodeFrom(record)));
    }
    return result;
  };
  EXPECT_EQ(edits().back().logs_end(), 2u);
  Open();
  for (const VersionEdit& edit : edits()) EXPECT_FALSE(edit.logs_end());
  Flush();
  Close();
  // Nothing is in the log.
  for (const VersionEdit& edit : edits()) EXPECT_FALSE(edit.logs_end());
}

TEST_F(DbLostLogsTest, UpdatesWithoutALogAreNoLossOfIt) {
  options_.avoid_flush_during_shutdown = true;
  Reopen();
  WriteOptions unlogged{.disable_wal = true};
  PutSynced("b", "2");
  ASSERT_TRUE(Ok(db_->Put(unlogged, "c", "3")));
  Close();
  ASSERT_TRUE(Ok(OpenAs(WalRecoveryMode::kAbsoluteConsistency)));
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Noticed(), 0u);
}

}  // namespace
}  // namespace varve::test
