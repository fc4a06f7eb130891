// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: among the jobs of all families the most urgent one is picked, and no
// family waits for good. Method: families in memory, with memtables and tables.

#include "db/jobs/job_picker.h"

#include "test/testing/db/three_families_fixture.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class JobPickerTest : public ThreeFamiliesTest {
 protected:
  JobPickerTest() {
    for (Options* options : {&options_, &other_options_}) {
      options->level0_file_num_compaction_trigger = 2;
      options->level0_slowdown_writes_trigger = 4;
      options->level0_stop_writes_trigger = 6;
      options->max_write_buffer_number = 6;
    }
  }
  // Gives the family that many tables in level 0.
  void AddTables(ColumnFamily* family, int count) {
    for (int i = 0; i < count; ++i) {
      parts_.Put(family, "key");
      parts_.Switch({family});
      parts_.Flush({family});
    }
  }
  // Returns the family of the next compaction, or null.
  ColumnFamily* NextToCompact() {
    MutexLock lock(parts_.core.mutex());
    ColumnFamily* family = nullptr;
    const auto compaction = parts_.core.picker.PickCompactionLocked(&family);
    EXPECT_EQ(compaction != nullptr, family != nullptr);
    return family;
  }
  std::vector<ColumnFamily*> NextToFlush() {
    MutexLock lock(parts_.core.mutex());
    return parts_.core.picker.PickFlushLocked();
  }
  bool FlushDue() {
    MutexLock lock(parts_.core.mutex());
    return parts_.core.picker.FlushDueLocked();
  }
  bool CompactionDue() {
    MutexLock lock(parts_.core.mutex());
    return parts_.core.picker.CompactionDueLocked();
  }
};

TEST_F(JobPickerTest, FlushesTheFamilyOfTheOldestLog) {
  IsOnlyThread();
  EXPECT_TRUE(NextToFlush().empty());
  parts_.Put(b_, "key", 20 << 20);
  parts_.Switch({b_});
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  EXPECT_TRUE(FlushDue());
  EXPECT_EQ(NextToFlush(), std::vector{b_});
  b_->memtables().SetFlushRunsLocked(true);
  EXPECT_TRUE(FlushDue());
  EXPECT_EQ(NextToFlush(), std::vector{a_});
  a_->memtables().SetFlushRunsLocked(true);
  EXPECT_TRUE(NextToFlush().empty());
  EXPECT_FALSE(FlushDue());
}

TEST_F(JobPickerTest, FlushesFamiliesTogetherThatHaveLittleToWrite) {
  IsOnlyThread();
  parts_.Put(b_, "key");
  parts_.Switch({b_});
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  EXPECT_EQ(NextToFlush(), (std::vector{b_, a_}));
  parts_.Put(default_, "key", 20 << 20);
  parts_.Switch({default_});
  EXPECT_EQ(NextToFlush(), (std::vector{b_, a_}));
  a_->memtables().SetFlushRunsLocked(true);
  b_->memtables().SetFlushRunsLocked(true);
  EXPECT_EQ(NextToFlush(), std::vector{default_});
}

TEST_F(JobPickerTest, FlushesAllFamiliesTogetherIfTheFlushIsAtomic) {
  options_.atomic_flush = true;
  parts_.Put(b_, "key");
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  EXPECT_EQ(NextToFlush(), (std::vector{a_, b_}));
  EXPECT_TRUE(FlushDue());
}

TEST_F(JobPickerTest, LetsFamiliesTakeTurns) {
  EXPECT_EQ(NextToCompact(), nullptr);
  EXPECT_FALSE(CompactionDue());
  AddTables(default_, 2);
  AddTables(b_, 2);
  EXPECT_TRUE(CompactionDue());
  EXPECT_EQ(NextToCompact(), default_);
  EXPECT_EQ(NextToCompact(), b_);
  EXPECT_EQ(NextToCompact(), default_);
  AddTables(a_, 2);
  EXPECT_EQ(NextToCompact(), a_);
  EXPECT_EQ(NextToCompact(), b_);
}

TEST_F(JobPickerTest, PrefersFamiliesWhoseWritersWait) {
  AddTables(default_, 2);
  AddTables(b_, 5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NextToCompact(), b_);
  MutexLock lock(parts_.core.mutex());
  EXPECT_TRUE(parts_.core.picker.CompactionsAreUrgentLocked());
}

TEST_F(JobPickerTest, PicksNoCompactionOfAFamilyWithoutAutomaticOnes) {
  AddTables(a_, 2);
  AddTables(default_, 2);
  other_options_.disable_auto_compactions = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NextToCompact(), default_);
  options_.disable_auto_compactions = true;
  EXPECT_EQ(NextToCompact(), nullptr);
  EXPECT_FALSE(CompactionDue());
}

TEST_F(JobPickerTest, ForgetsDroppedFamilies) {
  AddTables(b_, 2);
  EXPECT_EQ(NextToCompact(), b_);
  {
    MutexLock lock(parts_.core.mutex());
    b_->SetDroppedLocked();
    parts_.core.families.DropLocked(b_);
  }
  EXPECT_EQ(NextToCompact(), nullptr);
  AddTables(a_, 2);
  EXPECT_EQ(NextToCompact(), a_);
}

TEST_F(JobPickerTest, ClosesTheGateForAnError) {
  MutexLock lock(parts_.core.mutex());
  EXPECT_TRUE(parts_.core.picker.GateIsOpenLocked());
  parts_.core.picker.gate().error = Status::FromErrno("test", ENOSPC);
  EXPECT_FALSE(parts_.core.picker.GateIsOpenLocked());
}

TEST_F(JobPickerTest, AnExclusiveCompactionExcludesItsFamilyOnly) {
  AddTables(a_, 2);
  AddTables(b_, 2);
  a_->compactions().is_exclusive = true;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(NextToCompact(), b_);
  b_->compactions().is_exclusive = true;
  EXPECT_EQ(NextToCompact(), nullptr);
  EXPECT_FALSE(CompactionDue());
  a_->compactions().is_exclusive = false;
  EXPECT_EQ(NextToCompact(), a_);
}

TEST_F(JobPickerTest, CleansFamiliesThatMeetRangeDeletions) {
  const auto to_clean = [this] {
    MutexLock lock(parts_.core.mutex());
    return parts_.core.picker.FamiliesToCleanLocked();
  };
  EXPECT_TRUE(to_clean().empty());
  while (!a_->dead_walks()->ReadsRangeDeletions()) {
    a_->dead_walks()->NoteRangeDeletions();
  }
  EXPECT_EQ(to_clean(), std::vector{a_});
  other_options_.disable_auto_compactions = true;
  EXPECT_TRUE(to_clean().empty());
}

}  // namespace
}  // namespace varve::test
