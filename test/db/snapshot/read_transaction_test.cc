// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: a snapshot and a read transaction see one moment, whatever happens
// after it, wherever they are taken, moved and ended, and keep what they need
// and no more; a database that goes first takes nothing along. Method: each
// step by hand, from several threads where that matters; those in between are
// in snapshot_handshake_test.cc.

#include "varve/read_transaction.h"

#include <pthread.h>
#include <unistd.h>

#include "db/snapshot/snapshot_registry.h"
#include "experimental/ablation_experiment.h"
#include "test/testing/db/read_stress.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

static_assert(!std::is_copy_constructible_v<ReadTransaction>);
static_assert(std::is_nothrow_move_constructible_v<ReadTransaction>);
static_assert(std::is_nothrow_move_assignable_v<ReadTransaction>);

SnapshotRegistry* RegistryOf(DB* db) {
  const ReadTransaction read(db);
  return static_cast<const SnapshotImpl*>(read.snapshot())->registry();
}

class ReadTransactionTest : public DbTestBase {
 protected:
  void SetUp() override { Open(); }

  // Keys 0 to 99 with that value, some of it in tables.
  void Write(const std::string& value) {
    for (int i = 0; i < 100; i++) Put(Key(i), value);
  }
  static EntryList Written(const std::string& value) {
    EntryList entries;
    for (int i = 0; i < 100; i++) entries.emplace_back(Key(i), value);
    return entries;
  }
  // Everything obsolete is removed, unless a reader keeps it.
  void Churn() { Do("flush, compact, wait"); }

  ::testing::AssertionResult Sees(const ReadTransaction& read,
                                  const std::string& value) {
    const EntryList expected = Written(value);
    EntryList found;
    const auto it = read.NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      found.emplace_back(it->key().ToString(), it->value().ToString());
    }
    if (!it->status().ok()) return Ok(it->status());
    auto same = SameEntries(expected, found);
    if (!same) return same << ", by iterator";
    std::vector<Slice> keys;
    for (const auto& entry : expected) keys.emplace_back(entry.first);
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    read.MultiGet({}, keys.size(), keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); i++) {
      std::string text;
      PinnableSlice pinned;
      if (!statuses[i].ok() || values[i] != value ||
          !read.Get({}, keys[i], &text).ok() || text != value ||
          !read.Get({}, keys[i], &pinned).ok() || pinned != Slice(value)) {
        return ::testing::AssertionFailure()
               << keys[i].ToString() << ": " << statuses[i].ToString() << ", "
               << values[i] << ", " << text;
      }
    }
    return ::testing::AssertionSuccess();
  }

  std::string Oldest() {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.oldest-snapshot", &text));
    return text;
  }
  // Returns the number after `name` in varve.oldest-snapshot.
  uint64_t OldestNumber(const std::string& name) {
    const std::string text = Oldest();
    const size_t at = text.find(name + " ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos
               ? 0
               : std::stoull(text.substr(at + name.size() + 1));
  }
};

// ---- What is seen -----------------------------------------------------------

TEST_F(ReadTransactionTest, SeesItsMomentThroughFlushAndCompaction) {
  Write("one");
  Churn();
  Write("two");
  ReadTransaction read(db_.get());
  EXPECT_EQ(read.sequence(), db_->GetLatestSequenceNumber());
  Write("three");
  EXPECT_TRUE(Sees(read, "two"));
  Churn();
  EXPECT_TRUE(Sees(read, "two"));
  ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(0), Key(100))));
  Churn();
  EXPECT_TRUE(Sees(read, "two"));
  read.End();
  Churn();
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
}

// The same through the DB's own calls.
TEST_F(ReadTransactionTest, ItsSnapshotReadsFromThePin) {
  Write("one");
  ReadTransaction read(db_.get());
  Write("two");
  Churn();
  EXPECT_TRUE(
      HasEntries(db_.get(), Written("one"), {.snapshot = read.snapshot()}));
}

TEST_F(ReadTransactionTest, KeepsFilesAndMemtablesThatWereReplaced) {
  Write("one");
  ASSERT_TRUE(Ok(db_->Flush({})));
  ReadTransaction read(db_.get());
  Write("two");
  Churn();
  EXPECT_GT(TableFiles(path_), LiveTables(db_.get()));
  EXPECT_GT(OldestNumber("files"), 0u);
  EXPECT_GT(OldestNumber("memtables"), 0u);
  read.End();
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
}

TEST_F(ReadTransactionTest, IteratorOutlivesIt) {
  Write("one");
  ReadTransaction read(db_.get());
  const auto it = read.NewIterator({});
  read.End();
  Write("two");
  Churn();
  int count = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++count) {
    EXPECT_EQ(it->value(), Slice("one"));
  }
  EXPECT_EQ(count, 100);
}

// ---- Beginning, moving, ending ----------------------------------------------

TEST_F(ReadTransactionTest, IsInvalidOnceEnded) {
  Write("one");
  ReadTransaction read;
  for (int i = 0; i < 2; i++) {
    EXPECT_TRUE(read.has_ended());
    EXPECT_EQ(read.snapshot(), nullptr);
    std::string text = "before";
    EXPECT_TRUE(read.Get({}, Key(1), &text).IsInvalidArgument());
    EXPECT_EQ(text, "");
    Status status;
    const Slice key = "key";
    read.MultiGet({}, 1, &key, &text, &status);
    EXPECT_TRUE(status.IsInvalidArgument());
    PinnableSlice pinned;
    EXPECT_TRUE(read.Get({}, Key(1), &pinned).IsInvalidArgument());
    read.MultiGet({}, 1, &key, &pinned, &status);
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_TRUE(read.NewIterator({})->status().IsInvalidArgument());
    read = ReadTransaction(db_.get());
    EXPECT_FALSE(read.has_ended());
    read.End();
    read.End();
  }
}

TEST_F(ReadTransactionTest, MovesWithinAndBetweenThreads) {
  Write("one");
  ReadTransaction first(db_.get());
  Write("two");
  ReadTransaction second(db_.get());
  EXPECT_EQ(Number("varve.num-snapshots"), 2u);
  ReadTransaction moved = std::move(first);
  EXPECT_TRUE(Sees(moved, "one"));
  moved = std::move(second);  // Ends the first one.
  EXPECT_EQ(Number("varve.num-snapshots"), 1u);
  EXPECT_TRUE(Sees(moved, "two"));
  ReadTransaction& itself = moved;
  moved = std::move(itself);
  EXPECT_FALSE(moved.has_ended());

  std::thread([&, read = std::move(moved)] {
    Write("three");
    Churn();
    EXPECT_TRUE(Sees(read, "two"));
  }).join();
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
}

TEST_F(ReadTransactionTest, OutlivesTheThreadThatBeganIt) {
  Write("one");
  ReadTransaction read;
  const Snapshot* snapshot = nullptr;
  std::thread([&] {
    read = ReadTransaction(db_.get());
    snapshot = db_->GetSnapshot();
  }).join();
  Write("two");
  Churn();
  const std::string name =
      IsProduction(TEST_ChoicesOf(options_).snapshots) ? "(ended)" : "(?)";
  EXPECT_TRUE(Contains(Oldest(), name)) << Oldest();
  // Another thread gets the nodes, but not those that are in use.
  std::thread([&] {
    const ReadTransaction other(db_.get());
    EXPECT_TRUE(Sees(read, "one"));
    EXPECT_GT(other.sequence(), read.sequence());
    EXPECT_TRUE(Contains(Oldest(), name)) << Oldest();
  }).join();
  EXPECT_EQ(Number("varve.num-snapshots"), 2u);
  EXPECT_EQ(Get(Key(1), snapshot), "one");
  read.End();
  db_->ReleaseSnapshot(snapshot);
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
}

// Far more than one thread's first nodes, released in another order and by
// another thread.
TEST_F(ReadTransactionTest, ThousandsAreOutAndReleasedByAnyThread) {
  Actor other;
  for (int round = 0; round < 3; round++) {
    std::vector<const Snapshot*> snapshots;
    std::vector<uint64_t> sequences;
    for (int i = 0; i < 3000; i++) {
      if (i % 10 == 0) Put(Key(i % 100), std::to_string(i));
      snapshots.push_back(db_->GetSnapshot());
      sequences.push_back(db_->GetLatestSequenceNumber());
    }
    EXPECT_EQ(Number("varve.num-snapshots"), 3000u);
    EXPECT_EQ(RegistryOf(db_.get())->Scan().size(), 300u);
    for (size_t i = 0; i < snapshots.size(); i++) {
      ASSERT_EQ(snapshots[i]->GetSequenceNumber(), sequences[i]);
    }
    for (size_t i = 0; i < snapshots.size(); i += 2) {
      db_->ReleaseSnapshot(snapshots[i]);
    }
    EXPECT_EQ(Number("varve.num-snapshots"), 1500u);
    other.Do([&] {
      for (size_t i = 1; i < snapshots.size(); i += 2) {
        db_->ReleaseSnapshot(snapshots[i]);
      }
    });
    EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  }
  db_->ReleaseSnapshot(nullptr);
}

// A producer begins and a consumer ends: the producer finds its nodes again.
TEST_F(ReadTransactionTest, NodesThatOthersReleaseAreUsedAgain) {
  if (!IsProduction(TEST_ChoicesOf(options_).snapshots)) return;
  std::set<const Snapshot*> nodes;
  Actor other;
  for (int i = 0; i < 500; i++) {
    ReadTransaction read(db_.get());
    nodes.insert(read.snapshot());
    other.Do([&read] { read.End(); });
  }
  EXPECT_LE(nodes.size(), 8u);
}

TEST_F(ReadTransactionTest, DatabasesAreApart) {
  std::vector<std::unique_ptr<DB>> others;
  std::vector<ReadTransaction> reads;
  for (int i = 0; i < 40; i++) {
    Options options = options_;
    others.emplace_back();
    ASSERT_TRUE(Ok(
        DB::Open(options, dir_.Sub("db" + std::to_string(i)), &others.back())));
    DB* const db = others.back().get();
    for (int k = 0; k < i; k++) ASSERT_TRUE(Ok(db->Put({}, Key(k), "v")));
    reads.emplace_back(db);
  }
  for (size_t i = 0; i < others.size(); i++) {
    EXPECT_EQ(reads[i].sequence(), i);
    uint64_t count = 0;
    ASSERT_TRUE(others[i]->GetIntProperty("varve.num-snapshots", &count));
    EXPECT_EQ(count, 1u);
  }
  // New ones replace those that ended.
  reads.erase(reads.begin(), reads.begin() + 20);
  others.erase(others.begin(), others.begin() + 20);
  ReadTransaction read(db_.get());
  EXPECT_EQ(read.sequence(), db_->GetLatestSequenceNumber());
  std::unique_ptr<DB> last;
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("last"), &last)));
  EXPECT_EQ(ReadTransaction(last.get()).sequence(), 0u);
}

TEST_F(ReadTransactionTest, WorksInADatabaseOpenedForReading) {
  Write("one");
  ASSERT_TRUE(Ok(db_->Close()));
  db_.reset();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db)));
  EXPECT_TRUE(Sees(ReadTransaction(db.get()), "one"));
}

// ---- The database goes first ------------------------------------------------

TEST_F(ReadTransactionTest, CloseIsBusyWhileOneIsOut) {
  Write("one");
  {
    const ReadTransaction read(db_.get());
    EXPECT_TRUE(IsBusy(db_->Close(), "transactions"));
    EXPECT_TRUE(Sees(read, "one"));
    Put(Key(1), "two");  // It is as open as it was.
  }
  EXPECT_TRUE(Ok(db_->Close()));
}

TEST_F(ReadTransactionTest, IsEndedByTheEndOfItsDatabase) {
  Write("one");
  ReadTransaction current(db_.get());
  ReadTransaction by_another;
  Actor other;
  other.Do([&] { by_another = ReadTransaction(db_.get()); });
  Write("two");
  Churn();
  ReadTransaction last(db_.get());
  const uint64_t sequence = current.sequence();
  db_.reset();
  std::string text;
  for (const ReadTransaction* read : {&current, &by_another, &last}) {
    EXPECT_FALSE(read->has_ended());
    EXPECT_TRUE(read->Get({}, Key(1), &text).IsShutdownInProgress());
    EXPECT_TRUE(read->NewIterator({})->status().IsShutdownInProgress());
  }
  EXPECT_EQ(current.sequence(), sequence);
  // It may be reopened in between.
  Open();
  EXPECT_EQ(Get(Key(1)), "two");
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  other.Do([&current] { current.End(); });
  by_another.End();
  EXPECT_TRUE(Sees(ReadTransaction(db_.get()), "two"));
}

// ---- What it keeps ----------------------------------------------------------

TEST_F(ReadTransactionTest, OldestSnapshotIsDescribed) {
  EXPECT_EQ(Oldest(), "none");
  EXPECT_EQ(Number("varve.oldest-snapshot-sequence"), 0u);
  Put("a", "1");
  Actor other;
  const Snapshot* snapshot = nullptr;
  uint64_t thread_id = 0;
  other.Do([&] {
    thread_id = static_cast<uint64_t>(gettid());
    pthread_setname_np(pthread_self(), "old reader");
    snapshot = db_->GetSnapshot();
  });
  const uint64_t sequence = db_->GetLatestSequenceNumber();
  Put("a", "2");
  const ReadTransaction younger(db_.get());
  const std::string text = Oldest();
  EXPECT_TRUE(Contains(text, "sequence " + std::to_string(sequence) + ", age "))
      << text;
  const bool named = IsProduction(TEST_ChoicesOf(options_).snapshots);
  EXPECT_TRUE(Contains(text, "thread " + std::to_string(thread_id) +
                                 (named ? " (old reader)" : " (?)")))
      << text;
  EXPECT_TRUE(Contains(text, "keeps 0 bytes")) << text;
  db_->ReleaseSnapshot(snapshot);
  EXPECT_EQ(OldestNumber("sequence"), sequence + 1);
}

// Entries are counted that only this snapshot keeps from being dropped.
TEST_F(ReadTransactionTest, BytesOfEntriesAreThoseKeptForTheSnapshot) {
  const auto bytes_of = [](int count, const std::string& value) {
    return static_cast<uint64_t>(count) * (Key(0).size() + 8 + value.size());
  };
  Write("one");
  const Snapshot* const first = db_->GetSnapshot();
  Write("two2");
  const Snapshot* const second = db_->GetSnapshot();
  EXPECT_EQ(OldestNumber("entries"), 0u);  // In memory they would stay anyway.
  for (int i = 0; i < 50; i++) Put(Key(i), "three");
  ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(90), Key(100))));
  ASSERT_TRUE(Ok(db_->Flush({})));
  EXPECT_EQ(OldestNumber("entries"), bytes_of(100, "one"));
  Churn();
  EXPECT_EQ(OldestNumber("entries"), bytes_of(100, "one"));
  EXPECT_EQ(OldestNumber("files"), 0u);
  db_->ReleaseSnapshot(first);
  // Those that were replaced or deleted since.
  EXPECT_EQ(OldestNumber("entries"), bytes_of(60, "two2"));
  Churn();
  EXPECT_EQ(OldestNumber("entries"), bytes_of(60, "two2"));
  db_->ReleaseSnapshot(second);
  EXPECT_EQ(Oldest(), "none");
}

}  // namespace
}  // namespace varve::test
