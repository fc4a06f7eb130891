// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: a point index stays fast and right however many more entries are
// inserted than its first array of buckets was made for.
// Method: inserts far beyond the first array's size; the interleavings B7 to B9
// of db/memtable/point_index.h forced by inserts into an older array, or met by
// threads that insert and read while the index grows; and the work of a
// memtable of a small write buffer beside a large one's.
#include <time.h>

#include "db/memtable/memtable.h"
#include "db/memtable/point_index.h"
#include "test/testing/point_index.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/hash.h"

namespace varve {
namespace {

using test::Index;
using test::RunThreads;

std::string KeyOf(uint64_t number) { return std::to_string(number); }
uint64_t HashOf(uint64_t number) { return PreviewXxh3(KeyOf(number)); }

// Inserts keys from *next on until the index has one more array.
void GrowOnce(Index* index, uint64_t* next) {
  const size_t before = index->ArrayCount();
  while (index->ArrayCount() == before) {
    ASSERT_LT(*next, uint64_t{1} << 20);
    index->Insert(KeyOf(*next), 1, HashOf(*next));
    ++*next;
  }
}

TEST(PointIndexGrowthTest, KeepsOneArrayUpTo32EntriesPerBucket) {
  Index index(128);
  for (uint64_t i = 0; i < 32 * 128; ++i) index.Insert(KeyOf(i), 1, HashOf(i));
  EXPECT_EQ(index.ArrayCount(), 1u);
}

TEST(PointIndexGrowthTest, FindsEveryKeyInAllArrays) {
  Index index(8);
  const uint64_t count = 200000;
  for (uint64_t i = 0; i < count; ++i) {
    index.Insert(KeyOf(i), i + 1, HashOf(i));
    index.Prefetch(HashOf(i));
    const uint64_t other = (i * 7919) % (2 * count);
    ASSERT_EQ(index.Find(KeyOf(other), HashOf(other)),
              other <= i ? other + 1 : 0);
  }
  // 8 buckets, then 8 times as many each time: 32,768 at the end.
  EXPECT_EQ(index.ArrayCount(), 5u);
}

TEST(PointIndexGrowthTest, DoesNotGrowForVersionsOfFewKeys) {
  Index index(8);
  for (uint64_t i = 0; i < 100000; ++i) {
    index.Insert(KeyOf(i % 64), i + 1, HashOf(i % 64));
  }
  EXPECT_EQ(index.ArrayCount(), 1u);
}

// Keys chosen to share a bucket make that one slow, and nothing large.
TEST(PointIndexGrowthTest, DoesNotGrowForKeysOfOneBucket) {
  Index index(128);
  for (uint64_t i = 0; i < 2000; ++i) index.Insert(KeyOf(i), 1, i % 128);
  EXPECT_EQ(index.ArrayCount(), 1u);
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(index.Find(KeyOf(i), i % 128), 1u);
  }
}

TEST(PointIndexGrowthTest, ChargesOlderArraysInFull) {
  Index index(8);
  uint64_t next = 0;
  GrowOnce(&index, &next);
  EXPECT_EQ(index.MemoryUsage(), 8 * 64u + 4096u);  // The new array's first.
  GrowOnce(&index, &next);
  EXPECT_EQ(index.MemoryUsage(), 8 * 64u + 64 * 64u + 4096u);
  for (uint64_t i = 0; i < 7; ++i) {
    index.Insert(KeyOf(next + i), 1, HashOf(next + i));
  }
  EXPECT_EQ(index.MemoryUsage(), 8 * 64u + 64 * 64u + 512 * 64u);
}

TEST(PointIndexGrowthTest, ReturnsTheNewestVersionOfAnyArrayB7) {
  Index index(8);
  uint64_t next = 0;
  GrowOnce(&index, &next);
  GrowOnce(&index, &next);
  ASSERT_EQ(index.ArrayCount(), 3u);
  // All orders of three versions over three arrays.
  std::vector<SequenceNumber> sequences = {10, 11, 12};
  std::vector<size_t> ages = {0, 1, 2};
  int round = 0;
  do {
    do {
      const std::string key = "key" + std::to_string(round++);
      const uint64_t hash = PreviewXxh3(key);
      SequenceNumber highest = 0;
      for (size_t i = 0; i < 3; ++i) {
        index.InsertInto(ages[i], key, sequences[i], hash);
        highest = std::max(highest, sequences[i]);
        ASSERT_EQ(index.Find(key, hash), highest);
      }
    } while (std::next_permutation(ages.begin(), ages.end()));
  } while (std::next_permutation(sequences.begin(), sequences.end()));
}

TEST(PointIndexGrowthTest, FindsAKeyOnlyInAnOldArrayAfterGrowthB7) {
  Index index(8);
  uint64_t next = 0;
  GrowOnce(&index, &next);
  index.InsertInto(1, "late", 5, PreviewXxh3("late"));
  EXPECT_EQ(index.Find("late", PreviewXxh3("late")), 5u);
}

TEST(PointIndexGrowthTest, LosesNothingWhileAThreadIsAboutToGrowB9) {
  Index index(8);
  uint64_t next = 0;
  // Before the array is full, and when it is: others then grow, and insert into
  // both arrays.
  for (; next < 100; ++next) index.Insert(KeyOf(next), 1, HashOf(next));
  index.BeginGrowth();
  const auto all_are_found = [&] {
    for (uint64_t i = 0; i < next; ++i) {
      ASSERT_EQ(index.Find(KeyOf(i), HashOf(i)), 1u);
    }
  };
  all_are_found();
  for (; next < 200; ++next) index.Insert(KeyOf(next), 1, HashOf(next));
  EXPECT_EQ(index.ArrayCount(), 1u);
  all_are_found();
  GrowOnce(&index, &next);
  all_are_found();
  index.BeginGrowth();
  for (uint64_t end = next + 100; next < end; ++next) {
    index.Insert(KeyOf(next), 1, HashOf(next));
    all_are_found();
  }
}

TEST(PointIndexGrowthTest, LosesNoArrayWhenThreadsGrowAtOnceB8B9) {
  constexpr int kThreads = 4;
  const uint64_t count = 20000;
  for (int round = 0; round < 10; ++round) {
    Index index(8);
    RunThreads(kThreads, [&](int thread) {
      for (uint64_t i = 0; i < count / kThreads; ++i) {
        const uint64_t number = i * kThreads + static_cast<uint64_t>(thread);
        index.Insert(KeyOf(number), number + 1, HashOf(number));
        ASSERT_EQ(index.Find(KeyOf(number), HashOf(number)), number + 1);
      }
    });
    for (uint64_t number = 0; number < count; ++number) {
      ASSERT_EQ(index.Find(KeyOf(number), HashOf(number)), number + 1);
    }
    // 8, 64, 512 and perhaps 4096 buckets.
    EXPECT_GE(index.ArrayCount(), 3u);
    EXPECT_LE(index.ArrayCount(), 4u);
  }
}

// Two writers insert versions of shared keys, in turns, and new keys, so that
// the index grows; readers must see what was published, and no key go back.
TEST(PointIndexGrowthTest, ReadersSeeTheNewestWhileItGrowsB7B9) {
  constexpr uint64_t kKeys = 8;
  const SequenceNumber count = 20000;
  for (int round = 0; round < 4; ++round) {
    Index index(8);
    std::vector<std::atomic<SequenceNumber>> published(kKeys);
    std::atomic<int> writing{2};
    RunThreads(4, [&](int thread) {
      if (thread < 2) {
        for (SequenceNumber i = 1; i <= count; ++i) {
          const SequenceNumber sequence =
              2 * i + static_cast<SequenceNumber>(thread);
          // Each writer publishes keys of its own, and inserts into all.
          const uint64_t key =
              (sequence / 2 % (kKeys / 2)) * 2 + static_cast<uint64_t>(thread);
          index.Insert(KeyOf(key), sequence, HashOf(key));
          // release: pairs with the acquire of the readers below.
          published[key].store(sequence, std::memory_order_release);
          index.Insert(KeyOf(key ^ 1), sequence, HashOf(key ^ 1));
          index.Insert(KeyOf(kKeys + sequence), sequence,
                       HashOf(kKeys + sequence));
        }
        writing.fetch_sub(1);
        return;
      }
      std::vector<SequenceNumber> seen(kKeys, 0);
      for (uint64_t i = 0; writing.load() > 0; ++i) {
        const uint64_t key = i % kKeys;
        // acquire: pairs with the writers' release. No other edge leads here,
        // so that ThreadSanitizer judges the index's own.
        const SequenceNumber least =
            published[key].load(std::memory_order_acquire);
        const SequenceNumber found = index.Find(KeyOf(key), HashOf(key));
        ASSERT_GE(found, least);
        ASSERT_GE(found, seen[key]);
        seen[key] = found;
      }
    });
    EXPECT_GE(index.ArrayCount(), 3u);
  }
}

// ---- In the memtable --------------------------------------------------------

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// Returns the seconds to add these entries to a memtable with that write
// buffer, as the better of two runs.
double SecondsToAdd(const InternalKeyComparator& comparator, size_t buffer,
                    uint64_t count) {
  double best = 1e9;
  for (int run = 0; run < 2; ++run) {
    MemTable memtable(&comparator, 0, buffer);
    const double start = CpuSeconds();
    for (uint64_t i = 0; i < count; ++i) {
      memtable.Add(i + 1, ValueType::kValue, KeyOf(i * 2654435761u), "v");
    }
    best = std::min(best, CpuSeconds() - start);
  }
  return best;
}

TEST(MemTableGrowthTest, SmallBuffersTakeAboutAsLongAsLargeOnes) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const uint64_t count = 300000;
  const double large = SecondsToAdd(comparator, size_t{64} << 20, count);
  const double small = SecondsToAdd(comparator, size_t{64} << 10, count);
  // 1.1 to 1.4 times; it was 60 with one array of buckets.
  EXPECT_LT(small, 4 * large) << small << " s and " << large << " s";
}

TEST(MemTableGrowthTest, ReadsEverySnapshotOfALargeBatchInASmallBuffer) {
  const InternalKeyComparator comparator(BytewiseComparator());
  MemTable memtable(&comparator, 0, size_t{64} << 10);
  const uint64_t count = 100000;
  for (uint64_t i = 0; i < count; ++i) {
    memtable.Add(i + 1, ValueType::kValue, KeyOf(i), "first");
  }
  for (uint64_t i = 0; i < count; i += 3) {
    memtable.Add(count + i + 1, ValueType::kDeletion, KeyOf(i), "");
  }
  for (uint64_t i = 0; i < count; ++i) {
    Slice value;
    ASSERT_EQ(memtable.Find(KeyOf(i), count, HashOf(i), &value),
              LookupState::kFound);
    ASSERT_EQ(memtable.Find(KeyOf(i), kMaxSequenceNumber, HashOf(i), &value),
              i % 3 == 0 ? LookupState::kDeleted : LookupState::kFound);
  }
  Slice value;
  EXPECT_EQ(memtable.Find("absent", kMaxSequenceNumber, PreviewXxh3("absent"),
                          &value),
            LookupState::kNotFound);
}

}  // namespace
}  // namespace varve
