// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A test may run its own program again, for one of its tests. That is then not
// to be one of the shards in which the program itself runs.

#include <gtest/gtest.h>

#include <cstdlib>

namespace varve::test {
namespace {

class Unsharded : public testing::Environment {
 public:
  // The program has chosen its tests by now.
  void SetUp() override {
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
  }
};

[[maybe_unused]] const testing::Environment* const unsharded =
    testing::AddGlobalTestEnvironment(new Unsharded);

}  // namespace
}  // namespace varve::test
