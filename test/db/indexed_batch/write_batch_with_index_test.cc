// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an indexed batch reads as its header says. Method: small batches of
// each kind of update over a small database, and each error.

#include "varve/write_batch_with_index.h"

#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class WriteBatchWithIndexTest : public DbTestBase {
 protected:
  WriteBatchWithIndexTest() {
    options_.merge_operator = NewStringAppendOperator();
  }

  ColumnFamilyHandle* family() { return db_->DefaultColumnFamily(); }
  std::string InBatch(const std::string& key) {
    std::string value = "stale";
    return ValueOr(batch_.GetFromBatch(family(), {}, key, &value), value);
  }
  std::string InBoth(const std::string& key) {
    std::string value = "stale";
    const Status status = batch_.GetFromBatchAndDB(db_.get(), {}, key, &value);
    PinnableSlice pinned;
    const Status again =
        batch_.GetFromBatchAndDB(db_.get(), {}, family(), key, &pinned);
    EXPECT_EQ(again.ToString(), status.ToString());
    EXPECT_EQ(pinned.ToString(), value);
    return ValueOr(status, value);
  }
  static std::string ValueOr(const Status& status, const std::string& value) {
    if (status.ok()) return value;
    EXPECT_EQ(value, "");
    return status.IsNotFound() ? "NotFound" : status.ToString();
  }
  // The updates that an iterator shows, forward.
  std::string Updates() {
    std::string text;
    const auto it = batch_.NewIterator(family());
    for (it->SeekToFirst(); it->Valid(); it->Next()) text += Text(it->Entry());
    EXPECT_TRUE(Ok(it->status()));
    return text;
  }
  static std::string Text(const WriteEntry& entry) {
    const std::string kinds = "PMDS?";
    return kinds[entry.type] + entry.key.ToString() +
           (entry.value.empty() ? "" : "=" + entry.value.ToString()) + " ";
  }
  std::unique_ptr<Iterator> Merged(const ReadOptions& options = {}) {
    return batch_.NewIteratorWithBase(
        family(), db_->NewIterator(options, family()), &options);
  }
  static std::string Scan(Iterator* it) {
    std::string text;
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      text += it->key().ToString() + "=" + it->value().ToString() + " ";
    }
    std::string backward;
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      backward =
          it->key().ToString() + "=" + it->value().ToString() + " " + backward;
    }
    EXPECT_TRUE(Ok(it->status()));
    EXPECT_EQ(backward, text);
    return text;
  }

  WriteBatchWithIndex batch_;
};

TEST_F(WriteBatchWithIndexTest, ReadsEachKindOfUpdate) {
  Open();
  for (const char* key : {"put", "delete", "single", "merge", "ranged"}) {
    Put(key, "db");
  }
  ASSERT_TRUE(Ok(batch_.Put("put", "batch")));
  ASSERT_TRUE(Ok(batch_.Delete("delete")));
  ASSERT_TRUE(Ok(batch_.SingleDelete("single")));
  ASSERT_TRUE(Ok(batch_.Merge("merge", "a")));
  ASSERT_TRUE(Ok(batch_.Merge("merge", "b")));
  ASSERT_TRUE(Ok(batch_.DeleteRange("r", "s")));
  ASSERT_TRUE(Ok(batch_.PutLogData("blob")));
  EXPECT_EQ(InBatch("put"), "batch");
  EXPECT_EQ(InBatch("delete"), "NotFound");
  EXPECT_EQ(InBatch("single"), "NotFound");
  EXPECT_EQ(InBatch("ranged"), "NotFound");
  EXPECT_EQ(InBatch("absent"), "NotFound");
  EXPECT_THAT(InBatch("merge"), ::testing::StartsWith("Incomplete"));
  EXPECT_EQ(InBoth("put"), "batch");
  EXPECT_EQ(InBoth("delete"), "NotFound");
  EXPECT_EQ(InBoth("single"), "NotFound");
  EXPECT_EQ(InBoth("ranged"), "NotFound");
  EXPECT_EQ(InBoth("merge"), "db,a,b");
  EXPECT_EQ(Updates(), "Ddelete Mmerge=b Mmerge=a Pput=batch Ssingle ");
  EXPECT_EQ(Scan(Merged().get()), "merge=db,a,b put=batch ");
  // And so it is once it was written.
  ASSERT_TRUE(Ok(db_->Write({}, batch_.GetWriteBatch())));
  EXPECT_EQ(Scan(db_->NewIterator({}).get()), "merge=db,a,b put=batch ");
}

TEST_F(WriteBatchWithIndexTest, MergesOverWhatTheBatchHas) {
  Open();
  Do("put a db, put b db, put c db, put d db");
  ASSERT_TRUE(Ok(batch_.Put("a", "x")));
  ASSERT_TRUE(Ok(batch_.Delete("b")));
  ASSERT_TRUE(Ok(batch_.DeleteRange("c", "d")));
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(Ok(batch_.Merge(key, "1")));
    ASSERT_TRUE(Ok(batch_.Merge(key, "2")));
  }
  EXPECT_EQ(InBatch("a"), "x,1,2");
  EXPECT_EQ(InBatch("b"), "1,2");
  EXPECT_EQ(InBatch("c"), "1,2");
  EXPECT_EQ(Scan(Merged().get()), "a=x,1,2 b=1,2 c=1,2 d=db,1,2 e=1,2 ");
  // A range deletion between operands.
  ASSERT_TRUE(Ok(batch_.DeleteRange("a", "c")));
  ASSERT_TRUE(Ok(batch_.Merge("a", "3")));
  EXPECT_EQ(Scan(Merged().get()), "a=3 c=1,2 d=db,1,2 e=1,2 ");
  EXPECT_EQ(InBatch("a"), "3");
  EXPECT_EQ(InBatch("b"), "NotFound");
}

TEST_F(WriteBatchWithIndexTest, MergesNeedAnOperator) {
  options_.merge_operator = nullptr;
  Open();
  Put("a", "db");
  ASSERT_TRUE(Ok(batch_.Merge("a", "1")));
  std::string value;
  EXPECT_TRUE(
      IsInvalidArgument(batch_.GetFromBatchAndDB(db_.get(), {}, "a", &value)));
  EXPECT_TRUE(IsIncomplete(batch_.GetFromBatch(DBOptions(), "a", &value)));
  ASSERT_TRUE(Ok(batch_.Put("a", "x")));
  ASSERT_TRUE(Ok(batch_.Merge("a", "1")));
  EXPECT_TRUE(IsInvalidArgument(batch_.GetFromBatch(DBOptions(), "a", &value)));
  auto it = Merged();
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(IsInvalidArgument(it->status()));
  it->Seek("b");
  EXPECT_TRUE(Ok(it->status()));
}

TEST_F(WriteBatchWithIndexTest, OverwritesKeysInIterators) {
  Open();
  batch_ = WriteBatchWithIndex(BytewiseComparator(), 100, true);
  EXPECT_TRUE(batch_.GetOverwriteKey());
  const auto update = [](WriteBatchWithIndex* batch) {
    ASSERT_TRUE(Ok(batch->Put("a", "1")));
    ASSERT_TRUE(Ok(batch->Merge("a", "2")));
    ASSERT_TRUE(Ok(batch->Put("a", "3")));
    ASSERT_TRUE(Ok(batch->Put("b", "1")));
    ASSERT_TRUE(Ok(batch->Delete("b")));
    ASSERT_TRUE(Ok(batch->Merge("b", "2")));
    ASSERT_TRUE(Ok(batch->Merge("b", "3")));
  };
  update(&batch_);
  EXPECT_EQ(Updates(), "Pa=3 Mb=3 Mb=2 Db ");
  EXPECT_EQ(InBatch("b"), "2,3");
  EXPECT_EQ(batch_.GetWriteBatch()->Count(), 7U);
  batch_ = WriteBatchWithIndex();
  update(&batch_);
  EXPECT_EQ(Updates(), "Pa=3 Ma=2 Pa=1 Mb=3 Mb=2 Db Pb=1 ");
  ASSERT_TRUE(Ok(batch_.DeleteRange("a", "b")));
  ASSERT_TRUE(Ok(batch_.Put("a", "4")));
  EXPECT_EQ(Updates(), "Pa=4 Mb=3 Mb=2 Db Pb=1 ");
}

TEST_F(WriteBatchWithIndexTest, RefusesWhatItCannotTake) {
  Open();
  EXPECT_EQ(batch_.GetDataSize(), 12U);
  EXPECT_TRUE(IsInvalidArgument(batch_.DeleteRange("b", "a")));
  ASSERT_TRUE(Ok(batch_.DeleteRange("b", "b")));
  const size_t size = batch_.GetDataSize();
  batch_.SetMaxBytes(size + 4);
  EXPECT_TRUE(IsAborted(batch_.Put("a", "1")));
  EXPECT_TRUE(IsAborted(batch_.PutLogData("abc")));
  ASSERT_TRUE(Ok(batch_.Delete("ab")));  // A tag, a length and the key.
  EXPECT_EQ(batch_.GetDataSize(), size + 4);
  batch_.SetMaxBytes(0);
  ASSERT_TRUE(Ok(batch_.Put("a", "1")));
  EXPECT_EQ(Updates(), "Pa=1 Dab ");
  EXPECT_EQ(batch_.GetWriteBatch()->Count(), 3U);
}

TEST_F(WriteBatchWithIndexTest, RollsBackToSavePoints) {
  Open();
  Do("put a db, put b db, put c db");
  EXPECT_TRUE(IsNotFound(batch_.RollbackToSavePoint()));
  EXPECT_TRUE(IsNotFound(batch_.PopSavePoint()));
  ASSERT_TRUE(Ok(batch_.Put("a", "1")));
  ASSERT_TRUE(Ok(batch_.DeleteRange("b", "c")));
  batch_.SetSavePoint();
  ASSERT_TRUE(Ok(batch_.Put("a", "2")));
  ASSERT_TRUE(Ok(batch_.Put("b", "2")));
  ASSERT_TRUE(Ok(batch_.DeleteRange("a", "z")));
  EXPECT_EQ(Scan(Merged().get()), "");
  batch_.SetSavePoint();
  ASSERT_TRUE(Ok(batch_.Put("a", "3")));
  ASSERT_TRUE(Ok(batch_.PopSavePoint()));
  ASSERT_TRUE(Ok(batch_.RollbackToSavePoint()));
  EXPECT_EQ(Scan(Merged().get()), "a=1 c=db ");
  EXPECT_EQ(Updates(), "Pa=1 ");
  EXPECT_EQ(batch_.GetWriteBatch()->Count(), 2U);
  batch_.SetSavePoint();
  batch_.Clear();
  EXPECT_TRUE(IsNotFound(batch_.RollbackToSavePoint()));
  EXPECT_EQ(Scan(Merged().get()), "a=db b=db c=db ");
}

TEST_F(WriteBatchWithIndexTest, IteratorsStayInTheBoundsOfTheirOptions) {
  Open();
  Do("put a db, put c db, put e db, put g db");
  for (const char* key : {"b", "d", "f"}) {
    ASSERT_TRUE(Ok(batch_.Put(key, "batch")));
  }
  Slice lower = "b";
  Slice upper = "f";
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  auto it = batch_.NewIteratorWithBase(
      family(), db_->NewIterator(options, family()), &options);
  EXPECT_EQ(Scan(it.get()), "b=batch c=db d=batch e=db ");
  it->Seek("a");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("b"));
  it->Prev();
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev("z");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("e"));
  // Changed bounds count from the next seek on.
  lower = "c";
  upper = "e";
  EXPECT_EQ(Scan(it.get()), "c=db d=batch ");
}

TEST_F(WriteBatchWithIndexTest, MergedIteratorSeesUpdatesMadeBesideIt) {
  Open();
  Do("put b db, put d db, put f db");
  auto it = Merged();
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  // At the current key, and near it.
  ASSERT_TRUE(Ok(batch_.Put("b", "batch")));
  ASSERT_TRUE(Ok(batch_.Put("a", "batch")));
  ASSERT_TRUE(Ok(batch_.Put("c", "batch")));
  ASSERT_TRUE(Ok(batch_.Delete("d")));
  EXPECT_EQ(it->value(), Slice("db"));
  it->Next();
  EXPECT_EQ(it->key(), Slice("c"));
  ASSERT_TRUE(Ok(batch_.DeleteRange("b", "d")));
  EXPECT_EQ(it->value(), Slice("batch"));
  it->Prev();
  EXPECT_EQ(it->key(), Slice("a"));
  it->Next();
  EXPECT_EQ(it->key(), Slice("f"));
  batch_.Clear();
  it->Prev();
  EXPECT_EQ(it->key(), Slice("d"));
  it->Prev();
  it->Prev();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(Ok(it->status()));
}

TEST_F(WriteBatchWithIndexTest, BatchIteratorEndsInSpiteOfItsOwnUpdates) {
  Open();
  for (const bool overwrite : {false, true}) {
    batch_ = WriteBatchWithIndex(BytewiseComparator(), 0, overwrite);
    for (const char* key : {"a", "b", "c"}) {
      ASSERT_TRUE(Ok(batch_.Put(key, "old")));
    }
    const auto it = batch_.NewIterator();
    std::string seen;
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      const std::string key = it->Entry().key.ToString();
      ASSERT_TRUE(Ok(batch_.Put(key, "new")));
      ASSERT_TRUE(Ok(batch_.Merge(key, "newer")));
      seen += Text(it->Entry());
    }
    EXPECT_EQ(seen, "Pc=old Pb=old Pa=old ");
    batch_.SetSavePoint();
    it->SeekToFirst();
    EXPECT_TRUE(it->Valid());
    ASSERT_TRUE(Ok(batch_.RollbackToSavePoint()));
    EXPECT_TRUE(it->Valid()) << "nothing was removed";
    batch_.Clear();
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(IsAborted(it->status()));
    it->SeekToFirst();
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(Ok(it->status()));
  }
}

TEST_F(WriteBatchWithIndexTest, ReturnsErrorsOfTheBase) {
  Open();
  ASSERT_TRUE(Ok(batch_.Put("a", "1")));
  auto it = batch_.NewIteratorWithBase(
      NewErrorIterator(Status::IOError("the disk is gone")));
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(IsIOError(it->status(), "the disk is gone"));
  ASSERT_TRUE(Ok(batch_.Merge("b", "1")));
  Close();
  Open();
  ASSERT_TRUE(Ok(db_->Close()));
  std::string value;
  EXPECT_TRUE(Ok(batch_.GetFromBatchAndDB(db_.get(), {}, "a", &value)));
  EXPECT_TRUE(IsShutdownInProgress(
      batch_.GetFromBatchAndDB(db_.get(), {}, "b", &value)));
  EXPECT_TRUE(IsShutdownInProgress(
      batch_.GetFromBatchAndDB(db_.get(), {}, "c", &value)));
}

TEST_F(WriteBatchWithIndexTest, MultiGetsFromBothInOneMoment) {
  Open();
  Do("put a db, put b db, put c db, put d db");
  ASSERT_TRUE(Ok(batch_.Put("a", "batch")));
  ASSERT_TRUE(Ok(batch_.Delete("b")));
  ASSERT_TRUE(Ok(batch_.Merge("c", "1")));
  ASSERT_TRUE(Ok(batch_.DeleteRange("x", "y")));
  ASSERT_TRUE(Ok(batch_.Merge("x", "1")));
  const std::vector<Slice> keys = {"x", "d", "c", "b", "a", "e", "c"};
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      batch_.MultiGetFromBatchAndDB(db_.get(), {}, family(), keys, &values);
  EXPECT_EQ(values, (std::vector<std::string>{"1", "db", "db,1", "", "batch",
                                              "", "db,1"}));
  std::vector<PinnableSlice> pinned(keys.size());
  std::vector<Status> again(keys.size());
  batch_.MultiGetFromBatchAndDB(db_.get(), {}, nullptr, keys.size(),
                                keys.data(), pinned.data(), again.data(),
                                false);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(statuses[i].ok(), i != 3 && i != 5);
    EXPECT_EQ(statuses[i].IsNotFound(), i == 3 || i == 5);
    EXPECT_EQ(again[i].ToString(), statuses[i].ToString());
    EXPECT_EQ(pinned[i].ToString(), values[i]);
  }
}

TEST_F(WriteBatchWithIndexTest, FoldsKeysIfTheHandleTells) {
  options_.key_case = KeyCase::kInsensitive;
  Open();
  Do("put Key db, put other db");
  ASSERT_TRUE(Ok(batch_.Put(family(), "KEY", "batch")));
  ASSERT_TRUE(Ok(batch_.Put("NULL", "batch")));
  ASSERT_TRUE(Ok(batch_.DeleteRange(family(), "O", "P")));
  EXPECT_EQ(InBoth("kEy"), "batch");
  EXPECT_EQ(InBatch("null"), "batch");
  EXPECT_EQ(InBoth("OTHER"), "NotFound");
  EXPECT_TRUE(IsInvalidArgument(batch_.Put(family(), "\xff", "")));
  std::string value;
  EXPECT_TRUE(
      IsInvalidArgument(batch_.GetFromBatch(family(), {}, "\xff", &value)));
  Slice upper = "L";
  ReadOptions options;
  options.iterate_upper_bound = &upper;
  EXPECT_EQ(
      Scan(batch_
               .NewIteratorWithBase(
                   family(), db_->NewIterator(options, family()), &options)
               .get()),
      "key=batch ");
  auto it = Merged();
  it->Seek("K");
  EXPECT_EQ(it->key(), Slice("key"));
  it->Seek("\xff");
  EXPECT_TRUE(IsInvalidArgument(it->status()));
  // Without the handle, the batch cannot know.
  WriteBatchWithIndex plain;
  ASSERT_TRUE(Ok(plain.Put("KEY", "batch")));
  EXPECT_TRUE(
      IsInvalidArgument(plain.GetFromBatchAndDB(db_.get(), {}, "key", &value)));
  EXPECT_TRUE(IsInvalidArgument(plain.Put(family(), "key", "batch")));
  EXPECT_TRUE(IsInvalidArgument(plain.NewIterator(family())->status()));
  EXPECT_TRUE(IsInvalidArgument(
      plain.NewIteratorWithBase(family(), db_->NewIterator({}))->status()));
  ASSERT_TRUE(Ok(db_->Write({}, batch_.GetWriteBatch())));
  EXPECT_EQ(Scan(db_->NewIterator({}).get()), "key=batch null=batch ");
}

// Keys are equal if their first letters are.
class FirstLetter : public ComparatorWithoutSeparators {
 public:
  FirstLetter() : ComparatorWithoutSeparators("test.first_letter") {}
  int Compare(const Slice& a, const Slice& b) const override {
    return Slice(a.data(), std::min<size_t>(a.size(), 1))
        .compare(Slice(b.data(), std::min<size_t>(b.size(), 1)));
  }
};

TEST_F(WriteBatchWithIndexTest, ComparesByTheFamilysComparator) {
  const FirstLetter first_letter;
  Open();
  ColumnFamilyOptions by_letter;
  by_letter.comparator = &first_letter;
  by_letter.filter_policy = nullptr;
  by_letter.merge_operator = NewStringAppendOperator();
  ColumnFamilyOptions reverse;
  reverse.comparator = ReverseBytewiseComparator();
  ColumnFamilyHandle* letters = nullptr;
  ColumnFamilyHandle* descending = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(by_letter, "letters", &letters)));
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(reverse, "down", &descending)));
  ASSERT_TRUE(Ok(batch_.Put(letters, "banana", "1")));
  ASSERT_TRUE(Ok(batch_.Put(letters, "apple", "2")));
  ASSERT_TRUE(Ok(batch_.Merge(letters, "berry", "3")));
  ASSERT_TRUE(Ok(batch_.Put(descending, "a", "1")));
  ASSERT_TRUE(Ok(batch_.Put(descending, "c", "2")));
  ASSERT_TRUE(Ok(batch_.DeleteRange(descending, "b", "a")));
  EXPECT_TRUE(IsInvalidArgument(batch_.DeleteRange(descending, "a", "b")));
  std::string value;
  ASSERT_TRUE(Ok(batch_.GetFromBatch(letters, {}, "b", &value)));
  EXPECT_EQ(value, "1,3");
  ASSERT_TRUE(Ok(batch_.GetFromBatch(descending, {}, "a", &value)));
  ASSERT_TRUE(Ok(batch_.DeleteRange(descending, "c", "b")));
  EXPECT_EQ(Scan(batch_
                     .NewIteratorWithBase(descending,
                                          db_->NewIterator({}, descending))
                     .get()),
            "a=1 ");
  batch_.SetSavePoint();
  ASSERT_TRUE(Ok(batch_.Put(letters, "cherry", "1")));
  ASSERT_TRUE(Ok(batch_.Put(letters, "beet", "4")));
  ASSERT_TRUE(Ok(batch_.RollbackToSavePoint()));
  ASSERT_TRUE(Ok(batch_.GetFromBatch(letters, {}, "b", &value)));
  EXPECT_EQ(value, "1,3");
  EXPECT_TRUE(IsNotFound(batch_.GetFromBatch(letters, {}, "c", &value)));
  EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(letters)));
  EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(descending)));
}

TEST_F(WriteBatchWithIndexTest, TakesSlicesOfItself) {
  Open();
  ASSERT_TRUE(Ok(batch_.Put("key", std::string(1000, 'v'))));
  for (int i = 0; i < 20; ++i) {
    const auto it = batch_.NewIterator();
    it->SeekToFirst();
    const WriteEntry entry = it->Entry();
    ASSERT_TRUE(Ok(batch_.Put(entry.value, entry.key)));
    ASSERT_TRUE(Ok(batch_.Put(it->Entry().key, it->Entry().value)));
  }
  EXPECT_EQ(InBatch(std::string(1000, 'v')), "key");
  EXPECT_EQ(InBatch("key"), std::string(1000, 'v'));
}

TEST_F(WriteBatchWithIndexTest, MovesWithItsIterators) {
  Open();
  ASSERT_TRUE(Ok(batch_.Put("a", "1")));
  const auto it = batch_.NewIterator();
  WriteBatchWithIndex other = std::move(batch_);
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(Text(it->Entry()), "Pa=1 ");
  EXPECT_EQ(batch_.GetDataSize(), 12U);
  EXPECT_EQ(InBatch("a"), "NotFound");
  ASSERT_TRUE(Ok(batch_.Put("a", "2")));
  EXPECT_EQ(InBatch("a"), "2");
}

}  // namespace
}  // namespace varve::test
