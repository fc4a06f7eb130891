// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the library reports the version of its header. Method: combines the
// header's numbers in another way.

#include "varve/version.h"

#include <gtest/gtest.h>

#include <string>

namespace varve {
namespace {

TEST(VersionTest, IsTheHeaders) {
  EXPECT_EQ(std::to_string(VARVE_VERSION_MAJOR) + "." +
                std::to_string(VARVE_VERSION_MINOR) + "." +
                std::to_string(VARVE_VERSION_PATCH),
            VersionString());
}

}  // namespace
}  // namespace varve
