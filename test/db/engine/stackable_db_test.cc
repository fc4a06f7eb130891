// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an embedder's class that wraps a DB is a DB wherever one is wanted,
// read transactions included, by the public headers alone. Method: a wrapper
// that moves all keys under a prefix, and one that has nothing of Varve's
// below it; a wrapper of a wrapper; a DB that goes before a transaction on it.

#include "varve/stackable_db.h"

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"
#include "varve/read_transaction.h"

namespace varve::test {
namespace {

// Puts a prefix before the keys of Put and of reads.
class PrefixingDb final : public StackableDB {
 public:
  PrefixingDb(std::shared_ptr<DB> db, std::string prefix)
      : StackableDB(std::move(db)), prefix_(std::move(prefix)) {}

  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override {
    return StackableDB::Put(options, Prefixed(key), value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override {
    ++reads;
    return StackableDB::Get(options, Prefixed(key), value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override {
    ++reads;
    return StackableDB::Get(options, Prefixed(key), value);
  }
  using DB::MultiGet;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) override {
    ++reads;
    std::vector<std::string> prefixed;
    for (size_t i = 0; i < count; ++i) prefixed.push_back(Prefixed(keys[i]));
    const std::vector<Slice> slices(prefixed.begin(), prefixed.end());
    StackableDB::MultiGet(options, count, slices.data(), values, statuses);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    ++reads;
    return StackableDB::NewIterator(options);
  }

  std::atomic<int> reads{0};

 private:
  std::string Prefixed(const Slice& key) const {
    return prefix_ + key.ToString();
  }

  const std::string prefix_;
};

// With snapshots that no Varve has made. Only what the test needs is read.
class CannedDb final : public StackableDB {
 public:
  using StackableDB::Get;
  using StackableDB::StackableDB;

  struct Moment final : PinnedSnapshot {
    uint64_t GetSequenceNumber() const override { return 7; }
    void End() override { has_ended = true; }
    bool IsOrphaned() const override { return is_orphaned; }
    bool has_ended = false;
    bool is_orphaned = false;
  };

  PinnedSnapshot* BeginReadTransaction() override { return &moment; }
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override {
    *value = key.ToString() +
             (options.snapshot == &moment ? " of the moment" : " of now");
    return Status::OK();
  }

  Moment moment;
};

class StackableDbTest : public DbTestBase {
 protected:
  void SetUp() override { Open(); }

  static std::string Get(DB* db, const std::string& key) {
    std::string value;
    const Status status = db->Get({}, key, &value);
    return status.ok() ? value : status.ToString();
  }
};

TEST_F(StackableDbTest, ForwardsCallsThatAreNotOverridden) {
  StackableDB db(std::move(db_));
  ASSERT_TRUE(Ok(db.Put({}, "a", "1")));
  ASSERT_TRUE(Ok(db.Put({}, "b", "2")));
  ASSERT_TRUE(Ok(db.Put({}, "c", "3")));
  ASSERT_TRUE(Ok(db.Delete({}, "b")));
  ASSERT_TRUE(Ok(db.SingleDelete({}, "c")));
  WriteBatch batch;
  batch.Put("d", "4");
  batch.Put("e", "5");
  ASSERT_TRUE(Ok(db.Write({}, &batch)));
  ASSERT_TRUE(Ok(db.DeleteRange({}, "e", "f")));
  EXPECT_TRUE(HasEntries(&db, {{"a", "1"}, {"d", "4"}}));
  PinnableSlice pinned;
  ASSERT_TRUE(Ok(db.Get({}, "a", &pinned)));
  EXPECT_EQ(pinned.ToString(), "1");
  std::vector<std::string> values;
  const auto statuses = db.MultiGet({}, {"a", "b"}, &values);
  EXPECT_TRUE(Ok(statuses[0]));
  EXPECT_TRUE(statuses[1].IsNotFound());
  PinnableSlice more[1];
  Status status;
  const Slice key = "d";
  db.MultiGet({}, 1, &key, more, &status);
  EXPECT_EQ(more[0].ToString(), "4");

  const Snapshot* const snapshot = db.GetSnapshot();
  EXPECT_EQ(snapshot->GetSequenceNumber(), db.GetLatestSequenceNumber());
  ASSERT_TRUE(Ok(db.Put({}, "a", "new")));
  ReadOptions old{.snapshot = snapshot};
  std::string value;
  ASSERT_TRUE(Ok(db.Get(old, "a", &value)));
  EXPECT_EQ(value, "1");
  db.ReleaseSnapshot(snapshot);

  ASSERT_TRUE(Ok(db.FlushWAL(false)));
  ASSERT_TRUE(Ok(db.SyncWAL()));
  ASSERT_TRUE(Ok(db.Flush({})));
  ASSERT_TRUE(Ok(db.SetOptions({{"write_buffer_size", "1M"}})));
  ASSERT_TRUE(Ok(db.CompactRange({}, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db.WaitForCompact()));
  ASSERT_TRUE(Ok(db.VerifyChecksum()));
  ASSERT_TRUE(Ok(db.Resume()));
  const Range range{"a", "z"};
  uint64_t size = 0;
  ASSERT_TRUE(Ok(db.GetApproximateSizes(&range, 1, &size)));
  EXPECT_GT(size, 0u);
  uint64_t number = 0;
  EXPECT_TRUE(db.GetIntProperty("varve.estimate-num-keys", &number));
  EXPECT_EQ(number, 2u);
  EXPECT_TRUE(db.GetProperty("varve.levelstats", &value));
  ASSERT_TRUE(Ok(db.CreateCheckpoint(dir_.Sub("copy"))));
  db.CancelAllBackgroundWork(true);
  ASSERT_TRUE(Ok(db.Close()));
  EXPECT_TRUE(db.Put({}, "a", "1").IsShutdownInProgress());
}

TEST_F(StackableDbTest, AReadTransactionReadsByTheWrapper) {
  auto inner = std::make_shared<PrefixingDb>(std::move(db_), "in/");
  PrefixingDb db(inner, "out/");
  ASSERT_TRUE(Ok(db.Put({}, "k", "1")));
  EXPECT_EQ(Get(inner->GetBaseDB(), "in/out/k"), "1");
  ReadTransaction read(&db);
  ASSERT_TRUE(Ok(db.Put({}, "k", "2")));
  db.reads = inner->reads = 0;
  std::string value;
  ASSERT_TRUE(Ok(read.Get({}, "k", &value)));
  EXPECT_EQ(value, "1");
  PinnableSlice pinned;
  ASSERT_TRUE(Ok(read.Get({}, "k", &pinned)));
  EXPECT_EQ(pinned.ToString(), "1");
  const Slice key = "k";
  Status status;
  read.MultiGet({}, 1, &key, &value, &status);
  EXPECT_EQ(value, "1");
  auto it = read.NewIterator({});
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("in/out/k"));
  EXPECT_EQ(it->value(), Slice("1"));
  it.reset();
  EXPECT_EQ(db.reads, 4);
  EXPECT_EQ(inner->reads, 4);
  // It continues at the same place after it was moved.
  ReadTransaction moved = std::move(read);
  ASSERT_TRUE(Ok(moved.Get({}, "k", &value)));
  EXPECT_EQ(value, "1");
  EXPECT_TRUE(db.Close().IsBusy());
  moved.End();
  EXPECT_EQ(Get(&db, "k"), "2");
  EXPECT_TRUE(Ok(db.Close()));
}

TEST_F(StackableDbTest, AReadTransactionOutlivesAWrapperThatOwnsItsDb) {
  auto db = std::make_unique<PrefixingDb>(std::move(db_), "p/");
  ASSERT_TRUE(Ok(db->Put({}, "k", "1")));
  ReadTransaction read(db.get());
  db.reset();
  std::string value = "old";
  EXPECT_TRUE(read.Get({}, "k", &value).IsShutdownInProgress());
  EXPECT_EQ(value, "");
  EXPECT_TRUE(read.NewIterator({})->status().IsShutdownInProgress());
  read.End();
  EXPECT_TRUE(read.Get({}, "k", &value).IsInvalidArgument());
}

TEST_F(StackableDbTest, SnapshotsMayBeTheWrappersOwn) {
  CannedDb db(std::move(db_));
  {
    ReadTransaction read(&db);
    EXPECT_EQ(read.sequence(), 7u);
    EXPECT_EQ(read.snapshot(), &db.moment);
    std::string value;
    ASSERT_TRUE(Ok(read.Get({}, "k", &value)));
    EXPECT_EQ(value, "k of the moment");
    db.moment.is_orphaned = true;
    EXPECT_TRUE(read.Get({}, "k", &value).IsShutdownInProgress());
    EXPECT_FALSE(db.moment.has_ended);
  }
  EXPECT_TRUE(db.moment.has_ended);
}

TEST_F(StackableDbTest, ADatabaseThatFoldsIsWrappedLikeAnyOther) {
  Close();
  path_ = dir_.Sub("folding");
  options_.key_case = KeyCase::kInsensitive;
  Open();
  PrefixingDb db(std::move(db_), "USERS/");
  ASSERT_TRUE(Ok(db.Put({}, "Oren", "1")));
  const ReadTransaction read(&db);
  ASSERT_TRUE(Ok(db.Put({}, "OREN", "2")));
  std::string value;
  ASSERT_TRUE(Ok(read.Get({}, "oren", &value)));
  EXPECT_EQ(value, "1");
  const auto it = read.NewIterator({});
  it->Seek("Users/O");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("users/oren"));
}

}  // namespace
}  // namespace varve::test
