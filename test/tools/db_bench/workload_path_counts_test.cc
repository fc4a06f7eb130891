// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: an ablation that did not run is found out. Method: counts before and
// after that moved and that did not.
#include "tools/db_bench/workload_path_counts.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(WorkloadPathCountsTest, NamesCountersThatDidNotMove) {
  const Slice before = "a=x 1\nb=y 2\nbc=y 3\n";
  const Slice after = "a=x 2\nb=y 2\nbc=y 4\n";
  EXPECT_EQ(IdleAblations("a=x", before, after), "");
  EXPECT_EQ(IdleAblations("b=y", before, after), "b=y");
  EXPECT_EQ(IdleAblations("a=x,b=y,bc=y", before, after), "b=y");
  EXPECT_EQ(IdleAblations("a=x,bc=y", before, after), "");
  EXPECT_EQ(IdleAblations("", before, after), "");
}

TEST(WorkloadPathCountsTest, NamesMissingCounts) {
  EXPECT_EQ(IdleAblations("a=z,a", "a=x 1\n", "a=x 2"), "a=z,a");
  EXPECT_EQ(IdleAblations("a=x", "", ""), "a=x");
}

}  // namespace
}  // namespace varve
