// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: entries that were kept only for snapshots go with the first
// CompactRange after the snapshots, and a CompactRange without such entries
// rewrites nothing. Method: each kind of entry, in tables of the last level
// that a compaction wrote, that were moved there, or that an earlier session
// left; counts in the tables' properties, and bytes written by compactions.

#include "env/file_names.h"
#include "test/testing/db/manifest_edits.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/compaction_filter.h"
#include "varve/merge_operator.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

// Removes all values "old".
class RemovesOld : public CompactionFilter {
 public:
  Decision FilterV2(int /*level*/, const Slice& /*key*/, ValueType /*type*/,
                    const Slice& value, std::string* /*new_value*/,
                    std::string* /*skip_until*/) const override {
    return value == Slice("old") ? Decision::kRemove : Decision::kKeep;
  }
  const char* Name() const override { return "RemovesOld"; }
};

class DbKeptEntriesTest : public DbTestBase {
 protected:
  DbKeptEntriesTest() {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    path_ = "/db/it";
    options_.env = memory_.get();
    options_.disable_auto_compactions = true;
    options_.statistics = NewTestStatistics();
    options_.merge_operator = NewStringAppendOperator();
  }

  void OpenAnew() {
    db_.reset();
    EXPECT_TRUE(Ok(DestroyDB(path_, options_)));
    Open();
  }
  void CompactRange(const Slice* begin = nullptr, const Slice* end = nullptr) {
    ASSERT_TRUE(Ok(db_->CompactRange({}, begin, end)));
  }
  // Returns the number of entries in tables, with range deletions.
  uint64_t Entries() {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.aggregated-table-properties", &text));
    const std::string name = "; entries=";
    const size_t at = text.find(name);
    return at == std::string::npos ? 0
                                   : std::stoull(text.substr(at + name.size()));
  }
  uint64_t BytesWritten() {
    return options_.statistics->getTickerCount(Ticker::kCompactWriteBytes);
  }
  // Compacts again. Returns how many bytes that wrote.
  uint64_t BytesOfAnother() {
    const uint64_t before = BytesWritten();
    CompactRange();
    return BytesWritten() - before;
  }
  // Closes the database. Returns the largest sequence number of its tables.
  SequenceNumber LargestSequence() {
    EXPECT_TRUE(Ok(db_->Close()));
    db_.reset();
    std::string name;
    EXPECT_TRUE(Ok(ReadCurrentFile(memory_.get(), path_, &name)));
    std::vector<VersionEdit> edits;
    ReadEdits(memory_.get(), path_ + "/" + name, &edits);
    SequenceNumber largest = 0;
    for (const VersionEdit& edit : edits) {
      largest = edit.new_files().empty()
                    ? largest
                    : edit.new_files().back().second.largest_sequence;
    }
    return largest;
  }

  std::vector<std::string> TableNames() {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(memory_->GetChildren(path_, &names)));
    std::erase_if(
        names, [](const std::string& name) { return !name.ends_with(".sst"); });
    return names;
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
};

// Each kind of entries that a snapshot keeps.
class DbKeptKindsTest : public DbKeptEntriesTest {
 protected:
  struct Case {
    const char* name;
    const char* steps;
    uint64_t entries;  // After a compaction without snapshots.
  };
  // Where the steps begin with a flush, a table below the one of the kind keeps
  // the flush from dropping deletions.
  static constexpr Case kCases[] = {
      {"operands", "merge k 1, snap, merge k 2, snap, merge k 3", 1},
      {"operands after a value", "put k 1, snap, merge k 2", 1},
      {"versions", "put k 1, snap, put k 2", 1},
      {"deletions", "put stays 1, put k base, flush, snap, delete k", 1},
      {"deletions of nothing",
       "put stays 1, put k base, flush, delete k, snap, put k 1, delete k", 1},
      {"single deletions",
       "put stays 1, put k base, flush, snap, single_delete k", 1},
      {"range deletions",
       "put stays 1, put k base, flush, snap, delete_range k l", 1},
  };
};

TEST_F(DbKeptKindsTest, GoWithTheNextCompactRange) {
  for (const Case& kind : kCases) {
    SCOPED_TRACE(kind.name);
    OpenAnew();
    Do(kind.steps);
    CompactRange();
    EXPECT_GT(Entries(), kind.entries);
    EXPECT_EQ(BytesOfAnother(), 0u) << "the snapshot still needs them";
    ReleaseSnapshots();
    CompactRange();
    EXPECT_EQ(Entries(), kind.entries);
    EXPECT_EQ(BytesOfAnother(), 0u);
  }
}

TEST_F(DbKeptKindsTest, GoSnapshotBySnapshot) {
  OpenAnew();
  for (const char* operand : {"1", "2", "3", "4"}) {
    Merge("k", operand);
    Do("snap");
  }
  CompactRange();
  EXPECT_EQ(Entries(), 4u);
  for (uint64_t left = 3; left > 0; --left) {
    db_->ReleaseSnapshot(snapshots_.front());
    snapshots_.erase(snapshots_.begin());
    CompactRange();
    EXPECT_EQ(Entries(), left);
    EXPECT_EQ(BytesOfAnother(), 0u);
  }
  EXPECT_EQ(Get("k"), "1,2,3,4");
  ReleaseSnapshots();
}

TEST_F(DbKeptKindsTest, GoFromTablesThatWereMoved) {
  options_.level0_file_num_compaction_trigger = 1;
  for (const Case& kind : kCases) {
    SCOPED_TRACE(kind.name);
    options_.disable_auto_compactions = false;
    OpenAnew();
    Do(kind.steps);
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "true"}})));
    ASSERT_EQ(TablesAt(0), 0u);
    ReleaseSnapshots();
    CompactRange();
    EXPECT_EQ(Entries(), kind.entries);
    EXPECT_EQ(BytesOfAnother(), 0u);
  }
}

TEST_F(DbKeptKindsTest, GoAfterASessionThatKeptThem) {
  for (const bool opens_tables : {true, false}) {
    for (const Case& kind : kCases) {
      SCOPED_TRACE(kind.name);
      options_.max_open_files = opens_tables ? -1 : 16;
      OpenAnew();
      Do(kind.steps);
      CompactRange();
      EXPECT_GT(Entries(), kind.entries);
      ReleaseSnapshots();
      Reopen();
      CompactRange();
      EXPECT_EQ(Entries(), kind.entries);
      EXPECT_EQ(BytesOfAnother(), 0u);
      Reopen();
      EXPECT_EQ(BytesOfAnother(), 0u);
    }
  }
}

// Without a CompactRange, the job that looks for such tables finds them.
TEST_F(DbKeptKindsTest, GoByThemselves) {
  options_.disable_auto_compactions = false;
  for (const Case& kind : kCases) {
    SCOPED_TRACE(kind.name);
    OpenAnew();
    Do(kind.steps);
    CompactRange();
    EXPECT_GT(Entries(), kind.entries);
    ReleaseSnapshots();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_EQ(Entries(), kind.entries);
    const uint64_t written = BytesWritten();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_EQ(BytesWritten(), written);
  }
}

TEST_F(DbKeptEntriesTest, SequenceNumbersBecomeZero) {
  Open();
  Put("a", "1");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Put("b", "2");
  Put("c", "3");
  CompactRange();
  db_->ReleaseSnapshot(snapshot);
  CompactRange();
  EXPECT_EQ(BytesOfAnother(), 0u);
  EXPECT_EQ(LargestSequence(), 0u);
}

TEST_F(DbKeptEntriesTest, TheFilterIsAskedForThemAfterTheSnapshot) {
  const auto filter = std::make_shared<RemovesOld>();
  options_.compaction_filter = filter.get();
  Do("open, put a new, put b old");
  const Snapshot* const snapshot = db_->GetSnapshot();
  CompactRange();
  EXPECT_EQ(Entries(), 2u);
  db_->ReleaseSnapshot(snapshot);
  CompactRange();
  EXPECT_EQ(Entries(), 1u);
  Close();
}

// Only tables of the range, and of these only such with kept entries.
TEST_F(DbKeptEntriesTest, OnlyTheTablesThatHaveThemAreRewritten) {
  Open();
  for (const char* key : {"a", "b", "c"}) {
    Put(key, std::string(100000, 'v'));
    const Slice bound(key);
    Flush();
    CompactRange(&bound, &bound);
  }
  ASSERT_EQ(Tables(), 3u);
  Merge("b", "1");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Merge("b", "2");
  CompactRange();
  db_->ReleaseSnapshot(snapshot);
  const Slice other("a");
  uint64_t before = BytesWritten();
  CompactRange(&other, &other);
  EXPECT_EQ(BytesWritten(), before);
  EXPECT_EQ(Entries(), 4u);
  const std::vector<std::string> tables = TableNames();
  CompactRange();
  EXPECT_EQ(Entries(), 3u);
  size_t kept = 0;
  for (const std::string& name : TableNames()) {
    kept += static_cast<size_t>(std::count(tables.begin(), tables.end(), name));
  }
  EXPECT_EQ(kept, 2u);
  EXPECT_EQ(BytesOfAnother(), 0u);
}

// Tables that were moved have sequence numbers, but nothing to drop.
TEST_F(DbKeptEntriesTest, CleanTablesAreNotRewritten) {
  options_.disable_auto_compactions = false;
  options_.level0_file_num_compaction_trigger = 1;
  Open();
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 100; ++j) Put(Key(100 * i + j), "v");
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
  }
  EXPECT_EQ(BytesWritten(), 0u);
  EXPECT_EQ(BytesOfAnother(), 0u);
  Reopen();
  EXPECT_EQ(BytesOfAnother(), 0u);
}

// Operands that no operator can merge are no reason to rewrite a table.
TEST_F(DbKeptEntriesTest, OperandsWithoutAnOperatorStay) {
  Do("open, merge k 1, merge k 2");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Merge("k", "3");
  CompactRange();
  db_->ReleaseSnapshot(snapshot);
  Close();
  options_.merge_operator = nullptr;
  Open();
  EXPECT_EQ(BytesOfAnother(), 0u);
}

}  // namespace
}  // namespace varve::test
