// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a key with merge operands reads as if the operator had been applied at
// each write, wherever its versions are: in memtables, in tables, on both sides
// of snapshots, of deletions and of range deletions. Method: string append,
// which shows lost, repeated and exchanged operands, in directed cases and at
// random against a map.

#include "varve/merge_operator.h"

#include <stdexcept>

#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "varve/column_family.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbMergeTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_.merge_operator = NewStringAppendOperator();
    options_.disable_auto_compactions = true;
    Open();
  }

  // Returns the key's value as Get, MultiGet and iterators in both directions
  // find it, which must be the same.
  std::string Read(const std::string& key, const Snapshot* snapshot = nullptr) {
    const std::string value = Get(key, snapshot);
    ReadOptions options{.snapshot = snapshot};
    PinnableSlice pinned;
    Status status = db_->Get(options, key, &pinned);
    EXPECT_EQ(status.ok() ? pinned.ToString() : Text(status), value);
    const Slice keys[] = {key, "absent", key};
    std::string values[3];
    Status statuses[3];
    db_->MultiGet(options, 3, keys, values, statuses);
    EXPECT_EQ(statuses[0].ok() ? values[0] : Text(statuses[0]), value);
    EXPECT_EQ(statuses[2].ok() ? values[2] : Text(statuses[2]), value);
    EXPECT_TRUE(statuses[1].IsNotFound());
    const auto it = db_->NewIterator(options);
    const auto found = [&] {
      if (!it->status().ok()) return it->status().ToString();
      return it->Valid() && it->key() == Slice(key) ? it->value().ToString()
                                                    : std::string("NotFound");
    };
    it->Seek(key);
    EXPECT_EQ(found(), value);
    it->SeekForPrev(key);
    EXPECT_EQ(found(), value);
    return value;
  }

  static std::string Text(const Status& status) {
    return status.IsNotFound() ? "NotFound" : status.ToString();
  }
};

TEST_F(DbMergeTest, AppliesOperandsInAllPlaces) {
  Merge("a", "1");
  EXPECT_EQ(Read("a"), "1");
  Merge("a", "2");
  EXPECT_EQ(Read("a"), "1,2");
  Flush();
  EXPECT_EQ(Read("a"), "1,2");
  Merge("a", "3");
  EXPECT_EQ(Read("a"), "1,2,3");
  Flush();
  Reopen();
  EXPECT_EQ(Read("a"), "1,2,3");
  CompactAll();
  EXPECT_EQ(Read("a"), "1,2,3");
  Merge("a", "4");
  EXPECT_EQ(Read("a"), "1,2,3,4");
  Put("a", "new");
  Merge("a", "5");
  EXPECT_EQ(Read("a"), "new,5");
  Reopen();
  EXPECT_EQ(Read("a"), "new,5");
}

TEST_F(DbMergeTest, EndsAtDeletions) {
  Do("put a v, merge a 1, flush, delete a");
  EXPECT_EQ(Read("a"), "NotFound");
  Merge("a", "2");
  EXPECT_EQ(Read("a"), "2");
  Flush();
  EXPECT_EQ(Read("a"), "2");
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "a", "b")));
  EXPECT_EQ(Read("a"), "NotFound");
  Merge("a", "3");
  Merge("a", "4");
  EXPECT_EQ(Read("a"), "3,4");
  Flush();
  EXPECT_EQ(Read("a"), "3,4");
  CompactAll();
  EXPECT_EQ(Read("a"), "3,4");
}

TEST_F(DbMergeTest, SnapshotsKeepTheirStripes) {
  std::vector<const Snapshot*> snapshots;
  std::vector<std::string> expected;
  Put("a", "v");
  std::string value = "v";
  for (int i = 0; i < 6; ++i) {
    snapshots.push_back(db_->GetSnapshot());
    expected.push_back(value);
    for (int j = 0; j <= i % 3; ++j) {
      Merge("a", std::to_string(i));
      value += "," + std::to_string(i);
    }
    if (i % 2 == 1) Flush();
  }
  const auto check = [&] {
    EXPECT_EQ(Read("a"), value);
    for (size_t i = 0; i < snapshots.size(); ++i) {
      EXPECT_EQ(Read("a", snapshots[i]), expected[i]);
    }
  };
  check();
  Flush();
  check();
  CompactAll();
  check();
  while (!snapshots.empty()) {
    db_->ReleaseSnapshot(snapshots.front());
    snapshots.erase(snapshots.begin());
    expected.erase(expected.begin());
    CompactAll();
    check();
  }
}

TEST_F(DbMergeTest, NeedsAnOperator) {
  Merge("a", "1");
  Put("b", "2");
  options_.merge_operator = nullptr;
  Reopen();
  EXPECT_TRUE(db_->Merge({}, "a", "2").IsNotSupported());
  WriteBatch batch;
  batch.Put("c", "3");
  batch.Merge("a", "2");
  EXPECT_TRUE(db_->Write({}, &batch).IsNotSupported());
  WriteBatch copied(batch.Data());
  EXPECT_TRUE(db_->Write({}, &copied).IsNotSupported());
  EXPECT_EQ(Get("c"), "NotFound");
  EXPECT_EQ(Get("b"), "2");
  std::string value;
  EXPECT_TRUE(db_->Get({}, "a", &value).IsInvalidArgument());
  auto it = db_->NewIterator({});
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsInvalidArgument());
  it->Seek("b");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value().ToString(), "2");
  it->Prev();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsInvalidArgument());
  // Flushes and compactions keep the operands.
  Flush();
  CompactAll();
  options_.merge_operator = NewStringAppendOperator();
  it.reset();
  Reopen();
  EXPECT_EQ(Read("a"), "1");
}

// Fails or throws for the operand "bad".
class PickyOperator final : public MergeOperator {
 public:
  explicit PickyOperator(bool throws) : throws_(throws) {}
  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    if (input.existing_value != nullptr) {
      *new_value = input.existing_value->ToString();
    }
    for (const Slice& operand : input.operands) {
      if (operand == Slice("bad")) {
        if (throws_) Throw();
        return false;
      }
      *new_value += operand.ToString();
    }
    return true;
  }
  const char* Name() const override { return "PickyOperator"; }

 private:
  [[noreturn]] static void Throw() { throw std::runtime_error("bad operand"); }
  const bool throws_;
};

class DbFailingMergeTest : public DbMergeTest,
                           public ::testing::WithParamInterface<bool> {};

TEST_P(DbFailingMergeTest, FailsTheReadAndKeepsTheOperands) {
  options_.merge_operator = std::make_shared<PickyOperator>(GetParam());
  Do("reopen, put a v, merge a 1, merge a bad, put b 2");
  const auto check = [&] {
    std::string value;
    EXPECT_TRUE(db_->Get({}, "a", &value).IsCorruption());
    EXPECT_EQ(Get("b"), "2");
  };
  check();
  Flush();
  check();
  Do("merge a 3, flush, compact");
  check();
  // No operand was lost.
  options_.merge_operator = NewStringAppendOperator();
  Reopen();
  EXPECT_EQ(Read("a"), "v,1,bad,3");
}

INSTANTIATE_TEST_SUITE_P(All, DbFailingMergeTest, ::testing::Bool(),
                         [](const auto& throws) {
                           return throws.param ? "Throws" : "ReturnsFalse";
                         });

TEST_F(DbMergeTest, BatchesMixFamilies) {
  ColumnFamilyOptions family_options(options_);
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(family_options, "other", &family)));
  ColumnFamilyOptions without;
  ColumnFamilyHandle* plain = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(without, "plain", &plain)));
  WriteBatch batch;
  batch.Merge("a", "1");
  batch.Merge(family, "a", "2");
  batch.Merge("a", "3");
  batch.Merge(family, "a", "4");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ASSERT_TRUE(Ok(db_->Merge({}, family, "a", "5")));
  EXPECT_EQ(Read("a"), "1,3");
  std::string value;
  ASSERT_TRUE(Ok(db_->Get({}, family, "a", &value)));
  EXPECT_EQ(value, "2,4,5");
  batch.Merge(plain, "a", "6");
  EXPECT_TRUE(db_->Write({}, &batch).IsNotSupported());
  EXPECT_TRUE(db_->Merge({}, plain, "a", "6").IsNotSupported());
  EXPECT_EQ(Read("a"), "1,3");
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(plain)));
}

TEST_F(DbMergeTest, BoundsOperandsInTheMemtable) {
  options_.max_successive_merges = 3;
  Do("reopen, put a v, flush");
  std::string expected = "v";
  WriteBatch batch;
  for (int i = 0; i < 20; ++i) {
    const std::string operand = std::to_string(i);
    expected += "," + operand;
    if (i % 5 < 3) {
      batch.Merge("a", operand);
    } else {
      ASSERT_TRUE(Ok(db_->Write({}, &batch)));
      batch.Clear();
      Merge("a", operand);
    }
  }
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(Read("a"), expected);
  const Snapshot* const snapshot = db_->GetSnapshot();
  Merge("a", "end");
  EXPECT_EQ(Read("a", snapshot), expected);
  EXPECT_EQ(Read("a"), expected + ",end");
  db_->ReleaseSnapshot(snapshot);
  Reopen();
  EXPECT_EQ(Read("a"), expected + ",end");
}

TEST_F(DbMergeTest, BoundedMergesOfManyThreadsLoseNothing) {
  options_.merge_operator = NewUInt64AddOperator();
  options_.max_successive_merges = 2;
  Reopen();
  constexpr int kThreads = 4;
  constexpr uint64_t kMerges = 3000;
  RunThreads(kThreads, [this](int t) {
    for (uint64_t i = 0; i < kMerges; ++i) {
      const std::string one("\1\0\0\0\0\0\0\0", 8);
      const std::string key = "k" + std::to_string(i % 3);
      ASSERT_TRUE(Ok(
          db_->Merge({.sync = i % 100 == static_cast<uint64_t>(t)}, key, one)));
    }
  });
  for (int k = 0; k < 3; ++k) {
    std::string value;
    ASSERT_TRUE(Ok(db_->Get({}, "k" + std::to_string(k), &value)));
    uint64_t sum = 0;
    ASSERT_EQ(value.size(), sizeof(sum));
    memcpy(&sum, value.data(), sizeof(sum));
    EXPECT_EQ(sum, kThreads * kMerges / 3);
  }
}

// An operator that reads from the database that calls it.
class ReadingOperator final : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice& key, const Slice* existing_value, const Slice& value,
             std::string* new_value) const override {
    if (db != nullptr) {
      std::string separator;
      if (!db.load()->Get({}, "separator", &separator).ok()) return false;
      if (existing_value != nullptr) {
        *new_value = existing_value->ToString() + separator;
      }
    }
    *new_value += value.ToString();
    return key.size() != 0;
  }
  const char* Name() const override { return "ReadingOperator"; }

  std::atomic<DB*> db{nullptr};
};

// An iterator shows no value of some operands if it cannot read the others.
TEST_F(DbMergeTest, AnUnreadableOperandIsAnErrorAndNoValue) {
  FaultInjectionEnv env(Env::Default());
  options_.env = &env;
  options_.compression = CompressionType::kNone;
  options_.write_buffer_size = 4 << 20;  // All in one table.
  Reopen();
  std::string expected;
  std::vector<const Snapshot*> snapshots;  // They keep the operands apart.
  for (int i = 0; i < 4; ++i) {
    const std::string operand(50000, static_cast<char>('a' + i));
    Merge("k", operand);
    expected += (i == 0 ? "" : ",") + operand;
    snapshots.push_back(db_->GetSnapshot());
  }
  Flush();
  for (const Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
  ReadOptions options{.fill_cache = false};
  for (const bool forward : {true, false}) {
    int errors = 0;
    bool failed = true;
    for (uint64_t reads = 0; failed; ++reads) {
      const uint64_t before = env.FailureCount();
      env.FailAfter(reads, FaultInjectionEnv::InjectedError(), kReadOperation);
      const auto it = db_->NewIterator(options);
      if (forward) {
        it->SeekToFirst();
      } else {
        it->SeekToLast();
      }
      failed = env.FailureCount() > before;
      EXPECT_EQ(it->Valid(), it->status().ok()) << reads;
      if (it->Valid()) {
        EXPECT_TRUE(it->value() == Slice(expected)) << reads;
      } else {
        ++errors;
      }
      env.ClearFailure();
    }
    EXPECT_GT(errors, 1);
  }
  db_.reset();  // It uses the Env.
}

TEST_F(DbMergeTest, OperatorsMayReadFromTheDatabase) {
  const auto reading = std::make_shared<ReadingOperator>();
  options_.merge_operator = reading;
  options_.max_successive_merges = 4;
  Reopen();
  reading->db = db_.get();
  Put("separator", "+");
  for (int i = 0; i < 10; ++i) Merge("a", std::to_string(i));
  EXPECT_EQ(Read("a"), "0+1+2+3+4+5+6+7+8+9");
  Flush();
  CompactAll();
  EXPECT_EQ(Read("a"), "0+1+2+3+4+5+6+7+8+9");
}

TEST_F(DbMergeTest, ChangesDirectionAtMergedKeys) {
  Do("put a 0, merge b 1, merge b 2, flush, merge b 3, put c 4, merge d 5");
  const auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "first, next prev next next prev next next next"),
            "b=1,2,3 a=0 b=1,2,3 c=4 b=1,2,3 c=4 d=5 end");
  EXPECT_EQ(Walk(it.get(), "last prev, prev next"), "d=5 b=1,2,3 c=4");
}

TEST_F(DbMergeTest, ManyOperandsOfOneKey) {
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    if (i > 0) expected += ",";
    expected += std::to_string(i);
    Merge("k", std::to_string(i));
    if (i % 70 == 69) Flush();
  }
  Put("j", "1");
  Put("l", "2");
  EXPECT_EQ(Read("k"), expected);
  const auto it = db_->NewIterator({});
  it->SeekToLast();
  it->Prev();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value().ToString(), expected);
  it->Prev();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key().ToString(), "j");
}

TEST_F(DbMergeTest, AgreesWithAMapAtRandom) {
  Rng rng(TestSeed());
  options_.disable_auto_compactions = false;
  options_.max_successive_merges = rng.Pick<size_t>({0, 0, 1, 5});
  Reopen();
  ModelDb model;
  std::vector<std::pair<const Snapshot*, Entries>> snapshots;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = Key(static_cast<int>(rng.Below(30)));
    const uint64_t kind = rng.Below(100);
    if (kind < 55) {
      const std::string operand = std::to_string(i);
      Merge(key, operand);
      model.Merge(key, operand);
    } else if (kind < 65) {
      const std::string value = rng.Bytes(rng.Below(2000));
      Put(key, value);
      model.Put(key, value);
    } else if (kind < 75) {
      Delete(key);
      model.Delete(key);
    } else if (kind < 78) {
      const std::string end = Key(static_cast<int>(rng.Below(30)));
      if (key < end) {
        ASSERT_TRUE(Ok(db_->DeleteRange({}, key, end)));
        model.DeleteRange(key, end);
      }
    } else if (kind < 82) {
      Flush();
    } else if (kind < 84) {
      CompactAll();
    } else if (kind < 88 && snapshots.size() < 5) {
      snapshots.emplace_back(db_->GetSnapshot(), model.entries());
    } else if (kind < 92 && !snapshots.empty()) {
      const size_t which = rng.Below(snapshots.size());
      ASSERT_TRUE(HasEntries(db_.get(), ToList(snapshots[which].second),
                             {.snapshot = snapshots[which].first}));
      db_->ReleaseSnapshot(snapshots[which].first);
      snapshots.erase(snapshots.begin() + static_cast<long>(which));
    } else {
      ASSERT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
    }
  }
  for (const auto& [snapshot, entries] : snapshots) {
    db_->ReleaseSnapshot(snapshot);
  }
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
}

}  // namespace
}  // namespace varve::test
