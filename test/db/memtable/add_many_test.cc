// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: MemTable::AddMany does what Add does for each of its updates, also
// while others add and read. Method: the same random updates into two
// memtables, one by one and some at a time, with every structure and order of
// keys, and a comparison of all that can be read; threads that add some at a
// time and look for their own, beside readers that check the order.
#include "db/memtable/baseline/skiplist_order.h"
#include "db/memtable/memtable.h"
#include "table/block/dead_walk.h"
#include "test/testing/comparators.h"
#include "test/testing/hard_keys.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"

namespace varve {
namespace {

const test::UnrecognizedBytewiseComparator unrecognized;
const test::ReverseComparator reverse;
const InternalKeyComparator comparators[] = {
    InternalKeyComparator(BytewiseComparator()),
    InternalKeyComparator(&unrecognized), InternalKeyComparator(&reverse)};

std::string Entries(const MemTable& memtable) {
  std::string text;
  const auto it = memtable.NewIterator();
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    text += it->key().ToString(true) + " " + it->value().ToString() + "\n";
  }
  return text;
}

// Returns how many entries are passed as dead without a look at values.
uint64_t Passed(const MemTable& memtable, const InternalKeyComparator& order) {
  KeyBuffer hidden(nullptr);
  DeadWalk walk(&order, kMaxSequenceNumber, &hidden);
  const auto it = memtable.NewIterator();
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    it->SkipDeadForward(&walk);
    if (!it->Valid()) break;
  }
  return walk.passed();
}

// Several memtables, as of several column families, with an order each.
TEST(AddManyTest, IsAsAddingEach) {
  constexpr size_t kMemTables = 3;
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 60; ++round) {
    const int style = round % test::kHardKeyStyles;
    SCOPED_TRACE("round " + std::to_string(round));
    const auto order_of = [&](size_t m) -> const InternalKeyComparator& {
      return comparators[(static_cast<size_t>(round) + m) % 3];
    };
    const auto has_skiplist = [&](size_t m) {
      return (static_cast<size_t>(round) + m) % 5 == 4;
    };
    std::vector<std::unique_ptr<MemTable>> one_by_one, many;
    for (auto* const memtables : {&one_by_one, &many}) {
      for (size_t m = 0; m < kMemTables; ++m) {
        memtables->push_back(std::make_unique<MemTable>(
            &order_of(m), 1, 1 << 20,
            has_skiplist(m) ? std::function<NewMemTableOrder>(NewSkipListOrder)
                            : nullptr));
      }
    }
    SequenceNumber sequence = 0;
    std::vector<std::string> keys;
    for (int i = 0; i < 200; ++i) {
      std::vector<std::string> bytes;
      std::vector<ValueType> types;
      const size_t count = 1 + rng.Below(MemTable::kMaxUpdates);
      for (size_t j = 0; j < count; ++j) {
        bytes.push_back(!keys.empty() && rng.OneIn(4)
                            ? keys[rng.Below(keys.size())]
                            : test::HardKey(&rng, style));
        types.push_back(
            rng.Pick({ValueType::kValue, ValueType::kValue, ValueType::kMerge,
                      ValueType::kDeletion, ValueType::kSingleDeletion}));
      }
      keys.insert(keys.end(), bytes.begin(), bytes.end());
      std::vector<MemTable::Update> updates;
      size_t m = rng.Below(kMemTables);
      for (size_t j = 0; j < count; ++j) {
        ++sequence;
        if (rng.OneIn(2)) m = rng.Below(kMemTables);
        const Slice value = IsDeletion(types[j]) ? Slice() : Slice(bytes[j]);
        one_by_one[m]->Add(sequence, types[j], bytes[j], value);
        updates.push_back({many[m].get(), sequence, types[j], bytes[j], value});
      }
      MemTable::AddMany(updates.data(), updates.size());
    }
    for (size_t m = 0; m < kMemTables; ++m) {
      ASSERT_EQ(Entries(*many[m]), Entries(*one_by_one[m]));
      ASSERT_EQ(many[m]->EntryCount(), one_by_one[m]->EntryCount());
      ASSERT_EQ(many[m]->DeletionCount(), one_by_one[m]->DeletionCount());
      if (!has_skiplist(m)) {
        ASSERT_EQ(Passed(*many[m], order_of(m)),
                  Passed(*one_by_one[m], order_of(m)));
      }
      const EpochGuard guard;
      for (const std::string& key : keys) {
        const SequenceNumber at = rng.Below(sequence + 1);
        const uint64_t hash = PreviewXxh3(key);
        Slice found;
        Slice expected;
        ASSERT_EQ(many[m]->Find(key, at, hash, &found),
                  one_by_one[m]->Find(key, at, hash, &expected));
        ASSERT_EQ(found.ToString(), expected.ToString());
        ASSERT_EQ(many[m]->NewestSequence(key, hash),
                  one_by_one[m]->NewestSequence(key, hash));
      }
    }
  }
}

TEST(AddManyTest, ThreadsFindWhatTheyAdded) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 1500;
  MemTable memtable(&comparators[0], 1, 1 << 20);
  std::atomic<int> running = kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      test::Rng rng(static_cast<uint64_t>(t) + 1);
      for (int round = 0; round < kRounds; ++round) {
        const size_t count = 1 + rng.Below(MemTable::kMaxUpdates);
        std::vector<std::string> keys;
        for (size_t j = 0; j < count; ++j) {
          // The keys of all threads are among each other.
          keys.push_back("key" + std::to_string(rng.Below(1000)) + "." +
                         std::to_string(t));
        }
        std::vector<MemTable::Update> updates;
        for (size_t j = 0; j < count; ++j) {
          updates.push_back({&memtable,
                             static_cast<SequenceNumber>(round) * 8 + j + 1,
                             ValueType::kValue, keys[j], keys[j]});
        }
        MemTable::AddMany(updates.data(), count);
        const EpochGuard guard;
        for (const MemTable::Update& update : updates) {
          Slice value;
          EXPECT_EQ(memtable.Find(update.user_key, update.sequence,
                                  PreviewXxh3(update.user_key), &value),
                    LookupState::kFound);
          EXPECT_EQ(value, update.user_key);
        }
      }
      --running;
    });
  }
  uint64_t walked = 0;
  do {
    const auto it = memtable.NewIterator();
    std::string last;
    walked = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++walked) {
      const std::string key = it->key().ToString();
      if (!last.empty()) {
        EXPECT_LT(comparators[0].Compare(last, key), 0);
      }
      last = key;
    }
  } while (running > 0);
  for (std::thread& thread : threads) thread.join();
  ASSERT_GT(walked, 0u);
}

}  // namespace
}  // namespace varve
