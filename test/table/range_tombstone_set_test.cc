// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a set of range deletions says of every key and sequence number which
// deletion covers it. Method: small cases by hand, and random sets against a
// look at each deletion, under two orders of keys.

#include "table/block/range_tombstone_set.h"

#include "test/testing/comparators.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

const InternalKeyComparator kBytewise(BytewiseComparator());

std::string Name(uint64_t number) {
  std::string digits = std::to_string(number);
  return std::string(3 - std::min<size_t>(3, digits.size()), '0') + digits;
}

TEST(RangeTombstoneSetTest, IsNullWithoutARangeThatHasKeys) {
  EXPECT_EQ(RangeTombstoneSet::Build(&kBytewise, {}), nullptr);
  EXPECT_EQ(
      RangeTombstoneSet::Build(&kBytewise, {{"b", "b", 1}, {"c", "a", 2}}),
      nullptr);
}

TEST(RangeTombstoneSetTest, CoversFromBeginToBeforeEnd) {
  const auto set = RangeTombstoneSet::Build(&kBytewise, {{"b", "d", 5}});
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->size(), 1u);
  EXPECT_EQ(set->at(0).begin.ToString(), "b");
  EXPECT_EQ(set->at(0).end.ToString(), "d");
  EXPECT_EQ(set->MaxCovering("a", 9), 0u);
  EXPECT_EQ(set->MaxCovering("b", 9), 5u);
  EXPECT_EQ(set->MaxCovering("b", 5), 5u);
  EXPECT_EQ(set->MaxCovering("b", 4), 0u);
  EXPECT_EQ(set->MaxCovering("czzz", 9), 5u);
  EXPECT_EQ(set->MaxCovering("d", 9), 0u);
  EXPECT_EQ(set->MaxCovering("", 9), 0u);
}

TEST(RangeTombstoneSetTest, EmptyKeyIsABound) {
  const auto set = RangeTombstoneSet::Build(&kBytewise, {{"", "a", 5}});
  EXPECT_EQ(set->MaxCovering("", 9), 5u);
  EXPECT_EQ(set->MaxCovering("a", 9), 0u);
}

TEST(RangeTombstoneSetTest, NestedRangesTakeLittleMemory) {
  std::deque<std::string> keys;
  std::vector<RangeTombstone> nested;
  constexpr uint64_t kCount = 20000;
  for (uint64_t i = 0; i < kCount; i++) {
    std::string suffix = std::to_string(1000000 + i);
    const std::string& begin = keys.emplace_back("a" + suffix);
    suffix = std::to_string(1000000 + 2 * kCount - i);
    const std::string& end = keys.emplace_back("b" + suffix);
    nested.push_back({begin, end, i + 1});
  }
  const auto set = RangeTombstoneSet::Build(&kBytewise, nested);
  EXPECT_LT(set->ApproximateMemoryUsage(), kCount * 1000);
  EXPECT_EQ(set->MaxCovering("b", 5), 5u);
  EXPECT_EQ(set->MaxCovering("b", kMaxSequenceNumber), kCount);
  EXPECT_EQ(set->MaxCovering("a1000100", kMaxSequenceNumber), 101u);
}

TEST(RangeTombstoneSetTest, ClipNarrowsToTheBounds) {
  const Slice c("c"), e("e");
  RangeTombstone tombstone{"a", "z", 1};
  EXPECT_TRUE(ClipRangeTombstone(kBytewise, nullptr, nullptr, &tombstone));
  EXPECT_EQ(tombstone.end.ToString(), "z");
  EXPECT_TRUE(ClipRangeTombstone(kBytewise, &c, &e, &tombstone));
  EXPECT_EQ(tombstone.begin.ToString(), "c");
  EXPECT_EQ(tombstone.end.ToString(), "e");
  EXPECT_FALSE(ClipRangeTombstone(kBytewise, &e, nullptr, &tombstone));
}

class Model {
 public:
  Model(const InternalKeyComparator* comparator, Rng* rng, uint64_t keys)
      : comparator_(comparator) {
    for (uint64_t i = rng->Below(30); i > 0; i--) {
      const std::string& begin = names_.emplace_back(Name(rng->Below(keys)));
      const std::string& end = names_.emplace_back(Name(rng->Below(keys)));
      list_.push_back({begin, end, rng->Below(20)});
    }
  }
  const std::vector<RangeTombstone>& list() const { return list_; }

  SequenceNumber MaxCovering(const Slice& key, SequenceNumber sequence) const {
    SequenceNumber result = 0;
    for (const RangeTombstone& tombstone : list_) {
      if (comparator_->CompareUser(tombstone.begin, key) <= 0 &&
          comparator_->CompareUser(key, tombstone.end) < 0 &&
          tombstone.sequence <= sequence) {
        result = std::max(result, tombstone.sequence);
      }
    }
    return result;
  }

 private:
  const InternalKeyComparator* comparator_;
  std::deque<std::string> names_;
  std::vector<RangeTombstone> list_;
};

TEST(RangeTombstoneSetTest, RandomSetsAgreeWithALookAtEach) {
  Rng rng(TestSeed());
  const ReverseComparator reverse_order;
  const InternalKeyComparator reverse(&reverse_order);
  for (int round = 0; round < 400; round++) {
    const InternalKeyComparator* order = rng.OneIn(2) ? &kBytewise : &reverse;
    const uint64_t keys = rng.Pick<uint64_t>({3, 20, 200});
    const Model model(order, &rng, keys);
    const auto set = RangeTombstoneSet::Build(order, model.list());
    if (set == nullptr) {
      for (const RangeTombstone& t : model.list()) {
        ASSERT_GE(order->CompareUser(t.begin, t.end), 0);
      }
      continue;
    }
    RangeTombstoneCursor cursor(set.get());
    uint64_t place = rng.Below(keys);
    for (int i = 0; i < 100; i++) {
      // Neighbours often, so that the cursor steps as well as jumps.
      place = rng.OneIn(3) ? rng.Below(keys) : (place + 1) % keys;
      const std::string key = Name(place);
      const SequenceNumber sequence = rng.Below(22);
      const SequenceNumber expected = model.MaxCovering(key, sequence);
      ASSERT_EQ(set->MaxCovering(key, sequence), expected);
      cursor.MoveTo(key);
      ASSERT_EQ(cursor.MaxCovering(sequence), expected);
      ASSERT_TRUE(cursor.lower() == nullptr ||
                  order->CompareUser(*cursor.lower(), key) <= 0);
      ASSERT_TRUE(cursor.upper() == nullptr ||
                  order->CompareUser(*cursor.upper(), key) > 0);
    }
  }
}

}  // namespace
}  // namespace varve::test
