// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: unsanitized

// Goal: a process that has no descriptor for a ring at its first batch of reads
// gets one later. Method: all descriptors are taken, then given back. In a
// process that has tried before, the test shows only that nothing changes.

#include <gtest/gtest.h>

#include <string>

#include "env/io_ring.h"
#include "test/testing/env/descriptor_limit.h"

namespace varve {
namespace {

TEST(IoRingShortageTest, ARingIsTriedAgainOnceThereAreDescriptors) {
  const std::string none = "no descriptor or memory so far";
  const test::DescriptorLimit limit(20);
  test::OwnDescriptors own;
  own.Take();
  const bool usable = IoRingUsable();
  EXPECT_EQ(usable, IoRingPath() == "io_uring");
  own.CloseAll();
  // It is tried once in a while only.
  for (int i = 0; i < 3000; ++i) IoRingUsable();
  EXPECT_EQ(IoRingPath().find(none), std::string::npos) << IoRingPath();
  if (usable) {
    EXPECT_TRUE(IoRingUsable());
  }
}

}  // namespace
}  // namespace varve
