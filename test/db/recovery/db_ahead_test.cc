// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: if a log is damaged and a column family has later updates in tables
// than those that can be replayed, nothing opens, and the message has the names
// and the numbers. Copies of logs and shortened MANIFESTs are noticed. Logs
// that an Open does not replay stay in lost/ for a repair. Method: the files of
// two small databases in memory, damaged by hand.

#include <cstdarg>
#include <map>

#include "test/testing/db/family_states.h"

namespace varve::test {
namespace {

// Two families, "default" and "a". Each batch i of 30 puts n = i and i = "" in
// both. "a" is flushed after each tenth batch, so that there are four logs.
class DbAheadTest : public FamilyStatesTest {
 protected:
  static constexpr int kBatches = 30;

  void SetUp() override {
    names_ = {"default", "a"};
    opened_ = std::make_unique<Opened>();
    ASSERT_TRUE(Ok(opened_->Open(options_, names_)));
    states_.assign(1, State());
    for (int i = 1; i <= kBatches; ++i) {
      WriteBoth();
      if (i % 10 == 0) FlushOf("a");
    }
    files_ = Save(opened_->env());
    for (const auto& [name, bytes] : files_) {
      if (IsA(name, FileKind::kWal)) logs_.push_back(name);
    }
    ASSERT_EQ(logs_.size(), 4u);
  }

  void WriteBoth() {
    const std::string i = std::to_string(states_.size());
    WriteBatch batch;
    State next = states_.back();
    for (const std::string& name : names_) {
      batch.Put(opened_->handles().at(name), "n", i);
      batch.Put(opened_->handles().at(name), i, "");
      next[name]["n"] = i;
      next[name][i] = "";
    }
    ASSERT_TRUE(Ok(opened_->db()->Write({}, &batch)));
    states_.push_back(next);
  }
  void FlushOf(const std::string& name) {
    ASSERT_TRUE(Ok(opened_->db()->Flush({}, opened_->handles().at(name))));
  }

  // Opens the files in a new world.
  Status OpenFiles(const Files& files, bool read_only = false) {
    opened_ = std::make_unique<Opened>();
    Restore(opened_->env(), files);
    return opened_->Open(options_, names_, read_only);
  }

  // Opens them in each way. Expects that all refuse them and change nothing.
  void ExpectRefused(const Files& files,
                     const std::vector<std::string>& parts) {
    for (const auto mode : {WalRecoveryMode::kPointInTime,
                            WalRecoveryMode::kAbsoluteConsistency}) {
      options_.wal_recovery_mode = mode;
      for (const bool read_only : {true, false}) {
        const Status status = OpenFiles(files, read_only);
        EXPECT_TRUE(IsCorruption(status));
        EXPECT_EQ(Save(opened_->env()), files);
        if (mode == WalRecoveryMode::kAbsoluteConsistency) continue;
        for (const std::string& part : parts) {
          EXPECT_TRUE(Contains(status.message(), part))
              << status.ToString() << " lacks " << part;
        }
      }
    }
    options_.wal_recovery_mode = WalRecoveryMode::kPointInTime;
  }

  // Opens the files with a MANIFEST of each length.
  void ExpectNothingHidden() {
    std::string manifest;
    for (const auto& [name, bytes] : files_) {
      if (IsA(name, FileKind::kManifest)) manifest = name;
    }
    for (size_t size = 0; size < files_[manifest].size(); ++size) {
      SCOPED_TRACE("MANIFEST of " + std::to_string(size) + " bytes");
      Files files = files_;
      files[manifest].resize(size);
      Status status = OpenFiles(files, size % 3 == 0);
      if (status.ok()) {
        ASSERT_EQ(Find(opened_->Read()), static_cast<int>(states_.size()) - 1);
        continue;
      }
      ASSERT_EQ(Save(opened_->env()), files);
      if (size % 16 == 0) ExpectAll(Repaired(opened_.get()), states_.back());
      if (HasFailure()) return;
    }
  }

  std::vector<std::string> logs_;
};

// Keeps the messages.
class TextLogger : public Logger {
 public:
  void Logv(LogLevel, const char* format, va_list arguments) override {
    char line[500];
    vsnprintf(line, sizeof(line), format, arguments);
    text += std::string(line) + "\n";
  }
  std::string text;
};

TEST_F(DbAheadTest, IsRefusedWithItsNumbersAndRepaired) {
  // Of batch i, the updates have the numbers 4i-3 to 4i.
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  EXPECT_EQ(Find(opened_->Read()), kBatches);
  const std::string& second = files_[logs_[1]];
  const size_t middle = second.size() / 2;
  std::map<std::string, Files> damaged;
  for (const char* name : {"changed", "cut", "removed", "exchanged", "copy"}) {
    damaged[name] = files_;
  }
  damaged["changed"][logs_[1]][middle] ^= 1;
  damaged["cut"][logs_[1]].resize(middle);
  damaged["removed"].erase(logs_[1]);
  std::swap(damaged["exchanged"][logs_[1]], damaged["exchanged"][logs_[2]]);
  damaged["copy"][logs_[1]] = files_[logs_[0]];
  for (const auto& [name, files] : damaged) {
    SCOPED_TRACE(name);
    // The replay stops in the first log or in the second one.
    ExpectRefused(files,
                  {"families a (to number 120)", "update number ", "RepairDB"});
    DBOptions options = options_;
    const auto logger = std::make_shared<TextLogger>();
    options_.info_log = logger;
    const State state = Repaired(opened_.get());
    options_ = options;
    EXPECT_EQ(state.at("a"), states_.back().at("a"));
    EXPECT_EQ(state.at("default").at("n"), "30");
    if (name == "exchanged") {
      EXPECT_EQ(state, states_.back());
    }
    EXPECT_TRUE(Contains(logger->text, "column family a is ahead"))
        << logger->text;
  }
}

TEST_F(DbAheadTest, ACompactionHidesNoUpdate) {
  // The last level's entries have no sequence numbers.
  ASSERT_TRUE(Ok(opened_->db()->CompactRange({}, opened_->handles().at("a"),
                                             nullptr, nullptr)));
  Files files = Save(opened_->env());
  files[logs_[1]][100] ^= 1;
  ExpectRefused(files, {"families a (to number 120)"});
}

TEST_F(DbAheadTest, AFlushOfNothingHidesNoUpdate) {
  ASSERT_TRUE(Ok(OpenFiles({})));
  states_.resize(1);
  WriteBoth();
  const size_t whole = Save(opened_->env())[logs_[0]].size();
  WriteBatch batch;
  for (const std::string& name : names_) {
    batch.DeleteRange(opened_->handles().at(name), "", "z");
  }
  ASSERT_TRUE(Ok(opened_->db()->Write({}, &batch)));
  FlushOf("a");
  Files files = Save(opened_->env());
  files[logs_[0]][whole + 10] ^= 1;
  ExpectRefused(files, {"update number 4,"});
}

TEST_F(DbAheadTest, AnIdleFamilyIsNotAhead) {
  ASSERT_TRUE(Ok(OpenFiles({})));
  states_.resize(1);
  DB* const db = opened_->db();
  WriteBoth();
  FlushOf("a");
  // "a" needs a later log than the one that is damaged, and has nothing of it.
  ColumnFamilyHandle* const other = opened_->handles().at("default");
  ASSERT_TRUE(Ok(db->Put({}, opened_->handles().at("a"), "last", "")));
  Files files = Save(opened_->env());
  const std::string log = NewestLog(files);
  const size_t size = files[log].size();
  ASSERT_TRUE(Ok(db->Put({}, other, "x", std::string(100, 'x'))));
  FlushOf("a");
  files = Save(opened_->env());
  files[log][size + 50] ^= 1;
  ASSERT_TRUE(Ok(OpenFiles(files)));
  const State found = opened_->Read();
  EXPECT_EQ(found.at("a").count("last"), 1u);
  EXPECT_EQ(found.at("default").count("x"), 0u);
}

// Also under kAbsoluteConsistency the first log had no mark of its own.
TEST_F(DbAheadTest, ACopyOfAnotherLogIsNoticed) {
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  for (const std::string& log : logs_) {
    for (const std::string& other : logs_) {
      if (log == other) continue;
      Files files = files_;
      files[log] = files_[other];
      const Status status = OpenFiles(files);
      EXPECT_TRUE(status.IsCorruption())
          << other << " as " << log << ": " << status.ToString();
      files[other] = files_[log];  // Both are exchanged.
      EXPECT_TRUE(OpenFiles(files).IsCorruption()) << log << " and " << other;
    }
  }
}

TEST_F(DbAheadTest, AManifestOfEachLengthHidesNothing) {
  ExpectNothingHidden();
}

// All tables are newer than the oldest log, like the tables of a job that died.
TEST_F(DbAheadTest, AManifestOfEachLengthHidesNoCompactedTable) {
  for (const std::string& name : names_) {
    FlushOf(name);
    ASSERT_TRUE(Ok(opened_->db()->CompactRange({}, opened_->handles().at(name),
                                               nullptr, nullptr)));
  }
  for (int i = 0; i < 5; ++i) WriteBoth();
  files_ = Save(opened_->env());
  ExpectNothingHidden();
}

// One family. Its first log has a damaged byte, the second is intact.
class DbUnusedLogsTest : public DbAheadTest {
 protected:
  void SetUp() override {
    names_ = {"default"};
    ASSERT_TRUE(Ok(OpenFiles({})));
    states_.assign(1, State());
    for (int i = 0; i < 10; ++i) WriteBoth();
    files_ = Save(opened_->env());
    logs_ = {NewestLog(files_)};
    FlushOf("default");
    for (int i = 0; i < 10; ++i) WriteBoth();
    Files later = Save(opened_->env());
    logs_.push_back(NewestLog(later));
    files_[logs_[1]] = later[logs_[1]];
    ASSERT_TRUE(Ok(OpenFiles(files_)));
    ASSERT_EQ(Find(opened_->Read()), 20);
    whole_ = files_;
    std::string& first = files_[logs_[0]];
    first[first.size() / 2] ^= 1;
  }

  Files Lost() { return Save(opened_->env(), std::string(kPath) + "/lost"); }

  Files whole_;
};

TEST_F(DbUnusedLogsTest, AreKeptAndRepaired) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  const int state = Find(opened_->Read());
  EXPECT_TRUE(state > 0 && state < 10) << state;
  EXPECT_EQ(options_.statistics->getTickerCount(Ticker::kLogsIncomplete), 1u);
  for (const std::string& log : logs_) {
    EXPECT_EQ(Lost()[log], files_[log]);
    EXPECT_TRUE(opened_->env()->FileExists(kPath + ("/" + log)).IsNotFound());
  }
  // Further opens do not forget them.
  ASSERT_TRUE(Ok(opened_->Open(options_, names_)));
  ASSERT_TRUE(Ok(opened_->db()->Close()));
  opened_->Drop();
  Opened before;
  Restore(before.env(), files_);
  const State expected = Repaired(&before);
  EXPECT_EQ(expected.at("default").at("n"), "20");
  EXPECT_EQ(expected.at("default").size(), 20u);  // But for one batch.
  EXPECT_EQ(Repaired(opened_.get()), expected);
  // They are used once.
  EXPECT_EQ(Lost().count("UNUSED"), 0u);
  EXPECT_EQ(Repaired(opened_.get()), expected);
}

TEST_F(DbUnusedLogsTest, ReplaceNoLaterUpdates) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  // The logs have smaller ones only.
  EXPECT_EQ(opened_->db()->GetLatestSequenceNumber(), 40u);
  ASSERT_TRUE(Ok(opened_->db()->Put({}, "n", "new")));
  ASSERT_TRUE(Ok(opened_->db()->CompactRange({}, nullptr, nullptr)));
  opened_->Drop();
  const auto logger = std::make_shared<TextLogger>();
  options_.info_log = logger;
  EXPECT_EQ(Repaired(opened_.get()).at("default").at("n"), "new");
  EXPECT_TRUE(Contains(logger->text, "is left out")) << logger->text;
  EXPECT_EQ(Lost()[logs_[1]], files_[logs_[1]]);
}

TEST_F(DbUnusedLogsTest, AreNotKeptWithoutDamage) {
  // A write that was cut off.
  Files files = whole_;
  files[logs_[1]].resize(files[logs_[1]].size() - 3);
  ASSERT_TRUE(Ok(OpenFiles(files)));
  EXPECT_EQ(Find(opened_->Read()), 19);
  EXPECT_TRUE(Lost().empty());
}

TEST_F(DbUnusedLogsTest, ADamagedListIsIgnored) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  const State state = opened_->Read();
  opened_->Drop();
  const std::string path = std::string(kPath) + "/lost/UNUSED";
  std::string list;
  ASSERT_TRUE(Ok(ReadFileToString(opened_->env(), path, &list)));
  for (const std::string& text :
       {std::string(), std::string("after"), list.substr(0, list.size() - 1),
        "x" + list, list + "log 1 ../000001.log\n", list + "log -1 a\n",
        list + "log 99999999999999999999 a\n", list + "\n"}) {
    Opened copy;
    Restore(copy.env(), Save(opened_->env()));
    ASSERT_TRUE(
        Ok(copy.env()->CreateDirIfMissing(std::string(kPath) + "/lost")));
    for (const auto& [name, bytes] : Lost()) {
      ASSERT_TRUE(Ok(WriteStringToFile(
          copy.env(), bytes, std::string(kPath) + "/lost/" + name, false)));
    }
    ASSERT_TRUE(Ok(WriteStringToFile(copy.env(), text, path, false)));
    EXPECT_EQ(Repaired(&copy), state) << text;
  }
}

}  // namespace
}  // namespace varve::test
