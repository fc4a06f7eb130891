// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: damaged and malicious databases give a Corruption that names the file,
// and the block where there is one; never a crash, never wrong or silently
// missing data. Method: the fixtures damaged-* (one healthy database, each
// copy hurt in one place) and crafted-* (right checksums, wrong structure).

#include <regex>

#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// The expected result of reading a damaged fixture.
struct Damage {
  const char* fixture;
  enum Outcome {
    kError,     // Open or the first reads fail with a message like `pattern`.
    kEither,    // That, or the contents are expected.txt.
    kContents,  // The contents are expected.txt.
  } outcome;
  const char* pattern;
};

constexpr Damage kDamages[] = {
    {"damaged-current-empty", Damage::kError, "CURRENT"},
    {"damaged-current-garbage", Damage::kError, "CURRENT"},
    {"damaged-current-missing", Damage::kError, "CURRENT"},
    {"damaged-current-no-newline", Damage::kError, "CURRENT"},
    {"damaged-filter", Damage::kEither, "000009.sst"},
    {"damaged-footer-magic", Damage::kError, "000009.sst"},
    {"damaged-footer-version", Damage::kError, "version.*9|9.*version"},
    {"damaged-index-block", Damage::kError, "000009.sst.*8075"},
    {"damaged-manifest-bitflip-first", Damage::kError, "MANIFEST-000005"},
    {"damaged-manifest-bitflip-tail", Damage::kError, "MANIFEST-000005"},
    {"damaged-manifest-empty", Damage::kError, "MANIFEST-000005"},
    {"damaged-manifest-missing", Damage::kError, "MANIFEST-000005"},
    {"damaged-manifest-truncated-flush", Damage::kEither,
     "MANIFEST-000005|000011.sst|000010.log"},
    {"damaged-manifest-truncated-tail", Damage::kContents, ""},
    {"damaged-metaindex", Damage::kError, "000009.sst.*9203"},
    {"damaged-properties", Damage::kError, "000009.sst.*8306"},
    {"damaged-sst-extended", Damage::kError, "000009.sst"},
    {"damaged-sst-missing", Damage::kError, "000009"},
    {"damaged-sst-truncated", Damage::kError, "000009.sst"},
    {"damaged-sst-zero-length", Damage::kError, "000009.sst"},
    {"damaged-wal-bitflip-last", Damage::kContents, ""},
    {"damaged-wal-bitflip-middle", Damage::kEither, "000010.log"},
    {"damaged-wal-garbage-tail", Damage::kContents, ""},
    {"damaged-wal-truncated-header", Damage::kContents, ""},
    {"damaged-wal-truncated-tail", Damage::kContents, ""},
    {"damaged-wal-zero-tail", Damage::kContents, ""},
};

const Damage* FindDamage(const std::string& fixture) {
  for (const Damage& damage : kDamages) {
    if (fixture == damage.fixture) return &damage;
  }
  return nullptr;
}

// Those with a table of their own, or a test of their own below.
std::vector<std::string> ListedDamages() {
  std::vector<std::string> names = FixtureNames("damaged-");
  std::erase(names, "damaged-data-block");
  return names;
}

// "missing" things may also be what the system calls them.
bool IsDamageStatus(const std::string& fixture, const Status& s) {
  if (s.IsCorruption()) return true;
  if (fixture.ends_with("-missing")) {
    return s.IsIOError() || s.IsNotFound() || s.IsInvalidArgument();
  }
  return fixture == "damaged-footer-version" && s.IsNotSupported();
}

class FixtureDamagedTest : public FixtureTest,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  void ExpectOutcome(bool read_only) {
    const Damage* damage = FindDamage(GetParam());
    ASSERT_NE(damage, nullptr) << "add " << GetParam() << " to the table";
    EntryList entries;
    Status s = OpenAndScan(read_only, &entries);
    if (s.ok()) {
      ASSERT_NE(damage->outcome, Damage::kError) << "the damage was not seen";
      EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
      return;
    }
    ASSERT_NE(damage->outcome, Damage::kContents) << s.ToString();
    EXPECT_TRUE(IsDamageStatus(GetParam(), s)) << s.ToString();
    EXPECT_TRUE(std::regex_search(s.ToString(), std::regex(damage->pattern)))
        << s.ToString() << "\nlacks " << damage->pattern;
    const bool refused_at_open = db_ == nullptr;
    db_.reset();
    if (refused_at_open) ExpectUnchanged(read_only);
  }
};

TEST_P(FixtureDamagedTest, IsNoticedWhenOpenedReadOnly) {
  CopyFixture(GetParam());
  ExpectOutcome(true);
  db_.reset();
  ExpectUnchanged(true);
}

TEST_P(FixtureDamagedTest, IsNoticedWhenOpenedForWriting) {
  CopyFixture(GetParam());
  ExpectOutcome(false);
}

TEST_P(FixtureDamagedTest, IsNoticedWithoutParanoidChecks) {
  CopyFixture(GetParam());
  options_.paranoid_checks = false;
  options_.filter_policy = NewBloomFilterPolicy(10);
  ExpectOutcome(false);
}

TEST_P(FixtureDamagedTest, IsNotTakenForAMissingDatabase) {
  CopyFixture(GetParam());
  options_.create_if_missing = true;
  ExpectOutcome(false);
}

TEST_P(FixtureDamagedTest, RepairSavesUndamagedData) {
  CopyFixture(GetParam());
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  // The healthy database, with which all copies began.
  source_ = FixturesDir() + "/damage-base";
  Entries base;
  for (auto& [key, value] : ReadExpected()) base[key] = value;
  EntryList entries;
  ASSERT_TRUE(Ok(OpenAndScan(false, &entries)));
  size_t right = 0;
  for (const auto& [key, value] : entries) {
    right += base.count(key) > 0 && base[key] == value;
  }
  const std::string& name = GetParam();
  if (name.starts_with("damaged-current") ||
      name.starts_with("damaged-manifest") || name == "damaged-filter" ||
      name.ends_with("garbage-tail") || name.ends_with("zero-tail")) {
    // All tables and logs are whole.
    EXPECT_EQ(right, base.size());
  } else if (name.starts_with("damaged-wal")) {
    EXPECT_GE(right, base.size() / 2);
  }
  // In any case it can be used again.
  Put("after", "repair");
  Reopen();
  EXPECT_EQ(Get("after"), "repair");
}

INSTANTIATE_TEST_SUITE_P(All, FixtureDamagedTest,
                         ::testing::ValuesIn(ListedDamages()), FixtureTestName);

class DbDamageTest : public FixtureTest {};

TEST_F(DbDamageTest, ATableThatGoesAwayIsNotAMissingKey) {
  options_.max_open_files = 16;
  options_.block_cache = NewTestCache(0);
  options_.level0_file_num_compaction_trigger = 100;
  options_.level0_slowdown_writes_trigger = 100;
  options_.level0_stop_writes_trigger = 100;
  Open();
  constexpr int kTables = 24;
  for (int i = 0; i < kTables; ++i) {
    Put("key" + std::to_string(i), "value");
    ASSERT_TRUE(Ok(db_->Flush({})));
  }
  for (int i = 0; i < kTables; ++i) {
    EXPECT_EQ(Get("key" + std::to_string(i)), "value");
  }
  for (const auto& file : std::filesystem::directory_iterator(path_)) {
    if (file.path().extension() == ".sst") std::filesystem::remove(file);
  }
  // Those that are open still are read, the others are missed.
  int missed = 0;
  for (int i = 0; i < kTables; ++i) {
    std::string value;
    const Status status = db_->Get({}, "key" + std::to_string(i), &value);
    if (status.ok()) continue;
    ++missed;
    EXPECT_TRUE(IsCorruption(status, ".sst"));
  }
  EXPECT_GE(missed, kTables - 16);
}

// A seek in a level, a table of level 0, range deletions and a memtable.
TEST_F(DbDamageTest, ASeekInATableThatGoesAwayFails) {
  options_.max_open_files = 16;
  options_.block_cache = NewTestCache(0);
  options_.target_file_size_base = 4096;
  options_.disable_auto_compactions = true;
  Open();
  constexpr int kKeys = 100;
  const auto key = [](int i) { return "key" + std::to_string(100 + i); };
  for (int i = 0; i < kKeys; ++i) Put(key(i), std::string(4096, 'x'));
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  ASSERT_GT(Tables(), 40u);
  ASSERT_TRUE(Ok(
      db_->DeleteRange({}, db_->DefaultColumnFamily(), "key0000", "key0001")));
  Put("key0", "level0");
  ASSERT_TRUE(Ok(db_->Flush({})));
  Put("key0", "memtable");
  auto it = db_->NewIterator({});
  it->Seek(key(0));
  ASSERT_TRUE(it->Valid());
  for (const auto& file : std::filesystem::directory_iterator(path_)) {
    if (file.path().extension() == ".sst") std::filesystem::remove(file);
  }
  int found = 0;
  int missed = 0;
  for (int i = kKeys - 1; i >= 0; --i) {
    it->Seek(key(i));
    if (it->Valid()) {
      ++found;
      EXPECT_EQ(it->key(), key(i));
      EXPECT_TRUE(Ok(it->status()));
    } else {
      ++missed;
      EXPECT_TRUE(IsCorruption(it->status(), ".sst"));
    }
  }
  EXPECT_GT(missed, 0);
  EXPECT_GT(found, 0);
}

TEST_F(DbDamageTest, DamagedBlockHidesItsKeysOnly) {
  CopyFixture("damaged-data-block");
  std::vector<std::string> affected;
  std::istringstream lines(ReadWholeFile(source_ + "/affected.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) affected.push_back(FromHex(line));
  }
  ASSERT_GT(affected.size(), 0u);
  const EntryList expected = ReadExpected();
  const std::regex place("000009.sst.*2445");
  for (bool read_only : {true, false}) {
    SCOPED_TRACE(read_only ? "read-only" : "for writing");
    EntryList entries;
    Status s = OpenAndScan(read_only, &entries);
    ASSERT_NE(db_, nullptr) << s.ToString();
    EXPECT_TRUE(IsCorruption(s));
    EXPECT_TRUE(std::regex_search(s.ToString(), place)) << s.ToString();
    // A scan returns correct entries without gaps until it stops.
    ASSERT_LE(entries.size(), expected.size());
    const EntryList before(
        expected.begin(), expected.begin() + static_cast<long>(entries.size()));
    EXPECT_TRUE(SameEntries(before, entries));
    EXPECT_TRUE(ScanBackward(db_.get(), {}, &entries).IsCorruption());
    const EntryList behind(expected.end() - static_cast<long>(entries.size()),
                           expected.end());
    EXPECT_TRUE(SameEntries(behind, entries));

    size_t corrupt = 0;
    for (const auto& [key, value] : expected) {
      std::string found;
      s = db_->Get({}, key, &found);
      if (s.ok()) {
        EXPECT_EQ(found, value);
        continue;
      }
      corrupt++;
      EXPECT_TRUE(IsCorruption(s));
      EXPECT_TRUE(std::regex_search(s.ToString(), place)) << s.ToString();
      EXPECT_EQ(std::count(affected.begin(), affected.end(), key), 1)
          << Slice(key).ToString(true) << " is not in the damaged block";
    }
    EXPECT_GT(corrupt, 0u);
    s = db_->VerifyChecksum();
    EXPECT_TRUE(IsCorruption(s));
    EXPECT_TRUE(std::regex_search(s.ToString(), place)) << s.ToString();
  }
  // A compaction must not drop what it cannot read.
  EXPECT_TRUE(
      db_->CompactRange({.rewrite_bottommost_level = true}, nullptr, nullptr)
          .IsCorruption());
  db_.reset();
  EXPECT_EQ(ReadWholeFile(path_ + "/000009.sst"),
            ReadWholeFile(source_ + "/db/000009.sst"));
}

TEST_F(DbDamageTest, RepairSavesTheBlocksAroundADamagedOne) {
  CopyFixture("damaged-data-block");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  EntryList entries;
  ASSERT_TRUE(Ok(OpenAndScan(false, &entries)));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  const EntryList expected = ReadExpected();
  size_t right = 0;
  for (const auto& [key, value] : expected) right += Get(key) == value;
  EXPECT_GE(right, expected.size() - 20);
}

TEST_F(DbDamageTest, TableThatTheManifestLostIsNotDeleted) {
  CopyFixture("damaged-manifest-truncated-flush");
  const std::string table = ReadWholeFile(path_ + "/000011.sst");
  if (TryOpen().ok()) {
    EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
    CompactAll();
    Reopen();
    Close();
  }
  db_.reset();
  EXPECT_TRUE(ReadWholeFile(path_ + "/000011.sst") == table ||
              ReadWholeFile(path_ + "/lost/000011.sst") == table);
}

TEST_F(DbDamageTest, StrictRecoveryRefusesDamagedLogs) {
  for (const char* name :
       {"damaged-wal-bitflip-last", "damaged-wal-bitflip-middle",
        "damaged-wal-garbage-tail", "damaged-wal-truncated-header",
        "damaged-wal-truncated-tail"}) {
    SCOPED_TRACE(name);
    CopyFixture(name);
    options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
    EXPECT_TRUE(IsCorruption(TryOpen(), "000010.log"));
    ExpectUnchanged(false);
  }
  CopyFixture("damage-base");
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
}

TEST_F(DbDamageTest, ForeignLogAfterADamagedOneIsNotUsed) {
  // RocksDB's logs say nothing of the one before them; only sequence numbers
  // tell that something is missing.
  for (const size_t offset : {10, 2000, 5000}) {
    CopyFixture("dbbench-default");
    const auto logs = FilesEndingIn(path_, ".log");
    ASSERT_EQ(logs.size(), 2u);
    ASSERT_GT(std::filesystem::file_size(logs[0]), offset);
    FlipByte(logs[0], offset);
    EntryList with_both, with_first;
    ASSERT_TRUE(Ok(OpenAndScan(true, &with_both)));
    std::filesystem::remove(logs[1]);
    ASSERT_TRUE(Ok(OpenAndScan(true, &with_first)));
    EXPECT_TRUE(SameEntries(with_first, with_both));
    EXPECT_FALSE(SameEntries(ReadExpected(), with_both));
  }
}

class FixtureCraftedTest : public FixtureTest,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  // Every way of reading; the first error.
  Status ReadInAllWays() {
    Status first;
    const auto note = [&](const Status& s) {
      if (!s.ok() && !s.IsNotFound() && first.ok()) first = s;
    };
    EntryList entries;
    note(ScanForward(db_.get(), {}, &entries));
    note(ScanBackward(db_.get(), {}, &entries));
    auto it = db_->NewIterator({});
    for (int i = 0; i < 220; i++) {
      char key[32];
      snprintf(key, sizeof(key), "key%05d", i);
      std::string value;
      note(db_->Get({}, key, &value));
      it->Seek(key);
      note(it->status());
      if (it->Valid()) it->Prev();
      note(it->status());
      it->SeekForPrev(key);
      note(it->status());
      if (it->Valid()) it->Next();
      note(it->status());
    }
    return first;
  }
};

TEST_P(FixtureCraftedTest, IsNoticedWithoutACrash) {
  CopyFixture(GetParam());
  // These two may be read as far as they go.
  const bool may_pass = GetParam() == "crafted-unsorted-keys" ||
                        GetParam() == "crafted-zero-restarts";
  for (bool paranoid : {true, false}) {
    for (bool read_only : {true, false}) {
      SCOPED_TRACE(read_only ? "read-only" : "for writing");
      options_.paranoid_checks = paranoid;
      db_.reset();
      Status s = read_only ? DB::OpenForReadOnly(options_, path_, &db_)
                           : DB::Open(options_, path_, &db_);
      if (s.ok()) s = ReadInAllWays();
      EXPECT_TRUE(s.IsCorruption() || s.IsNotSupported() ||
                  (may_pass && s.ok()))
          << s.ToString();
      if (!s.ok()) {
        EXPECT_TRUE(
            std::regex_search(s.ToString(), std::regex("\\.sst|MANIFEST")))
            << s.ToString();
      }
    }
  }
}

TEST_P(FixtureCraftedTest, CompactionAndRepairDoNotCrash) {
  CopyFixture(GetParam());
  if (TryOpen().ok()) {
    db_->Put({}, "key00050", "new").IgnoreError();  // May be read-only.
    Status s =
        db_->CompactRange({.rewrite_bottommost_level = true}, nullptr, nullptr);
    EXPECT_TRUE(s.ok() || s.IsCorruption() || s.IsNotSupported())
        << s.ToString();
    s = db_->VerifyChecksum();
    EXPECT_TRUE(s.ok() || s.IsCorruption()) << s.ToString();
    db_.reset();
  }
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  Put("after", "repair");
  EXPECT_EQ(Get("after"), "repair");
}

INSTANTIATE_TEST_SUITE_P(All, FixtureCraftedTest,
                         ::testing::ValuesIn(FixtureNames("crafted-")),
                         FixtureTestName);

}  // namespace
}  // namespace varve::test
