// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the built-in transforms give the prefixes that their names say, and are
// found by these names. Method: a few keys, and names that are none.

#include "table/index/slice_transform.h"

#include "test/testing/test_headers.h"

namespace varve {
namespace {

// Returns "prefix" or "-" for each key, with spaces between.
std::string Prefixes(const SliceTransform& transform,
                     const std::vector<std::string>& keys) {
  std::string all;
  for (const std::string& key : keys) {
    all += transform.InDomain(key) ? transform.Transform(key).ToString() : "-";
    all += " ";
  }
  return all;
}

TEST(SliceTransformTest, GivesPrefixes) {
  const std::vector<std::string> keys = {"", "a", "ab", "abc"};
  const auto fixed = NewFixedPrefixTransform(2);
  EXPECT_EQ(Prefixes(*fixed, keys), "- - ab ab ");
  const auto capped = NewCappedPrefixTransform(2);
  EXPECT_EQ(Prefixes(*capped, keys), " a ab ab ");
  EXPECT_EQ(Prefixes(*NewNoopTransform(), keys), " a ab abc ");
  for (const auto& transform : {fixed, capped}) {
    size_t length = 0;
    EXPECT_TRUE(transform->FullLengthEnabled(&length));
    EXPECT_EQ(length, 2u);
    EXPECT_TRUE(transform->SameResultWhenAppended("ab"));
    EXPECT_FALSE(transform->SameResultWhenAppended("a"));
  }
}

TEST(SliceTransformTest, IsFoundByItsName) {
  for (const char* name :
       {"rocksdb.FixedPrefix.12", "rocksdb.CappedPrefix.0", "rocksdb.Noop"}) {
    const auto transform = NewTransformByName(name);
    ASSERT_NE(transform, nullptr) << name;
    EXPECT_STREQ(transform->Name(), name);
  }
  EXPECT_STREQ(NewTransformByText("fixed:3")->Name(), "rocksdb.FixedPrefix.3");
  EXPECT_STREQ(NewTransformByText("capped:4")->Name(),
               "rocksdb.CappedPrefix.4");
  EXPECT_STREQ(NewTransformByText("rocksdb.Noop")->Name(), "rocksdb.Noop");
  // A program's own function can have such a name.
  EXPECT_EQ(NewTransformByName("fixed:3"), nullptr);
  for (const char* name :
       {"", "nullptr", "rocksdb.FixedPrefix", "rocksdb.FixedPrefix.",
        "rocksdb.FixedPrefix.x", "rocksdb.FixedPrefix.3x", "fixed:-1",
        "rocksdb.CappedPrefix.99999999999999999999999", "rocksdb.Noop.1",
        "test.Other"}) {
    EXPECT_EQ(NewTransformByText(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace varve
