// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: reports of long walks stay few, cover what was walked, and lose nothing
// but what a busy moment drops. Method: lists of walks with known unions,
// random walks against a set of keys, and concurrent reporters.

#include "db/dead_entries/dead_walk_reports.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/comparator.h"

namespace varve {
namespace {

using Report = DeadWalkReports::Report;

WalkedRange Range(const Slice& after, const Slice& before, uint64_t dead,
                  SequenceNumber sequence) {
  WalkedRange range;
  range.begin = after;
  range.has_begin = !after.empty();
  range.end = before;
  range.has_end = !before.empty();
  range.dead = dead;
  range.sequence = sequence;
  return range;
}

class DeadWalkReportsTest : public testing::Test {
 protected:
  const InternalKeyComparator comparator_{BytewiseComparator()};
  DeadWalkReports reports_{&comparator_};
};

TEST_F(DeadWalkReportsTest, OverlappingWalksBecomeOne) {
  EXPECT_FALSE(reports_.Any());
  reports_.Add(Range("c", "f", 300, 7));
  reports_.Add(Range("a", "d", 500, 9));
  reports_.Add(Range("f", "h", 400, 8));  // Only touches.
  EXPECT_TRUE(reports_.Any());
  const std::vector<Report> taken = reports_.Take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].range.begin, "a");
  EXPECT_EQ(taken[0].range.end, "f");
  EXPECT_EQ(taken[0].range.dead, 500u);
  EXPECT_EQ(taken[0].range.sequence, 9u);
  EXPECT_EQ(taken[0].first_sequence, 7u);
  EXPECT_EQ(taken[0].walks, 2u);
  EXPECT_EQ(taken[0].passed, 800u);
  EXPECT_EQ(taken[1].range.begin, "f");
  EXPECT_EQ(taken[1].range.end, "h");
  EXPECT_FALSE(reports_.Any());
  EXPECT_TRUE(reports_.Take().empty());
}

TEST_F(DeadWalkReportsTest, OpenEndsCoverAll) {
  reports_.Add(Range("c", "f", 300, 7));
  reports_.Add(Range("x", "z", 300, 7));
  reports_.Add(Range("", "d", 300, 7));
  reports_.Add(Range("y", "", 300, 7));
  std::vector<Report> taken = reports_.Take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_FALSE(taken[0].range.begin.has_value());
  EXPECT_EQ(taken[0].range.end, "f");
  EXPECT_FALSE(taken[1].range.end.has_value());
  reports_.Add(Range("", "", 300, 7));
  reports_.Add(Range("c", "f", 300, 7));
  taken = reports_.Take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_FALSE(taken[0].range.begin.has_value());
  EXPECT_FALSE(taken[0].range.end.has_value());
}

TEST_F(DeadWalkReportsTest, ManyWalksBecomeFewThatCoverThem) {
  test::Rng rng(test::TestSeed());
  std::vector<std::pair<std::string, std::string>> walked;
  uint64_t passed = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string after = std::to_string(100000 + rng.Below(800000));
    const std::string before =
        std::to_string(std::stoul(after) + 1 + rng.Below(2000));
    reports_.Add(Range(after, before, 300 + rng.Below(100), 5));
    walked.emplace_back(after, before);
  }
  const std::vector<Report> taken = reports_.Take();
  EXPECT_LE(taken.size(), DeadWalkReports::kMaxReports);
  for (size_t i = 0; i < taken.size(); ++i) {
    passed += taken[i].walks;
    if (i == 0) continue;
    EXPECT_LE(*taken[i - 1].range.end, *taken[i].range.begin);
  }
  EXPECT_EQ(passed, walked.size());
  for (const auto& [after, before] : walked) {
    bool covered = false;
    for (const Report& report : taken) {
      covered |= *report.range.begin <= after && before <= *report.range.end;
    }
    EXPECT_TRUE(covered) << after << " to " << before;
  }
}

TEST_F(DeadWalkReportsTest, ReportersDoNotWait) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const std::string after = std::to_string(t);
      const std::string before = after + "x";
      // relaxed: a flag of the test.
      while (!stop.load(std::memory_order_relaxed)) {
        reports_.Add(Range(after, before, 300, 1));
      }
    });
  }
  uint64_t walks = 0;
  for (int i = 0; i < 20000 || walks == 0; ++i) {
    for (const Report& report : reports_.Take()) walks += report.walks;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace varve
