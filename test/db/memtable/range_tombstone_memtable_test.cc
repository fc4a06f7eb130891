// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: range deletions of a memtable are found as soon as they were added, by
// any thread, and many of them stay cheap. Method: random ones against a list,
// and a writer against readers that look for what must be there.

#include "db/memtable/range_tombstone_memtable.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

const InternalKeyComparator kComparator(BytewiseComparator());

std::string Number(uint64_t n) { return std::to_string(1000000 + n); }

TEST(RangeTombstoneMemTableTest, IsEmptyUntilARangeWithKeysIsAdded) {
  RangeTombstoneMemTable tombstones(&kComparator);
  EXPECT_TRUE(tombstones.empty());
  EXPECT_TRUE(tombstones.Sets().empty());
  tombstones.Add("b", "b", 1);
  EXPECT_TRUE(tombstones.empty());
  EXPECT_EQ(tombstones.MemoryUsage(), 0u);
  tombstones.Add("b", "c", 2);
  EXPECT_FALSE(tombstones.empty());
  EXPECT_GT(tombstones.MemoryUsage(), 0u);
  const EpochGuard section;
  EXPECT_EQ(tombstones.MaxCovering("b", 9), 2u);
  EXPECT_EQ(tombstones.MaxCovering("b", 1), 0u);
  EXPECT_EQ(tombstones.MaxCovering("c", 9), 0u);
}

TEST(RangeTombstoneMemTableTest, RandomOnesAgreeWithAList) {
  Rng rng(TestSeed());
  RangeTombstoneMemTable tombstones(&kComparator);
  std::vector<std::pair<uint64_t, uint64_t>> added;
  for (SequenceNumber sequence = 1; sequence <= 600; sequence++) {
    const uint64_t begin = rng.Below(500);
    const uint64_t end = begin + 1 + rng.Below(30);
    tombstones.Add(Number(begin), Number(end), sequence);
    added.emplace_back(begin, end);
    const EpochGuard section;
    for (int i = 0; i < 10; i++) {
      const uint64_t key = rng.Below(530);
      const SequenceNumber visible = rng.Below(sequence + 1);
      SequenceNumber expected = 0;
      for (SequenceNumber s = 1; s <= visible; s++) {
        const auto& [low, high] = added[s - 1];
        if (low <= key && key < high) expected = s;
      }
      ASSERT_EQ(tombstones.MaxCovering(Number(key), visible), expected);
    }
  }
  size_t count = 0;
  for (const auto& set : tombstones.Sets()) count += set->size();
  EXPECT_EQ(count, 600u);
}

TEST(RangeTombstoneMemTableTest, ManyMakeFewSets) {
  RangeTombstoneMemTable tombstones(&kComparator);
  for (uint64_t i = 0; i < 5000; i++) {
    tombstones.Add(Number(2 * i), Number(2 * i + 1), i + 1);
    ASSERT_LE(tombstones.Sets().size(), 13u);
  }
}

TEST(RangeTombstoneMemTableTest, ReadersSeeEarlierElements) {
  constexpr SequenceNumber kCount = 3000;
  RangeTombstoneMemTable tombstones(&kComparator);
  std::atomic<SequenceNumber> last{0};
  const auto read = [&] {
    SequenceNumber sequence = 0;
    while (sequence < kCount) {
      const EpochGuard section;
      // acquire pairs with the release of the writer.
      sequence = last.load(std::memory_order_acquire);
      if (sequence == 0) continue;
      ASSERT_EQ(tombstones.MaxCovering("k", sequence), sequence);
      ASSERT_EQ(tombstones.MaxCovering(Number(sequence), sequence), sequence);
    }
  };
  std::thread first(read), second(read);
  for (SequenceNumber sequence = 1; sequence <= kCount; sequence++) {
    tombstones.Add(Number(sequence), "z", sequence);
    // release pairs with the acquire of the readers.
    last.store(sequence, std::memory_order_release);
  }
  first.join();
  second.join();
}

}  // namespace
}  // namespace varve::test
