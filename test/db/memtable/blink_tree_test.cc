// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the interleavings B1 to B12 of db/memtable/blink_tree.h do no harm.
// Method: a tree whose protocol calls back at each step. There, the test runs
// other operations to their end, or lets another thread reach a step of its
// own. The result of a read must be right for some set of keys between the ones
// inserted before it began and the ones inserted before it ended.
#include "db/memtable/blink_tree.h"

#include "db/memtable/blink_tree_impl.h"
#include "db/memtable/blink_tree_walk.h"
#include "db/memtable/memtable_entry.h"
#include "test/testing/comparators.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/bytes/arena.h"
#include "util/bytes/coding.h"

namespace varve {

// Calls the thread's hook, but not from within itself.
struct HookedPause {
  static void At(BlinkPoint point) {
    if (hook == nullptr) return;
    const std::function<void(BlinkPoint)> now = std::exchange(hook, nullptr);
    now(point);
    if (hook == nullptr && !done) hook = now;
  }
  // Runs `action` when the moment comes for the `nth` time, then no more.
  static void Once(BlinkPoint point, int nth, std::function<void()> action) {
    done = false;
    hook = [point, action, left = std::make_shared<int>(nth)](BlinkPoint p) {
      if (p != point || --*left > 0) return;
      done = true;
      action();
    };
  }
  static void Clear() { hook = nullptr; }

  static thread_local std::function<void(BlinkPoint)> hook;
  static thread_local bool done;
};
thread_local std::function<void(BlinkPoint)> HookedPause::hook = nullptr;
thread_local bool HookedPause::done = false;

template class BasicBlinkTree<HookedPause>;

namespace {

using Tree = BasicBlinkTree<HookedPause>;
using Keys = std::set<int>;

// Numbers as keys. The tree's comparator knows their order, with or without
// prefixes to tell them apart.
class BlinkTreeInterleavingTest : public testing::TestWithParam<bool> {
 protected:
  struct Memory {
    explicit Memory(const InternalKeyComparator* comparator)
        : tree(comparator, &arena, &arena) {}
    Arena arena;
    Tree tree;
  };

  ~BlinkTreeInterleavingTest() override { HookedPause::Clear(); }

  void Reset() {
    HookedPause::Clear();
    memory_ = std::make_unique<Memory>(&comparator_);
    keys_.clear();
  }
  static std::string KeyOf(int number) {
    char digits[16];
    snprintf(digits, sizeof(digits), "%08d", number);
    return MakeInternalKey(digits, PackTrailer(1, ValueType::kValue));
  }
  static int NumberOf(const char* entry) {
    return entry == nullptr ? kEnd : atoi(EntryKey(entry).ToString().c_str());
  }
  Tree& tree() { return memory_->tree; }

  ArenaPlace NewEntry(int number) {
    const std::string key = KeyOf(number);
    const ArenaPlace entry = tree().AllocateEntry(key.size() + 2);
    char* const p =
        EncodeVarint32(entry.data, static_cast<uint32_t>(key.size()));
    memcpy(p, key.data(), key.size());
    p[key.size()] = 0;
    return entry;
  }
  void Insert(int number) {
    const ArenaPlace entry = NewEntry(number);
    tree().Insert(entry, EntryKey(entry.data));
  }
  void InsertMany(const std::vector<int>& numbers) {
    std::vector<Tree::Insertion> insertions;
    for (const int number : numbers) {
      const ArenaPlace entry = NewEntry(number);
      insertions.push_back({&tree(), entry, EntryKey(entry.data), nullptr});
    }
    Tree::InsertMany(insertions.data(), insertions.size());
  }
  // The same, on the test's own thread, and kept in mind.
  void Add(int number) {
    keys_.insert(number);
    Insert(number);
  }
  // Backwards, so that leaves are not full.
  void AddMultiples(int step, int count) {
    for (int i = count; i > 0; --i) Add(i * step);
  }
  void AddTens(int count) { AddMultiples(10, count); }
  // Splits leaves around 6000, and if there are many the nodes above, and fills
  // some of the slots that this frees.
  void AddCrowd(int count) {
    for (int i = 1; i <= count; ++i) Add(6000 + i);
  }

  // Whether a search for `target` may answer so.
  static void ExpectFits(int answer, int target, const Keys& before,
                         const Keys& after) {
    if (answer != kEnd) {
      ASSERT_GE(answer, target);
      ASSERT_EQ(after.count(answer), 1u) << answer;
    }
    const auto next = before.lower_bound(target);
    ASSERT_LE(answer, next == before.end() ? kEnd : *next);
  }
  static void ExpectFits(const std::vector<int>& answer, const Keys& before,
                         const Keys& after) {
    const Keys set(answer.begin(), answer.end());
    ASSERT_EQ(std::vector<int>(set.begin(), set.end()), answer);
    for (const int key : before) ASSERT_EQ(set.count(key), 1u) << key;
    for (const int key : set) ASSERT_EQ(after.count(key), 1u) << key;
  }
  int Find(int target) { return NumberOf(tree().LowerBound(KeyOf(target))); }
  int Seek(int target) {
    Tree::Iterator iterator(&tree());
    iterator.Seek(KeyOf(target));
    return iterator.Valid() ? NumberOf(iterator.entry()) : kEnd;
  }
  std::vector<int> Walk(bool forward) {
    std::vector<int> result;
    Tree::Iterator iterator(&tree());
    forward ? iterator.SeekToFirst() : iterator.SeekToLast();
    while (iterator.Valid()) {
      const int number = NumberOf(iterator.entry());
      result.insert(forward ? result.end() : result.begin(), number);
      forward ? iterator.Next() : iterator.Prev();
    }
    return result;
  }
  void InsertDeletion(int number) {
    const std::string key = MakeInternalKey(
        ExtractUserKey(KeyOf(number)), PackTrailer(2, ValueType::kDeletion));
    const ArenaPlace entry = tree().AllocateEntry(key.size() + 3);
    char* const p =
        EncodeVarint32(entry.data, static_cast<uint32_t>(key.size()));
    memcpy(p, key.data(), key.size());
    p[key.size()] = p[key.size() + 1] = 0;
    tree().InsertDeletion(entry, EntryKey(entry.data), p + key.size() + 1);
  }
  // Passes all of a tree that has only dead entries. Returns how many.
  uint64_t PassAll(bool forward) {
    KeyBuffer hidden(nullptr);
    DeadWalk walk(&comparator_, 2, &hidden);
    Tree::Iterator iterator(&tree());
    forward ? iterator.SeekToFirst() : iterator.SeekToLast();
    forward ? iterator.SkipDeadForward(&walk)
            : iterator.SkipDeadBackward(&walk);
    EXPECT_FALSE(iterator.Valid());
    return walk.passed();
  }
  // No other thread inserts.
  void ExpectWhole() {
    ExpectFits(Walk(true), keys_, keys_);
    ExpectFits(Walk(false), keys_, keys_);
    for (const int key : keys_) ASSERT_EQ(Find(key), key);
  }

  static constexpr int kEnd = 1 << 30;
  const test::UnrecognizedBytewiseComparator unrecognized_;
  const InternalKeyComparator comparator_{GetParam() ? BytewiseComparator()
                                                     : &unrecognized_};
  std::unique_ptr<Memory> memory_;
  Keys keys_;
};

// Keys that split the leaf of the multiples of ten from 10 on.
const std::vector<int> kSplitters = {41, 42, 43, 44, 45, 46, 47, 48,
                                     49, 51, 52, 53, 54, 55, 56, 57};

TEST_P(BlinkTreeInterleavingTest, ReadsAreRightWhenTheirNodeIsSplitB2B5) {
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 5000; ++round) {
    Reset();
    AddMultiples(1000, rng.Pick({13, 14, 30, 120}));
    const Keys before = keys_;
    const int crowd = rng.Between(1, rng.Pick({10, 10, 200}));
    HookedPause::Once(rng.Pick({BlinkPoint::kWordRead, BlinkPoint::kBoundRead,
                                BlinkPoint::kSlotsRead}),
                      rng.Between(1, 4), [&] { AddCrowd(crowd); });
    const int target = rng.Between(0, 300) * 50;
    const int answer = rng.OneIn(2) ? Seek(target) : Find(target);
    HookedPause::Clear();
    ASSERT_NO_FATAL_FAILURE(ExpectFits(answer, target, before, keys_));
  }
}

TEST_P(BlinkTreeInterleavingTest, WalksAreRightWhenNodesAreSplitB2B8) {
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 1000; ++round) {
    Reset();
    AddMultiples(1000, rng.Pick({13, 14, 30, 120}));
    const Keys before = keys_;
    const int crowd = rng.Between(1, rng.Pick({10, 10, 200}));
    HookedPause::Once(rng.Pick({BlinkPoint::kWordRead, BlinkPoint::kBoundRead,
                                BlinkPoint::kSlotsRead}),
                      rng.Between(1, 10), [&] { AddCrowd(crowd); });
    const std::vector<int> answer = Walk(rng.OneIn(2));
    HookedPause::Clear();
    ASSERT_NO_FATAL_FAILURE(ExpectFits(answer, before, keys_));
  }
}

// Each key has a deletion and a value, both dead. Passing an entry twice, or
// missing one, would change their number.
TEST_P(BlinkTreeInterleavingTest, WalksOverTheDeadPassEachEntryOnceB2B8) {
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 1000; ++round) {
    Reset();
    const int count = rng.Pick({13, 30, 120, 400});
    AddMultiples(1000, count);
    for (const int key : keys_) InsertDeletion(key);
    const uint64_t before = 2 * keys_.size();
    ASSERT_EQ(PassAll(true), before);
    ASSERT_EQ(PassAll(false), before);
    uint64_t inserted = 0;
    const int crowd = rng.Between(1, 10);
    HookedPause::Once(rng.Pick({BlinkPoint::kWordRead, BlinkPoint::kBoundRead,
                                BlinkPoint::kSlotsRead}),
                      rng.Between(1, 20), [&] {
                        for (int i = 1; i <= crowd; ++i, ++inserted) {
                          InsertDeletion(6000 + i);
                        }
                      });
    const uint64_t passed = PassAll(rng.OneIn(2));
    HookedPause::Clear();
    ASSERT_GE(passed, before);
    ASSERT_LE(passed, before + inserted);
  }
}

// A walk in the midst of a split.
TEST_P(BlinkTreeInterleavingTest, WalksOverTheDeadInTheMidstOfSplitsB4B8) {
  for (const int count : {13, 14, 20, 120, 400}) {
    for (const BlinkPoint point :
         {BlinkPoint::kSlotFilled, BlinkPoint::kLinked, BlinkPoint::kShrunk,
          BlinkPoint::kVersioned, BlinkPoint::kParentLess}) {
      for (int nth = 1; nth <= 3; ++nth) {
        Reset();
        for (int i = count; i > 0; --i) InsertDeletion(10 * i);
        uint64_t inserted = static_cast<uint64_t>(count);
        for (int key : kSplitters) {
          // Far enough from the first leaf for leaves to be copied ahead.
          if (count >= 120) key += 300;
          HookedPause::Once(point, nth, [&] {
            const uint64_t forward = PassAll(true);
            EXPECT_TRUE(forward == inserted || forward == inserted + 1);
            const uint64_t backward = PassAll(false);
            EXPECT_TRUE(backward == inserted || backward == inserted + 1);
          });
          InsertDeletion(key);
          HookedPause::Clear();
          ++inserted;
          ASSERT_EQ(PassAll(true), inserted);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST_P(BlinkTreeInterleavingTest, IteratorsPassKeysThatMovedOnB8) {
  for (int steps = 0; steps < 30; ++steps) {
    Reset();
    AddTens(30);
    const Keys before = keys_;
    Tree::Iterator iterator(&tree());
    iterator.SeekToFirst();
    std::vector<int> answer;
    for (int i = 0; iterator.Valid(); ++i, iterator.Next()) {
      answer.push_back(NumberOf(iterator.entry()));
      if (i != steps) continue;
      for (int key = 41 + steps * 7; key < 60 + steps * 7; ++key) {
        if (key % 10 != 0) Add(key);
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectFits(answer, before, keys_));
  }
}

TEST_P(BlinkTreeInterleavingTest, ReadsAreRightInTheMidstOfInsertsB4B5) {
  for (const int count : {12, 13, 14, 20, 120, 1000}) {
    for (const BlinkPoint point :
         {BlinkPoint::kLockWanted, BlinkPoint::kSlotFilled, BlinkPoint::kLinked,
          BlinkPoint::kShrunk, BlinkPoint::kVersioned,
          BlinkPoint::kParentLess}) {
      for (int nth = 1; nth <= 3; ++nth) {
        Reset();
        AddTens(count);
        for (const int key : kSplitters) {
          const Keys before = keys_;
          keys_.insert(key);
          const Keys& after = keys_;
          HookedPause::Once(point, nth, [&] {
            ExpectFits(Walk(true), before, after);
            ExpectFits(Walk(false), before, after);
            for (int target = 0; target < 155; target += 5) {
              ExpectFits(Find(target), target, before, after);
              ExpectFits(Seek(target), target, before, after);
            }
          });
          Insert(key);
          HookedPause::Clear();
          if (HasFatalFailure()) return;
        }
        ASSERT_NO_FATAL_FAILURE(ExpectWhole());
      }
    }
  }
}

// All of another thread's inserts come between an insert's look for a reference
// and its own. Keys below and above that one.
TEST_P(BlinkTreeInterleavingTest, OneReferenceForAllB9) {
  for (const int key : {1, 55, 6000, 99999}) {
    for (const int count : {1, 13, 14, 400}) {
      Reset();
      HookedPause::Once(BlinkPoint::kNoReference, 1, [&] { AddTens(count); });
      Add(key);
      ASSERT_TRUE(HookedPause::done);
      HookedPause::Clear();
      for (int other = 5; other < 4000; other += 40) Add(other);
      ASSERT_NO_FATAL_FAILURE(ExpectWhole());
    }
  }
}

// Reads of a tree whose first insert has begun, and of one that got its entries
// after a read began.
TEST_P(BlinkTreeInterleavingTest, ReadsWithoutReferenceAnswerNothingB10) {
  Reset();
  const Keys none;
  HookedPause::Once(BlinkPoint::kNoReference, 1, [&] {
    EXPECT_EQ(Find(0), kEnd);
    EXPECT_EQ(Seek(0), kEnd);
    ExpectFits(Walk(true), none, none);
    ExpectFits(Walk(false), none, none);
  });
  Add(50);
  ASSERT_TRUE(HookedPause::done);
  HookedPause::Clear();
  EXPECT_EQ(Find(50), 50);
  EXPECT_EQ(Find(51), kEnd);
}

// Some inserts at once, for which all places are found before the first one is
// used. Others split the nodes in between, as these do themselves.
TEST_P(BlinkTreeInterleavingTest, ManyInsertsFindTheirPlacesAfterOthersB5B6) {
  const std::vector<std::vector<int>> kMany = {
      {5},
      {41, 42, 43, 44, 45, 46, 47, 48},
      {48, 47, 46, 45, 44, 43, 42, 41},
      {10008, 1, 55, 75, 95, 6001, 145, 10005},
      {20001, 20002, 20003, 20004, 20005, 20006, 20007, 20008}};
  for (const int count : {0, 1, 12, 13, 14, 120, 1000}) {
    for (const BlinkPoint point :
         {BlinkPoint::kNoReference, BlinkPoint::kWordRead,
          BlinkPoint::kBoundRead, BlinkPoint::kSlotsRead,
          BlinkPoint::kLockWanted, BlinkPoint::kParentLess}) {
      for (const int nth : {1, 4, 9, 17}) {
        for (const std::vector<int>& many : kMany) {
          Reset();
          AddTens(count);
          HookedPause::Once(point, nth, [&] {
            for (const int other : kSplitters) {
              if (std::find(many.begin(), many.end(), other) == many.end()) {
                Add(other);
              }
            }
            for (int other = 20100; other < 20140; ++other) Add(other);
          });
          keys_.insert(many.begin(), many.end());
          InsertMany(many);
          HookedPause::Clear();
          ASSERT_NO_FATAL_FAILURE(ExpectWhole());
        }
      }
    }
  }
}

TEST_P(BlinkTreeInterleavingTest, ReadsAreRightInTheMidstOfManyInserts) {
  const std::vector<int> many = {41, 58, 43, 44, 45, 6001, 47, 48};
  for (const int count : {0, 1, 14, 120}) {
    for (const BlinkPoint point :
         {BlinkPoint::kSlotsRead, BlinkPoint::kLockWanted,
          BlinkPoint::kSlotFilled, BlinkPoint::kLinked, BlinkPoint::kShrunk,
          BlinkPoint::kVersioned, BlinkPoint::kParentLess}) {
      for (int nth = 1; nth <= 8; ++nth) {
        Reset();
        AddTens(count);
        const Keys before = keys_;
        keys_.insert(many.begin(), many.end());
        HookedPause::Once(point, nth, [&] {
          ExpectFits(Walk(true), before, keys_);
          ExpectFits(Walk(false), before, keys_);
          for (int target = 0; target < 155; target += 5) {
            ExpectFits(Find(target), target, before, keys_);
            ExpectFits(Seek(target), target, before, keys_);
          }
        });
        InsertMany(many);
        HookedPause::Clear();
        ASSERT_NO_FATAL_FAILURE(ExpectWhole());
      }
    }
  }
}

TEST_P(BlinkTreeInterleavingTest, InsertsFindTheirPlaceAfterOthersB5B6) {
  for (const int count : {1, 7, 13, 14, 120, 1000}) {
    for (const BlinkPoint point :
         {BlinkPoint::kLockWanted, BlinkPoint::kParentLess}) {
      for (int nth = 1; nth <= 3; ++nth) {
        for (const int key : {5, 58, 75, 95, 145, 10005}) {
          Reset();
          AddTens(count);
          HookedPause::Once(point, nth, [&] {
            for (const int other : kSplitters) Add(other);
            for (int other = 61; other < 139; ++other) {
              if (other % 10 != 0 && other != key) Add(other);
            }
          });
          // Until one of them meets the moment.
          for (int i = 0; i < 20 && !HookedPause::done; ++i) {
            Add(key + 100000 * i);
          }
          HookedPause::Clear();
          ASSERT_NO_FATAL_FAILURE(ExpectWhole());
        }
      }
    }
  }
}

// ---- Two threads ------------------------------------------------------------

// A place where a thread waits until the test releases it.
class Latch {
 public:
  void Stop() {
    reached_ = true;
    reached_.notify_all();
    open_.wait(false);
  }
  // Or until the thread is past the place where it could have stopped.
  void AwaitReached() { reached_.wait(false); }
  void Pass() {
    open_ = true;
    open_.notify_all();
    reached_ = true;
    reached_.notify_all();
  }

 private:
  std::atomic<bool> reached_{false};
  std::atomic<bool> open_{false};
};

TEST_P(BlinkTreeInterleavingTest, ReadsThatBeganInASplitEndAfterItB3) {
  test::Actor writer;
  test::Actor reader;
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 1000; ++round) {
    Reset();
    AddMultiples(1000, rng.Pick({13, 120}));
    const Keys before = keys_;
    const int crowd = rng.Between(1, 10);
    const auto point = rng.Pick(
        {BlinkPoint::kLinked, BlinkPoint::kShrunk, BlinkPoint::kVersioned});
    Latch in_split, in_read;
    writer.Start([&] {
      HookedPause::Once(point, 1, [&] { in_split.Stop(); });
      AddCrowd(crowd);
      HookedPause::Clear();
      in_split.Pass();
    });
    in_split.AwaitReached();
    const int target = rng.Between(0, 300) * 50;
    const int nth = rng.Between(1, 3);
    int answer = 0;
    reader.Start([&] {
      HookedPause::Once(BlinkPoint::kWordRead, nth, [&] { in_read.Stop(); });
      answer = Find(target);
      HookedPause::Clear();
      in_read.Pass();
    });
    in_read.AwaitReached();
    in_split.Pass();
    writer.Wait();
    in_read.Pass();
    reader.Wait();
    ASSERT_NO_FATAL_FAILURE(ExpectFits(answer, target, before, keys_));
  }
}

// A reader that has loaded the word, or counted, goes on while an insert has
// filled a slot and not stored the word.
TEST_P(BlinkTreeInterleavingTest, ReadsDoNotCountASlotThatIsBeingFilledB12) {
  test::Actor writer;
  test::Actor reader;
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 1000; ++round) {
    Reset();
    AddMultiples(1000, rng.Pick({5, 12, 120}));
    const Keys before = keys_;
    const int added = rng.Between(1, 130) * 1000 + 1;
    const int target = rng.Between(0, 260) * 500;
    const bool seeks = rng.OneIn(2);
    const auto point = rng.Pick(
        {BlinkPoint::kWordRead, BlinkPoint::kBoundRead, BlinkPoint::kCounted});
    const int nth = rng.Between(1, 3);
    Latch in_read, in_insert;
    int answer = 0;
    reader.Start([&] {
      HookedPause::Once(point, nth, [&] { in_read.Stop(); });
      answer = seeks ? Seek(target) : Find(target);
      HookedPause::Clear();
      in_read.Pass();
    });
    in_read.AwaitReached();
    writer.Start([&] {
      HookedPause::Once(BlinkPoint::kSlotFilled, 1, [&] { in_insert.Stop(); });
      Insert(added);
      HookedPause::Clear();
      in_insert.Pass();
    });
    in_insert.AwaitReached();
    in_read.Pass();
    reader.Wait();
    in_insert.Pass();
    writer.Wait();
    keys_.insert(added);
    ASSERT_NO_FATAL_FAILURE(ExpectFits(answer, target, before, keys_));
    ASSERT_NO_FATAL_FAILURE(ExpectWhole());
  }
}

TEST_P(BlinkTreeInterleavingTest, InsertsTakeTurnsAtANodeB1B7) {
  constexpr int kInserts = 300;
  test::Actor first;
  test::Actor second;
  for (const BlinkPoint point :
       {BlinkPoint::kSlotFilled, BlinkPoint::kLinked, BlinkPoint::kShrunk,
        BlinkPoint::kVersioned, BlinkPoint::kParentLess}) {
    // At one of these the root is split, a leaf or an inner node.
    for (int nth = 1; nth <= 16; ++nth) {
      Reset();
      AddMultiples(1000, 13);
      Latch in_first;
      std::atomic<bool> second_wants{false};
      first.Start([&] {
        HookedPause::Once(point, nth, [&] { in_first.Stop(); });
        for (int i = 0; i < kInserts; ++i) Insert(6001 + i);
        HookedPause::Clear();
        in_first.Pass();
      });
      in_first.AwaitReached();
      second.Start([&] {
        HookedPause::Once(BlinkPoint::kLockWanted, 1,
                          [&] { second_wants = true; });
        for (int i = 0; i < kInserts; ++i) Insert(7001 + i);
        for (int i = 0; i < kInserts; ++i) Insert(20001 + i);
        HookedPause::Clear();
      });
      while (!second_wants) std::this_thread::yield();
      // Now the second could overtake the first, if nothing stopped it.
      for (int i = 0; i < 300; ++i) std::this_thread::yield();
      in_first.Pass();
      first.Wait();
      second.Wait();
      for (const int start : {6001, 7001, 20001}) {
        for (int i = 0; i < kInserts; ++i) keys_.insert(start + i);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectWhole());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, BlinkTreeInterleavingTest, testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Prefixes" : "NoPrefixes";
                         });

}  // namespace
}  // namespace varve
