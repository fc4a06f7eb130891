// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a follower shows what the primary has, after each kind of change, and
// says so where it cannot. Method: the primary and the follower in one process,
// compared after each catch-up.

#include "test/testing/db_helpers.h"
#include "test/testing/run_tool.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"
#include "varve/read_transaction.h"
#include "varve/transaction_db.h"

namespace varve::test {
namespace {

Options PrimaryOptions() {
  Options options = TinyOptions();
  options.disable_auto_compactions = true;
  options.num_levels = 7;
  return options;
}

class FollowerTest : public ::testing::Test {
 protected:
  FollowerTest() : path_(dir_.Sub("db")), options_(PrimaryOptions()) {}
  void TearDown() override {
    EndFollower();
    EndPrimary();
  }

  void OpenPrimary() {
    Options options = options_;
    options.create_if_missing = true;
    ASSERT_TRUE(Ok(DB::Open(options, path_, &primary_)));
  }
  // With families "a" and "b".
  void OpenPrimaryWithFamilies() {
    DBOptions options = options_;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    ASSERT_TRUE(
        Ok(DB::Open(options, path_, Descriptors(), &handles_, &primary_)));
  }
  std::vector<ColumnFamilyDescriptor> Descriptors() const {
    return {
        {kDefaultColumnFamilyName, options_}, {"a", options_}, {"b", options_}};
  }
  void EndPrimary() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    primary_.reset();
  }
  void OpenFollower() {
    ASSERT_TRUE(Ok(
        DB::OpenAsSecondary(options_, path_, dir_.Sub("second"), &follower_)));
  }
  void OpenFollowerWithFamilies() {
    ASSERT_TRUE(Ok(DB::OpenAsSecondary(options_, path_, "", Descriptors(),
                                       &followed_, &follower_)));
  }
  void EndFollower() {
    for (ColumnFamilyHandle* const handle : followed_) delete handle;
    followed_.clear();
    follower_.reset();
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(Ok(primary_->Put(WriteOptions(), key, value)));
  }
  void PutIn(size_t family, const std::string& key, const std::string& value) {
    ASSERT_TRUE(
        Ok(primary_->Put(WriteOptions(), handles_[family], key, value)));
  }
  void Flush() { ASSERT_TRUE(Ok(primary_->Flush(FlushOptions()))); }
  void CompactAll() {
    ASSERT_TRUE(
        Ok(primary_->CompactRange(CompactRangeOptions(), nullptr, nullptr)));
  }
  static std::string ValueIn(DB* db, ColumnFamilyHandle* family,
                             const std::string& key) {
    std::string value;
    const Status status = db->Get(ReadOptions(), family, key, &value);
    if (status.IsNotFound()) return "(none)";
    return status.ok() ? value : status.ToString();
  }
  std::string Followed(const std::string& key) {
    return ValueIn(follower_.get(), follower_->DefaultColumnFamily(), key);
  }
  void CatchUp() { ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary())); }
  // Catches up, and compares all entries.
  void ExpectSame() {
    CatchUp();
    if (HasFatalFailure()) return;
    EntryList expected;
    EntryList found;
    ASSERT_TRUE(Ok(ScanForward(primary_.get(), {}, &expected)));
    ASSERT_TRUE(Ok(ScanForward(follower_.get(), {}, &found)));
    ASSERT_TRUE(SameEntries(expected, found));
    ASSERT_TRUE(Ok(ScanBackward(follower_.get(), {}, &found)));
    ASSERT_TRUE(SameEntries(expected, found));
    for (const auto& [key, value] : expected) ASSERT_EQ(Followed(key), value);
  }

  TempDir dir_;
  const std::string path_;
  Options options_;
  std::unique_ptr<DB> primary_;
  std::vector<ColumnFamilyHandle*> handles_;
  std::unique_ptr<DB> follower_;
  std::vector<ColumnFamilyHandle*> followed_;
};

TEST_F(FollowerTest, ShowsWhatIsNew) {
  OpenPrimary();
  Put("a", "1");
  OpenFollower();
  EXPECT_EQ(Followed("a"), "1");
  Put("a", "2");
  Put("b", "1");
  EXPECT_EQ(Followed("a"), "1");
  EXPECT_EQ(Followed("b"), "(none)");
  ExpectSame();
  EXPECT_EQ(Followed("a"), "2");
  ExpectSame();
  ASSERT_TRUE(Ok(primary_->Delete(WriteOptions(), "a")));
  ExpectSame();
  EXPECT_EQ(Followed("a"), "(none)");
}

TEST_F(FollowerTest, RefusesWrites) {
  OpenPrimary();
  OpenFollower();
  EXPECT_TRUE(follower_->Put(WriteOptions(), "a", "1").IsNotSupported());
  EXPECT_TRUE(follower_->Flush(FlushOptions()).IsNotSupported());
  EXPECT_TRUE(primary_->TryCatchUpWithPrimary().IsNotSupported());
  EXPECT_TRUE(primary_->Promote().IsNotSupported());
}

TEST_F(FollowerTest, FollowsFlushesAndCompactions) {
  OpenPrimary();
  OpenFollower();
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 50; ++i) Put(Key(i), std::to_string(round * 100 + i));
    if (round % 2 == 0) ExpectSame();
    Flush();
    ExpectSame();
    for (int i = 0; i < 50; i += 3) {
      ASSERT_TRUE(Ok(primary_->Delete(WriteOptions(), Key(i))));
    }
    if (round % 3 == 2) {
      CompactAll();
      ExpectSame();
    }
    ASSERT_TRUE(Ok(primary_->DeleteRange(WriteOptions(), Key(10), Key(20))));
    ExpectSame();
  }
  std::string memtables;
  ASSERT_TRUE(
      follower_->GetProperty("varve.num-immutable-mem-table", &memtables));
  Flush();
  ExpectSame();
  ASSERT_TRUE(
      follower_->GetProperty("varve.num-immutable-mem-table", &memtables));
  EXPECT_EQ(memtables, "0");
}

TEST_F(FollowerTest, MissesNothingThatWentToTablesUnread) {
  OpenPrimary();
  Put("first", "1");
  OpenFollower();
  // Several logs come and go between two catch-ups.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 30; ++i) Put(Key(i), std::to_string(round));
    Flush();
  }
  CompactAll();
  Put("last", "1");
  ExpectSame();
}

TEST_F(FollowerTest, IteratorsAndSnapshotsStayAtTheirMoment) {
  OpenPrimaryWithFamilies();
  for (size_t family = 0; family < 3; ++family) {
    for (int i = 0; i < 20; ++i) PutIn(family, Key(i), "old");
  }
  OpenFollowerWithFamilies();
  std::vector<std::unique_ptr<Iterator>> iterators;
  ASSERT_TRUE(
      Ok(follower_->NewIterators(ReadOptions(), followed_, &iterators)));
  const Snapshot* const snapshot = follower_->GetSnapshot();
  const std::unique_ptr<PinnedSnapshot, void (*)(PinnedSnapshot*)> pinned(
      follower_->BeginReadTransaction(), [](PinnedSnapshot* s) { s->End(); });
  for (int round = 0; round < 3; ++round) {
    for (size_t family = 0; family < 3; ++family) {
      for (int i = 0; i < 20; ++i) {
        PutIn(family, Key(i), "new" + std::to_string(round));
      }
    }
    CatchUp();
    ASSERT_TRUE(Ok(primary_->Flush(FlushOptions(), handles_)));
    for (ColumnFamilyHandle* const handle : handles_) {
      ASSERT_TRUE(Ok(primary_->CompactRange(CompactRangeOptions(), handle,
                                            nullptr, nullptr)));
    }
    CatchUp();
    for (size_t family = 0; family < 3; ++family) {
      EXPECT_EQ(ValueIn(follower_.get(), followed_[family], Key(3)),
                "new" + std::to_string(round));
      for (const Snapshot* const old :
           {snapshot, static_cast<const Snapshot*>(pinned.get())}) {
        ReadOptions options;
        options.snapshot = old;
        std::string value;
        ASSERT_TRUE(
            Ok(follower_->Get(options, followed_[family], Key(3), &value)));
        EXPECT_EQ(value, "old");
        const auto again = follower_->NewIterator(options, followed_[family]);
        int count = 0;
        for (again->SeekToFirst(); again->Valid(); again->Next(), ++count) {
          ASSERT_EQ(again->value().ToString(), "old");
        }
        EXPECT_EQ(count, 20);
      }
      int count = 0;
      Iterator* const it = iterators[family].get();
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++count) {
        ASSERT_EQ(it->value().ToString(), "old");
      }
      EXPECT_EQ(count, 20);
    }
  }
  follower_->ReleaseSnapshot(snapshot);
}

TEST_F(FollowerTest, FollowsTheReopenedPrimary) {
  for (const bool writes : {false, true}) {
    for (const bool flushes : {false, true}) {
      OpenPrimary();
      if (follower_ == nullptr) OpenFollower();
      for (int round = 0; round < 3; ++round) {
        if (writes) Put(Key(round), "x");
        if (flushes) Flush();
        ExpectSame();
        EndPrimary();
        CatchUp();
        OpenPrimary();
        ExpectSame();
        Put("after", std::to_string(round));
        ExpectSame();
      }
      EndPrimary();
    }
  }
}

// A closed database without updates in its log is opened without an edit, and
// its log begins anew under the same name.
TEST_F(FollowerTest, FollowsALogThatBeginsAnew) {
  OpenPrimary();
  Put("a", "1");
  Flush();
  EndPrimary();
  OpenPrimary();
  EndPrimary();
  OpenFollower();
  for (int i = 0; i < 3; ++i) {
    OpenPrimary();
    ExpectSame();
    EndPrimary();
    CatchUp();
  }
  OpenPrimary();
  Put("a", "2");
  ExpectSame();
}

TEST_F(FollowerTest, FollowsFamilies) {
  OpenPrimaryWithFamilies();
  OpenFollowerWithFamilies();
  WriteBatch batch;
  for (size_t family = 0; family < 3; ++family) {
    batch.Put(handles_[family], "k", "1");
  }
  ASSERT_TRUE(Ok(primary_->Write(WriteOptions(), &batch)));
  CatchUp();
  for (ColumnFamilyHandle* const family : followed_) {
    EXPECT_EQ(ValueIn(follower_.get(), family, "k"), "1");
  }
  // One is created, which is not followed, and one dropped, which stays.
  ColumnFamilyHandle* created = nullptr;
  ASSERT_TRUE(Ok(primary_->CreateColumnFamily(options_, "c", &created)));
  ASSERT_TRUE(Ok(primary_->Put(WriteOptions(), created, "k", "c")));
  PutIn(2, "k", "2");
  CatchUp();
  EXPECT_EQ(ValueIn(follower_.get(), followed_[2], "k"), "2");
  PutIn(1, "k", "2");
  ASSERT_TRUE(Ok(primary_->DropColumnFamily(handles_[2])));
  CatchUp();
  EXPECT_EQ(ValueIn(follower_.get(), followed_[1], "k"), "2");
  EXPECT_EQ(ValueIn(follower_.get(), followed_[2], "k"), "2");
  PutIn(1, "k", "3");
  ASSERT_TRUE(Ok(primary_->Flush(FlushOptions(), handles_[1])));
  CatchUp();
  EXPECT_EQ(ValueIn(follower_.get(), followed_[1], "k"), "3");
  EXPECT_EQ(ValueIn(follower_.get(), followed_[2], "k"), "2");
  // The last handle of a dropped family frees it.
  delete followed_[2];
  followed_.pop_back();
  CatchUp();
  delete created;
}

// A transaction may outlive its database, and keeps the SuperVersions of its
// moment, also of a family that was dropped since.
TEST_F(FollowerTest, MayEndBeforeATransactionOfADroppedFamily) {
  OpenPrimaryWithFamilies();
  PutIn(2, "k", "1");
  OpenFollowerWithFamilies();
  ReadTransaction read(follower_.get());
  ASSERT_TRUE(Ok(primary_->DropColumnFamily(handles_[2])));
  Put("a", "1");
  ASSERT_TRUE(Ok(primary_->Flush(FlushOptions())));
  CatchUp();
  std::string value;
  EXPECT_TRUE(Ok(read.Get({}, followed_[2], "k", &value)));
  EndFollower();
  EXPECT_FALSE(read.Get({}, "a", &value).ok());
}

TEST_F(FollowerTest, CountsMergeOperandsOnce) {
  options_.merge_operator = NewUInt64AddOperator();
  OpenPrimary();
  OpenFollower();
  const auto one = [] { return std::string("\1\0\0\0\0\0\0\0", 8); }();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Ok(primary_->Merge(WriteOptions(), "sum", one)));
    if (i % 3 == 0) ExpectSame();
    if (i % 5 == 0) Flush();
    if (i % 7 == 0) CompactAll();
    if (i % 2 == 0) ExpectSame();
  }
  ExpectSame();
}

TEST_F(FollowerTest, ReadsManyUpdatesAtOnce) {
  options_.write_buffer_size = 64 << 20;
  OpenPrimary();
  OpenFollower();
  const std::string value(10000, 'v');
  for (int i = 0; i < 2000; ++i) Put(Key(i), value + std::to_string(i));
  ExpectSame();
  Put("last", "1");
  ExpectSame();
}

// Keeps the work of the primary's threads until the end.
class HoldingEnv final : public EnvWrapper {
 public:
  HoldingEnv() : EnvWrapper(Env::Default()) {}
  Status Schedule(std::function<void()> work, Priority priority) override {
    if (!holds) return target()->Schedule(std::move(work), priority);
    held.emplace_back(std::move(work), priority);
    return Status::OK();
  }
  void LetGo() {
    holds = false;
    for (auto& [work, priority] : std::exchange(held, {})) {
      ASSERT_TRUE(Ok(target()->Schedule(std::move(work), priority)));
    }
  }

  std::atomic<bool> holds{false};
  std::vector<std::pair<std::function<void()>, Priority>> held;
};

// No edit says yet that there is another log.
TEST_F(FollowerTest, FindsALogThatTheManifestDoesNotName) {
  HoldingEnv env;
  Options options = options_;
  options.create_if_missing = true;
  options.env = &env;
  ASSERT_TRUE(Ok(DB::Open(options, path_, &primary_)));
  Put("a", "1");
  OpenFollower();
  env.holds = true;
  FlushOptions flush;
  flush.wait = false;
  ASSERT_TRUE(Ok(primary_->Flush(flush)));
  Put("a", "2");
  CatchUp();
  EXPECT_EQ(Followed("a"), "2");
  Put("a", "3");
  CatchUp();
  EXPECT_EQ(Followed("a"), "3");
  env.LetGo();
  Flush();
  ExpectSame();
  EndFollower();
  EndPrimary();
}

// ---- Promotion --------------------------------------------------------------

// Finds no file of that name at its first open.
class MissingOnceEnv final : public EnvWrapper {
 public:
  explicit MissingOnceEnv(Env* target) : EnvWrapper(target) {}
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    if (path != missing || std::exchange(was_missing, true)) {
      return target()->NewRandomAccessFile(path, options, file);
    }
    return Status::NotFound(path);
  }
  std::string missing;
  bool was_missing = false;
};

// An attempt fails after it has opened the tables of some families, and the
// next one succeeds.
TEST_F(FollowerTest, HoldsTablesThatAFailedAttemptHasOpened) {
  OpenPrimaryWithFamilies();
  MissingOnceEnv env(Env::Default());
  for (const bool checks : {false, true}) {
    options_.env = &env;
    options_.paranoid_checks = checks;
    env.was_missing = false;
    OpenFollowerWithFamilies();
    for (size_t i = 0; i < 3; ++i) PutIn(i, "key", "value");
    ASSERT_TRUE(Ok(primary_->Flush(FlushOptions(), handles_)));
    std::vector<LiveFileMetaData> files;
    primary_->GetLiveFilesMetaData(&files);
    // Newest last, of the families in their order.
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
      return a.file_number < b.file_number;
    });
    ASSERT_GE(files.size(), 3u);
    files.erase(files.begin(), files.end() - 3);
    env.missing = path_ + files[2].name;
    CatchUp();
    EXPECT_TRUE(env.was_missing) << env.missing;
    for (const LiveFileMetaData& file : files) {
      ASSERT_TRUE(Ok(Env::Default()->RemoveFile(path_ + file.name)));
    }
    for (ColumnFamilyHandle* const family : followed_) {
      EXPECT_EQ(ValueIn(follower_.get(), family, "key"), "value")
          << family->GetName();
    }
    EndFollower();
    options_.env = Env::Default();
    EndPrimary();
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
    OpenPrimaryWithFamilies();
  }
}

TEST_F(FollowerTest, PromoteBesideALivingPrimaryIsBusy) {
  OpenPrimary();
  Put("a", "1");
  OpenFollower();
  const Status status = follower_->Promote();
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  Put("a", "2");
  ExpectSame();
}

TEST_F(FollowerTest, PromotedIsAnOrdinaryDatabase) {
  OpenPrimaryWithFamilies();
  for (size_t family = 0; family < 3; ++family) PutIn(family, "k", "1");
  OpenFollowerWithFamilies();
  const Snapshot* const snapshot = follower_->GetSnapshot();
  const auto iterator = follower_->NewIterator(ReadOptions(), followed_[1]);
  for (size_t family = 0; family < 3; ++family) PutIn(family, "k", "2");
  ASSERT_TRUE(Ok(primary_->Flush(FlushOptions(), handles_[1])));
  PutIn(1, "k", "3");
  EndPrimary();
  ASSERT_TRUE(Ok(follower_->Promote()));
  EXPECT_TRUE(follower_->Promote().IsNotSupported());
  EXPECT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
  EXPECT_EQ(ValueIn(follower_.get(), followed_[0], "k"), "2");
  EXPECT_EQ(ValueIn(follower_.get(), followed_[1], "k"), "3");
  ASSERT_TRUE(Ok(follower_->Put(WriteOptions(), followed_[2], "k", "4")));
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Ok(follower_->Put(WriteOptions(), followed_[i % 3], Key(i),
                                  std::string(500, 'v'))));
  }
  ASSERT_TRUE(Ok(follower_->Flush(FlushOptions(), followed_)));
  ASSERT_TRUE(Ok(follower_->CompactRange(CompactRangeOptions(), followed_[2],
                                         nullptr, nullptr)));
  ReadOptions old;
  old.snapshot = snapshot;
  std::string value;
  for (ColumnFamilyHandle* const family : followed_) {
    ASSERT_TRUE(Ok(follower_->Get(old, family, "k", &value)));
    EXPECT_EQ(value, "1");
  }
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value().ToString(), "1");
  follower_->ReleaseSnapshot(snapshot);
}

TEST_F(FollowerTest, TransactionsLookForConflictsWhileItIsPromoted) {
  OpenPrimaryWithFamilies();
  OpenFollowerWithFamilies();
  // The default family gets a memtable that is immutable already.
  PutIn(0, "k", "1");
  PutIn(1, "k", "1");
  ASSERT_TRUE(Ok(primary_->Flush(FlushOptions(), handles_[1])));
  PutIn(1, "k", "2");
  EndPrimary();
  CatchUp();
  std::unique_ptr<TransactionDB> transactions;
  ASSERT_TRUE(
      Ok(TransactionDB::WrapDB(std::shared_ptr<DB>(std::move(follower_)),
                               TransactionDBOptions(), &transactions)));
  std::atomic<bool> looks{false};
  std::atomic<bool> is_promoted{false};
  std::thread other([&] {
    do {
      std::unique_ptr<Transaction> transaction(transactions->BeginTransaction(
          WriteOptions(), TransactionOptions(), nullptr));
      transaction->SetSnapshot();
      std::string value;
      EXPECT_TRUE(transaction->GetForUpdate(ReadOptions(), "absent", &value)
                      .IsNotFound());
      EXPECT_TRUE(Ok(transaction->Rollback()));
      looks = true;
    } while (!is_promoted);
  });
  while (!looks) std::this_thread::yield();
  EXPECT_TRUE(Ok(transactions->Promote()));
  is_promoted = true;
  other.join();
  EXPECT_TRUE(Ok(transactions->Put(WriteOptions(), "k", "2")));
  for (ColumnFamilyHandle* const handle : followed_) delete handle;
  followed_.clear();
}

TEST_F(FollowerTest, PromotedKeepsEverythingOverReopens) {
  for (const bool flushes : {false, true}) {
    for (const bool writes : {false, true}) {
      EntryList before;
      OpenPrimary();
      OpenFollower();
      for (int i = 0; i < 200; ++i) {
        Put(Key(i), std::to_string(i) + (writes ? "w" : "r"));
        if (i == 100) Flush();
        if (i == 120) CatchUp();
      }
      ASSERT_TRUE(Ok(ScanForward(primary_.get(), {}, &before)));
      EndPrimary();
      ASSERT_TRUE(Ok(follower_->Promote()));
      if (writes) {
        ASSERT_TRUE(Ok(follower_->Put(WriteOptions(), "z", "1")));
        std::erase_if(before, [](const auto& e) { return e.first == "z"; });
        before.emplace_back("z", "1");
      }
      if (flushes) {
        ASSERT_TRUE(Ok(follower_->Flush(FlushOptions())));
      }
      EntryList found;
      ASSERT_TRUE(Ok(ScanForward(follower_.get(), {}, &found)));
      EXPECT_TRUE(SameEntries(before, found));
      ASSERT_TRUE(Ok(follower_->Close()));
      EndFollower();
      OpenPrimary();
      ASSERT_TRUE(Ok(ScanForward(primary_.get(), {}, &found)));
      EXPECT_TRUE(SameEntries(before, found));
      EndPrimary();
    }
  }
}

TEST_F(FollowerTest, PromoteNeedsAllFamilies) {
  OpenPrimaryWithFamilies();
  OpenFollower();
  PutIn(1, "k", "1");
  EndPrimary();
  const Status status = follower_->Promote();
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_TRUE(Contains(status.ToString(), "a, b")) << status.ToString();
  // It has given the lock back, and follows.
  OpenPrimaryWithFamilies();
  Put("x", "1");
  ExpectSame();
}

// ---- What cannot be followed ------------------------------------------------

// Overwrites a byte of the newest file that begins or ends like that.
void Damage(const std::string& path, const std::string& part, int64_t offset) {
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(Env::Default()->GetChildren(path, &names)));
  std::sort(names.begin(), names.end());
  std::string name;
  for (const std::string& one : names) {
    if (Contains(one, part)) name = one;
  }
  ASSERT_NE(name, "");
  FILE* const file = fopen((path + "/" + name).c_str(), "r+");
  ASSERT_NE(file, nullptr);
  fseek(file, static_cast<long>(offset), SEEK_SET);
  const int byte = fgetc(file);
  fseek(file, static_cast<long>(offset), SEEK_SET);
  fputc(byte ^ 0x55, file);
  fclose(file);
}

// Returns where the zeros at the end of the MANIFEST begin.
int64_t EndOfManifest(const std::string& path) {
  std::vector<std::string> names;
  EXPECT_TRUE(Ok(Env::Default()->GetChildren(path, &names)));
  std::string text;
  for (const std::string& name : names) {
    if (!name.starts_with("MANIFEST-")) continue;
    EXPECT_TRUE(Ok(ReadFileToString(Env::Default(), path + "/" + name, &text)));
  }
  while (text.ends_with('\0')) text.pop_back();
  return static_cast<int64_t>(text.size());
}

TEST_F(FollowerTest, ReportsADamagedManifest) {
  OpenPrimary();
  Put("a", "1");
  OpenFollower();
  const int64_t place = EndOfManifest(path_) + 20;
  Put("a", "2");
  Flush();
  Put("b", "2");
  Flush();
  Damage(path_, "MANIFEST-", place);
  const Status status = follower_->TryCatchUpWithPrimary();
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  // It shows what it showed.
  EXPECT_EQ(Followed("a"), "1");
  EXPECT_EQ(Followed("b"), "(none)");
  Damage(path_, "MANIFEST-", place);
  ExpectSame();
}

TEST_F(FollowerTest, ReportsADamagedLog) {
  options_.wal_write = WriteMethod::kCall;
  OpenPrimary();
  Put("a", "1");
  OpenFollower();
  const std::string value(100, 'v');
  for (int i = 0; i < 10; ++i) Put(Key(i), value);
  std::string text;
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(Env::Default()->GetChildren(path_, &names)));
  std::sort(names.begin(), names.end());
  std::string log;
  for (const std::string& name : names) {
    if (name.ends_with(".log")) log = name;
  }
  ASSERT_TRUE(Ok(ReadFileToString(Env::Default(), path_ + "/" + log, &text)));
  const size_t place = text.find(value) + 10;
  Damage(path_, ".log", static_cast<int64_t>(place));
  const Status status = follower_->TryCatchUpWithPrimary();
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  EXPECT_EQ(Followed("a"), "1");
  EXPECT_EQ(Followed(Key(0)), "(none)");
  Damage(path_, ".log", static_cast<int64_t>(place));
  ExpectSame();
}

// Returns the path of the newest log.
std::string NewestLog(const std::string& path) {
  std::vector<std::string> names;
  EXPECT_TRUE(Ok(Env::Default()->GetChildren(path, &names)));
  std::sort(names.begin(), names.end());
  std::string log;
  for (const std::string& name : names) {
    if (name.ends_with(".log")) log = path + "/" + name;
  }
  return log;
}

// Truncates the log in the middle of the value.
void Tear(const std::string& log, const std::string& value) {
  std::string text;
  ASSERT_TRUE(Ok(ReadFileToString(Env::Default(), log, &text)));
  const size_t place = text.find(value);
  ASSERT_NE(place, std::string::npos);
  ASSERT_TRUE(Ok(Env::Default()->Truncate(log, place + value.size() / 2)));
}

TEST_F(FollowerTest, KnowsThatAClosedLogHasLostItsEnd) {
  OpenPrimary();
  OpenFollower();
  Put("a", "1");
  const std::string value(100, 'v');
  Put("b", value);
  EndPrimary();
  Tear(NewestLog(path_), value);
  const Status status = follower_->TryCatchUpWithPrimary();
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
}

// A record that its dead writer has not completed was not answered.
TEST_F(FollowerTest, EndsBeforeATornRecordAndTakesOver) {
  OpenPrimary();
  Put("a", "1");
  const std::string value(100, 'v');
  Put("b", value);
  // As a kill would leave it.
  const std::string copy = dir_.Sub("copy");
  ASSERT_EQ(RunTool({"cp", "-r", path_, copy}).exit_code, 0);
  EndPrimary();
  Tear(NewestLog(copy), value);
  ASSERT_TRUE(Ok(DB::OpenAsSecondary(options_, copy, "", &follower_)));
  EXPECT_EQ(Followed("a"), "1");
  EXPECT_EQ(Followed("b"), "(none)");
  CatchUp();
  ASSERT_TRUE(Ok(follower_->Promote()));
  ASSERT_TRUE(Ok(follower_->Put(WriteOptions(), "c", "1")));
  // The torn log stays until its updates are in tables. Each Open passes it.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Followed("a"), "1");
    EXPECT_EQ(Followed("b"), "(none)");
    EXPECT_EQ(Followed("c"), "1");
    ASSERT_TRUE(Ok(follower_->Close()));
    follower_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, copy, &follower_)));
  }
  // So does a follower of the promoted one.
  std::unique_ptr<DB> second;
  ASSERT_TRUE(Ok(DB::OpenAsSecondary(options_, copy, "", &second)));
  EXPECT_EQ(ValueIn(second.get(), nullptr, "c"), "1");
}

TEST_F(FollowerTest, ReportsAMissingLog) {
  OpenPrimary();
  Put("a", "1");
  OpenFollower();
  Put("a", "2");
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(Env::Default()->GetChildren(path_, &names)));
  for (const std::string& name : names) {
    if (name.ends_with(".log")) {
      ASSERT_TRUE(Ok(Env::Default()->RemoveFile(path_ + "/" + name)));
    }
  }
  const Status status = follower_->TryCatchUpWithPrimary();
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  EXPECT_EQ(Followed("a"), "1");
}

TEST_F(FollowerTest, ReportsAnotherDatabase) {
  OpenPrimary();
  Put("a", "1");
  OpenFollower();
  EndPrimary();
  // Keeps the directory.
  ASSERT_TRUE(
      Ok(WriteStringToFile(Env::Default(), "", path_ + "/notes", false)));
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  OpenPrimary();
  Put("b", "1");
  const Status status = follower_->TryCatchUpWithPrimary();
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_EQ(Followed("a"), "1");
  EXPECT_EQ(Followed("b"), "(none)");
}

// ---- Prepared transactions --------------------------------------------------

TEST_F(FollowerTest, ShowsTransactionsFromTheirCommitOn) {
  Options options = options_;
  options.create_if_missing = true;
  std::unique_ptr<TransactionDB> db;
  ASSERT_TRUE(
      Ok(TransactionDB::Open(options, TransactionDBOptions(), path_, &db)));
  OpenFollower();
  for (const bool flushes : {false, true}) {
    const std::string key = flushes ? "b" : "a";
    std::unique_ptr<Transaction> transaction(
        db->BeginTransaction(WriteOptions(), TransactionOptions(), nullptr));
    ASSERT_TRUE(Ok(transaction->SetName("t" + key)));
    ASSERT_TRUE(Ok(transaction->Put(key, "1")));
    ASSERT_TRUE(Ok(transaction->Prepare()));
    CatchUp();
    EXPECT_EQ(Followed(key), "(none)");
    ASSERT_TRUE(Ok(db->Put(WriteOptions(), "other" + key, "1")));
    if (flushes) {
      ASSERT_TRUE(Ok(db->Flush(FlushOptions())));
    }
    CatchUp();
    EXPECT_EQ(Followed(key), "(none)");
    EXPECT_EQ(Followed("other" + key), "1");
    ASSERT_TRUE(Ok(transaction->Commit()));
    CatchUp();
    EXPECT_EQ(Followed(key), "1");
    transaction.reset(
        db->BeginTransaction(WriteOptions(), TransactionOptions(), nullptr));
    ASSERT_TRUE(Ok(transaction->SetName("r" + key)));
    ASSERT_TRUE(Ok(transaction->Put(key, "2")));
    ASSERT_TRUE(Ok(transaction->Prepare()));
    CatchUp();
    ASSERT_TRUE(Ok(transaction->Rollback()));
    CatchUp();
    EXPECT_EQ(Followed(key), "1");
  }
}

// ---- Cost -------------------------------------------------------------------

// Counts the calls that become system calls.
class CountingEnv final : public EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(Env::Default()) {}

  int opens = 0;
  int lists = 0;
  int stats = 0;
  int reads = 0;

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override {
    ++opens;
    return target()->NewSequentialFile(path, options, file);
  }
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    ++opens;
    Status status = target()->NewRandomAccessFile(path, options, file);
    if (status.ok()) *file = std::make_unique<Counted>(std::move(*file), this);
    return status;
  }
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    ++lists;
    return target()->GetChildren(path, names);
  }
  Status FileExists(const std::string& path) override {
    ++stats;
    return target()->FileExists(path);
  }
  Status GetFileSize(const std::string& path, uint64_t* size) override {
    ++stats;
    return target()->GetFileSize(path, size);
  }
  Status GetFileId(const std::string& path, FileId* id) override {
    ++stats;
    return target()->GetFileId(path, id);
  }

 private:
  class Counted final : public RandomAccessFile {
   public:
    Counted(std::unique_ptr<RandomAccessFile> file, CountingEnv* env)
        : file_(std::move(file)), env_(env) {}
    Status Read(uint64_t offset, size_t count, Slice* result,
                char* scratch) const override {
      ++env_->reads;
      return file_->Read(offset, count, result, scratch);
    }

   private:
    const std::unique_ptr<RandomAccessFile> file_;
    CountingEnv* const env_;
  };
};

TEST_F(FollowerTest, ACatchUpCostsAFewCalls) {
  OpenPrimary();
  Put("a", "1");
  CountingEnv env;
  Options options = options_;
  options.env = &env;
  std::unique_ptr<DB> follower;
  ASSERT_TRUE(Ok(DB::OpenAsSecondary(options, path_, "", &follower)));
  const auto measure = [&](int reads) {
    env.opens = env.lists = env.stats = env.reads = 0;
    ASSERT_TRUE(Ok(follower->TryCatchUpWithPrimary()));
    EXPECT_EQ(env.opens, 0);
    EXPECT_EQ(env.lists, 1);
    EXPECT_EQ(env.stats, 3);  // CURRENT, twice, and the newest log.
    EXPECT_LE(env.reads, reads);
  };
  measure(3);  // The MANIFEST, twice, and the log.
  Put("a", "2");
  measure(4);
  for (int i = 0; i < 100; ++i) Put(Key(i), "1");
  measure(4);
}

TEST_F(FollowerTest, ReportsAMissingDatabase) {
  EXPECT_FALSE(DB::OpenAsSecondary(options_, path_, "", &follower_).ok());
  EXPECT_EQ(follower_, nullptr);
}

}  // namespace
}  // namespace varve::test
