// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: transactions of an OptimisticTransactionDB do what their header says,
// and commit exactly if nothing that they need has changed. Method: one case
// for each rule, with a conflicting write at each moment.

#include "varve/optimistic_transaction_db.h"

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class OptimisticTransactionTest : public ::testing::Test {
 protected:
  OptimisticTransactionTest() : path_(dir_.Sub("db")), options_(TinyOptions()) {
    options_.merge_operator = NewStringAppendOperator();
  }
  void SetUp() override { Open(); }
  void TearDown() override {
    transaction_.reset();
    db_.reset();
  }

  void Open() {
    transaction_.reset();
    db_.reset();
    ASSERT_TRUE(Ok(OptimisticTransactionDB::Open(options_, path_, &db_)));
  }
  void Begin(const OptimisticTransactionOptions& options = {}) {
    transaction_.reset(db_->BeginTransaction({}, options));
  }
  static OptimisticTransactionOptions Serializable() {
    OptimisticTransactionOptions options;
    options.isolation = TransactionIsolation::kSerializable;
    return options;
  }
  void PutOutside(const std::string& key, const std::string& value) {
    ASSERT_TRUE(Ok(db_->Put({}, key, value)));
  }
  std::string Read(const std::string& key, const ReadOptions& options = {}) {
    std::string value;
    return Text(transaction_->Get(options, key, &value), value);
  }
  std::string Lock(const std::string& key) {
    std::string value;
    return Text(transaction_->GetForUpdate({}, key, &value), value);
  }
  std::string Outside(const std::string& key) {
    std::string value;
    return Text(db_->Get({}, key, &value), value);
  }
  static std::string Text(const Status& status, const std::string& value) {
    if (status.ok()) return value;
    return status.IsNotFound() ? "NotFound" : status.ToString();
  }
  void ExpectConflict() {
    const Status status = transaction_->Commit();
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
    EXPECT_EQ(status.subcode(), Status::Subcode::kNone);
    EXPECT_TRUE(Ok(transaction_->Rollback()));
  }
  void FlushAndCompact() {
    ASSERT_TRUE(Ok(db_->Flush({})));
    ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  }

  TempDir dir_;
  const std::string path_;
  Options options_;
  std::unique_ptr<OptimisticTransactionDB> db_;
  std::unique_ptr<Transaction> transaction_;
};

TEST_F(OptimisticTransactionTest, AppliesUpdatesInCommitOnly) {
  PutOutside("a", "0");
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  EXPECT_TRUE(Ok(transaction_->Merge("m", "x")));
  EXPECT_TRUE(Ok(transaction_->Delete("d")));
  EXPECT_TRUE(Ok(transaction_->SingleDelete("s")));
  EXPECT_EQ(Read("a"), "1");
  EXPECT_EQ(Read("m"), "x");
  EXPECT_EQ(Outside("a"), "0");
  EXPECT_EQ(Outside("m"), "NotFound");
  EXPECT_EQ(transaction_->GetNumKeys(), 4u);
  EXPECT_EQ(transaction_->GetNumPuts(), 1u);
  EXPECT_EQ(transaction_->GetNumMerges(), 1u);
  EXPECT_EQ(transaction_->GetNumDeletes(), 2u);
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("a"), "1");
  EXPECT_EQ(Outside("m"), "x");
}

TEST_F(OptimisticTransactionTest, DiscardsUpdatesInRollback) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  EXPECT_TRUE(Ok(transaction_->Rollback()));
  EXPECT_EQ(Read("a"), "NotFound");
  // It can be used again.
  EXPECT_TRUE(Ok(transaction_->Put("b", "2")));
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("a"), "NotFound");
  EXPECT_EQ(Outside("b"), "2");
}

TEST_F(OptimisticTransactionTest, FindsNewerPlainWrites) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "mine")));
  PutOutside("a", "other");
  ExpectConflict();
  EXPECT_EQ(Outside("a"), "other");
}

TEST_F(OptimisticTransactionTest, FindsNewerWritesOfTheBase) {
  DB* const base = db_->GetBaseDB();
  EXPECT_EQ(db_->GetRootDB(), base);
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "mine")));
  EXPECT_TRUE(Ok(base->Put({}, "a", "other")));
  ExpectConflict();
  EXPECT_EQ(Outside("a"), "other");
}

TEST_F(OptimisticTransactionTest, FindsCommitsOfOtherTransactions) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "mine")));
  std::unique_ptr<Transaction> other(db_->BeginTransaction({}));
  EXPECT_TRUE(Ok(other->Put("a", "other")));
  EXPECT_TRUE(Ok(other->Commit()));
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, IgnoresWritesBeforeTheKeyWasUsed) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "mine")));
  PutOutside("b", "other");
  EXPECT_TRUE(Ok(transaction_->Put("b", "mine")));
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("b"), "mine");
}

TEST_F(OptimisticTransactionTest, ChecksKeysSinceTheSnapshot) {
  Begin({.set_snapshot = true});
  PutOutside("b", "other");
  EXPECT_TRUE(Ok(transaction_->Put("b", "mine")));
  ExpectConflict();
  // The snapshot outlives the rollback.
  EXPECT_TRUE(Ok(transaction_->Put("b", "mine")));
  ExpectConflict();
  transaction_->SetSnapshot();
  EXPECT_TRUE(Ok(transaction_->Put("b", "mine")));
  EXPECT_TRUE(Ok(transaction_->Commit()));
}

TEST_F(OptimisticTransactionTest, KeepsTheOldestSnapshotThatACheckNeeds) {
  Begin({.set_snapshot = true});
  EXPECT_TRUE(Ok(transaction_->Put("a", "mine")));
  PutOutside("a", "other");
  transaction_->SetSnapshot();
  transaction_->ClearSnapshot();
  FlushAndCompact();
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, TakesTheSnapshotAtTheNextOperation) {
  struct Notifier : TransactionNotifier {
    void SnapshotCreated(const Snapshot* snapshot) override { seen = snapshot; }
    const Snapshot* seen = nullptr;
  };
  const auto notifier = std::make_shared<Notifier>();
  Begin();
  transaction_->SetSnapshotOnNextOperation(notifier);
  EXPECT_EQ(transaction_->GetSnapshot(), nullptr);
  PutOutside("a", "0");
  EXPECT_EQ(Read("a"), "0");
  EXPECT_EQ(transaction_->GetSnapshot(), nullptr);
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  EXPECT_NE(notifier->seen, nullptr);
  EXPECT_EQ(transaction_->GetSnapshot(), notifier->seen);
  EXPECT_TRUE(Ok(transaction_->Commit()));
}

TEST_F(OptimisticTransactionTest, ChecksKeysThatWereReadForUpdate) {
  PutOutside("a", "0");
  for (const std::string key : {"a", "absent"}) {
    Begin();
    EXPECT_EQ(Lock(key), key == "a" ? "0" : "NotFound");
    EXPECT_TRUE(Ok(transaction_->Put("b", "1")));
    PutOutside(key, "other");
    ExpectConflict();
  }
  Begin();
  EXPECT_EQ(Lock("a"), "other");
  PutOutside("a", "again");
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, UndoesGetForUpdate) {
  PutOutside("a", "0");
  Begin();
  EXPECT_EQ(Lock("a"), "0");
  EXPECT_EQ(Lock("a"), "0");
  transaction_->UndoGetForUpdate("a");
  EXPECT_EQ(transaction_->GetNumKeys(), 1u);
  transaction_->UndoGetForUpdate("a");
  EXPECT_EQ(transaction_->GetNumKeys(), 0u);
  transaction_->UndoGetForUpdate("a");
  // A key that was written stays.
  EXPECT_TRUE(Ok(transaction_->Put("b", "1")));
  EXPECT_EQ(Lock("b"), "1");
  transaction_->UndoGetForUpdate("b");
  EXPECT_EQ(transaction_->GetNumKeys(), 1u);
  // Nor does it reach beyond the save point.
  EXPECT_EQ(Lock("a"), "0");
  transaction_->SetSavePoint();
  transaction_->UndoGetForUpdate("a");
  EXPECT_EQ(transaction_->GetNumKeys(), 2u);
  EXPECT_TRUE(Ok(transaction_->PopSavePoint()));
  transaction_->UndoGetForUpdate("a");
  EXPECT_EQ(transaction_->GetNumKeys(), 1u);
  PutOutside("a", "other");
  EXPECT_TRUE(Ok(transaction_->Commit()));
}

TEST_F(OptimisticTransactionTest, RollsBackToSavePoints) {
  Begin();
  EXPECT_TRUE(transaction_->RollbackToSavePoint().IsNotFound());
  EXPECT_TRUE(transaction_->PopSavePoint().IsNotFound());
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  transaction_->SetSavePoint();
  EXPECT_TRUE(Ok(transaction_->Put("a", "2")));
  EXPECT_TRUE(Ok(transaction_->Put("b", "2")));
  EXPECT_TRUE(Ok(transaction_->DeleteRange("r", "s")));
  transaction_->SetSavePoint();
  EXPECT_TRUE(Ok(transaction_->Delete("c")));
  EXPECT_TRUE(Ok(transaction_->PopSavePoint()));
  EXPECT_EQ(transaction_->GetNumKeys(), 3u);
  EXPECT_TRUE(Ok(transaction_->RollbackToSavePoint()));
  EXPECT_EQ(transaction_->GetNumKeys(), 1u);
  EXPECT_EQ(transaction_->GetNumPuts(), 1u);
  EXPECT_EQ(transaction_->GetNumDeletes(), 0u);
  EXPECT_EQ(Read("a"), "1");
  EXPECT_EQ(Read("b"), "NotFound");
  PutOutside("b", "other");
  PutOutside("c", "other");
  PutOutside("r1", "other");
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("r1"), "other");
}

TEST_F(OptimisticTransactionTest, RestoresTheSnapshotOfTheSavePoint) {
  Begin({.set_snapshot = true});
  const Snapshot* const first = transaction_->GetSnapshot();
  const uint64_t sequence = first->GetSequenceNumber();
  transaction_->SetSavePoint();
  PutOutside("a", "1");
  transaction_->SetSnapshot();
  EXPECT_NE(transaction_->GetSnapshot()->GetSequenceNumber(), sequence);
  EXPECT_TRUE(Ok(transaction_->RollbackToSavePoint()));
  EXPECT_EQ(transaction_->GetSnapshot(), first);
  EXPECT_EQ(first->GetSequenceNumber(), sequence);
}

TEST_F(OptimisticTransactionTest, ChecksNoUntrackedUpdates) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->PutUntracked("a", "mine")));
  EXPECT_TRUE(Ok(transaction_->MergeUntracked("m", "mine")));
  EXPECT_TRUE(Ok(transaction_->DeleteUntracked("d")));
  EXPECT_TRUE(Ok(transaction_->SingleDeleteUntracked("s")));
  EXPECT_EQ(transaction_->GetNumKeys(), 0u);
  EXPECT_EQ(Read("a"), "mine");
  for (const std::string key : {"a", "m", "d"}) PutOutside(key, "other");
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("a"), "mine");
  EXPECT_EQ(Outside("m"), "other,mine");
  EXPECT_EQ(Outside("d"), "NotFound");
}

TEST_F(OptimisticTransactionTest, AssumesTrackedKeysThatAreTracked) {
  Begin();
  EXPECT_TRUE(transaction_->Put(nullptr, "a", "1", true).IsInvalidArgument());
  EXPECT_EQ(Lock("a"), "NotFound");
  EXPECT_TRUE(Ok(transaction_->Put(nullptr, "a", "1", true)));
  EXPECT_TRUE(Ok(transaction_->Commit()));
}

// Neither a flush nor a compaction hides a conflict, nor makes up one.
TEST_F(OptimisticTransactionTest, ValidatesAfterFlushAndCompaction) {
  for (const bool conflict : {false, true}) {
    PutOutside("a", "0");
    PutOutside("b", "0");
    Begin();
    EXPECT_EQ(Lock("a"), "0");
    EXPECT_TRUE(Ok(transaction_->Put("c", "1")));
    PutOutside(conflict ? "a" : "b", "1");
    FlushAndCompact();
    if (conflict) {
      ExpectConflict();
    } else {
      EXPECT_TRUE(Ok(transaction_->Commit()));
    }
  }
}

TEST_F(OptimisticTransactionTest, ChecksDeletedRanges) {
  Begin();
  EXPECT_TRUE(transaction_->DeleteRange("b", "a").IsInvalidArgument());
  EXPECT_TRUE(Ok(transaction_->DeleteRange("b", "d")));
  PutOutside("d", "1");
  EXPECT_TRUE(Ok(transaction_->Commit()));
  Begin();
  EXPECT_TRUE(Ok(transaction_->DeleteRange("b", "d")));
  PutOutside("c", "1");
  ExpectConflict();
  EXPECT_EQ(Outside("c"), "1");
}

TEST_F(OptimisticTransactionTest, IteratesOverItsUpdates) {
  PutOutside("a", "0");
  PutOutside("c", "0");
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("b", "1")));
  EXPECT_TRUE(Ok(transaction_->Delete("c")));
  const auto it = transaction_->GetIterator({});
  std::string text;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    text += it->key().ToString() + it->value().ToString();
  }
  EXPECT_EQ(text, "a0b1");
}

TEST_F(OptimisticTransactionTest, ReadsSeveralKeys) {
  PutOutside("a", "0");
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("b", "1")));
  std::vector<std::string> values;
  auto statuses = transaction_->MultiGet({}, {"a", "b", "c"}, &values);
  ASSERT_EQ(statuses.size(), 3u);
  EXPECT_EQ(values, (std::vector<std::string>{"0", "1", ""}));
  EXPECT_TRUE(statuses[2].IsNotFound());
  statuses = transaction_->MultiGetForUpdate({}, {"a", "c"}, &values);
  EXPECT_EQ(values, (std::vector<std::string>{"0", ""}));
  EXPECT_EQ(transaction_->GetNumKeys(), 3u);
  statuses = transaction_->MultiGet({}, {nullptr}, {"a", "c"}, &values);
  EXPECT_TRUE(statuses[0].IsInvalidArgument());
  PinnableSlice pinned[2];
  Status each[2];
  const Slice keys[2] = {"a", "b"};
  transaction_->MultiGet({}, nullptr, 2, keys, pinned, each);
  EXPECT_EQ(pinned[1].ToString(), "1");
  PutOutside("c", "other");
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, UsesAnObjectAgain) {
  Begin({.set_snapshot = true});
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  transaction_->SetSavePoint();
  Transaction* const again = db_->BeginTransaction({}, {}, transaction_.get());
  EXPECT_EQ(again, transaction_.get());
  EXPECT_EQ(again->GetSnapshot(), nullptr);
  EXPECT_EQ(again->GetNumKeys(), 0u);
  EXPECT_EQ(again->GetNumPuts(), 0u);
  EXPECT_TRUE(again->PopSavePoint().IsNotFound());
  EXPECT_EQ(Read("a"), "NotFound");
  PutOutside("a", "other");
  EXPECT_TRUE(Ok(again->Put("a", "1")));
  EXPECT_TRUE(Ok(again->Commit()));
  EXPECT_EQ(Outside("a"), "1");
}

TEST_F(OptimisticTransactionTest, CreatesASnapshotWithTheCommit) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  std::shared_ptr<const Snapshot> snapshot;
  EXPECT_TRUE(Ok(transaction_->CommitAndTryCreateSnapshot(
      nullptr, kMaxTxnTimestamp, &snapshot)));
  PutOutside("a", "2");
  ReadOptions at;
  at.snapshot = snapshot.get();
  EXPECT_EQ(Read("a", at), "1");
  at.snapshot = transaction_->GetSnapshot();
  EXPECT_EQ(Read("a", at), "1");
}

TEST_F(OptimisticTransactionTest, AppliesTheCommitTimeBatch) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  transaction_->GetCommitTimeWriteBatch()->Put("b", "2");
  EXPECT_EQ(Read("b"), "NotFound");
  PutOutside("b", "other");
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("b"), "2");
}

TEST_F(OptimisticTransactionTest, IsRebuiltFromABatch) {
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Merge("m", "1");
  batch.Delete("d");
  batch.SingleDelete("s");
  batch.DeleteRange("x", "y");
  Begin();
  EXPECT_TRUE(Ok(transaction_->RebuildFromWriteBatch(&batch)));
  EXPECT_EQ(Read("a"), "1");
  EXPECT_EQ(transaction_->GetNumKeys(), 4u);
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("m"), "1");
}

TEST_F(OptimisticTransactionTest, RefusesTwoPhases) {
  Begin();
  EXPECT_TRUE(transaction_->SetName("x").IsInvalidArgument());
  EXPECT_TRUE(transaction_->Prepare().IsNotSupported());
}

TEST_F(OptimisticTransactionTest, UpdatesColumnFamilies) {
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "f", &family)));
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put(family, "a", "1")));
  PutOutside("a", "default");
  EXPECT_TRUE(Ok(transaction_->Commit()));
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put(family, "a", "2")));
  EXPECT_TRUE(Ok(db_->Put({}, family, "a", "other")));
  ExpectConflict();
  WriteBatch batch;
  batch.Put(family, "a", "3");
  EXPECT_TRUE(Ok(transaction_->RebuildFromWriteBatch(&batch)));
  EXPECT_TRUE(Ok(transaction_->Commit()));
  std::string value;
  EXPECT_TRUE(Ok(db_->Get({}, family, "a", &value)));
  EXPECT_EQ(value, "3");
  ASSERT_TRUE(Ok(db_->DropColumnFamily(family)));
  EXPECT_TRUE(Ok(transaction_->Put(family, "a", "4")));
  EXPECT_TRUE(transaction_->Commit().IsInvalidArgument());
  EXPECT_TRUE(Ok(transaction_->Rollback()));
  EXPECT_TRUE(transaction_->RebuildFromWriteBatch(&batch).IsInvalidArgument());
  EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

TEST_F(OptimisticTransactionTest, FoldsKeys) {
  options_.key_case = KeyCase::kInsensitive;
  std::filesystem::remove_all(path_);
  Open();
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("Key", "1")));
  EXPECT_EQ(Read("KEY"), "1");
  PutOutside("kEY", "other");
  ExpectConflict();
  EXPECT_EQ(Lock("KEY"), "other");
  EXPECT_TRUE(Ok(transaction_->Put("key", "2")));
  EXPECT_EQ(transaction_->GetNumKeys(), 1u);
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_EQ(Outside("KEY"), "2");
}

TEST_F(OptimisticTransactionTest, CountsOutcomes) {
  options_.statistics = CreateDBStatistics();
  Open();
  const auto count = [this](Ticker ticker) {
    return options_.statistics->getTickerCount(ticker);
  };
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  EXPECT_TRUE(Ok(transaction_->Commit()));
  EXPECT_TRUE(Ok(transaction_->Put("a", "2")));
  PutOutside("a", "other");
  ExpectConflict();
  EXPECT_EQ(count(Ticker::kTransactionCommits), 1u);
  EXPECT_EQ(count(Ticker::kTransactionConflicts), 1u);
  EXPECT_EQ(count(Ticker::kTransactionRollbacks), 1u);
}

// A closed database accepts no updates, and its transactions can be destroyed.
TEST_F(OptimisticTransactionTest, OutlivesClose) {
  for (const TransactionIsolation isolation :
       {TransactionIsolation::kSnapshot, TransactionIsolation::kSerializable}) {
    Open();
    OptimisticTransactionOptions options;
    options.isolation = isolation;
    Begin(options);
    ASSERT_TRUE(Ok(db_->Close()));
    std::string value;
    EXPECT_TRUE(transaction_->Get({}, "a", &value).IsShutdownInProgress());
    EXPECT_TRUE(
        transaction_->GetForUpdate({}, "a", &value).IsShutdownInProgress());
    EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
    EXPECT_TRUE(transaction_->Commit().IsShutdownInProgress());
    EXPECT_TRUE(transaction_->GetIterator({})->status().IsShutdownInProgress());
    transaction_->SetSnapshot();
    EXPECT_TRUE(Ok(transaction_->Rollback()));
  }
}

TEST_F(OptimisticTransactionTest, KeepsTheDatabaseOpenWhileItPins) {
  Begin();
  EXPECT_TRUE(Ok(transaction_->Put("a", "1")));
  EXPECT_TRUE(db_->Close().IsBusy());
  EXPECT_TRUE(Ok(transaction_->Rollback()));
  EXPECT_TRUE(Ok(db_->Close()));
}

// ---- Serializable -----------------------------------------------------------

TEST_F(OptimisticTransactionTest, SerializableReadsOneState) {
  PutOutside("a", "0");
  PutOutside("b", "0");
  Begin(Serializable());
  EXPECT_EQ(Read("a"), "0");
  PutOutside("a", "1");
  PutOutside("b", "1");
  EXPECT_EQ(Read("a"), "0");
  EXPECT_EQ(Read("b"), "0");
  // A transaction that only reads one state needs no check.
  EXPECT_TRUE(Ok(transaction_->Commit()));
}

TEST_F(OptimisticTransactionTest, SerializableReadsSeveralKeysOfItsState) {
  PutOutside("a", "0");
  Begin(Serializable());
  EXPECT_EQ(Read("a"), "0");
  PutOutside("a", "1");
  std::vector<std::string> values;
  transaction_->MultiGet({}, {"a", "b"}, &values);
  EXPECT_EQ(values[0], "0");
  PinnableSlice pinned[1];
  Status statuses[1];
  const Slice keys[1] = {"a"};
  transaction_->MultiGet({}, nullptr, 1, keys, pinned, statuses);
  EXPECT_EQ(pinned[0].ToString(), "0");
  EXPECT_TRUE(Ok(transaction_->Put("c", "1")));
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, SerializableHasNoWriteSkew) {
  PutOutside("a", "1");
  PutOutside("b", "1");
  Begin(Serializable());
  std::unique_ptr<Transaction> other(db_->BeginTransaction({}, Serializable()));
  std::string value;
  EXPECT_EQ(Read("a"), "1");
  EXPECT_TRUE(Ok(transaction_->Put("b", "0")));
  EXPECT_TRUE(Ok(other->Get({}, "b", &value)));
  EXPECT_TRUE(Ok(other->Put("a", "0")));
  EXPECT_TRUE(Ok(other->Commit()));
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, SerializableChecksAbsentKeys) {
  Begin(Serializable());
  EXPECT_EQ(Read("absent"), "NotFound");
  EXPECT_TRUE(Ok(transaction_->Put("b", "0")));
  PutOutside("absent", "1");
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, SerializableKeepsReadsAfterRollbacks) {
  Begin(Serializable());
  transaction_->SetSavePoint();
  EXPECT_EQ(Read("a"), "NotFound");
  EXPECT_TRUE(Ok(transaction_->RollbackToSavePoint()));
  EXPECT_TRUE(Ok(transaction_->Put("b", "0")));
  PutOutside("a", "1");
  ExpectConflict();
}

TEST_F(OptimisticTransactionTest, SerializableRefusesOlderSnapshots) {
  const Snapshot* const old = db_->GetSnapshot();
  PutOutside("a", "1");
  Begin(Serializable());
  EXPECT_EQ(Read("a"), "1");
  ReadOptions at;
  at.snapshot = old;
  std::string value;
  EXPECT_TRUE(transaction_->Get(at, "a", &value).IsInvalidArgument());
  EXPECT_TRUE(transaction_->GetIterator(at)->status().IsInvalidArgument());
  db_->ReleaseSnapshot(old);
}

// Moves an iterator over c to g, and writes a key outside. `moves` is a text of
// F and L (first and last), S and P with a key (Seek and SeekForPrev), and
// > and < (Next and Prev).
struct PhantomCase {
  const char* moves;
  const char* lower;
  const char* upper;
  const char* conflicts;  // The keys that were read.
  const char* others;
};

class PhantomTest : public OptimisticTransactionTest {
 protected:
  bool Conflicts(const PhantomCase& test, const std::string& written,
                 bool keep_iterator) {
    for (const std::string key : {"c", "e", "g"}) PutOutside(key, "0");
    Begin(Serializable());
    ReadOptions options;
    const Slice lower(test.lower);
    const Slice upper(test.upper);
    if (!lower.empty()) options.iterate_lower_bound = &lower;
    if (!upper.empty()) options.iterate_upper_bound = &upper;
    std::unique_ptr<Iterator> it = transaction_->GetIterator(options);
    for (const char* move = test.moves; *move != 0; ++move) {
      switch (*move) {
        case 'F':
          it->SeekToFirst();
          break;
        case 'L':
          it->SeekToLast();
          break;
        case 'S':
          it->Seek(Slice(++move, 1));
          break;
        case 'P':
          it->SeekForPrev(Slice(++move, 1));
          break;
        case '>':
          it->Next();
          break;
        default:
          it->Prev();
      }
    }
    EXPECT_TRUE(Ok(it->status()));
    if (!keep_iterator) it.reset();
    EXPECT_TRUE(Ok(transaction_->Put("z", "1")));
    PutOutside(written, "1");
    const Status status = transaction_->Commit();
    EXPECT_TRUE(status.ok() || status.IsBusy()) << status.ToString();
    it.reset();
    EXPECT_TRUE(Ok(transaction_->Rollback()));
    EXPECT_TRUE(Ok(db_->Delete({}, written)));
    EXPECT_TRUE(Ok(db_->Delete({}, "z")));
    return !status.ok();
  }
};

TEST_F(PhantomTest, ChecksRangesOfIterators) {
  const PhantomCase cases[] = {
      {"", "", "", "", "aceg"},          {"F", "", "", "abc", "defg"},
      {"F>", "", "", "abcde", "fgh"},    {"F>>>", "", "", "abcdefghz", ""},
      {"L", "", "", "ghi", "abcdef"},    {"L<", "", "", "efghi", "abcd"},
      {"L<<<", "", "", "abcdefghi", ""}, {"Sd", "", "", "de", "abcfg"},
      {"Sd>", "", "", "defg", "abch"},   {"Sh", "", "", "hi", "abcdefg"},
      {"Pd", "", "", "cd", "abefg"},     {"Pf<", "", "", "cdef", "abgh"},
      {"Sd><<", "", "", "cdefg", "abh"}, {"Pf<>>", "", "", "cdefg", "abh"},
      {"ScSg", "", "", "cg", "abdefh"},  {"F>>", "b", "f", "bcde", "afgh"},
      {"L<", "d", "f", "de", "abcfg"},   {"Sa", "d", "f", "de", "abcfg"},
      {"Pz", "b", "d", "c", "abdefg"},   {"Sx", "b", "d", "", "abcdefgx"},
  };
  for (const PhantomCase& test : cases) {
    for (const bool keep : {false, true}) {
      SCOPED_TRACE(std::string(test.moves) + (keep ? " kept" : ""));
      for (const char key : std::string(test.conflicts)) {
        EXPECT_TRUE(Conflicts(test, std::string(1, key), keep)) << key;
      }
      for (const char key : std::string(test.others)) {
        EXPECT_FALSE(Conflicts(test, std::string(1, key), keep)) << key;
      }
    }
  }
}

}  // namespace
}  // namespace varve::test
