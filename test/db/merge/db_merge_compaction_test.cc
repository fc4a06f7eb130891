// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: merge operands keep their meaning through flushes and compactions, and
// are merged there as far as snapshots and older tables allow.
// Method: small databases and the counts of their tables; random updates,
// snapshots, flushes and compactions against a model.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

// Joins operands, as StringAppend, unless it is told to fail.
class UnreliableOperator : public MergeOperator {
 public:
  enum class Mode { kWorks, kFails, kThrows, kFullOnly };

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    *new_value = "wrong";
    if (mode == Mode::kThrows) throw 1;
    if (mode == Mode::kFails) return false;
    return appending_->FullMerge(input, &(*new_value = ""));
  }
  bool PartialMerge(const Slice& key, const Slice& left, const Slice& right,
                    std::string* new_value) const override {
    if (mode == Mode::kThrows) throw 1;
    if (mode != Mode::kWorks) return false;
    return appending_->PartialMerge(key, left, right, new_value);
  }
  const char* Name() const override { return appending_->Name(); }

  std::atomic<Mode> mode = Mode::kWorks;

 private:
  const std::shared_ptr<MergeOperator> appending_ = NewStringAppendOperator();
};

class DbMergeCompactionTest : public DbTestBase {
 protected:
  DbMergeCompactionTest() {
    options_.disable_auto_compactions = true;
    options_.statistics = NewTestStatistics();
    operator_ = std::make_shared<UnreliableOperator>();
    options_.merge_operator = operator_;
  }

  // Returns a count of entries in all tables.
  uint64_t TableCount(const std::string& kind) {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.aggregated-table-properties", &text));
    const size_t at = text.find("; " + kind + "=");
    return at == std::string::npos
               ? 0
               : std::stoull(text.substr(at + kind.size() + 3));
  }
  uint64_t Operands() { return TableCount("merge operands"); }

  std::shared_ptr<UnreliableOperator> operator_;
};

TEST_F(DbMergeCompactionTest, AFlushMergesAsFarAsItKnowsTheBase) {
  Do("open, put a 1, merge a 2, merge b 3, merge b 4, flush");
  // No older table has the keys. With waste=ignored, a flush does not know
  // that.
  const bool knows = TestAblation().waste != WasteMode::kIgnored;
  const uint64_t of_b = knows ? 0 : 1;
  EXPECT_EQ(Operands(), of_b);
  EXPECT_EQ(TableCount("entries"), 2u);
  Do("merge a 5, merge a 6, flush");
  EXPECT_EQ(Operands(), 1 + of_b);
  EXPECT_EQ(TableCount("entries"), 3u);
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1,2,5,6"}, {"b", "3,4"}}));
  CompactAll();
  EXPECT_EQ(Operands(), 0u);
  EXPECT_EQ(TableCount("entries"), 2u);
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1,2,5,6"}, {"b", "3,4"}}));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1,2,5,6"}, {"b", "3,4"}}));
}

TEST_F(DbMergeCompactionTest, SnapshotsDivideOperands) {
  Do("open, put a 1, merge a 2");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Do("merge a 3, merge a 4, flush");
  EXPECT_EQ(Operands(), 1u);
  CompactAll();
  EXPECT_EQ(Get("a"), "1,2,3,4");
  EXPECT_EQ(Get("a", snapshot), "1,2");
  db_->ReleaseSnapshot(snapshot);
  CompactAll();
  EXPECT_EQ(Operands(), 0u);
  EXPECT_EQ(Get("a"), "1,2,3,4");
}

TEST_F(DbMergeCompactionTest, DeletionsEndOperands) {
  Open();
  for (const char* key : {"a", "b", "c"}) {
    Put(key, "1");
    Merge(key, "2");
  }
  Do("flush, delete a, delete_range b c");
  Do("merge a 3, merge b 3, flush");
  EXPECT_EQ(Operands(), 0u);
  const EntryList expected = {{"a", "3"}, {"b", "3"}, {"c", "1,2"}};
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  EXPECT_EQ(TableCount("entries"), 3u);
}

TEST_F(DbMergeCompactionTest, OperandsOutliveAFailingOperator) {
  using Mode = UnreliableOperator::Mode;
  for (const Mode mode : {Mode::kFails, Mode::kThrows}) {
    OpenAnew();
    Put("a", "1");
    operator_->mode = mode;
    Do("merge a 2, merge a 3, flush, merge a 4, compact");
    EXPECT_GE(options_.statistics->getTickerCount(Ticker::kNumberMergeFailures),
              1u);
    EXPECT_EQ(Operands(), 3u);
    std::string value;
    EXPECT_TRUE(db_->Get({}, "a", &value).IsCorruption());
    Put("b", "the database can be written to");
    operator_->mode = Mode::kWorks;
    EXPECT_EQ(Get("a"), "1,2,3,4");
    CompactAll();
    EXPECT_EQ(Operands(), 0u);
    EXPECT_EQ(Get("a"), "1,2,3,4");
  }
}

TEST_F(DbMergeCompactionTest, OperandsOutliveCompactionsWithoutAnOperator) {
  Do("open, put a 1, merge a 2, merge a 3");
  Close();
  options_.merge_operator = nullptr;
  Do("open, put b 1, compact");
  EXPECT_EQ(Operands(), 2u);
  Close();
  options_.merge_operator = operator_;
  Open();
  EXPECT_EQ(Get("a"), "1,2,3");
  CompactAll();
  EXPECT_EQ(Operands(), 0u);
  EXPECT_EQ(Get("a"), "1,2,3");
}

// The values that all readers should see.
using State = std::map<std::string, std::string>;

TEST_F(DbMergeCompactionTest, RandomUpdatesAgreeWithAModel) {
  using Mode = UnreliableOperator::Mode;
  Rng rng(TestSeed());
  options_.disable_auto_compactions = false;
  for (int round = 0; round < 12; ++round) {
    OpenAnew();
    State state;
    std::vector<std::pair<const Snapshot*, State>> snapshots;
    for (int step = 0; step < 3000; ++step) {
      const std::string key = Key(static_cast<int>(rng.Between(0, 40)));
      const std::string value =
          std::to_string(step) + std::string(rng.Between(0, 60), 'v');
      const uint64_t kind = rng.Between(0, 99);
      if (kind < 10) {
        Put(key, value);
        state[key] = value;
      } else if (kind < 18) {
        Delete(key);
        state.erase(key);
      } else if (kind < 20) {
        const std::string end = Key(static_cast<int>(rng.Between(0, 40)));
        if (end < key) continue;
        ASSERT_TRUE(Ok(db_->DeleteRange({}, key, end)));
        state.erase(state.lower_bound(key), state.lower_bound(end));
      } else if (kind < 22) {
        if (snapshots.size() == 4) continue;
        snapshots.emplace_back(db_->GetSnapshot(), state);
      } else if (kind < 24) {
        if (snapshots.empty()) continue;
        db_->ReleaseSnapshot(snapshots.front().first);
        snapshots.erase(snapshots.begin());
      } else if (kind < 25) {
        operator_->mode = static_cast<Mode>(rng.Between(0, 3));
        if (rng.Between(0, 3) == 0) {
          CompactAll();
        } else {
          Flush();
        }
        operator_->mode = Mode::kWorks;
      } else {
        Merge(key, value);
        std::string& old = state[key];
        old += (old.empty() ? "" : ",") + value;
      }
      if (step % 500 != 499) continue;
      ASSERT_TRUE(HasEntries(db_.get(), EntryList(state.begin(), state.end())));
      for (const auto& [snapshot, old] : snapshots) {
        ASSERT_TRUE(HasEntries(db_.get(), EntryList(old.begin(), old.end()),
                               {.snapshot = snapshot}));
      }
    }
    for (const auto& [snapshot, old] : snapshots) {
      db_->ReleaseSnapshot(snapshot);
    }
    CompactAll();
    EXPECT_EQ(Operands(), 0u);
    ASSERT_TRUE(HasEntries(db_.get(), EntryList(state.begin(), state.end())));
    Reopen();
    ASSERT_TRUE(HasEntries(db_.get(), EntryList(state.begin(), state.end())));
  }
}

}  // namespace
}  // namespace varve::test
