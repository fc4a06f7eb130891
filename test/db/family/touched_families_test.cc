// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a write waits for the families that it updates, and for no others.
// Method: batches of updates of families in memory.

#include "db/family/touched_families.h"

#include <gtest/gtest.h>

#include <vector>

#include "test/testing/db/three_families_fixture.h"
#include "util/bytes/hash.h"

namespace varve::test {
namespace {

class TouchedFamiliesTest : public ThreeFamiliesTest {
 protected:
  // Adds an update of the family to the batch.
  void Add(const ColumnFamily* family) {
    WriteBatchInternal::Add(&batch_, family->id(), ValueType::kValue, "k",
                            "value");
  }
  std::vector<ColumnFamily*> Touched() {
    std::vector<ColumnFamily*> touched;
    TouchedFamilies(parts_.core.families, batch_, nullptr)
        .ForEach([&](ColumnFamily* family) { touched.push_back(family); });
    return touched;
  }
  // Makes it known that the family has no live key.
  void Empty(ColumnFamily* family) {
    WalkedRange walk;
    walk.sequence = parts_.core.versions->LastSequence();
    walk.dead = 1000;
    family->dead_walks()->leader_ranges()->Learn(walk, walk.sequence);
    ASSERT_TRUE(IsKnownDead(family));
  }
  // Returns whether the key of Add is known to be dead.
  bool IsKnownDead(ColumnFamily* family) {
    const Slice key = "k";
    bool is_dead = false;
    family->dead_walks()->ranges().Find(
        &key, parts_.core.versions->LastSequence(), true,
        [&is_dead](const DeadRange&, bool contains) { is_dead = contains; });
    return is_dead;
  }
  void Drop(ColumnFamily* family) {
    MutexLock lock(parts_.core.mutex());
    family->SetDroppedLocked();
    parts_.core.families.DropLocked(family);
  }

  WriteBatch batch_;
};

TEST_F(TouchedFamiliesTest, VisitsTheFamiliesOfABatch) {
  // A batch without updates may have log data.
  EXPECT_EQ(Touched(), std::vector{default_});
  Add(b_);
  Add(b_);
  EXPECT_EQ(Touched(), std::vector{b_});
  Add(a_);
  EXPECT_EQ(Touched().size(), 2u);
  Add(default_);
  EXPECT_EQ(Touched().size(), 3u);
}

TEST_F(TouchedFamiliesTest, VisitsTheFamilyOfTheOnlyUpdate) {
  Add(a_);
  const WriteQueue::SingleUpdate update{a_, ValueType::kValue, "k", "value",
                                        PreviewXxh3("k")};
  int visits = 0;
  TouchedFamilies(parts_.core.families, batch_, &update)
      .ForEach([&](ColumnFamily* family) {
        EXPECT_EQ(family, a_);
        ++visits;
      });
  EXPECT_EQ(visits, 1);
  MutexLock lock(parts_.core.mutex());
  a_->SetDroppedLocked();
  TouchedFamilies(parts_.core.families, batch_, &update)
      .ForEach([&](ColumnFamily*) { ++visits; });
  EXPECT_EQ(visits, 1);
}

TEST_F(TouchedFamiliesTest, KnowsDroppedFamilies) {
  Add(a_);
  Add(b_);
  const TouchedFamilies touched(parts_.core.families, batch_, nullptr);
  EXPECT_TRUE(touched.HasOthers());
  EXPECT_TRUE(touched.AreLive());
  Drop(a_);
  EXPECT_FALSE(touched.AreLive());
  EXPECT_EQ(Touched(), std::vector{b_});
}

TEST_F(TouchedFamiliesTest, FindsTheFamilyThatHoldsTheWriteUpMost) {
  Add(default_);
  Add(a_);
  const TouchedFamilies touched(parts_.core.families, batch_, nullptr);
  parts_.Put(b_, "key");
  parts_.Switch({b_});
  {
    MutexLock lock(parts_.core.mutex());
    // No family that the batch updates is held up.
    EXPECT_EQ(touched.MostPressedLocked()->pace().StopCauseLocked(),
              StallCause::kNone);
  }
  other_options_.max_write_buffer_number = 2;
  other_options_.write_buffer_size = 1;
  for (int i = 0; i < 2; ++i) {
    parts_.Put(a_, "key");
    if (i == 0) parts_.Switch({a_});
  }
  MutexLock lock(parts_.core.mutex());
  EXPECT_EQ(touched.MostPressedLocked(), a_);
  EXPECT_EQ(a_->pace().StopCauseLocked(), StallCause::kMemTables);
}

TEST_F(TouchedFamiliesTest, MarksTheMemTablesOfUnloggedUpdates) {
  Add(a_);
  WriteQueue::Writer writer({}, &batch_);
  WriteQueue::Group group(&writer);
  MarkUnlogged(parts_.core.families, group);
  EXPECT_TRUE(a_->memtable()->has_unlogged());
  EXPECT_FALSE(b_->memtable()->has_unlogged());
  EXPECT_FALSE(default_->memtable()->has_unlogged());
}

TEST_F(TouchedFamiliesTest, MarksNoMemTableOfARefusedBatch) {
  Add(a_);
  WriteQueue::Writer writer({}, &batch_);
  writer.is_refused = true;
  WriteQueue::Group group(&writer);
  MarkUnlogged(parts_.core.families, group);
  EXPECT_FALSE(a_->memtable()->has_unlogged());
  EXPECT_FALSE(default_->memtable()->has_unlogged());
}

TEST_F(TouchedFamiliesTest, CutsTheDeadRangesOfTouchedFamilies) {
  for (ColumnFamily* const family : {default_, a_, b_}) Empty(family);
  Add(a_);
  WriteQueue::Writer writer({}, &batch_);
  WriteQueue::Group group(&writer);
  writer.is_refused = true;
  CutDeadRanges(parts_.core.families, group);
  EXPECT_TRUE(IsKnownDead(a_));
  writer.is_refused = false;
  CutDeadRanges(parts_.core.families, group);
  EXPECT_FALSE(IsKnownDead(a_));
  EXPECT_TRUE(IsKnownDead(b_));
  EXPECT_TRUE(IsKnownDead(default_));
  batch_.Clear();
  Add(default_);
  CutDeadRanges(parts_.core.families, group);
  EXPECT_FALSE(IsKnownDead(default_));
  EXPECT_TRUE(IsKnownDead(b_));
}

}  // namespace
}  // namespace varve::test
