// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a choice is read as what it is, and in a sealed build always as the
// production one. Method: both kinds of build, at compile time.
#include "util/base/ablation_choice.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(AblationChoiceTest, IsReadAsItIsUnlessSealed) {
  static_assert(IsProduction<false>(SuperVersionMode::kThreadLocal));
  static_assert(!IsProduction<false>(SuperVersionMode::kMutex));
  static_assert(IsProduction<true>(SuperVersionMode::kThreadLocal));
  static_assert(IsProduction<true>(SuperVersionMode::kMutex));
  EXPECT_EQ(IsProduction(BlockCacheMode::kHash), kAblationsSealed);
}

}  // namespace
}  // namespace varve
