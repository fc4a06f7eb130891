// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: numbers mean the same in every locale. Method: texts by hand, and under
// a locale with a decimal comma where the system has one.

#include "util/bytes/parse_double.h"

#include <gtest/gtest.h>

#include <clocale>
#include <string>

namespace varve {
namespace {

TEST(ParseDoubleTest, TakesWholeNumbersAndFractions) {
  double value = 0;
  for (const auto& [text, expected] :
       {std::pair("1.5", 1.5), std::pair("-2", -2.0), std::pair("1e6", 1e6),
        std::pair(".25", 0.25), std::pair("3.", 3.0), std::pair("0", 0.0),
        std::pair("1E-3", 1e-3)}) {
    EXPECT_TRUE(ParseDouble(text, &value)) << text;
    EXPECT_EQ(value, expected) << text;
  }
}

TEST(ParseDoubleTest, RefusesAllElse) {
  double value = 7;
  for (const char* text : {"", " 1", "1 ", "+1", "0x10", "1,5", "1.5x", "-",
                           ".", "e", "inf", "nan", "1e999", "--1", "1.2.3"}) {
    EXPECT_FALSE(ParseDouble(text, &value)) << text;
  }
  EXPECT_EQ(value, 7);
}

TEST(ParseDoubleTest, IsTheSameInEveryLocale) {
  const std::string before = setlocale(LC_ALL, nullptr);
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) {
    setlocale(LC_ALL, locale);
    double value = 0;
    EXPECT_TRUE(ParseDouble("1.5", &value)) << locale;
    EXPECT_EQ(value, 1.5) << locale;
  }
  setlocale(LC_ALL, before.c_str());
}

}  // namespace
}  // namespace varve
