// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what printf prints is appended, and a line that is too long is cut
// without harm. Method: the edges of the bound.
#include "util/base/append_format.h"

#include <gtest/gtest.h>

#include <string>

namespace varve {
namespace {

TEST(AppendFormatTest, AppendsUpToTheBound) {
  std::string text = "a";
  AppendFormat(&text, "%d %s", 7, "b");
  EXPECT_EQ(text, "a7 b");
  for (const size_t size :
       {size_t{0}, size_t{499}, size_t{500}, size_t{501}, size_t{5000}}) {
    std::string line;
    AppendFormat(&line, "%s", std::string(size, 'x').c_str());
    EXPECT_EQ(line, std::string(size < 500 ? size : 500, 'x'));
  }
}

}  // namespace
}  // namespace varve
