// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a memtable is active, then immutable and waits for a flush, then held
// by readers only, and is then returned to be freed. The stall state stops
// writers when it must. Method: a family without tables, step by step.

#include "db/family/column_family.h"

#include "db/write/write_batch_internal.h"
#include "test/testing/db/family_parts.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class ColumnFamilyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    parts_.Begin(nullptr);
    MutexLock lock(mutex_.lockable());
    family_.memtables().BeginLocked(family_.memtables().New(1), {});
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
    family_.pace().CountWritten(batch.ApproximateSize(), true);
    versions_.SetLastSequence(sequence_);
  }
  void Switch() {
    MutexLock lock(mutex_.lockable());
    family_.SwitchLocked(family_.memtables().New(++wal_));
    family_.InstallSuperVersionLocked(false);
  }
  void Flush(size_t count) {
    MutexLock lock(mutex_.lockable());
    const auto flushed = family_.RemoveFlushedLocked(count);
    family_.InstallSuperVersionLocked(false);
    family_.memtables().RetireLocked(flushed);
    family_.memtables().CountFlushedLocked(count);
  }
  size_t FreeObsolete() {
    MutexLock lock(mutex_.lockable());
    const auto obsolete = family_.memtables().TakeObsoleteLocked();
    for (MemTable* memtable : obsolete) delete memtable;
    return obsolete.size();
  }

  Options options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  int asked_to_free_ = 0;
  FamilyParts parts_{&options_, env_.get(), [this] { ++asked_to_free_; }};
  LoneDbMutex& mutex_ = parts_.mutex;
  VersionSet& versions_ = parts_.versions;
  ColumnFamily& family_ = parts_.family;
  SequenceNumber sequence_ = 0;
  uint64_t wal_ = 1;
};

// One of many families gets memory for its share of a write buffer, and later
// for as much as its last memtable had.
TEST_F(ColumnFamilyTest, ANewMemTableBeginsWithTheMemoryThatIsExpected) {
  constexpr size_t kWriteBuffer = 64 << 20;
  options_.write_buffer_size = kWriteBuffer;
  const auto bytes = [&](size_t family_count) {
    const std::unique_ptr<MemTable> memtable(
        family_.memtables().New(1, family_count));
    return memtable->ApproximateMemoryUsage();
  };
  const size_t alone = bytes(1);
  const size_t of_many = bytes(1000);
  EXPECT_LT(of_many, alone / 8);
  EXPECT_LE(bytes(8), alone);
  Put("large", 16 << 20);
  Switch();
  const size_t after_a_large_one = bytes(1000);
  EXPECT_GT(after_a_large_one, of_many);
  EXPECT_LE(after_a_large_one, alone);
  Put("small");
  Switch();
  EXPECT_EQ(bytes(1000), of_many);
  Flush(2);
}

TEST_F(ColumnFamilyTest, AMemTableGoesFromHandToHand) {
  IsOnlyThread();
  Put("a");
  Switch();
  Put("b");
  EXPECT_EQ(family_.memtables().immutable().size(), 1u);
  EXPECT_EQ(family_.memtables().switched_count(), 1u);
  SuperVersion* const read = family_.super_versions().Reference();
  EXPECT_EQ(read->immutable.size(), 1u);
  Flush(1);
  EXPECT_EQ(family_.memtables().flushed_count(), 1u);
  EXPECT_TRUE(family_.memtables().immutable().empty());
  // The reader still has it.
  EXPECT_EQ(family_.memtables().flushed().size(), 1u);
  EXPECT_FALSE(family_.memtables().HasObsoleteLocked());
  EXPECT_EQ(asked_to_free_, 0);
  family_.super_versions().Release(read);
  EXPECT_EQ(asked_to_free_, 1);
  EXPECT_TRUE(family_.memtables().flushed().empty());
  EXPECT_EQ(FreeObsolete(), 1u);
}

TEST_F(ColumnFamilyTest, SeveralAreFlushedOldestFirst) {
  for (const char* key : {"a", "b", "c"}) {
    Put(key);
    Switch();
  }
  const std::vector<MemTable*> before = family_.memtables().immutable();
  ASSERT_EQ(before.size(), 3u);
  Flush(2);
  ASSERT_EQ(family_.memtables().immutable().size(), 1u);
  EXPECT_EQ(family_.memtables().immutable()[0], before[2]);
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
  IsOnlyThread();
  EXPECT_FALSE(family_.memtables().HasUnloggedLocked());
  family_.memtable()->SetHasUnlogged();
  Switch();
  EXPECT_TRUE(family_.memtables().HasUnloggedLocked());
}

TEST_F(ColumnFamilyTest, AFullMemTableWaitsForASlot) {
  IsOnlyThread();
  options_.max_write_buffer_number = 2;
  EXPECT_FALSE(family_.memtables().MustSwitchLocked());
  while (!family_.memtables().IsFull()) Put(std::to_string(sequence_), 1000);
  EXPECT_TRUE(family_.memtables().MustSwitchLocked());
  EXPECT_FALSE(family_.memtables().AwaitsFlushLocked());
  Switch();
  EXPECT_FALSE(family_.memtables().MustSwitchLocked());
  // A memtable that is not full can be switched as well, if it is not empty.
  family_.memtables().RequestSwitchLocked();
  EXPECT_FALSE(family_.memtables().MustSwitchLocked());
  Put("k");
  EXPECT_TRUE(family_.memtables().MustSwitchLocked());
  // So is a log without space.
  family_.memtables().SetLogFullLocked();
  EXPECT_TRUE(family_.memtables().AwaitsFlushLocked());
  EXPECT_EQ(family_.pace().StopCauseLocked(), StallCause::kMemTables);
  EXPECT_TRUE(family_.pace().UpdateStallLocked(*family_.version()).no_memtable);
  EXPECT_EQ(family_.pace().stall().pressure, WritePressure::kStop);
  Flush(1);
  EXPECT_FALSE(family_.memtables().AwaitsFlushLocked());
  family_.pace().UpdateStallLocked(*family_.version());
  EXPECT_EQ(family_.pace().stall().pressure, WritePressure::kNone);
}

TEST_F(ColumnFamilyTest, CountsWrittenBytes) {
  IsOnlyThread();
  EXPECT_TRUE(family_.pace().IsDue());
  family_.pace().CountWritten(100, true);
  family_.pace().CountWritten(10, false);
  EXPECT_EQ(family_.pace().user_bytes(), 110u);
  EXPECT_EQ(family_.pace().logged_bytes(), 100u);
  EXPECT_EQ(family_.pace().PauseMicrosLocked(*family_.version(), 50,
                                             /*may_pause=*/true),
            0u);
  EXPECT_FALSE(family_.pace().IsDue());
  family_.pace().CountWritten(50, true);
  EXPECT_TRUE(family_.pace().IsDue());
}

// Neither its size nor its speed says anything of the write buffer after it.
TEST_F(ColumnFamilyTest, AFlushOfLittleDoesNotPaceWriters) {
  options_.write_buffer_size = 64 << 20;
  Put("little");
  Switch();
  {
    MutexLock lock(mutex_.lockable());
    family_.pace().MeasureFlushLocked(1, /*micros=*/10000, /*table_bytes=*/900);
  }
  Flush(1);
  for (int mebibytes = 1; mebibytes <= 32; ++mebibytes) {
    MutexLock lock(mutex_.lockable());
    family_.pace().CountWritten(1 << 20, true);
    EXPECT_EQ(family_.pace().PauseMicrosLocked(*family_.version(), 1 << 20,
                                               /*may_pause=*/true),
              0u)
        << mebibytes;
  }
  MutexLock lock(mutex_.lockable());
  EXPECT_EQ(family_.pace().UpdateStallLocked(*family_.version()).no_memtable,
            false);
  EXPECT_EQ(family_.pace().pace_micros(), 0u);
}

}  // namespace
}  // namespace varve::test
