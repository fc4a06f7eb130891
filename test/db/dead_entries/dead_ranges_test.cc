// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: no reader steps over a key that is live for it. Method: a model of a
// database, whose versions are kept with their sequence numbers, checks each
// known range for all readers that may use it, after random writes, walks and
// late lessons; the bad interleavings of db/dead_entries/dead_ranges.h as
// steps; and a stress test of writers and readers.

#include "db/dead_entries/dead_ranges.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/comparator.h"

namespace varve {
namespace {

bool IsIn(const DeadRange& range, const std::string& key) {
  if (range.end && key >= *range.end) return false;
  return !range.begin || key > *range.begin ||
         (key == *range.begin && range.includes_begin);
}

// Versions of keys: sequence number, and whether it is a value.
class Model {
 public:
  explicit Model(DeadRanges* ranges) : ranges_(*ranges) {}

  // As a leader writes: cut, then publish.
  void Put(const std::string& key) {
    ranges_.Cut(key);
    versions_[key][++last_] = true;
  }
  void Delete(const std::string& key) { versions_[key][++last_] = false; }
  SequenceNumber last() const { return last_; }

  bool IsLive(const std::string& key, SequenceNumber at) const {
    const auto& versions = versions_.at(key);
    const auto it = versions.upper_bound(at);
    return it != versions.begin() && std::prev(it)->second;
  }
  // Walks from the key on, as a reader at `at`. Empty if there is a live key at
  // once.
  std::optional<WalkedRange> Walk(const std::string& from, SequenceNumber at) {
    auto it = versions_.lower_bound(from);
    if (it == versions_.end() || IsLive(it->first, at)) return {};
    WalkedRange walk;
    begin_ = it->first;
    walk.begin = begin_;
    walk.has_begin = true;
    walk.includes_begin = true;
    walk.sequence = at;
    for (++it; it != versions_.end() && !IsLive(it->first, at); ++it) {
      ++walk.dead;
    }
    walk.has_end = it != versions_.end();
    if (walk.has_end) end_ = it->first;
    walk.end = end_;
    return walk;
  }
  // What the ranges say is true for all readers that may use them.
  void Check() const {
    for (const DeadRange& range : ranges_.Known()) {
      for (const auto& [key, versions] : versions_) {
        if (!IsIn(range, key)) continue;
        for (SequenceNumber at = range.sequence; at <= last_; ++at) {
          ASSERT_FALSE(IsLive(key, at)) << key << " at " << at;
        }
      }
    }
  }

 private:
  DeadRanges& ranges_;
  std::map<std::string, std::map<SequenceNumber, bool>> versions_;
  SequenceNumber last_ = 0;
  std::string begin_;
  std::string end_;
};

class DeadRangesTest : public testing::Test {
 protected:
  static std::string Key(uint64_t i) {
    std::string key = std::to_string(i);
    return std::string(4 - key.size(), '0') + key;
  }
  std::optional<std::string> EndFrom(const std::string& key,
                                     SequenceNumber at) {
    std::optional<std::string> end;
    const Slice from = key;
    ranges_.Find(&from, at, true, [&](const DeadRange& range, bool contains) {
      if (contains) end = range.end.value_or("end");
    });
    return end;
  }
  void Learn(const std::optional<WalkedRange>& walk) {
    ASSERT_TRUE(walk.has_value());
    ranges_.Learn(*walk, model_.last());
  }

  const InternalKeyComparator comparator_{BytewiseComparator()};
  DeadRanges ranges_{&comparator_};
  Model model_{&ranges_};
};

TEST_F(DeadRangesTest, StepsOverWhatAWalkPassed) {
  for (int i = 0; i < 100; ++i) model_.Put(Key(i));
  for (int i = 10; i < 50; ++i) model_.Delete(Key(i));
  Learn(model_.Walk(Key(10), model_.last()));
  EXPECT_EQ(EndFrom(Key(10), model_.last()), Key(50));
  EXPECT_EQ(EndFrom(Key(49), model_.last()), Key(50));
  EXPECT_EQ(EndFrom(Key(50), model_.last()), std::nullopt);
  EXPECT_EQ(EndFrom(Key(9), model_.last()), std::nullopt);
  // The next range is found too. Its end is not in it.
  const auto expect = [&](const std::string& key, bool forward, bool inside) {
    const Slice from = key;
    EXPECT_TRUE(ranges_.Find(&from, model_.last(), forward,
                             [&](const DeadRange& range, bool contains) {
                               EXPECT_EQ(contains, inside) << key;
                               EXPECT_EQ(range.begin, Key(10));
                               EXPECT_EQ(range.end, Key(50));
                             }));
  };
  expect(Key(9), true, false);
  expect(Key(10), false, true);
  expect(Key(49), false, true);
  expect(Key(50), false, false);
  expect(Key(70), false, false);
  const Slice first = "0009";
  const auto fail = [](const DeadRange&, bool) { FAIL(); };
  EXPECT_FALSE(ranges_.Find(&first, model_.last(), false, fail));
  const Slice end = "0050";
  EXPECT_FALSE(ranges_.Find(&end, model_.last(), true, fail));
  EXPECT_TRUE(ranges_.Find(
      nullptr, model_.last(), true,
      [](const DeadRange&, bool contains) { EXPECT_FALSE(contains); }));
}

TEST_F(DeadRangesTest, NeighboursBecomeOne) {
  const auto learn = [&](const Slice& begin, const Slice& end, bool in) {
    WalkedRange walk;
    walk.begin = begin;
    walk.has_begin = !begin.empty();
    walk.includes_begin = in;
    walk.end = end;
    walk.has_end = !end.empty();
    walk.dead = 100;
    ranges_.Learn(walk, 0);
  };
  learn("c", "f", true);
  learn("f", "h", false);  // The key f may be live.
  EXPECT_EQ(ranges_.Known().size(), 2u);
  learn("h", "k", true);
  EXPECT_EQ(ranges_.Known().size(), 2u);
  learn("", "c", false);
  ASSERT_EQ(ranges_.Known().size(), 2u);
  EXPECT_FALSE(ranges_.Known()[0].begin.has_value());
  EXPECT_EQ(ranges_.Known()[0].end, "f");
  EXPECT_EQ(ranges_.Known()[1].end, "k");
  learn("f", "g", true);
  EXPECT_EQ(ranges_.Known().size(), 1u);
  bool contains = false;
  EXPECT_TRUE(ranges_.Find(nullptr, 0, true,
                           [&](const DeadRange&, bool is) { contains = is; }));
  EXPECT_TRUE(contains);
  learn("j", "", true);
  EXPECT_TRUE(
      ranges_.Find(nullptr, 0, false, [&](const DeadRange& range, bool is) {
        EXPECT_TRUE(is);
        EXPECT_FALSE(range.end.has_value());
      }));
}

TEST_F(DeadRangesTest, OldReadersWalk) {  // B3
  for (int i = 0; i < 20; ++i) model_.Put(Key(i));
  const SequenceNumber old = model_.last();
  for (int i = 0; i < 10; ++i) model_.Delete(Key(i));
  Learn(model_.Walk(Key(0), model_.last()));
  EXPECT_EQ(EndFrom(Key(0), old), std::nullopt);
  EXPECT_EQ(EndFrom(Key(0), model_.last()), Key(10));
}

TEST_F(DeadRangesTest, AValueCutsAndADeletionDoesNot) {
  for (int i = 0; i < 30; ++i) model_.Put(Key(i));
  for (int i = 0; i < 20; ++i) model_.Delete(Key(i));
  Learn(model_.Walk(Key(0), model_.last()));
  EXPECT_EQ(EndFrom(Key(0), model_.last()), Key(20));
  model_.Delete(Key(7));
  EXPECT_EQ(EndFrom(Key(0), model_.last()), Key(20));
  model_.Put(Key(12));
  EXPECT_EQ(EndFrom(Key(0), model_.last()), Key(12));
  EXPECT_EQ(EndFrom(Key(12), model_.last()), std::nullopt);
  EXPECT_EQ(EndFrom(Key(13), model_.last()), Key(20));  // The other part.
  model_.Check();
}

// A producer that puts keys at the end of an empty queue leaves one range.
TEST_F(DeadRangesTest, PushesDoNotFillTheSet) {
  for (int i = 0; i < 20; ++i) model_.Put(Key(i));
  for (int i = 0; i < 20; ++i) model_.Delete(Key(i));
  Learn(model_.Walk(Key(0), model_.last()));
  EXPECT_EQ(EndFrom(Key(0), model_.last()), "end");
  for (int i = 20; i < 40; ++i) model_.Put(Key(i));
  ASSERT_EQ(ranges_.Known().size(), 1u);
  EXPECT_EQ(ranges_.Known()[0].end, Key(20));
  EXPECT_EQ(ranges_.Known()[0].dead, 19u);
}

// Cuts share out the deletions, until a part has too few of them.
TEST_F(DeadRangesTest, CutsEndAtSmallParts) {
  for (int i = 0; i < 300; ++i) model_.Put(Key(i));
  for (int i = 0; i < 200; ++i) model_.Delete(Key(i));
  Learn(model_.Walk(Key(0), model_.last()));
  for (int i = 1; i < 200; i += 2) model_.Put(Key(i));
  uint64_t dead = 0;
  for (const DeadRange& range : ranges_.Known()) dead += range.dead;
  EXPECT_LE(dead, 199u);
  EXPECT_LT(ranges_.Known().size(), 60u);
  model_.Check();
}

TEST_F(DeadRangesTest, AWriteDuringTheWalkMakesItACandidate) {  // B2
  for (int i = 0; i < 20; ++i) model_.Put(Key(i));
  for (int i = 0; i < 10; ++i) model_.Delete(Key(i));
  const auto walk = model_.Walk(Key(0), model_.last());
  model_.Put(Key(5));
  ranges_.Learn(*walk, model_.last());
  EXPECT_EQ(EndFrom(Key(0), model_.last()), std::nullopt);
  model_.Check();
  // A walk from before the candidate proves nothing of what was written
  // between.
  ranges_.Learn(*walk, model_.last());
  EXPECT_EQ(EndFrom(Key(0), model_.last()), std::nullopt);
  model_.Delete(Key(5));
  const auto second = model_.Walk(Key(0), model_.last());
  model_.Put(Key(15));
  ranges_.Learn(*second, model_.last());
  EXPECT_EQ(EndFrom(Key(0), model_.last()), Key(10));
  model_.Check();
}

TEST_F(DeadRangesTest, AValueCutsACandidate) {
  for (int i = 0; i < 20; ++i) model_.Put(Key(i));
  for (int i = 0; i < 10; ++i) model_.Delete(Key(i));
  const auto walk = model_.Walk(Key(0), model_.last());
  model_.Put(Key(15));
  ranges_.Learn(*walk, model_.last());  // A candidate.
  model_.Put(Key(4));
  model_.Delete(Key(4));
  const auto second = model_.Walk(Key(0), model_.last());
  model_.Put(Key(15));
  ranges_.Learn(*second, model_.last());
  EXPECT_EQ(EndFrom(Key(0), model_.last()), Key(4));
  model_.Check();
}

TEST_F(DeadRangesTest, UnusedRangesAreForgotten) {
  for (int i = 0; i < 20; ++i) model_.Put(Key(i));
  for (int i = 0; i < 10; ++i) model_.Delete(Key(i));
  Learn(model_.Walk(Key(0), model_.last()));
  ranges_.DropUnused();
  EXPECT_EQ(EndFrom(Key(3), model_.last()), Key(10));
  ranges_.DropUnused();
  EXPECT_EQ(ranges_.Known().size(), 1u);
  ranges_.DropUnused();
  EXPECT_TRUE(ranges_.empty());
}

TEST_F(DeadRangesTest, IsBounded) {
  for (uint64_t i = 0; i < 2000; ++i) model_.Put(Key(i));
  for (uint64_t i = 0; i < 2000; ++i) {
    if (i % 4 != 0) model_.Delete(Key(i));
  }
  for (uint64_t i = 1; i < 2000; i += 4) {
    Learn(model_.Walk(Key(i), model_.last()));
  }
  EXPECT_EQ(ranges_.Known().size(), DeadRanges::kMaxRanges);
  model_.Check();
  const std::string large(DeadRanges::kMaxKeyBytes + 1, 'x');
  WalkedRange walk;
  walk.begin = large;
  walk.has_begin = true;
  walk.sequence = model_.last();
  ranges_.Learn(walk, model_.last());
  for (const DeadRange& range : ranges_.Known()) {
    EXPECT_NE(range.begin, large);
  }
}

TEST_F(DeadRangesTest, AgreeWithAModel) {
  test::Rng rng(test::TestSeed());
  constexpr uint64_t kKeys = 60;
  struct Late {
    WalkedRange walk;
    std::string begin;
    std::string end;
  };
  std::vector<Late> late;
  size_t known = 0;
  for (uint64_t i = 0; i < kKeys; ++i) model_.Put(Key(i));
  for (int step = 0; step < 20000; ++step) {
    const std::string key = Key(rng.Below(kKeys));
    switch (rng.Below(8)) {
      case 0:
        model_.Put(key);
        break;
      case 1:
      case 2:
      case 3:
        model_.Delete(key);
        break;
      case 4:
        ranges_.DropUnused();
        break;
      default: {
        const SequenceNumber at = model_.last() - rng.Below(3);
        const auto walk = model_.Walk(key, at);
        if (!walk) break;
        if (rng.Below(2) == 0) {
          ranges_.Learn(*walk, model_.last());
          break;
        }
        late.push_back({*walk, walk->begin.ToString(), walk->end.ToString()});
        break;
      }
    }
    if (!late.empty() && rng.Below(4) == 0) {
      const size_t i = rng.Below(late.size());
      late[i].walk.begin = late[i].begin;
      late[i].walk.end = late[i].end;
      ranges_.Learn(late[i].walk, model_.last());
      late.erase(late.begin() + static_cast<ptrdiff_t>(i));
    }
    model_.Check();
    known += ranges_.Known().size();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(known, 10000u);
}

// Readers with a number that was published after a value was written never get
// a range that has its key.
TEST_F(DeadRangesTest, ReadersSeeCutsBeforeTheNumber) {
  constexpr uint64_t kKeys = 64;
  std::atomic<SequenceNumber> last{1};
  std::atomic<bool> live[kKeys] = {};
  std::atomic<SequenceNumber> written[kKeys] = {};
  std::atomic<bool> stop{false};
  std::mutex leadership;
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      test::Rng rng(static_cast<uint64_t>(t) + 7);
      // relaxed: a flag of the test.
      while (!stop.load(std::memory_order_relaxed)) {
        const uint64_t i = rng.Below(kKeys);
        // acquire: as a reader loads the number.
        const SequenceNumber at = last.load(std::memory_order_acquire);
        const std::string start = Key(i);
        const Slice from = start;
        ranges_.Find(&from, at, true, [&](const DeadRange& range, bool) {
          for (uint64_t k = 0; k < kKeys; ++k) {
            const std::string key = Key(k);
            if (!IsIn(range, key)) continue;
            // relaxed: ordered by the number.
            const SequenceNumber put =
                written[k].load(std::memory_order_relaxed);
            EXPECT_FALSE(put > range.sequence && put <= at)
                << key << " written at " << put << ", range of "
                << range.sequence << ", read at " << at;
          }
        });
      }
    });
  }
  test::Rng rng(test::TestSeed());
  for (int step = 0; step < 20000; ++step) {
    const std::lock_guard<std::mutex> leads(leadership);
    const SequenceNumber next = last.load() + 1;
    const uint64_t i = rng.Below(kKeys);
    if (rng.Below(4) == 0) {
      ranges_.Cut(Key(i));
      live[i] = true;
      // relaxed: published by the number.
      written[i].store(next, std::memory_order_relaxed);
      last.store(next, std::memory_order_release);  // release: as a leader.
      continue;
    }
    live[i] = false;
    last.store(next, std::memory_order_release);  // release: as a leader.
    uint64_t end = i + 1;
    while (end < kKeys && !live[end]) ++end;
    WalkedRange walk;
    const std::string begin = Key(i);
    const std::string bound = Key(end);
    walk.begin = begin;
    walk.has_begin = true;
    walk.includes_begin = true;
    walk.end = bound;
    walk.has_end = end < kKeys;
    walk.sequence = next;
    ranges_.Learn(walk, next);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace varve
