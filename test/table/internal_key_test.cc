// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: internal keys hold what was put in and sort by user key, then newest
// first. Method: pairs of keys in known order.
#include "table/block/internal_key.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(InternalKeyTest, HoldsUserKeySequenceAndType) {
  for (const std::string& user_key :
       {std::string(), std::string("key"), std::string(1000, '\xFF')}) {
    for (const SequenceNumber sequence :
         {SequenceNumber{0}, SequenceNumber{77}, kMaxSequenceNumber}) {
      const std::string key = MakeInternalKey(
          user_key, PackTrailer(sequence, ValueType::kSingleDeletion));
      EXPECT_EQ(ExtractUserKey(key), user_key);
      EXPECT_EQ(ExtractSequence(key), sequence);
      EXPECT_EQ(ExtractValueType(key), ValueType::kSingleDeletion);
    }
  }
}

TEST(InternalKeyTest, SortsNewestFirst) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const std::string in_order[] = {
      MakeInternalKey("", PackTrailer(1, ValueType::kValue)),
      MakeInternalKey("a", SeekTrailer(9)),
      MakeInternalKey("a", PackTrailer(9, ValueType::kValue)),
      MakeInternalKey("a", PackTrailer(9, ValueType::kDeletion)),
      MakeInternalKey("a", PackTrailer(8, ValueType::kValue)),
      MakeInternalKey("a", PackTrailer(0, ValueType::kValue)),
      MakeInternalKey("aa", PackTrailer(100, ValueType::kValue)),
      MakeInternalKey("\x80", PackTrailer(5, ValueType::kValue)),
  };
  for (size_t i = 0; i < std::size(in_order); ++i) {
    for (size_t j = 0; j < std::size(in_order); ++j) {
      const int r = comparator.Compare(in_order[i], in_order[j]);
      EXPECT_EQ(r < 0, i < j);
      EXPECT_EQ(r > 0, i > j);
    }
  }
}

TEST(InternalKeyTest, LookupKeySortsBeforeVisibleVersions) {
  const InternalKeyComparator comparator(BytewiseComparator());
  // Short keys lie inside the object, long ones outside.
  for (const size_t size : {0, 1, 112, 113, 5000}) {
    const std::string user_key(size, 'k');
    const LookupKey lookup(user_key, 50);
    EXPECT_EQ(lookup.user_key(), user_key);
    EXPECT_LT(comparator.Compare(
                  lookup.internal_key(),
                  MakeInternalKey(
                      user_key, PackTrailer(50, ValueType::kWideColumnEntity))),
              0);
    EXPECT_GT(
        comparator.Compare(
            lookup.internal_key(),
            MakeInternalKey(user_key, PackTrailer(51, ValueType::kValue))),
        0);
  }
}

TEST(InternalKeyTest, DescribesAnyBytes) {
  EXPECT_EQ(DescribeInternalKey(
                MakeInternalKey("ab", PackTrailer(7, ValueType::kValue))),
            "'6162' seq:7, type:1");
  EXPECT_EQ(DescribeInternalKey("abc"), "'616263' without a trailer");
  EXPECT_EQ(DescribeInternalKey(""), "'' without a trailer");
}

}  // namespace
}  // namespace varve
