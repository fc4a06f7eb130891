// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: requested space for descriptors exists, no descriptor stays open, and
// limits are kept. Method: reads the size of the process's descriptor table
// from /proc. The table never shrinks, so each test requests more than the
// previous ones.

#include "env/descriptor_table_growth.h"
#include "test/testing/test_headers.h"

#include <sys/resource.h>

namespace varve {
namespace {

// Returns a number that the kernel reports for this process: "FDSize:", the
// size of its descriptor table, or "Threads:".
size_t Count(const std::string& what) {
  std::ifstream status("/proc/self/status");
  std::string word;
  size_t count = 0;
  while (status >> word) {
    if (word == what) status >> count;
  }
  return count;
}
size_t TableSize() { return Count("FDSize:"); }
size_t CountThreads() { return Count("Threads:"); }

// With the one that the count itself needs.
ptrdiff_t CountDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

TEST(DescriptorTableGrowthTest, GrowsTheTableOnceAndLeavesNothing) {
  rlimit before_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_limit), 0);
  rlimit limit = before_limit;
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const size_t before = TableSize();
  ASSERT_GT(before, 0u);
  const size_t wanted = 2 * before + 600;
  ASSERT_LT(wanted, limit.rlim_cur) << "the limit leaves nothing to test";
  const ptrdiff_t descriptors = CountDescriptors();
  // A sanitizer makes a thread of its own beside the first one.
  std::thread([] {}).join();
  const size_t threads = CountThreads();
  { const DescriptorTableGrowth growth(wanted); }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before_limit), 0);
  EXPECT_GE(TableSize(), wanted);
  EXPECT_EQ(CountDescriptors(), descriptors);
  // One that was joined may be seen for a moment longer.
  for (int i = 0; i < 10'000 && CountThreads() > threads; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(CountThreads(), threads);
}

TEST(DescriptorTableGrowthTest, DoesNothingForFew) {
  const size_t before = TableSize();
  { const DescriptorTableGrowth growth(std::min<size_t>(before, 500)); }
  { const DescriptorTableGrowth none(0); }
  EXPECT_EQ(TableSize(), before);
}

TEST(DescriptorTableGrowthTest, KeepsToTheLimit) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit lower = limit;
  lower.rlim_cur = std::min<rlim_t>(limit.rlim_cur, 2 * TableSize() + 700);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  const ptrdiff_t descriptors = CountDescriptors();
  { const DescriptorTableGrowth growth(size_t{1} << 40); }
  EXPECT_GE(TableSize(), lower.rlim_cur);
  EXPECT_LT(TableSize(), 4 * lower.rlim_cur);
  EXPECT_EQ(CountDescriptors(), descriptors);

  // No descriptor is left at all: nothing happens.
  lower.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  { const DescriptorTableGrowth growth(size_t{1} << 20); }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(CountDescriptors(), descriptors);
}

}  // namespace
}  // namespace varve
