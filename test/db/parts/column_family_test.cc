// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a memtable is active, then immutable and waits for a flush, then held
// by readers only, and is then returned to be freed. The stall state stops
// writers when it must. Method: a family without tables, step by step.

#include "db/parts/column_family.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "db/write/write_batch_internal.h"
#include "test/testing/db/table_parts.h"
#include "test/testing/db_helpers.h"

namespace varve::test {
namespace {

class ColumnFamilyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    family_.SetVersions(&versions_);
    MutexLock lock(&mutex_);
    ManifestState state;
    versions_.Initialize(&state, nullptr);
    family_.BeginLocked(family_.NewMemTable(1), {});
    family_.InstallSuperVersionLocked(false);
  }
  void TearDown() override {
    FreeObsolete();
    family_.Close();
  }

  void Put(const std::string& key, size_t bytes = 10) {
    WriteBatch batch;
    batch.Put(key, std::string(bytes, 'v'));
    WriteBatchInternal::SetSequence(&batch, ++sequence_);
    ASSERT_TRUE(Ok(InsertBatchInto(batch.Data(), family_.memtable())));
    family_.CountWritten(batch.ApproximateSize(), true);
    versions_.SetLastSequence(sequence_);
  }
  void Switch() {
    MutexLock lock(&mutex_);
    family_.SwitchLocked(family_.NewMemTable(++wal_), false);
    family_.InstallSuperVersionLocked(false);
  }
  void Flush(size_t count) {
    MutexLock lock(&mutex_);
    const auto flushed = family_.RemoveFlushedLocked(count);
    family_.InstallSuperVersionLocked(false);
    family_.RetireLocked(flushed);
    family_.CountFlushedLocked(count);
  }
  size_t FreeObsolete() {
    MutexLock lock(&mutex_);
    const auto obsolete = family_.TakeObsoleteLocked();
    for (MemTable* memtable : obsolete) delete memtable;
    return obsolete.size();
  }

  Options options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  Mutex mutex_;
  TableParts tables_{options_, env_.get()};
  VersionSet versions_{
      "/db", env_.get(), &tables_.comparator, &tables_.table_cache,
      true,  &mutex_};
  int asked_to_free_ = 0;
  ColumnFamily family_{&options_,  &tables_.comparator,
                       env_.get(), nullptr,
                       &mutex_,    [this] { ++asked_to_free_; }};
  SequenceNumber sequence_ = 0;
  uint64_t wal_ = 1;
};

TEST_F(ColumnFamilyTest, AMemTableGoesFromHandToHand) {
  Put("a");
  Switch();
  Put("b");
  EXPECT_EQ(family_.immutable().size(), 1u);
  EXPECT_EQ(family_.switched_count(), 1u);
  SuperVersion* const read = family_.super_versions().Reference();
  EXPECT_EQ(read->immutable.size(), 1u);
  Flush(1);
  EXPECT_EQ(family_.flushed_count(), 1u);
  EXPECT_TRUE(family_.immutable().empty());
  // The reader still has it.
  EXPECT_EQ(family_.flushed().size(), 1u);
  EXPECT_FALSE(family_.HasObsoleteLocked());
  EXPECT_EQ(asked_to_free_, 0);
  family_.super_versions().Release(read);
  EXPECT_EQ(asked_to_free_, 1);
  EXPECT_TRUE(family_.flushed().empty());
  EXPECT_EQ(FreeObsolete(), 1u);
}

TEST_F(ColumnFamilyTest, SeveralAreFlushedOldestFirst) {
  for (const char* key : {"a", "b", "c"}) {
    Put(key);
    Switch();
  }
  const std::vector<MemTable*> before = family_.immutable();
  ASSERT_EQ(before.size(), 3u);
  Flush(2);
  ASSERT_EQ(family_.immutable().size(), 1u);
  EXPECT_EQ(family_.immutable()[0], before[2]);
  EXPECT_EQ(FreeObsolete(), 2u);
}

TEST_F(ColumnFamilyTest, KnowsKeysInMemTables) {
  Put("d");
  Switch();
  Put("m");
  const Slice a = "a", c = "c", e = "e", z = "z";
  EXPECT_FALSE(family_.MemTablesOverlap(&a, &c));
  EXPECT_TRUE(family_.MemTablesOverlap(&c, &e));
  EXPECT_TRUE(family_.MemTablesOverlap(&e, &z));
  EXPECT_FALSE(family_.HasUnloggedLocked());
  family_.memtable()->SetHasUnlogged();
  Switch();
  EXPECT_TRUE(family_.HasUnloggedLocked());
}

TEST_F(ColumnFamilyTest, AFullMemTableWaitsForASlot) {
  options_.max_write_buffer_number = 2;
  EXPECT_FALSE(family_.MustSwitchLocked());
  while (!family_.MemTableIsFull()) Put(std::to_string(sequence_), 1000);
  EXPECT_FALSE(family_.HasSpace());
  EXPECT_FALSE(family_.AwaitsFlushLocked());
  Switch();
  EXPECT_TRUE(family_.HasSpace());
  // A log without space asks for a switch as well.
  Put("k");
  family_.SetLogFullLocked();
  EXPECT_TRUE(family_.MustSwitchLocked());
  EXPECT_TRUE(family_.AwaitsFlushLocked());
  EXPECT_EQ(family_.StopCauseLocked(), StallCause::kMemTables);
  EXPECT_TRUE(family_.UpdateStallLocked().no_memtable);
  family_.UpdateStallStateLocked(false);
  EXPECT_FALSE(family_.StallStateIsClear());
  EXPECT_FALSE(family_.StallStateHasError());
  Flush(1);
  EXPECT_FALSE(family_.AwaitsFlushLocked());
  family_.UpdateStallLocked();
  family_.UpdateStallStateLocked(false);
  EXPECT_TRUE(family_.StallStateIsClear());
}

TEST_F(ColumnFamilyTest, AnErrorStopsWriters) {
  EXPECT_TRUE(family_.StallStateIsClear());
  EXPECT_TRUE(family_.HasSpace());
  family_.UpdateStallStateLocked(true);
  EXPECT_TRUE(family_.StallStateHasError());
  EXPECT_FALSE(family_.HasSpace());
  family_.UpdateStallStateLocked(false);
  EXPECT_TRUE(family_.StallStateIsClear());
  family_.StopWritesInChild();
  EXPECT_TRUE(family_.StallStateHasError());
}

TEST_F(ColumnFamilyTest, CountsWrittenBytes) {
  EXPECT_TRUE(family_.PaceIsDue());
  family_.CountWritten(100, true);
  family_.CountWritten(10, false);
  EXPECT_EQ(family_.user_bytes(), 110u);
  EXPECT_EQ(family_.logged_bytes(), 100u);
  EXPECT_EQ(family_.PauseMicrosLocked(50, /*may_pause=*/true), 0u);
  EXPECT_FALSE(family_.PaceIsDue());
  family_.CountWritten(50, true);
  EXPECT_TRUE(family_.PaceIsDue());
}

}  // namespace
}  // namespace varve::test
