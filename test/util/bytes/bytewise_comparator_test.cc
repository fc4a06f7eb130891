// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: separators and successors are in bounds and short. Method: known
// answers, then the definition on all pairs of short keys over a few bytes.
#include <gtest/gtest.h>

#include <vector>

#include "varve/comparator.h"

namespace varve {
namespace {

std::string Separator(std::string start, const std::string& limit) {
  BytewiseComparator()->FindShortestSeparator(&start, limit);
  return start;
}

std::string Successor(std::string key) {
  BytewiseComparator()->FindShortSuccessor(&key);
  return key;
}

TEST(BytewiseComparatorTest, HasTheNameStoredInFiles) {
  EXPECT_STREQ(BytewiseComparator()->Name(), "leveldb.BytewiseComparator");
}

TEST(BytewiseComparatorTest, FindsShortSeparators) {
  EXPECT_EQ(Separator("abc123", "abf"), "abd");
  EXPECT_EQ(Separator("abc123", "abd7"), "abd");
  // No string of three bytes is between them.
  EXPECT_EQ(Separator("abc123", "abd"), "abc2");
  EXPECT_EQ(Separator("abc\xFF"
                      "1x",
                      "abd"),
            "abc\xFF"
            "2");
  EXPECT_EQ(Separator("abc\xFF\xFF", "abd"), "abc\xFF\xFF");
  EXPECT_EQ(Separator("abc", "abcd"), "abc");
  EXPECT_EQ(Separator("a", "a"), "a");
  EXPECT_EQ(Separator("", "a"), "");
  EXPECT_EQ(Separator("b", "a"), "b");
  EXPECT_EQ(Separator("\x7F"
                      "abc",
                      "\x81"),
            "\x80");
}

TEST(BytewiseComparatorTest, FindsShortSuccessors) {
  EXPECT_EQ(Successor("abc"), "b");
  EXPECT_EQ(Successor("\xFF\x01z"), "\xFF\x02");
  EXPECT_EQ(Successor("\xFF\xFF"), "\xFF\xFF");
  EXPECT_EQ(Successor(""), "");
}

TEST(BytewiseComparatorTest, KeepsTheDefinitionForAllShortKeys) {
  const char kBytes[] = {'\0', 'a', 'b', '\x7F', '\x80', '\xFE', '\xFF'};
  std::vector<std::string> keys = {""};
  for (size_t begin = 0, length = 1; length <= 3; ++length) {
    const size_t end = keys.size();
    for (; begin < end; ++begin) {
      for (const char byte : kBytes) keys.push_back(keys[begin] + byte);
    }
  }
  const Comparator* comparator = BytewiseComparator();
  for (const std::string& start : keys) {
    const std::string successor = Successor(start);
    ASSERT_GE(comparator->Compare(successor, start), 0);
    ASSERT_LE(successor.size(), start.size());
    for (const std::string& limit : keys) {
      if (comparator->Compare(start, limit) >= 0) {
        ASSERT_EQ(Separator(start, limit), start);
        continue;
      }
      const std::string separator = Separator(start, limit);
      ASSERT_GE(comparator->Compare(separator, start), 0);
      ASSERT_LT(comparator->Compare(separator, limit), 0);
      ASSERT_LE(separator.size(), start.size());
    }
  }
}

}  // namespace
}  // namespace varve
