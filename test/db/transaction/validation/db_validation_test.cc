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

// Returns the changes of all places, each of them after `before`.
std::vector<std::string> Moves() {
  return {
      "put x 1",
      "flush",
      "flush, compact",
      "put x 1, flush, put x 2, flush",
      "compact, put a 1, put z 1, flush, compact",
      // The change is in a level below level 0.
      "flush, compact, put a 2, flush",
  };
}

TEST_F(DbValidationTest, FindsEachChangeInEachPlace) {
  const std::vector<std::string> befores = {
      "put a 1", "put k 1", "put k 1, flush",
      "put a 1, put k 1, flush, compact", "delete_range a z, flush"};
  const std::vector<std::string> changes = {
      "put k 2",          "delete k",         "merge k 2",
      "delete_range k l", "delete_range a m", "put k 2, single_delete k",
      "put k 2, delete k"};
  for (const std::string& before : befores) {
    for (const std::string& change : changes) {
      for (const std::string& move : Moves()) {
        SCOPED_TRACE(before + "; " + change + "; " + move);
        OpenAnew();
        Do(before);
        Do("snap");
        const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
        EXPECT_TRUE(Ok(CheckKey(kKey, since)));
        EXPECT_TRUE(Ok(CheckRange("j", "l", false, since)));
        Do(change + ", " + move);
        EXPECT_TRUE(CheckKey(kKey, since).IsBusy());
        EXPECT_TRUE(db()->CheckUnchanged(nullptr, kKey, since).IsBusy());
        EXPECT_TRUE(CheckRange("j", "l", false, since).IsBusy());
        EXPECT_TRUE(CheckRange("k", "k", true, since).IsBusy());
        EXPECT_TRUE(CheckRange(nullptr, nullptr, false, since).IsBusy());
        EXPECT_TRUE(CheckRange(nullptr, "k", true, since).IsBusy());
        EXPECT_TRUE(CheckRange("k", nullptr, false, since).IsBusy());
        const SequenceNumber now = db_->GetLatestSequenceNumber();
        EXPECT_TRUE(Ok(CheckKey(kKey, now)));
        EXPECT_TRUE(Ok(db()->CheckUnchanged(nullptr, kKey, now)));
        EXPECT_TRUE(Ok(CheckRange(nullptr, nullptr, false, now)));
        ReleaseSnapshots();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DbValidationTest, OtherChangesAreNoConflict) {
  for (const std::string before : {"put a 1", "put k 1, flush, compact"}) {
    for (const std::string change : {"put j 1", "put kk 1", "delete l",
                                     "delete_range a k", "delete_range ka l"}) {
      for (const std::string& move : Moves()) {
        SCOPED_TRACE(before + "; " + change + "; " + move);
        OpenAnew();
        Do(before);
        Do("snap");
        const SequenceNumber since = snapshots_[0]->GetSequenceNumber();
        Do(change + ", " + move);
        EXPECT_TRUE(Ok(CheckKey(kKey, since)));
        EXPECT_TRUE(Ok(db()->CheckUnchanged(nullptr, kKey, since)));
        EXPECT_TRUE(Ok(CheckRange("k", "k", true, since)));
        EXPECT_TRUE(Ok(CheckRange("k", "ka", false, since)));
        ReleaseSnapshots();
        if (HasFailure()) return;
      }
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
  for (const std::string& move : Moves()) {
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
