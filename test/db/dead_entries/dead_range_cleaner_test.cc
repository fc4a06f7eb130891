// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a reported range is cleaned place by place, never against a snapshot,
// and no more is rewritten than the budget pays for. Method: findings made up
// for a cleaner, and the plans that it makes.

#include "db/dead_entries/dead_range_cleaner.h"

#include "db/snapshot/snapshot_handshake.h"
#include "test/testing/test_headers.h"
#include "varve/comparator.h"

namespace varve {
namespace {

using Plan = DeadRangeCleaner::Plan;

constexpr uint64_t kMiB = 1 << 20;

class DeadRangeCleanerTest : public testing::Test {
 protected:
  void Report(const std::string& after, const std::string& before,
              uint64_t dead, SequenceNumber sequence = 10) {
    DeadWalkReports::Report report;
    report.range.begin = after;
    report.range.end = before;
    report.range.dead = dead;
    report.range.sequence = sequence;
    report.first_sequence = sequence;
    report.walks = 1;
    report.passed = dead;
    cleaner_.AddLocked({report});
  }
  // Examines the only range.
  void Find(const DeadRangeFindings& found,
            SequenceNumber oldest_snapshot = kNoSnapshot) {
    const auto targets = cleaner_.ToExamineLocked();
    ASSERT_EQ(targets.size(), 1u);
    cleaner_.PlanLocked(targets[0].id, found, oldest_snapshot, 4 * kMiB,
                        cleaner_.wakes());
  }
  static DeadRangeFindings InMemory(uint64_t dead, uint64_t entries) {
    DeadRangeFindings found{.memtable_dead = dead, .memtable_entries = entries};
    return found;
  }
  static DeadRangeFindings InTables(int level, uint64_t dead, uint64_t entries,
                                    uint64_t bytes) {
    DeadRangeFindings found;
    found.level = level;
    found.level_dead = found.file_dead = dead;
    found.file_entries = entries;
    found.file_bytes = bytes;
    found.file_number = 7;
    return found;
  }
  Plan PlanNow() const {
    EXPECT_EQ(cleaner_.targets().size(), 1u);
    return cleaner_.targets()[0].plan;
  }
  // A compaction that rewrites so much in vain.
  void RewriteInVain(uint64_t bytes) {
    FileMetaData file;
    file.file_size = bytes;
    Compaction compaction;
    compaction.level = compaction.output_level = 6;
    compaction.inputs[0].push_back(&file);
    cleaner_.CountCompactionLocked(compaction, bytes);
  }

  static Options SmallBuffer() {
    Options options;
    options.write_buffer_size = 8 * kMiB;
    return options;
  }

  const Options options_ = SmallBuffer();
  const InternalKeyComparator comparator_{BytewiseComparator()};
  DeadRangeCleaner cleaner_{&options_, &comparator_, false};
};

TEST_F(DeadRangeCleanerTest, CleansFromMemoryToTheDeepestLevel) {
  Report("a", "m", 1000);
  EXPECT_TRUE(cleaner_.MustExamineLocked());
  Find(InMemory(1000, 1000));
  EXPECT_EQ(PlanNow(), Plan::kFlush);
  EXPECT_TRUE(cleaner_.WantsFlushLocked());
  EXPECT_FALSE(cleaner_.WantsCompactionLocked());
  cleaner_.AwaitFlushLocked(0);
  EXPECT_FALSE(cleaner_.MustExamineLocked());
  cleaner_.WakeLocked();
  Find(InTables(0, 1000, 1000, kMiB));
  ASSERT_TRUE(cleaner_.WantsCompactionLocked());
  EXPECT_EQ(cleaner_.NextToCompactLocked()->found.level, 0);
  cleaner_.CompactionBeginsLocked(cleaner_.NextToCompactLocked()->id);
  EXPECT_FALSE(cleaner_.WantsCompactionLocked());
  cleaner_.WakeLocked();
  Find(InTables(5, 1000, 1000, kMiB));
  cleaner_.CompactionBeginsLocked(cleaner_.NextToCompactLocked()->id);
  cleaner_.WakeLocked();
  Find({});
  EXPECT_TRUE(cleaner_.targets().empty());
}

TEST_F(DeadRangeCleanerTest, WaitsForSnapshotsThatSeeTheEntries) {
  Report("a", "m", 1000, 10);
  Find(InMemory(1000, 1000), 9);
  EXPECT_EQ(PlanNow(), Plan::kWaitForSnapshot);
  EXPECT_FALSE(cleaner_.WantsFlushLocked());
  cleaner_.WakeLocked();
  // This one sees that they are dead.
  Find(InMemory(1000, 1000), 10);
  EXPECT_EQ(PlanNow(), Plan::kFlush);
}

TEST_F(DeadRangeCleanerTest, GivesUpWhatDoesNotHelp) {
  Report("a", "m", 1000);
  Find(InTables(6, 1000, 1000, kMiB));
  cleaner_.CompactionBeginsLocked(cleaner_.NextToCompactLocked()->id);
  cleaner_.WakeLocked();
  Find(InTables(6, 1000, 1000, kMiB));  // As before.
  EXPECT_TRUE(cleaner_.targets().empty());
}

TEST_F(DeadRangeCleanerTest, GoesOnWhileItHelps) {
  Report("a", "m", 4000);
  for (uint64_t dead = 4000; dead >= 1000; dead -= 1000) {
    Find(InTables(6, dead, 4000, kMiB));
    ASSERT_EQ(PlanNow(), Plan::kCompact) << dead;
    cleaner_.CompactionBeginsLocked(cleaner_.NextToCompactLocked()->id);
    cleaner_.WakeLocked();
  }
  Find({});
  EXPECT_TRUE(cleaner_.targets().empty());
}

TEST_F(DeadRangeCleanerTest, LiveDataIsNotRewrittenForFewDead) {
  Report("a", "m", 300);
  Find(InTables(5, 300, 1000000, 64 * kMiB));
  EXPECT_EQ(PlanNow(), Plan::kWaitForBudget);
  // Nor as a whole memtable.
  cleaner_.WakeLocked();
  Find(InMemory(300, 1000000));
  EXPECT_EQ(PlanNow(), Plan::kWaitForBudget);
}

TEST_F(DeadRangeCleanerTest, ManyWalksPayForALittle) {
  Report("a", "m", 300);
  Find(InTables(5, 300, 100000, 64 << 10));
  EXPECT_EQ(PlanNow(), Plan::kWaitForBudget);
  for (int i = 0; i < 20; ++i) Report("a", "m", 300);
  Find(InTables(5, 300, 100000, 64 << 10));
  EXPECT_EQ(PlanNow(), Plan::kCompact);
}

TEST_F(DeadRangeCleanerTest, WorkInVainIsPaidByFlushes) {
  RewriteInVain(3 * kMiB);  // More than a quarter of a buffer.
  EXPECT_EQ(cleaner_.budget_bytes(), 0u);
  Report("a", "m", 1000);
  Find(InTables(6, 1000, 1000, kMiB));
  EXPECT_EQ(PlanNow(), Plan::kWaitForBudget);
  cleaner_.CountFlushedLocked(9 * kMiB);  // A tenth counts.
  cleaner_.WakeLocked();
  Find(InTables(6, 1000, 1000, kMiB));
  EXPECT_EQ(PlanNow(), Plan::kWaitForBudget);
  cleaner_.CountFlushedLocked(9 * kMiB);
  cleaner_.WakeLocked();
  Find(InTables(6, 1000, 1000, kMiB));
  EXPECT_EQ(PlanNow(), Plan::kCompact);
  cleaner_.CountFlushedLocked(1 << 30);
  EXPECT_EQ(cleaner_.budget_bytes(), options_.write_buffer_size / 2);
}

TEST_F(DeadRangeCleanerTest, TheCostliestForItsSizeComesFirst) {
  Report("a", "c", 1000);
  Find(InTables(6, 1000, 1000, 10 * kMiB));
  Report("m", "p", 500);
  const auto targets = cleaner_.ToExamineLocked();
  for (const auto& target : targets) {
    const bool first = *target.report.range.begin == "a";
    cleaner_.PlanLocked(target.id,
                        InTables(6, 500, 500, first ? 10 * kMiB : kMiB),
                        kNoSnapshot, 0, cleaner_.wakes());
  }
  ASSERT_TRUE(cleaner_.WantsCompactionLocked());
  EXPECT_EQ(cleaner_.NextToCompactLocked()->report.range.begin, "m");
}

TEST_F(DeadRangeCleanerTest, IsBounded) {
  for (int i = 100; i < 200; ++i) {
    Report(std::to_string(i) + "a", std::to_string(i) + "b", 300);
  }
  EXPECT_LE(cleaner_.targets().size(), 16u);
}

}  // namespace
}  // namespace varve
