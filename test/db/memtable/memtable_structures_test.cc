// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: both structures that order a memtable's entries agree with a sorted set
// of keys, whatever the keys, their order, the comparator and the number of
// threads. Method: random inserts of keys that are hard to tell apart against a
// std::set, with every seek and step both ways; then threads that look for each
// own insert at once, and readers that check order and completeness.

#include "db/memtable/baseline/skiplist.h"
#include "db/memtable/baseline/skiplist_order.h"
#include "db/memtable/blink_tree.h"
#include "db/memtable/memtable.h"
#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "test/testing/comparators.h"
#include "test/testing/hard_keys.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/arena.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

// A structure with its memory. Thread-safety: as the structure.
template <typename Structure>
struct Holder;
template <>
struct Holder<BlinkTree> {
  explicit Holder(const InternalKeyComparator* comparator)
      : structure(comparator, &entries, &nodes) {}
  Arena entries, nodes;
  BlinkTree structure;
};
template <>
struct Holder<SkipList> {
  explicit Holder(const InternalKeyComparator* comparator)
      : structure(comparator, &entries) {}
  Arena entries;
  SkipList structure;
};

template <typename Structure>
void Insert(Structure* structure, const std::string& internal_key) {
  const size_t size = internal_key.size();
  const ArenaPlace entry =
      structure->AllocateEntry(VarintLength(size) + size + 1);
  char* p = EncodeVarint32(entry.data, static_cast<uint32_t>(size));
  memcpy(p, internal_key.data(), size);
  p[size] = 0;  // No value.
  structure->Insert(entry, Slice(p, size));
}

const char* LowerBound(const BlinkTree& tree, const Slice& key) {
  return tree.LowerBound(key);
}
const char* LowerBound(const SkipList& list, const Slice& key) {
  SkipList::Iterator iterator(&list);
  iterator.Seek(key);
  return iterator.Valid() ? iterator.entry() : nullptr;
}

std::string KeyOf(const std::string& user_key, SequenceNumber sequence) {
  return MakeInternalKey(user_key, PackTrailer(sequence, ValueType::kValue));
}

using Model =
    std::set<std::string, bool (*)(const std::string&, const std::string&)>;

template <typename Iterator>
void ExpectAt(const Model& model, Model::const_iterator expected,
              const Iterator& iterator) {
  ASSERT_EQ(iterator.Valid(), expected != model.end());
  if (iterator.Valid()) {
    ASSERT_EQ(EntryKey(iterator.entry()), Slice(*expected));
  }
}

// Steps from wherever both are, `count` times.
template <typename Iterator>
void Walk(const Model& model, Model::const_iterator expected,
          Iterator* iterator, int count, test::Rng* rng) {
  const bool forward = rng->OneIn(2);
  while (count-- > 0 && expected != model.end()) {
    if (forward != rng->OneIn(8)) {
      iterator->Next();
      ++expected;
    } else {
      iterator->Prev();
      expected = expected == model.begin() ? model.end() : --expected;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAt(model, expected, *iterator));
  }
}

template <typename Structure>
void ExpectAgrees(const Structure& structure, const Model& model,
                  const std::vector<std::string>& targets, test::Rng* rng) {
  typename Structure::Iterator iterator(&structure);
  ASSERT_FALSE(iterator.Valid());
  iterator.SeekToFirst();
  for (auto it = model.begin(); it != model.end(); ++it) {
    ASSERT_NO_FATAL_FAILURE(ExpectAt(model, it, iterator));
    iterator.Next();
  }
  ASSERT_FALSE(iterator.Valid());
  iterator.SeekToLast();
  for (auto it = model.rbegin(); it != model.rend(); ++it) {
    ASSERT_NO_FATAL_FAILURE(ExpectAt(model, std::prev(it.base()), iterator));
    iterator.Prev();
  }
  ASSERT_FALSE(iterator.Valid());
  for (const std::string& target : targets) {
    const auto expected = model.lower_bound(target);
    iterator.Seek(target);
    ASSERT_NO_FATAL_FAILURE(ExpectAt(model, expected, iterator));
    const char* const found = LowerBound(structure, target);
    ASSERT_EQ(found, iterator.Valid() ? iterator.entry() : nullptr);
    ASSERT_NO_FATAL_FAILURE(Walk(model, expected, &iterator, 30, rng));
  }
}

const test::UnrecognizedBytewiseComparator unrecognized;
const test::ReverseComparator reverse;
const InternalKeyComparator comparators[] = {
    InternalKeyComparator(BytewiseComparator()),
    InternalKeyComparator(&unrecognized), InternalKeyComparator(&reverse)};

// A model needs its order in its type.
template <int kIndex>
bool Less(const std::string& a, const std::string& b) {
  return comparators[kIndex].Compare(a, b) < 0;
}
Model NewModel(int comparator) {
  return Model(comparator == 0 ? Less<0> : comparator == 1 ? Less<1> : Less<2>);
}

template <typename Structure>
class MemTableStructureTest : public testing::Test {};
using Structures = testing::Types<BlinkTree, SkipList>;
class StructureNames {
 public:
  template <typename T>
  static std::string GetName(int index) {
    return index == 0 ? "BlinkTree" : "SkipList";
  }
};
TYPED_TEST_SUITE(MemTableStructureTest, Structures, StructureNames);

TYPED_TEST(MemTableStructureTest, HoldsNothingWhenEmpty) {
  test::Rng rng(1);
  for (int c = 0; c < 3; ++c) {
    const Holder<TypeParam> holder(&comparators[c]);
    ExpectAgrees(holder.structure, NewModel(c),
                 {KeyOf("", 0), KeyOf("k", kMaxSequenceNumber)}, &rng);
  }
}

TYPED_TEST(MemTableStructureTest, AgreesWithModelOnHardKeys) {
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 36; ++round) {
    const int c = round % 3;
    const int style = round % test::kHardKeyStyles;
    SCOPED_TRACE("comparator " + std::to_string(c) + ", style " +
                 std::to_string(style));
    Holder<TypeParam> holder(&comparators[c]);
    Model model = NewModel(c);
    // Few sequence numbers: versions of a key meet at each of them.
    const uint64_t max_sequence = rng.Pick({1, 8, 1000});
    const auto random_key = [&] {
      return KeyOf(test::HardKey(&rng, style), rng.Below(max_sequence));
    };
    for (int count : {1, 12, 13, 14, 30, 400, 2000}) {
      for (int tries = 0;
           tries < 4000 && model.size() < static_cast<size_t>(count); ++tries) {
        const std::string key = random_key();
        if (model.insert(key).second) Insert(&holder.structure, key);
      }
      std::vector<std::string> targets;
      for (int i = 0; i < 40; ++i) targets.push_back(random_key());
      targets.push_back(KeyOf("", kMaxSequenceNumber));
      targets.push_back(KeyOf(std::string(20, '\xFF'), 0));
      ASSERT_NO_FATAL_FAILURE(
          ExpectAgrees(holder.structure, model, targets, &rng));
    }
  }
}

TYPED_TEST(MemTableStructureTest, KeepsManyVersionsOfOneKeyNewestFirst) {
  test::Rng rng(test::TestSeed());
  for (const bool rising : {true, false}) {
    Holder<TypeParam> holder(&comparators[0]);
    Model model = NewModel(0);
    for (SequenceNumber i = 1; i <= 1000; ++i) {
      const std::string key = KeyOf("key", rising ? i : 1001 - i);
      model.insert(key);
      Insert(&holder.structure, key);
    }
    std::vector<std::string> targets;
    for (SequenceNumber i = 0; i < 1002; i += 13) {
      targets.push_back(MakeInternalKey("key", SeekTrailer(i)));
    }
    ExpectAgrees(holder.structure, model, targets, &rng);
  }
}

TYPED_TEST(MemTableStructureTest, TakesKeysInOrderAndBackwards) {
  test::Rng rng(test::TestSeed());
  for (const int step : {1, -1, 7}) {
    for (const std::string prefix : {"", "equal in the first eight"}) {
      Holder<TypeParam> holder(&comparators[0]);
      Model model = NewModel(0);
      std::vector<std::string> targets;
      for (int i = 0; i < 3000; ++i) {
        char digits[16];
        snprintf(digits, sizeof(digits), "%08d", (i * step + 3000) % 3000);
        const std::string key = KeyOf(prefix + digits, 1);
        model.insert(key);
        Insert(&holder.structure, key);
        if (i % 100 == 0) targets.push_back(key);
      }
      ExpectAgrees(holder.structure, model, targets, &rng);
    }
  }
}

TEST(BlinkTreeTest, FillsItsLeavesWhenKeysComeInOrder) {
  // Leaves of 192 bytes, one for each 13 keys, and few nodes above them.
  Holder<BlinkTree> holder(&comparators[0]);
  constexpr size_t kCount = 140000;
  for (size_t i = 0; i < kCount; ++i) {
    char digits[16];
    snprintf(digits, sizeof(digits), "%08zu", i);
    Insert(&holder.structure, KeyOf(digits, 1));
  }
  EXPECT_LT(holder.nodes.MemoryUsage(), kCount / 13 * 192 * 5 / 4);
}

// ---- Threads ----------------------------------------------------------------

// Returns a key of writer `thread`. The writers' keys interleave, and each
// eighth key shares its first eight bytes with other keys.
std::string ThreadKey(size_t thread, size_t i, const std::vector<int>& order) {
  char bytes[32];
  const int number = order[i];
  snprintf(bytes, sizeof(bytes), "%06d%s%02zu.%zu", number / 8,
           number / 1000 % 8 == 0 ? "the same" : "", number % size_t{8},
           thread);
  return KeyOf(bytes, 1 + i);
}

TYPED_TEST(MemTableStructureTest, ShowsInsertsToAllThreadsAtOnce) {
  const uint64_t seed = test::TestSeed();
  constexpr size_t kWriters = 3, kReaders = 2, kCount = 6000;
  for (const int style : {0, 1, 2}) {
    Holder<TypeParam> holder(&comparators[style == 2 ? 1 : 0]);
    std::vector<int> order(kCount);
    for (size_t i = 0; i < kCount; ++i) order[i] = static_cast<int>(i);
    std::mt19937_64 engine(seed);
    if (style != 1) std::shuffle(order.begin(), order.end(), engine);
    std::atomic<size_t> published[kWriters] = {};
    std::atomic<size_t> ready{0};
    const auto start_together = [&] {
      ready++;
      while (ready < kWriters + kReaders) std::this_thread::yield();
    };
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kWriters; ++t) {
      threads.emplace_back([&, t] {
        start_together();
        for (size_t i = 0; i < kCount; ++i) {
          const std::string key = ThreadKey(t, i, order);
          Insert(&holder.structure, key);
          const char* const found = LowerBound(holder.structure, key);
          ASSERT_NE(found, nullptr);
          ASSERT_EQ(EntryKey(found), Slice(key));
          // release: pairs with the acquire of the readers below.
          published[t].store(i + 1, std::memory_order_release);
        }
      });
    }
    for (size_t r = 0; r < kReaders; ++r) {
      threads.emplace_back([&, r] {
        start_together();
        test::Rng rng(seed + r);
        for (bool done = false; !done;) {
          done = true;
          size_t least = 0;
          size_t counts[kWriters];
          for (size_t t = 0; t < kWriters; ++t) {
            // acquire: pairs with the writers' release. No other edge leads
            // here, so that ThreadSanitizer judges the structure's own.
            counts[t] = published[t].load(std::memory_order_acquire);
            least += counts[t];
            done = done && counts[t] == kCount;
          }
          const size_t t = rng.Below(kWriters);
          if (counts[t] > 0) {
            const std::string key = ThreadKey(t, rng.Below(counts[t]), order);
            const char* const found = LowerBound(holder.structure, key);
            ASSERT_NE(found, nullptr);
            ASSERT_EQ(EntryKey(found), Slice(key));
          }
          if (!done && !rng.OneIn(100)) continue;
          typename TypeParam::Iterator iterator(&holder.structure);
          const bool forward = rng.OneIn(2);
          forward ? iterator.SeekToFirst() : iterator.SeekToLast();
          size_t seen = 0;
          for (Slice last; iterator.Valid(); ++seen) {
            const Slice key = EntryKey(iterator.entry());
            if (seen > 0) {
              const int order_of_two = comparators[0].Compare(last, key);
              ASSERT_TRUE(forward ? order_of_two < 0 : order_of_two > 0);
            }
            last = key;
            forward ? iterator.Next() : iterator.Prev();
          }
          ASSERT_GE(seen, least);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// ---- In the memtable --------------------------------------------------------

// The B-link tree, and the skiplist.
constexpr NewMemTableOrder* kOrders[] = {nullptr, &NewSkipListOrder};

TEST(MemTableTest, HasItsEntriesInOrder) {
  for (NewMemTableOrder* const order : kOrders) {
    MemTable memtable(&comparators[0], 0, size_t{1} << 20, order);
    for (SequenceNumber i = 1; i <= 100; ++i) {
      memtable.Add(i, ValueType::kValue, std::to_string(i % 10),
                   "v" + std::to_string(i));
    }
    const std::unique_ptr<InternalIterator> iterator = memtable.NewIterator();
    size_t count = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      EXPECT_EQ(iterator->value(),
                Slice("v" + std::to_string(ExtractSequence(iterator->key()))));
      ++count;
    }
    EXPECT_EQ(count, 100u);
    iterator->SeekForPrev(KeyOf("55", 0));
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->key(), Slice(KeyOf("5", 5)));
    iterator->SeekForPrev(KeyOf("99", 0));
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->key(), Slice(KeyOf("9", 9)));
    iterator->SeekForPrev(KeyOf("", 0));
    EXPECT_FALSE(iterator->Valid());
  }
}

// Returns the bytes of memory that an entry takes beyond its key of 16 bytes
// and its value of 100, in a write buffer that is full. `key_of` gives the n-th
// key.
template <typename Function>
double BytesBeyond(size_t write_buffer_size, const Function& key_of) {
  constexpr size_t kKeyBytes = 16;
  const std::string value(100, 'v');
  MemTable memtable(&comparators[0], 0, write_buffer_size);
  SequenceNumber entries = 0;
  while (!memtable.IsFull(write_buffer_size)) {
    char key[kKeyBytes + 1];
    snprintf(key, sizeof(key), "%016llu",
             static_cast<unsigned long long>(key_of(entries)));
    memtable.Add(++entries, ValueType::kValue, Slice(key, kKeyBytes), value);
  }
  return static_cast<double>(memtable.ApproximateMemoryUsage()) /
             static_cast<double>(entries) -
         static_cast<double>(kKeyBytes + value.size());
}

// The more memory an entry takes, the more flushes there are. In a buffer of 64
// MiB, 46.6 and 38.4 bytes; in a smaller one, the last block is a larger part.
TEST(MemTableTest, AnEntryTakesAtMost50BytesBeyondKeyAndValue) {
  std::mt19937_64 random(301);
  const auto random_key = [&](SequenceNumber) { return random() >> 12; };
  const auto next_key = [](SequenceNumber n) { return n; };
  EXPECT_LT(BytesBeyond(size_t{16} << 20, random_key), 50);
  EXPECT_LT(BytesBeyond(size_t{16} << 20, next_key), 42);
}

// Before positions of entries could run out.
TEST(MemTableTest, IsFullAt8GiBInALargerBuffer) {
  EXPECT_EQ(MemTable::FullBytes(size_t{1} << 20), size_t{1} << 20);
  EXPECT_EQ(MemTable::FullBytes(size_t{8} << 30), size_t{8} << 30);
  EXPECT_EQ(MemTable::FullBytes(size_t{64} << 30), size_t{8} << 30);
}

// Bytewise, but not known to be; does something at the n-th comparison.
class ActingComparator : public test::ComparatorWithoutSeparators {
 public:
  ActingComparator() : ComparatorWithoutSeparators("test.ActingComparator") {}
  int Compare(const Slice& a, const Slice& b) const override {
    if (action != nullptr && countdown-- == 0) {
      const std::function<void()> now = std::exchange(action, nullptr);
      now();
    }
    return a.compare(b);
  }

  mutable std::function<void()> action;
  mutable int countdown = 0;
};

TEST(MemTableTest, SeekForPrevIsNotMisledByInsertsAfterTheKey) {
  for (NewMemTableOrder* const new_order : kOrders) {
    bool acted = true;
    // Until the seek is over before the inserts would come.
    for (int n = 0; acted; ++n) {
      ActingComparator order;
      const InternalKeyComparator comparator(&order);
      MemTable memtable(&comparator, 1, 1 << 20, new_order);
      for (int i = 0; i < 20; ++i) {
        memtable.Add(static_cast<SequenceNumber>(i + 1), ValueType::kValue,
                     "a" + std::to_string(10 + i), "");
      }
      acted = false;
      order.countdown = n;
      order.action = [&] {
        acted = true;
        // Only two: a node that was split is read once more.
        for (int i = 0; i < 2; ++i) {
          memtable.Add(static_cast<SequenceNumber>(i + 100), ValueType::kValue,
                       "b" + std::to_string(10 + i), "");
        }
      };
      const auto it = memtable.NewIterator();
      it->SeekForPrev(KeyOf("az", 50));
      order.action = nullptr;
      ASSERT_TRUE(it->Valid());
      ASSERT_EQ(it->key(), KeyOf("a29", 20)) << "at comparison " << n;
    }
  }
}

}  // namespace
}  // namespace varve
