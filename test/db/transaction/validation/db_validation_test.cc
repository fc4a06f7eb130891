// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a checked write is refused if and only if something of its check has
// changed, wherever the change is by then. Method: each kind of change of a
// key, moved to each place of the database, is looked for by its key and by
// ranges around it.

#include "db/engine/db_impl.h"
#include "db/transaction/validation/commit_check.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

const Slice kKey("k");

class DbValidationTest : public DbTestBase {
 protected:
  DbValidationTest() {
    options_.merge_operator = NewMaxOperator();
    options_.disable_auto_compactions = true;
  }

  DBImpl* db() { return static_cast<DBImpl*>(db_.get()); }
  Status CheckKey(const Slice& key, SequenceNumber since) {
    check_.Clear();
    check_.AddKey(0, key, since);
    return Checked();
  }
  Status CheckRange(const char* begin, const char* end, bool inclusive,
                    SequenceNumber since) {
    check_.Clear();
    const Slice first(begin == nullptr ? "" : begin);
    const Slice last(end == nullptr ? "" : end);
    check_.AddRange(0, begin == nullptr ? nullptr : &first,
                    end == nullptr ? nullptr : &last, inclusive, since);
    return Checked();
  }
  // Validates without a write.
  Status Checked() {
    WriteBatch empty;
    return db()->WriteChecked({}, &empty, check_);
  }

  CommitCheck check_;
};

// Where the updates of a test are moved to before the test looks for them.
const char* const kMoves[] = {
    "put x 1",
    "flush",
    "flush, compact",
    "put x 1, flush, put x 2, flush",
    "put 0 1, put z 1, flush, compact",
    // The change is in a level below level 0.
    "flush, compact, put 0 2, flush",
};

// Keys with a prefix of their own, and the same steps for each.
class Places {
 public:
  // `befores` come before the snapshot, `changes` after it. "k" is the key.
  Places(const std::vector<std::string>& befores,
         const std::vector<std::string>& changes) {
    for (const std::string& before : befores) {
      for (const std::string& change : changes) {
        cases_.push_back({before, change});
      }
    }
  }

  size_t size() const { return cases_.size(); }
  std::string Describe(size_t i) const {
    return cases_[i].first + "; " + cases_[i].second;
  }
  static std::string In(size_t i, const std::string& key) {
    return "p" + std::to_string(100 + i) + key;
  }
  std::string Befores() const { return All(&Case::first); }
  std::string Changes() const { return All(&Case::second); }

 private:
  using Case = std::pair<std::string, std::string>;

  std::string All(std::string Case::*steps) const {
    std::string all;
    for (size_t i = 0; i < cases_.size(); i++) {
      std::istringstream words(cases_[i].*steps);
      for (std::string word; words >> word;) {
        // Keys have one or two letters, and no other word has.
        const bool is_key = word.size() <= 2 && word[0] >= 'a';
        all += (is_key ? In(i, word) : word) + " ";
      }
      all += ", ";
    }
    return all + "put x 0";
  }

  std::vector<Case> cases_;
};

TEST_F(DbValidationTest, FindsEachChangeInEachPlace) {
  const Places places(
      {"put a 1", "put k 1", "put a 1, put k 1", "delete_range a z"},
      {"put k 2", "delete k", "merge k 2", "delete_range k l",
       "delete_range a m", "put k 2, single_delete k", "put k 2, delete k"});
  for (const std::string before : {"put x 1", "flush", "flush, compact"}) {
    for (const std::string move : kMoves) {
      OpenAnew();
      Do(places.Befores() + ", " + before + ", snap");
      const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
      Do(places.Changes() + ", " + move);
      const SequenceNumber now = db_->GetLatestSequenceNumber();
      for (size_t i = 0; i < places.size(); i++) {
        SCOPED_TRACE(places.Describe(i) + "; before: " + before +
                     "; after: " + move);
        const std::string j = Places::In(i, "j");
        const std::string k = Places::In(i, "k");
        const std::string l = Places::In(i, "l");
        EXPECT_TRUE(CheckKey(k, since).IsBusy());
        EXPECT_TRUE(db()->CheckUnchanged(nullptr, k, since).IsBusy());
        EXPECT_TRUE(CheckRange(j.c_str(), l.c_str(), false, since).IsBusy());
        EXPECT_TRUE(CheckRange(k.c_str(), k.c_str(), true, since).IsBusy());
        EXPECT_TRUE(Ok(CheckKey(k, now)));
        EXPECT_TRUE(Ok(db()->CheckUnchanged(nullptr, k, now)));
        EXPECT_TRUE(Ok(CheckRange(j.c_str(), l.c_str(), false, now)));
      }
      EXPECT_TRUE(CheckRange(nullptr, nullptr, false, since).IsBusy());
      EXPECT_TRUE(CheckRange(nullptr, "p100k", true, since).IsBusy());
      EXPECT_TRUE(CheckRange("p100k", nullptr, false, since).IsBusy());
      EXPECT_TRUE(Ok(CheckRange(nullptr, nullptr, false, now)));
      ReleaseSnapshots();
      if (HasFailure()) return;
    }
  }
}

TEST_F(DbValidationTest, OtherChangesAreNoConflict) {
  const Places places({"put a 1", "put k 1", "put j 1, put l 1"},
                      {"put j 1", "put kk 1", "delete l", "delete_range a k",
                       "delete_range ka l"});
  for (const std::string before : {"put x 1", "flush, compact"}) {
    for (const std::string move : kMoves) {
      OpenAnew();
      Do(places.Befores() + ", " + before + ", snap");
      const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
      Do(places.Changes() + ", " + move);
      for (size_t i = 0; i < places.size(); i++) {
        SCOPED_TRACE(places.Describe(i) + "; before: " + before +
                     "; after: " + move);
        const std::string k = Places::In(i, "k");
        const std::string ka = Places::In(i, "ka");
        EXPECT_TRUE(Ok(CheckKey(k, since)));
        EXPECT_TRUE(Ok(db()->CheckUnchanged(nullptr, k, since)));
        EXPECT_TRUE(Ok(CheckRange(k.c_str(), k.c_str(), true, since)));
        EXPECT_TRUE(Ok(CheckRange(k.c_str(), ka.c_str(), false, since)));
      }
      ReleaseSnapshots();
      if (HasFailure()) return;
    }
  }
}

// A range that is read in the table must not be found beside the range.
TEST_F(DbValidationTest, BoundsOfRanges) {
  Open();
  Do("snap, put k 1, delete_range p r");
  const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
  for (const char* move : {"put z 1", "flush"}) {
    SCOPED_TRACE(move);
    Do(move);
    EXPECT_TRUE(Ok(CheckRange("j", "k", false, since)));
    EXPECT_TRUE(CheckRange("j", "k", true, since).IsBusy());
    EXPECT_TRUE(Ok(CheckRange("ka", "p", false, since)));
    EXPECT_TRUE(CheckRange("ka", "p", true, since).IsBusy());
    EXPECT_TRUE(CheckRange("q", "q", true, since).IsBusy());
    EXPECT_TRUE(Ok(CheckRange("r", "y", true, since)));
    EXPECT_TRUE(Ok(CheckRange(nullptr, "k", false, since)));
  }
  ReleaseSnapshots();
}

TEST_F(DbValidationTest, WritesOnlyIfUnchanged) {
  Open();
  Do("put k 1, snap, put k 2");
  WriteBatch batch;
  batch.Put(kKey, "mine");
  check_.AddKey(0, kKey, snapshots_[0]->GetSequenceNumber());
  const SequenceNumber before = db_->GetLatestSequenceNumber();
  const Status refused = db()->WriteChecked({}, &batch, check_);
  EXPECT_TRUE(refused.IsBusy());
  EXPECT_EQ(refused.subcode(), Status::Subcode::kNone);
  EXPECT_EQ(Get("k"), "2");
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before);
  check_.Clear();
  EXPECT_TRUE(check_.empty());
  check_.AddKey(0, kKey, before);
  check_.AddKey(0, "absent", before);
  EXPECT_TRUE(Ok(db()->WriteChecked({.sync = true}, &batch, check_)));
  EXPECT_EQ(Get("k"), "mine");
  // Its own write is a change, too.
  EXPECT_TRUE(db()->WriteChecked({}, &batch, check_).IsBusy());
  ReleaseSnapshots();
}

TEST_F(DbValidationTest, OtherOrders) {
  options_.comparator = ReverseBytewiseComparator();
  for (const char* move : {"put x 1", "flush", "flush, compact"}) {
    OpenAnew();
    Do("put k 1, snap, put k 2");
    const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
    Do(move);
    EXPECT_TRUE(CheckKey(kKey, since).IsBusy());
    EXPECT_TRUE(Ok(CheckKey("j", since)));
    EXPECT_TRUE(CheckRange("l", "j", false, since).IsBusy());
    EXPECT_TRUE(Ok(CheckRange("l", "k", false, since)));
    EXPECT_TRUE(Ok(CheckRange("j", "a", false, since)));
    EXPECT_TRUE(CheckRange(nullptr, "k", true, since).IsBusy());
    ReleaseSnapshots();
  }
}

TEST_F(DbValidationTest, Families) {
  Open();
  ColumnFamilyHandle* other = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &other)));
  const std::unique_ptr<ColumnFamilyHandle> handle(other);
  Do("snap");
  const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
  ASSERT_TRUE(Ok(db_->Put({}, other, "k", "1")));
  for (const char* move : {"put x 1", "flush"}) {
    Do(move);
    EXPECT_TRUE(Ok(CheckKey(kKey, since)));
    EXPECT_TRUE(db()->CheckUnchanged(other, kKey, since).IsBusy());
    check_.Clear();
    check_.AddKey(0, kKey, since);
    check_.AddKey(other->GetID(), "j", since);
    EXPECT_TRUE(Ok(Checked()));
    check_.AddKey(other->GetID(), kKey, since);
    EXPECT_TRUE(Checked().IsBusy());
    ASSERT_TRUE(Ok(db_->Flush({}, other)));
  }
  ASSERT_TRUE(Ok(db_->DropColumnFamily(other)));
  EXPECT_TRUE(Checked().IsInvalidArgument());
  WriteBatch batch;
  batch.Put(kKey, "2");
  EXPECT_TRUE(db()->WriteChecked({}, &batch, check_).IsInvalidArgument());
  EXPECT_EQ(Get("k"), "NotFound");
  // The handle can still be read.
  EXPECT_TRUE(db()->CheckUnchanged(other, kKey, since).IsBusy());
  ReleaseSnapshots();
}

// A key may be tracked after the snapshot that protects it.
TEST_F(DbValidationTest, NumbersAfterTheSnapshot) {
  for (const std::string move : kMoves) {
    SCOPED_TRACE(move);
    OpenAnew();
    Do("put a 1, snap, put k 1");
    const SequenceNumber since = db_->GetLatestSequenceNumber();
    Do("put b 1");
    EXPECT_TRUE(Ok(CheckKey(kKey, since)));
    Do("single_delete k");
    Do(move);
    EXPECT_TRUE(CheckKey(kKey, since).IsBusy());
    ReleaseSnapshots();
  }
}

TEST_F(DbValidationTest, WrongCallsAndClosedDatabases) {
  Open();
  Do("put k 1");
  check_.AddKey(0, kKey, db_->GetLatestSequenceNumber());
  EXPECT_TRUE(db()->WriteChecked({}, nullptr, check_).IsInvalidArgument());
  WriteBatch batch;
  batch.Put(kKey, "2");
  ASSERT_TRUE(Ok(db_->Close()));
  EXPECT_TRUE(db()->WriteChecked({}, &batch, check_).IsShutdownInProgress());
  EXPECT_TRUE(Checked().IsShutdownInProgress());
  EXPECT_TRUE(db()->CheckUnchanged(nullptr, kKey, 1).IsShutdownInProgress());
  db_.reset();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(db()->WriteChecked({}, &batch, check_).IsNotSupported());
}

}  // namespace
}  // namespace varve::test
