// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database of large tables opens without their indexes, every kind of
// read loads the indexes that it needs, and a damaged index is found by Open,
// or without paranoid_checks by the first read that needs it, and by no other.
// Method: tables of many small blocks.

#include "table/block/format.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kKeysPerTable = 10000;
constexpr int kTables = 3;

std::string KeyAt(int i) {
  char text[32];
  snprintf(text, sizeof(text), "key%08d", i);
  return text;
}
std::string ValueAt(int i) { return "value" + std::to_string(i); }

class DbTableLoadingTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_ = Options();
    options_.create_if_missing = true;
    options_.block_size = 64;
    options_.disable_auto_compactions = true;
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.block_cache = NewBlockCache(size_t{32} << 20);
    Open();
    for (int t = 0; t < kTables; ++t) {
      for (int i = 0; i < kKeysPerTable; ++i) {
        const int key = t * kKeysPerTable + i;
        Put(KeyAt(key), ValueAt(key));
        all_.emplace_back(KeyAt(key), ValueAt(key));
      }
      Flush();
    }
    for (const std::string& name : FileNames()) {
      if (name.ends_with(".sst")) tables_.push_back(path_ + "/" + name);
    }
    std::sort(tables_.begin(), tables_.end());
    ASSERT_EQ(tables_.size(), size_t{kTables});
    Reopen();
  }

  std::vector<std::string> FileNames() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  uint64_t TableMemory() { return Number("varve.estimate-table-readers-mem"); }
  // Flips a byte of the index of a table.
  void SpoilIndex(int table) const {
    const std::string bytes = ReadWholeFile(tables_[table]);
    Footer footer;
    ASSERT_TRUE(Ok(footer.DecodeFrom(bytes, "", bytes.size())));
    ASSERT_GT(footer.index.size, uint64_t{64} << 10);
    FlipByte(tables_[table], footer.index.offset + footer.index.size / 2);
  }
  std::string FirstOf(int table) const { return KeyAt(table * kKeysPerTable); }

  EntryList all_;
  std::vector<std::string> tables_;
};

TEST_F(DbTableLoadingTest, OpenTakesLittleMemoryAndReadsTakeMore) {
  const uint64_t opened = TableMemory();
  EXPECT_LT(opened, kTables * uint64_t{4000});
  std::string properties;
  ASSERT_TRUE(
      db_->GetProperty("varve.aggregated-table-properties", &properties));
  EXPECT_NE(properties.find("entries=30000"), std::string::npos) << properties;
  EXPECT_EQ(TableMemory(), opened);
  uint64_t before = opened;
  for (int t = 0; t < kTables; ++t) {
    EXPECT_EQ(Get(FirstOf(t)), ValueAt(t * kKeysPerTable));
    EXPECT_GT(TableMemory(), before + (uint64_t{64} << 10));
    before = TableMemory();
    EXPECT_EQ(Get(FirstOf(t) + "x"), "NotFound");
    EXPECT_EQ(TableMemory(), before);
  }
}

TEST_F(DbTableLoadingTest, IteratorsLoadTheTablesThatTheyReach) {
  options_.target_file_size_base = 300000;
  Reopen();
  CompactAll();
  const uint64_t tables = Tables();
  ASSERT_GT(tables, 1u);
  ASSERT_EQ(TablesAt(0), 0u);
  Reopen();
  const uint64_t opened = TableMemory();
  EXPECT_LT(opened, tables * 4000);
  // A new iterator needs only range deletions.
  const auto iterator = db_->NewIterator({});
  EXPECT_EQ(TableMemory(), opened);
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  const uint64_t first = TableMemory();
  EXPECT_GT(first, opened + (uint64_t{64} << 10));
  iterator->SeekToLast();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_GT(TableMemory(), first);
  EXPECT_TRUE(HasEntries(db_.get(), all_));
}

TEST_F(DbTableLoadingTest, EveryWayOfReadingLoads) {
  const std::string last = all_.back().first;
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"Get", [&] { EXPECT_EQ(Get(last), all_.back().second); }},
      {"MultiGet",
       [&] {
         std::vector<Slice> keys;
         for (size_t i = 0; i < all_.size(); i += 100) {
           keys.emplace_back(all_[i].first);
         }
         std::vector<std::string> values;
         const auto statuses = db_->MultiGet({}, keys, &values);
         for (size_t i = 0; i < keys.size(); ++i) {
           EXPECT_TRUE(Ok(statuses[i]));
           EXPECT_EQ(values[i], all_[100 * i].second);
         }
       }},
      {"scans", [&] { EXPECT_TRUE(HasEntries(db_.get(), all_, {}, false)); }},
      {"SeekForPrev",
       [&] {
         const auto iterator = db_->NewIterator({});
         iterator->SeekForPrev(last + "x");
         ASSERT_TRUE(iterator->Valid());
         EXPECT_EQ(iterator->key(), last);
       }},
      {"GetApproximateSizes",
       [&] {
         const std::string begin = KeyAt(5000);
         const Range range(begin, last);
         uint64_t size = 0;
         ASSERT_TRUE(Ok(db_->GetApproximateSizes(&range, 1, &size)));
         EXPECT_GT(size, uint64_t{100000});
       }},
      {"VerifyChecksum", [&] { EXPECT_TRUE(Ok(db_->VerifyChecksum())); }},
      {"reading only",
       [&] {
         db_.reset();
         ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
         EXPECT_TRUE(HasEntries(db_.get(), all_));
       }},
      {"DeleteRange",
       [&] {
         const Snapshot* const snapshot = db_->GetSnapshot();
         ASSERT_TRUE(Ok(db_->DeleteRange({}, KeyAt(10), KeyAt(20))));
         EXPECT_EQ(Get(KeyAt(10)), "NotFound");
         EXPECT_EQ(Get(KeyAt(10), snapshot), ValueAt(10));
         EXPECT_EQ(Get(KeyAt(20)), ValueAt(20));
         db_->ReleaseSnapshot(snapshot);
         all_.erase(all_.begin() + 10, all_.begin() + 20);
         Flush();
       }},
      {"CompactRange",
       [&] {
         CompactAll();
         EXPECT_TRUE(HasEntries(db_.get(), all_));
       }},
  };
  for (const auto& [name, run] : ways) {
    SCOPED_TRACE(name);
    run();
    if (HasFatalFailure()) return;
    db_.reset();
    Open();
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(HasEntries(db_.get(), all_));
}

TEST_F(DbTableLoadingTest, OpenFindsADamagedIndex) {
  Close();
  SpoilIndex(1);
  EXPECT_TRUE(IsCorruption(TryOpen(), tables_[1], "checksum mismatch"));
}

TEST_F(DbTableLoadingTest, ReadsWorkWithoutADamagedFilter) {
  Close();
  const std::string bytes = ReadWholeFile(tables_[1]);
  Footer footer;
  ASSERT_TRUE(Ok(footer.DecodeFrom(bytes, "", bytes.size())));
  // It is written before the index.
  FlipByte(tables_[1], footer.index.offset - 100);
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), all_));
}

TEST_F(DbTableLoadingTest, ReadsFindADamagedIndexAndRecover) {
  Close();
  SpoilIndex(1);
  options_.paranoid_checks = false;
  Open();
  const std::string hurt = FirstOf(1);
  const auto expect_damage = [&](const Status& s) {
    EXPECT_TRUE(IsCorruption(s, tables_[1]));
  };
  for (int i = 0; i < 2; ++i) {
    std::string value;
    expect_damage(db_->Get({}, hurt, &value));
    EXPECT_EQ(Get(FirstOf(0)), ValueAt(0));
    EXPECT_EQ(Get(FirstOf(2)), ValueAt(2 * kKeysPerTable));
    const std::string keys[] = {FirstOf(0), hurt, FirstOf(2)};
    std::vector<std::string> values;
    const auto statuses =
        db_->MultiGet({}, {keys[0], keys[1], keys[2]}, &values);
    EXPECT_TRUE(Ok(statuses[0]));
    expect_damage(statuses[1]);
    EXPECT_TRUE(Ok(statuses[2]));
    EXPECT_EQ(values[2], ValueAt(2 * kKeysPerTable));
    EntryList entries;
    expect_damage(ScanForward(db_.get(), {}, &entries));
    expect_damage(ScanBackward(db_.get(), {}, &entries));
    expect_damage(db_->VerifyChecksum());
  }
  // The bytes come back, and with them the data.
  SpoilIndex(1);
  EXPECT_TRUE(HasEntries(db_.get(), all_));
}

TEST_F(DbTableLoadingTest, ACompactionStopsAtADamagedIndex) {
  Close();
  SpoilIndex(1);
  options_.paranoid_checks = false;
  Open();
  const Status s =
      db_->CompactRange({.rewrite_bottommost_level = true}, nullptr, nullptr);
  EXPECT_TRUE(IsCorruption(s));
  EXPECT_EQ(Get(FirstOf(0)), ValueAt(0));
  db_.reset();
  SpoilIndex(1);
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), all_));
}

// The job that writes a table opens it, index and filter included, so that no
// read has to.
TEST_F(DbTableLoadingTest, ReadsDoNotOpenTablesThatJobsWrote) {
  options_.statistics = CreateDBStatistics();
  Reopen();
  const auto opens = [this] {
    return options_.statistics->getTickerCount(Ticker::kNoFileOpens);
  };
  Put(KeyAt(0), "new");
  Flush();
  uint64_t before = opens();
  EXPECT_EQ(Get(KeyAt(0)), "new");
  EXPECT_EQ(opens(), before);
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  before = opens();
  EXPECT_EQ(Get(KeyAt(0)), "new");
  EXPECT_EQ(Get(KeyAt(kKeysPerTable)), ValueAt(kKeysPerTable));
  EXPECT_EQ(opens(), before);
}

}  // namespace
}  // namespace varve::test
