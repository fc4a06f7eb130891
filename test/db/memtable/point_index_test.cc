// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the point index finds the newest version of every key that was
// inserted and of no other, whatever the order of inserts, the collisions and
// the threads; and a memtable answers with it as its ordered list alone would.
// Method: random inserts against a std::map, with few buckets and with hashes
// made equal; the interleavings B1 to B6 of db/memtable/point_index.h by
// threads that each check what they have just inserted, so that a lost update
// is noticed at once and not covered up by the next one.
#include "db/memtable/point_index.h"

#include "db/memtable/memtable.h"
#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "test/testing/comparators.h"
#include "test/testing/point_index.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/arena.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"

namespace varve {
namespace {

constexpr size_t kWriteBufferBytes = size_t{1} << 20;

using test::Index;
using test::RunThreads;

std::string KeyOf(uint64_t number) {
  // Values of several lengths, one of them 0. Some are prefixes of others.
  return number == 0 ? ""
                     : std::string(number % 7, 'p') + std::to_string(number);
}

TEST(PointIndexTest, ChoosesBucketsForTheWriteBuffer) {
  EXPECT_EQ(PointIndex::BucketCountFor(0), 8u);
  EXPECT_EQ(PointIndex::BucketCountFor(size_t{64} << 10), 51u);
  EXPECT_EQ(PointIndex::BucketCountFor(size_t{64} << 20), 52428u);
  EXPECT_EQ(PointIndex::BucketCountFor(SIZE_MAX), size_t{512} << 10);
}

TEST(PointIndexTest, IsUsableUnlessOfNoBuckets) {
  const std::atomic<uint64_t> count{1000};
  Arena arena;
  EXPECT_TRUE(PointIndex(64, &arena, &count).usable());
  PointIndex none(0, &arena, &count);
  EXPECT_FALSE(none.usable());
  EXPECT_EQ(none.MemoryUsage(), 0u);
  const ArenaPlace entry = arena.Allocate(32);
  const std::string key =
      MakeInternalKey("key", PackTrailer(1, ValueType::kValue));
  none.Insert(entry, key, 0);
  none.Prefetch(0);
  Slice found("as before");
  EXPECT_FALSE(none.Find("key", 0, &found));
  EXPECT_EQ(found, Slice("as before"));
}

TEST(PointIndexTest, ChargesAPageForEachInsertUntilAllAreCharged) {
  std::atomic<uint64_t> count{0};
  Arena arena;
  const PointIndex small(8, &arena, &count);
  const PointIndex large(512, &arena, &count);
  EXPECT_EQ(small.MemoryUsage(), 0u);
  EXPECT_EQ(large.MemoryUsage(), 0u);
  count = 1;
  EXPECT_EQ(small.MemoryUsage(), 8 * 64u);
  count = 3;
  EXPECT_EQ(large.MemoryUsage(), 3 * 4096u);
  count = 8;
  EXPECT_EQ(large.MemoryUsage(), 8 * 4096u);
  count = 1000;
  EXPECT_EQ(large.MemoryUsage(), 8 * 4096u);
}

TEST(PointIndexTest, FindsNothingWhenEmpty) {
  const Index index(64);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(index.Find(KeyOf(i), i << 60 | i), 0u);
  }
}

// A bucket has 12 slots, of which 8 have their tags in the first word. Each
// further bucket has as many.
TEST(PointIndexTest, FindsKeysAndVersionsInEachSlotOfAChain) {
  for (const bool has_equal_tags : {true, false}) {
    Index index(64);
    const auto hash = [&](uint64_t key) { return has_equal_tags ? 0 : key; };
    for (uint64_t count = 1; count <= 40; ++count) {
      // The newest sequence number of key k is k + 1, or 1000 more.
      index.Insert(KeyOf(count), count + 1, hash(count));
      for (uint64_t key = 1; key <= 50; ++key) {
        ASSERT_EQ(index.Find(KeyOf(key), hash(key)), key <= count ? key + 1 : 0)
            << count;
      }
    }
    for (uint64_t newer = 1; newer <= 40; ++newer) {
      index.Insert(KeyOf(newer), newer + 1001, hash(newer));
      index.Insert(KeyOf(newer), 500, hash(newer));
      for (uint64_t key = 1; key <= 50; ++key) {
        const uint64_t expected = key <= newer ? key + 1001 : key + 1;
        ASSERT_EQ(index.Find(KeyOf(key), hash(key)), key <= 40 ? expected : 0);
      }
    }
    EXPECT_EQ(index.ArrayCount(), 1u);
  }
}

// All tags, the lowest of which stands for two hashes, beside all others.
TEST(PointIndexTest, TellsAllTagsApart) {
  for (uint64_t tag = 0; tag < 128; ++tag) {
    Index index(64);
    for (uint64_t other = 0; other < 12; ++other) {
      if (other != 5) index.Insert(KeyOf(other), 1, (tag + other) % 128);
    }
    EXPECT_EQ(index.Find(KeyOf(5), (tag + 5) % 128), 0u);
    EXPECT_EQ(index.Find(KeyOf(200), tag), 0u);
    index.Insert(KeyOf(5), 7, (tag + 5) % 128);
    EXPECT_EQ(index.Find(KeyOf(5), (tag + 5) % 128), 7u);
  }
}

TEST(PointIndexTest, FindsTheHighestSequenceWhateverTheOrderOfInserts) {
  // Places in the bucket: in front, between, at the end.
  for (const char* key : {"first", "second", "third"}) {
    for (const std::vector<SequenceNumber>& order :
         {std::vector<SequenceNumber>{10, 11, 12},
          {10, 12, 11},
          {11, 10, 12},
          {11, 12, 10},
          {12, 10, 11},
          {12, 11, 10}}) {
      Index index(64);
      for (const char* other : {"first", "second", "third"}) {
        index.Insert(other, 1, 0);
      }
      SequenceNumber highest = 1;
      for (const SequenceNumber sequence : order) {
        index.Insert(key, sequence, 0);
        highest = std::max(highest, sequence);
        for (const std::string other : {"first", "second", "third"}) {
          EXPECT_EQ(index.Find(other, 0), other == key ? highest : 1u);
        }
      }
    }
  }
}

TEST(PointIndexTest, AgreesWithAModelWhenHashesCollide) {
  test::Rng rng(test::TestSeed());
  // No tags differ, all do, or both buckets and tags do.
  const std::vector<std::function<uint64_t(uint64_t)>> hashes = {
      [](uint64_t) { return uint64_t{0}; },
      [](uint64_t number) { return number; },
      [](uint64_t number) { return number % 5 << 60 | number % 3; },
      [](uint64_t number) { return PreviewXxh3(KeyOf(number)); }};
  for (const auto& hash : hashes) {
    Index index(64);
    std::map<uint64_t, SequenceNumber> model;
    std::map<uint64_t, std::map<SequenceNumber, bool>> used;
    for (int step = 0; step < 4000; ++step) {
      const uint64_t number = rng.Below(120);
      const SequenceNumber sequence = 1 + rng.Below(uint64_t{1} << 40);
      if (rng.OneIn(2) && used[number].emplace(sequence, true).second) {
        index.Insert(KeyOf(number), sequence, hash(number));
        model[number] = std::max(model[number], sequence);
      }
      const uint64_t asked = rng.Below(150);
      const auto it = model.find(asked);
      ASSERT_EQ(index.Find(KeyOf(asked), hash(asked)),
                it == model.end() ? 0 : it->second)
          << "key " << asked << " in step " << step;
    }
  }
}

// They also need further buckets.
TEST(PointIndexTest, LosesNoNewKeyWhenManyEnterOneBucketB1B10) {
  constexpr int kThreads = 4;
  const uint64_t count = 300;
  for (int round = 0; round < 10; ++round) {
    Index index(64);
    RunThreads(kThreads, [&](int thread) {
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t number = i * kThreads + static_cast<uint64_t>(thread);
        index.Insert(KeyOf(number), 1 + number, number % 128);
        ASSERT_EQ(index.Find(KeyOf(number), number % 128), 1 + number);
      }
    });
    for (uint64_t number = 0; number < count * kThreads; ++number) {
      ASSERT_EQ(index.Find(KeyOf(number), number % 128), 1 + number);
    }
  }
}

TEST(PointIndexTest, KeepsTheNewestWhenVersionsOfOneKeyRaceB2) {
  constexpr int kThreads = 4;
  const SequenceNumber count = 5000;
  Index index(64);
  RunThreads(kThreads, [&](int thread) {
    for (SequenceNumber i = 0; i < count; ++i) {
      const SequenceNumber sequence =
          1 + i * kThreads + static_cast<SequenceNumber>(thread);
      index.Insert("key", sequence, 7);
      ASSERT_GE(index.Find("key", 7), sequence);
    }
  });
  EXPECT_EQ(index.Find("key", 7), count * kThreads);
}

TEST(PointIndexTest, LosesNothingWhenNeighboursAreReplacedB3) {
  // Each thread has one key of the chain: what it inserted is the newest. Now
  // and then it adds a key.
  constexpr int kThreads = 4;
  Index index(64);
  for (uint64_t key = 0; key < kThreads; ++key) index.Insert(KeyOf(key), 1, 0);
  RunThreads(kThreads, [&](int thread) {
    const auto key = static_cast<uint64_t>(thread);
    std::vector<uint64_t> added;
    for (SequenceNumber sequence = 2; sequence < 10000; ++sequence) {
      index.Insert(KeyOf(key), sequence, 0);
      ASSERT_EQ(index.Find(KeyOf(key), 0), sequence);
      if (sequence % 400 != 0) continue;
      added.push_back(sequence * kThreads + key);
      index.Insert(KeyOf(added.back()), 1, 0);
      for (const uint64_t one : added) {
        ASSERT_EQ(index.Find(KeyOf(one), 0), 1u);
      }
    }
  });
}

TEST(PointIndexTest, ReadersPassReplacedAndNewEntriesB4B5) {
  // The reader's keys are after, between and before entries that are replaced
  // all the time. Its own keys are replaced, too. New keys come at the end.
  constexpr int kKeys = 6;
  const int updates = 20000;
  Index index(64);
  const auto hash = [](uint64_t key) { return key % 16; };
  std::vector<std::atomic<SequenceNumber>> published(kKeys);
  for (uint64_t key = 0; key < kKeys; ++key) {
    index.Insert(KeyOf(key), 1, hash(key));
    published[key].store(1);
  }
  std::atomic<bool> done{false};
  RunThreads(4, [&](int thread) {
    if (thread < 2) {
      // Two writers of half the keys each, so that B3 is met as well.
      const auto first = static_cast<uint64_t>(thread);
      for (int i = 0; i < updates; ++i) {
        const uint64_t key = first + 2 * (static_cast<uint64_t>(i) % 3);
        const SequenceNumber sequence = static_cast<SequenceNumber>(i) + 2;
        index.Insert(KeyOf(key), sequence, hash(key));
        // release: pairs with the acquire of the readers below.
        published[key].store(sequence, std::memory_order_release);
        if (i % 200 == 0) {
          const uint64_t fresh = 1000 + first + static_cast<uint64_t>(i);
          index.Insert(KeyOf(fresh), sequence, hash(fresh));
          ASSERT_EQ(index.Find(KeyOf(fresh), hash(fresh)), sequence);
        }
      }
      done.store(true);
      return;
    }
    std::vector<SequenceNumber> seen(kKeys, 0);
    for (uint64_t i = 0; !done.load(); ++i) {
      const uint64_t key = i % kKeys;
      // acquire: pairs with the writers' release. No other edge leads here, so
      // that ThreadSanitizer judges the index's own.
      const SequenceNumber least =
          published[key].load(std::memory_order_acquire);
      const SequenceNumber found = index.Find(KeyOf(key), hash(key));
      ASSERT_GE(found, least);
      ASSERT_GE(found, seen[key]);
      seen[key] = found;
    }
  });
}

TEST(PointIndexTest, ReadersSeeWholeEntriesWithoutOtherSynchronisation) {
  const uint64_t count = 20000;
  Index index(1024);
  std::atomic<bool> done{false};
  RunThreads(2, [&](int thread) {
    if (thread == 0) {
      for (uint64_t i = 0; i < count; ++i) {
        index.Insert(KeyOf(i), i + 1, PreviewXxh3(KeyOf(i)));
      }
      done.store(true);
      return;
    }
    uint64_t i = 0;
    do {
      const SequenceNumber found = index.Find(KeyOf(i), PreviewXxh3(KeyOf(i)));
      ASSERT_TRUE(found == 0 || found == i + 1);
      i = (i + 7919) % count;
    } while (!done.load());
  });
}

// ---- In the memtable --------------------------------------------------------

LookupState Find(const MemTable& memtable, const Slice& key,
                 SequenceNumber sequence, std::string* value) {
  Slice found;
  const LookupState state =
      memtable.Find(key, sequence, PreviewXxh3(key), &found);
  *value = found.ToString();
  return state;
}

// The state of a key at a sequence number, according to the updates.
using Updates =
    std::map<std::string, std::map<SequenceNumber, std::optional<std::string>>>;
LookupState Expected(const Updates& updates, const std::string& key,
                     SequenceNumber sequence, std::string* value) {
  value->clear();
  const auto versions = updates.find(key);
  if (versions == updates.end()) return LookupState::kNotFound;
  auto it = versions->second.upper_bound(sequence);
  if (it == versions->second.begin()) return LookupState::kNotFound;
  --it;
  if (!it->second.has_value()) return LookupState::kDeleted;
  *value = *it->second;
  return LookupState::kFound;
}

class MemTableFindTest : public testing::TestWithParam<bool> {
 protected:
  const test::UnrecognizedBytewiseComparator custom_;
  const InternalKeyComparator comparator_{GetParam() ? BytewiseComparator()
                                                     : &custom_};
};

TEST_P(MemTableFindTest, FindsNothingWhenEmpty) {
  const MemTable memtable(&comparator_, 0, kWriteBufferBytes);
  std::string value;
  memtable.Prefetch(PreviewXxh3("key"));
  EXPECT_EQ(Find(memtable, "key", kMaxSequenceNumber, &value),
            LookupState::kNotFound);
  EXPECT_LT(memtable.ApproximateMemoryUsage(), size_t{256} << 10);
}

TEST_P(MemTableFindTest, AgreesWithAModelAtEverySnapshot) {
  test::Rng rng(test::TestSeed());
  // The smallest index and chains of dozens; and one as large as intended.
  for (const size_t write_buffer_bytes : {size_t{0}, kWriteBufferBytes}) {
    MemTable memtable(&comparator_, 0, write_buffer_bytes);
    Updates updates;
    const uint64_t max_sequence = 8000;
    for (int step = 0; step < 10000; ++step) {
      const SequenceNumber sequence = 1 + rng.Below(max_sequence);
      const std::string key = KeyOf(rng.Below(2000));
      auto [it, inserted] = updates[key].emplace(sequence, std::nullopt);
      if (inserted) {
        if (!rng.OneIn(4)) it->second = rng.Bytes(rng.Below(200));
        memtable.Add(sequence,
                     it->second ? ValueType::kValue : ValueType::kDeletion, key,
                     it->second.value_or(""));
      }
      const std::string asked = KeyOf(rng.Below(2500));
      const SequenceNumber snapshot =
          rng.OneIn(3) ? kMaxSequenceNumber : rng.Below(max_sequence);
      std::string expected;
      std::string value;
      memtable.Prefetch(PreviewXxh3(asked));
      ASSERT_EQ(Expected(updates, asked, snapshot, &expected),
                Find(memtable, asked, snapshot, &value));
      ASSERT_EQ(value, expected);
    }
  }
}

TEST_P(MemTableFindTest, LeavesTheValueAloneWhenThereIsNone) {
  MemTable memtable(&comparator_, 0, kWriteBufferBytes);
  memtable.Add(1, ValueType::kValue, "deleted", "x");
  memtable.Add(2, ValueType::kDeletion, "deleted", "");
  for (const char* key : {"deleted", "absent"}) {
    Slice value("as before");
    EXPECT_NE(memtable.Find(key, 2, PreviewXxh3(key), &value),
              LookupState::kFound);
    EXPECT_EQ(value, Slice("as before"));
  }
}

// Writers add updates and publish how far they are; readers at what is
// published must see exactly those, though newer ones are being added (B6).
TEST_P(MemTableFindTest, ReadersSeeTheirSnapshotWhileWritersAddB6) {
  constexpr uint64_t kKeys = 50;
  constexpr int kWriters = 2;
  const SequenceNumber count = 8000;
  MemTable memtable(&comparator_, 0, 0);
  // A sequence number is always of the same key and value.
  const auto key_of = [](SequenceNumber sequence) {
    return KeyOf(sequence * 31 % kKeys);
  };
  std::vector<std::atomic<SequenceNumber>> published(kWriters);
  RunThreads(4, [&](int thread) {
    if (thread < kWriters) {
      const auto writer = static_cast<SequenceNumber>(thread);
      for (SequenceNumber i = 1; i <= count; ++i) {
        // Writers share keys and take turns in sequence numbers.
        const SequenceNumber sequence = i * kWriters + writer;
        memtable.Add(sequence, ValueType::kValue, key_of(sequence),
                     std::to_string(sequence));
        // release: pairs with the acquire of the readers below.
        published[writer].store(sequence, std::memory_order_release);
      }
      return;
    }
    for (SequenceNumber snapshot = 0; snapshot < count * kWriters;) {
      // acquire: pairs with the writers' release. All sequence numbers up to
      // the smaller of both are in.
      snapshot = std::min(published[0].load(std::memory_order_acquire),
                          published[1].load(std::memory_order_acquire));
      if (snapshot < kWriters + kKeys) continue;
      for (SequenceNumber back = 0; back < kKeys; back += 7) {
        const SequenceNumber newest = snapshot - back;
        // kKeys numbers in a row are of different keys: each is the newest.
        std::string value;
        ASSERT_EQ(Find(memtable, key_of(newest), snapshot, &value),
                  LookupState::kFound);
        ASSERT_EQ(value, std::to_string(newest));
      }
    }
  });
  EXPECT_EQ(memtable.EntryCount(), count * kWriters);
}

INSTANTIATE_TEST_SUITE_P(, MemTableFindTest, testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Bytewise" : "Custom";
                         });

}  // namespace
}  // namespace varve
