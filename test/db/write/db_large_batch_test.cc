// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: other writers do not wait for the inserts of a large batch, and still
// every reader, snapshot, stream and recovery finds all of it or nothing, after
// the writes that came first. Method: other calls from within the inserts of
// the batch, by a comparator that calls them; each operation of files failing;
// readers and writers on other threads.

#include <atomic>

#include "db/jobs/large_batch.h"
#include "test/testing/comparators.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/env/forwarding_file.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/run_threads.h"
#include "util/threads/path_counter.h"
#include "varve/merge_operator.h"
#include "varve/testing/fault_injection_env.h"
#include "varve/transaction_log.h"

namespace varve::test {
namespace {

constexpr int kKeys = 6000;  // Of a large batch.

std::string LargeKey(int i) { return "large" + Key(i); }

void FillBatch(WriteBatch* batch, const std::string& value, int keys = kKeys) {
  batch->Clear();
  for (int i = 0; i < keys; ++i) batch->Put(LargeKey(i), value);
}

uint64_t LargeBatches() { return PathCount(PathCounter::kLargeBatch); }

class DbLargeBatchTest : public FamiliesTest {
 protected:
  void SetUp() override {
    FamiliesTest::SetUp();
    options_.write_buffer_size = 1 << 20;
    options_.comparator = &comparator_;
  }
  // Writes the batch and calls `meanwhile` from its inserts, on a thread that
  // is not the batch's.
  Status WriteWhile(const WriteOptions& options, WriteBatch* batch,
                    const std::function<void()>& meanwhile) {
    Actor other;
    comparator_.CallOnce([&] { other.Do(meanwhile); });
    const uint64_t before = LargeBatches();
    const Status status = db_->Write(options, batch);
    EXPECT_FALSE(comparator_.is_armed());
    EXPECT_EQ(LargeBatches() - before, status.ok() ? 1u : 0u);
    return status;
  }
  // Expects that the batch's keys have the value, or are not there.
  void ExpectLarge(const std::optional<std::string>& value,
                   const ReadOptions& options = {}) {
    int count = 0;
    const auto it = db_->NewIterator(options);
    for (it->Seek("large"); it->Valid() && it->key().starts_with("large");
         it->Next()) {
      ASSERT_EQ(it->key().ToString(), LargeKey(count++));
      ASSERT_TRUE(value.has_value());
      ASSERT_EQ(it->value().ToString(), *value);
    }
    EXPECT_TRUE(Ok(it->status()));
    EXPECT_EQ(count, value.has_value() ? kKeys : 0);
    for (const int i : {0, kKeys / 2, kKeys - 1}) {
      std::string found;
      const Status s = db_->Get(options, LargeKey(i), &found);
      EXPECT_EQ(s.ok(), value.has_value()) << s.ToString();
      if (s.ok()) {
        EXPECT_EQ(found, *value);
      }
    }
  }

  CallingComparator comparator_;
  WriteBatch batch_;
};

// A memtable has positions for 32 GiB, and may have 8 GiB before the batch.
TEST(LargeBatchTest, ABatchThatNoMemtableMayHaveRoomForIsTooLarge) {
  constexpr size_t kBytes = size_t{24} << 30;
  EXPECT_FALSE(LargeBatch::IsTooLarge(kBytes - 50, 1));
  EXPECT_TRUE(LargeBatch::IsTooLarge(kBytes, 1));
  // Deletions of the empty key take two bytes of the batch.
  EXPECT_FALSE(LargeBatch::IsTooLarge(2 * 400'000'000, 400'000'000));
  EXPECT_TRUE(LargeBatch::IsTooLarge(2 * 600'000'000, 600'000'000));
}

TEST_F(DbLargeBatchTest, OthersWriteAndReadMeanwhile) {
  Open();
  Put(LargeKey(5), "before");
  Put("small", "0");
  FillBatch(&batch_, "new");
  const Snapshot* snapshot = nullptr;
  std::unique_ptr<Iterator> iterator;
  ASSERT_TRUE(Ok(WriteWhile({}, &batch_, [&] {
    for (int i = 0; i < 100; ++i) Put("small", std::to_string(i));
    EXPECT_EQ(Get("small"), "99");
    EXPECT_EQ(Get(LargeKey(5)), "before");
    EXPECT_EQ(Get(LargeKey(6)), "NotFound");
    // The batch comes after it.
    Put(LargeKey(7), "meanwhile");
    snapshot = db_->GetSnapshot();
    iterator = db_->NewIterator({});
  })));
  ExpectLarge("new");
  EXPECT_EQ(Get("small"), "99");
  std::string found;
  const ReadOptions then{.snapshot = snapshot};
  EXPECT_TRUE(db_->Get(then, LargeKey(6), &found).IsNotFound());
  EXPECT_TRUE(Ok(db_->Get(then, LargeKey(7), &found)));
  EXPECT_EQ(found, "meanwhile");
  iterator->Seek("large");
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key().ToString(), LargeKey(5));
  iterator->Next();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key().ToString(), LargeKey(7));
  iterator->Next();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key().ToString(), "small");
  iterator.reset();
  db_->ReleaseSnapshot(snapshot);
  Put(LargeKey(9), "after");
  EXPECT_EQ(Get(LargeKey(9)), "after");
  // Twice the put of 0 to 99, and one number for each of the others.
  EXPECT_EQ(db_->GetLatestSequenceNumber(), 2u + 101u + kKeys + 1u);
  Reopen();
  EXPECT_EQ(Get(LargeKey(9)), "after");
  EXPECT_EQ(Get(LargeKey(8)), "new");
  EXPECT_EQ(Get("small"), "99");
  EXPECT_EQ(db_->GetLatestSequenceNumber(), 2u + 101u + kKeys + 1u);
}

// Other large batches too, and a switch of the memtable.
TEST_F(DbLargeBatchTest, OthersDoAnythingMeanwhile) {
  Open();
  FillBatch(&batch_, "first");
  WriteBatch second;
  FillBatch(&second, "second");
  const uint64_t before = LargeBatches();
  ASSERT_TRUE(Ok(WriteWhile({}, &second, [&] {
    // Comes first, as its thread is ready first.
    EXPECT_TRUE(Ok(db_->Flush({})));
    Put("a", "1");
    EXPECT_TRUE(Ok(db_->Flush({})));
    Put("a", "2");
    EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
    EXPECT_TRUE(Ok(db_->SyncWAL()));
  })));
  ExpectLarge("second");
  ASSERT_TRUE(Ok(db_->Write({}, &batch_)));
  EXPECT_EQ(LargeBatches() - before, 2u);
  ExpectLarge("first");
  EXPECT_EQ(Get("a"), "2");
  Reopen();
  ExpectLarge("first");
  EXPECT_EQ(Get("a"), "2");
}

TEST_F(DbLargeBatchTest, UpdatesOfOneKeyKeepTheirOrder) {
  options_.merge_operator = NewStringAppendOperator();
  Open();
  Put("m", "0");
  FillBatch(&batch_, "x");
  for (int i = 0; i < 3; ++i) batch_.Merge("m", std::to_string(i + 1));
  batch_.Put("p", "old");
  batch_.Delete("p");
  batch_.Put("q", "old");
  batch_.Delete("q");
  batch_.Put("q", "new");
  ASSERT_TRUE(Ok(WriteWhile({}, &batch_, [&] { Put("q", "between"); })));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Get("m"), "0,1,2,3");
    EXPECT_EQ(Get("p"), "NotFound");
    EXPECT_EQ(Get("q"), "new");
    if (i == 0) Reopen();
    if (i == 1) Flush();
  }
}

TEST_F(DbLargeBatchTest, ChangesSeveralFamiliesAtOnce) {
  OpenNew({"a", "b", "c"});
  batch_.Clear();
  for (int i = 0; i < kKeys; ++i) {
    batch_.Put(At(i % 2 == 0 ? "a" : "b"), LargeKey(i), "v");
  }
  ASSERT_TRUE(Ok(WriteWhile({}, &batch_, [&] {
    PutIn("a", LargeKey(0), "meanwhile");
    PutIn("c", "c", "c");
    EXPECT_EQ(GetIn("b", LargeKey(1)), "NotFound");
  })));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(GetIn("a", LargeKey(0)), "v");
    EXPECT_EQ(GetIn("b", LargeKey(kKeys - 1)), "v");
    EXPECT_EQ(GetIn("a", LargeKey(1)), "NotFound");
    EXPECT_EQ(GetIn("c", "c"), "c");
    if (round == 0) ReopenAll();
  }
}

TEST_F(DbLargeBatchTest, ADroppedFamilyRefusesAllOfIt) {
  OpenNew({"a"});
  batch_.Clear();
  for (int i = 0; i < kKeys; ++i) batch_.Put(At("a"), LargeKey(i), "v");
  batch_.Put("k", "v");
  const Status status = WriteWhile(
      {}, &batch_, [&] { EXPECT_TRUE(Ok(db_->DropColumnFamily(At("a")))); });
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_EQ(Get("k"), "NotFound");
}

TEST_F(DbLargeBatchTest, StreamsGiveItAfterWhatCameFirst) {
  options_.WAL_ttl_seconds = 1000;  // A flush would remove the first log.
  Open();
  Put("a", "1");
  FillBatch(&batch_, "v");
  ASSERT_TRUE(Ok(WriteWhile({}, &batch_, [&] { Put("b", "2"); })));
  Put("c", "3");
  std::unique_ptr<TransactionLogIterator> stream;
  ASSERT_TRUE(Ok(db_->GetUpdatesSince(1, &stream, {})));
  std::vector<std::pair<uint64_t, uint32_t>> found;
  for (; stream->Valid(); stream->Next()) {
    const BatchResult batch = stream->GetBatch();
    found.emplace_back(batch.sequence, batch.writeBatchPtr->Count());
  }
  EXPECT_TRUE(Ok(stream->status()));
  const std::vector<std::pair<uint64_t, uint32_t>> expected = {
      {1, 1}, {2, 1}, {3, kKeys}, {3 + kKeys, 1}};
  EXPECT_EQ(found, expected);
}

TEST_F(DbLargeBatchTest, WithoutLogItIsThereAfterAFlush) {
  Open();
  FillBatch(&batch_, "v");
  ASSERT_TRUE(
      Ok(WriteWhile({.disable_wal = true}, &batch_, [&] { Put("a", "1"); })));
  ExpectLarge("v");
  Flush();
  Reopen();
  ExpectLarge("v");
  EXPECT_EQ(Get("a"), "1");
}

// These are written as other batches are.
TEST_F(DbLargeBatchTest, SomeHoldOthersUp) {
  Open();
  const uint64_t before = LargeBatches();
  FillBatch(&batch_, "v");
  batch_.DeleteRange(LargeKey(1), LargeKey(3));
  ASSERT_TRUE(Ok(db_->Write({}, &batch_)));
  EXPECT_EQ(Get(LargeKey(0)), "v");
  EXPECT_EQ(Get(LargeKey(2)), "NotFound");
  FillBatch(&batch_, "w");
  ASSERT_TRUE(Ok(db_->Write({.no_slowdown = true}, &batch_)));
  ExpectLarge("w");
  FillBatch(&batch_, "x", 500);
  ASSERT_TRUE(Ok(db_->Write({}, &batch_)));
  EXPECT_EQ(Get(LargeKey(0)), "x");
  EXPECT_EQ(LargeBatches(), before);
  // Nobody else writes.
  for (int i = 0; i < 10; ++i) {
    FillBatch(&batch_, std::to_string(i));
    ASSERT_TRUE(Ok(db_->Write({}, &batch_)));
  }
  EXPECT_LE(LargeBatches() - before, 5u);
  ExpectLarge("9");
  Put("a", "1");
  FillBatch(&batch_, "y");
  ASSERT_TRUE(Ok(WriteWhile({}, &batch_, [&] { Put("a", "2"); })));
  ExpectLarge("y");
}

// Fails each operation on files once, while the batch is published and synced.
// After an error nothing of it is visible. The database can be used again, and
// the power may fail.
TEST_F(DbLargeBatchTest, FailuresLeaveNothingOfIt) {
  const auto memory = NewMemoryEnv(Env::Default());
  FaultInjectionEnv faulty(memory.get());
  ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
  options_.env = &faulty;
  options_.comparator = BytewiseComparator();
  int failures = 0;
  for (int operation = 0, succeeded = 0; succeeded < 2; ++operation) {
    SCOPED_TRACE(operation);
    const std::string path = "/db/" + std::to_string(operation);
    ASSERT_TRUE(Ok(DB::Open(options_, path, &db_)));
    ASSERT_TRUE(Ok(db_->Put({.sync = true}, "a", "1")));
    FillBatch(&batch_, "v");
    faulty.FailAfter(static_cast<uint64_t>(operation),
                     FaultInjectionEnv::InjectedError(), kAllOperations);
    const Status status = db_->Write({.sync = true}, &batch_);
    faulty.ClearFailure();
    succeeded += status.ok() ? 1 : 0;
    failures += status.ok() ? 0 : 1;
    ExpectLarge(status.ok() ? std::optional<std::string>("v") : std::nullopt);
    EXPECT_EQ(Get("a"), "1");
    ASSERT_TRUE(Ok(db_->Resume()));
    ASSERT_TRUE(Ok(db_->Put({.sync = true}, "b", "2")));
    ExpectLarge(status.ok() ? std::optional<std::string>("v") : std::nullopt);
    db_.reset();
    ASSERT_TRUE(Ok(faulty.CrashAndReset({.lose_everything_unsynced = true})));
    ASSERT_TRUE(Ok(DB::Open(options_, path, &db_)));
    ExpectLarge(status.ok() ? std::optional<std::string>("v") : std::nullopt);
    EXPECT_EQ(Get("a"), "1");
    EXPECT_EQ(Get("b"), "2");
    db_.reset();
  }
  EXPECT_GE(failures, 5);
}

// Refuses to reserve much space for logs, or to create or remove any file.
class FullDeviceEnv final : public EnvWrapper {
 public:
  FullDeviceEnv() : EnvWrapper(Env::Default()) {}
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    if (refuses_files) return NoSpace();
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok() && path.ends_with(".log")) {
      *file = std::make_unique<File>(this, std::move(*file));
    }
    return status;
  }

  Status RemoveFile(const std::string& path) override {
    return refuses_removal ? Status::FromErrno("test", EIO)
                           : target()->RemoveFile(path);
  }

  std::atomic<bool> refuses_space{false};
  std::atomic<bool> refuses_removal{false};
  std::atomic<bool> refuses_files{false};

 private:
  class File final : public ForwardingFile {
   public:
    File(FullDeviceEnv* env, std::unique_ptr<WritableFile> target)
        : ForwardingFile(std::move(target)), env_(env) {}
    Status Reserve(uint64_t /*offset*/, uint64_t length) override {
      const bool is_refused = env_->refuses_space && length > (64 << 10);
      return is_refused ? NoSpace() : Status::OK();
    }

   private:
    FullDeviceEnv* const env_;
  };

  static Status NoSpace() { return Status::FromErrno("test", ENOSPC); }
};

// The log before it is whole, and has space left for them.
TEST_F(DbLargeBatchTest, DeletionsAreTakenAfterOneFoundNoSpace) {
  FullDeviceEnv env;
  options_.env = &env;
  Open();
  Put("a", "1");
  Put("b", "2");
  FillBatch(&batch_, std::string(50, 'v'));
  env.refuses_space = true;
  EXPECT_TRUE(db_->Write({}, &batch_).IsNoSpace());
  env.refuses_files = true;
  EXPECT_TRUE(Ok(db_->Delete({}, "a")));
  EXPECT_TRUE(db_->Put({}, "b", "3").IsNoSpace());
  env.refuses_space = false;
  env.refuses_files = false;
  ASSERT_TRUE(Ok(db_->Resume()));
  Put("c", "3");
  ASSERT_TRUE(Ok(db_->Write({}, &batch_)));
  ExpectLarge(std::string(50, 'v'));
  Reopen();
  ExpectLarge(std::string(50, 'v'));
  EXPECT_EQ(Get("a"), "NotFound");
  EXPECT_EQ(Get("b"), "2");
  db_.reset();
}

// The new log remains, and says where the log before it ends.
TEST_F(DbLargeBatchTest, NothingIsTakenIfTheLogWithoutSpaceRemains) {
  FullDeviceEnv env;
  options_.env = &env;
  Open();
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->Flush({})));
  FillBatch(&batch_, std::string(50, 'v'));
  env.refuses_space = true;
  env.refuses_removal = true;
  EXPECT_TRUE(db_->Write({}, &batch_).IsNoSpace());
  env.refuses_files = true;
  EXPECT_TRUE(db_->Delete({}, "a").IsNoSpace());
  env.refuses_space = false;
  env.refuses_removal = false;
  env.refuses_files = false;
  ASSERT_TRUE(Ok(db_->Resume()));
  ASSERT_TRUE(Ok(db_->Write({.sync = true}, &batch_)));
  ExpectLarge(std::string(50, 'v'));
  // As a crash leaves it.
  const std::string copy = dir_.Sub("copy");
  std::filesystem::copy(path_, copy);
  std::filesystem::remove(copy + "/LOCK");
  Reopen();
  ExpectLarge(std::string(50, 'v'));
  Close();
  path_ = copy;
  Open();
  ExpectLarge(std::string(50, 'v'));
  EXPECT_EQ(Get("a"), "1");
  db_.reset();
}

// A batch of deletions alone is written as a small one is.
TEST_F(DbLargeBatchTest, DeletionsAloneAreTakenWithoutSpace) {
  FullDeviceEnv env;
  options_.env = &env;
  Open();
  Put("a", "1");
  batch_.Clear();
  batch_.Delete("a");
  for (int i = 0; i < kKeys; ++i) batch_.Delete(LargeKey(i));
  env.refuses_space = true;
  EXPECT_TRUE(Ok(db_->Write({}, &batch_)));
  EXPECT_EQ(Get("a"), "NotFound");
  db_.reset();
}

// The bytewise order, with its point index.
TEST_F(DbLargeBatchTest, ReadersFindAllOrNothingBesideWriters) {
  options_.comparator = BytewiseComparator();
  Open();
  constexpr int kRounds = 12;
  std::atomic<int> writers{2};
  const uint64_t before = LargeBatches();
  RunThreads(4, [&](int thread) {
    if (thread < 2) {
      WriteBatch batch;
      for (int round = 0; round < kRounds; ++round) {
        FillBatch(&batch, std::to_string(thread) + "." + std::to_string(round));
        EXPECT_TRUE(Ok(db_->Write({}, &batch)));
      }
      --writers;
      return;
    }
    for (uint64_t n = 0; writers > 0; ++n) {
      if (thread == 2) {
        EXPECT_TRUE(Ok(db_->Put({}, "small", std::to_string(n))));
        continue;
      }
      std::string first, value;
      int count = 0;
      const auto it = db_->NewIterator({});
      for (it->Seek("large"); it->Valid() && it->key().starts_with("large");
           it->Next(), ++count) {
        value = it->value().ToString();
        if (count == 0) first = value;
        ASSERT_EQ(value, first) << count;
      }
      ASSERT_TRUE(count == 0 || count == kKeys) << count;
    }
  });
  EXPECT_GT(LargeBatches(), before);
  Reopen();
  std::string value = Get(LargeKey(0));
  ExpectLarge(value);
}

}  // namespace
}  // namespace varve::test
