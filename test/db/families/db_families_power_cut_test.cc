// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: after a power cut, all families are as they were at one moment, also if
// some of them had been flushed and the log had never been synced. Method: a
// power cut that takes everything that was not synced.

#include <string>

#include "test/testing/db/families_fixture.h"
#include "test/testing/env/pausing_env.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbFamiliesPowerCutTest : public FamiliesTest {
 protected:
  DbFamiliesPowerCutTest() { options_.env = &faulty_; }

  void CutPower() {
    faulty_.SetFilesystemActive(false);
    ReleaseHandles();
    db_.reset();
    ASSERT_TRUE(Ok(faulty_.CrashAndReset({.lose_everything_unsynced = true})));
    OpenAll();
  }

  // Batches have put the same keys in both families.
  void ExpectWholeBatches() {
    EntryList in_a;
    EntryList in_b;
    ASSERT_TRUE(Ok(ScanFamily(db_.get(), {}, At("a"), &in_a)));
    ASSERT_TRUE(Ok(ScanFamily(db_.get(), {}, At("b"), &in_b)));
    EXPECT_GT(in_a.size(), 0u);
    EXPECT_EQ(in_a.size(), in_b.size());
  }

  PausingEnv jobs_;
  FaultInjectionEnv faulty_{&jobs_};
};

TEST_F(DbFamiliesPowerCutTest, BatchIsWholeIfOneOfItsFamiliesWasFlushed) {
  OpenNew({"a", "b"});
  WriteBatch batch;
  batch.Put(At("a"), "key", "value");
  batch.Put(At("b"), "key", "value");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  FlushOne("a");
  CutPower();
  EXPECT_EQ(GetIn("a", "key"), "value");
  EXPECT_EQ(GetIn("b", "key"), "value");
}

// The edit that added the family, or dropped it, was never synced.
TEST_F(DbFamiliesPowerCutTest, WhatAnOpenShowsOfFamiliesIsDurable) {
  const auto fail_to_sync = [this] {
    faulty_.SetPathFilter("MANIFEST");
    faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  };
  const auto reopen = [this] {
    faulty_.SetPathFilter("");
    ReleaseHandles();
    db_->Close().IgnoreError();
    db_.reset();
    OpenAll();
  };
  OpenNew({"b"});
  reopen();
  fail_to_sync();
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_FALSE(db_->CreateColumnFamily(options_, "a", &handle).ok());
  ASSERT_NO_FATAL_FAILURE(reopen());
  ASSERT_NE(At("a"), nullptr);
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, At("a"), "key", "value")));
  CutPower();
  ASSERT_NE(At("a"), nullptr);
  EXPECT_EQ(GetIn("a", "key"), "value");

  fail_to_sync();
  EXPECT_FALSE(db_->DropColumnFamily(At("b")).ok());
  ASSERT_NO_FATAL_FAILURE(reopen());
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names)));
  ASSERT_EQ(names, (std::vector<std::string>{"default", "a"}));
  CutPower();
  ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names)));
  EXPECT_EQ(names, (std::vector<std::string>{"default", "a"}));
}

TEST_F(DbFamiliesPowerCutTest, NoWriteIsKeptWithoutTheWritesBeforeIt) {
  OpenNew({"a", "b"});
  PutIn("b", "first", "value");
  PutIn("a", "second", "value");
  FlushOne("a");
  PutIn("b", "third", "value");
  // Several logs are older than the flushed memtable's end now.
  PutIn("a", "fourth", "value");
  FlushOne("a");
  CutPower();
  EXPECT_EQ(GetIn("b", "first"), "value");
  EXPECT_EQ(GetIn("a", "second"), "value");
  EXPECT_EQ(GetIn("b", "third"), "value");
  EXPECT_EQ(GetIn("a", "fourth"), "value");
}

// One flush of both. It ends within the log of the first, after the second's.
TEST_F(DbFamiliesPowerCutTest, FamiliesOfAFlushMayEndInDifferentLogs) {
  OpenNew({"a", "b"});
  FlushOptions no_wait{.wait = false};
  jobs_.KeepBack(Env::Priority::kHigh);
  PutIn("a", "first", "value");
  ASSERT_TRUE(Ok(db_->Flush(no_wait, At("a"))));
  PutIn("a", "second", "value");
  PutIn("b", "third", "value");
  ASSERT_TRUE(Ok(db_->Flush(no_wait, At("b"))));
  jobs_.LetGo();
  ASSERT_TRUE(Ok(db_->Flush({}, At("b"))));  // Waits.
  ASSERT_EQ(NumberIn("a", "varve.num-entries-active-mem-table"), 1u);
  CutPower();
  EXPECT_EQ(GetIn("a", "first"), "value");
  EXPECT_EQ(GetIn("a", "second"), "value");
  EXPECT_EQ(GetIn("b", "third"), "value");
}

TEST_F(DbFamiliesPowerCutTest, AFullMemtableIsFlushedWithTheSameCare) {
  family_options_["a"] = options_;
  family_options_["a"].write_buffer_size = 64 << 10;
  OpenNew({"a", "b"});
  int written = 0;
  while (NumberIn("a", "varve.num-files-at-level0") == 0 && written < 10000) {
    WriteBatch batch;
    batch.Put(At("a"), Key(written), std::string(1000, 'v'));
    batch.Put(At("b"), Key(written), "value");
    ASSERT_TRUE(Ok(db_->Write({}, &batch)));
    ++written;
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  CutPower();
  ExpectWholeBatches();
}

// A recovery may write some of the families' updates to tables, and leave
// others in a log that the process before it had not synced.
TEST_F(DbFamiliesPowerCutTest, RecoveredBatchesAreWhole) {
  family_options_["a"] = options_;
  family_options_["a"].write_buffer_size = 8 << 20;
  OpenNew({"a", "b"});
  for (int i = 0; i < 300; ++i) {
    WriteBatch batch;
    batch.Put(At("a"), Key(i), std::string(1000, 'v'));
    batch.Put(At("b"), Key(i), "value");
    ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  }
  // As if the process had been killed.
  faulty_.SetFilesystemActive(false);
  ReleaseHandles();
  db_.reset();
  faulty_.SetFilesystemActive(true);
  family_options_["a"].write_buffer_size = 64 << 10;
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  ASSERT_NO_FATAL_FAILURE(CutPower());
  ExpectWholeBatches();
}

}  // namespace
}  // namespace varve::test
