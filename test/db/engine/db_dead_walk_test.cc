// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: iterators over many deleted keys show exactly the entries of their
// moment, in both directions, and count what they skip. Method: databases of
// mostly deleted keys in memtables and tables, with snapshots, bounds and range
// deletions, compared with a std::map in random walks; and readers of a fixed
// moment while writers insert among the dead.

#include "test/testing/comparators.h"
#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/perf_context.h"
#include "varve/write_batch.h"

namespace varve::test {
namespace {

using Model = std::map<std::string, std::string>;

class DbDeadWalkTest : public DbTestBase {
 protected:
  static std::string KeyOf(uint64_t number) {
    char text[32];
    snprintf(text, sizeof(text), "%012llu",
             static_cast<unsigned long long>(number));
    return text;
  }

  // Compares random moves within the bounds with the model.
  void CheckMoves(Rng* rng, const Model& whole, ReadOptions read,
                  uint64_t keys) {
    const std::string lower = KeyOf(rng->Below(keys));
    const std::string upper = KeyOf(rng->Below(keys));
    const Slice lower_slice = lower;
    const Slice upper_slice = upper;
    Model model = whole;
    if (rng->OneIn(3)) {
      read.iterate_lower_bound = &lower_slice;
      model.erase(model.begin(), model.lower_bound(lower));
    }
    if (rng->OneIn(3)) {
      read.iterate_upper_bound = &upper_slice;
      model.erase(model.lower_bound(upper), model.end());
    }
    const auto it = db_->NewIterator(read);
    Entries::const_iterator at = model.end();
    for (int move = 0; move < 30; ++move) {
      const std::string target = KeyOf(rng->Below(keys));
      TakeRandomStep(rng->Next(), target, model, it.get(), &at);
      ASSERT_EQ(At(*it), At(model, at)) << "move " << move;
    }
  }

  void RunRandomly(uint64_t keys, bool range_deletions) {
    Rng rng(TestSeed());
    options_.write_buffer_size = rng.Pick({8 << 10, 64 << 10, 1 << 20});
    options_.level0_file_num_compaction_trigger = rng.Between(2, 6);
    Open();
    Model model;
    std::vector<std::pair<const Snapshot*, Model>> snapshots;
    for (int step = 0; step < 300; ++step) {
      const uint64_t begin = rng.Below(keys);
      const uint64_t end = std::min(keys, begin + rng.Below(keys / 2));
      const int kind = rng.Between(0, 19);
      if (kind < 7) {
        // Survivors are sparse.
        const uint64_t live_one_in = rng.Pick({3, 30, 1000000});
        for (uint64_t i = begin; i < end; ++i) {
          if (rng.OneIn(live_one_in)) continue;
          ASSERT_TRUE(Ok(db_->Delete({}, KeyOf(i))));
          model.erase(KeyOf(i));
        }
      } else if (kind < 13) {
        const uint64_t skip = rng.Pick({1, 1, 2, 7});
        for (uint64_t i = begin; i < end; i += skip) {
          const std::string value = rng.Bytes(rng.Pick({0, 1, 30, 150}));
          ASSERT_TRUE(Ok(db_->Put({}, KeyOf(i), value)));
          model[KeyOf(i)] = value;
        }
      } else if (kind == 13) {
        Flush();
      } else if (kind == 14 && rng.OneIn(4)) {
        CompactAll();
      } else if (kind == 15 && range_deletions) {
        ASSERT_TRUE(Ok(db_->DeleteRange({}, KeyOf(begin), KeyOf(end))));
        model.erase(model.lower_bound(KeyOf(begin)),
                    model.lower_bound(KeyOf(end)));
      } else if (kind == 16 && snapshots.size() < 3) {
        snapshots.emplace_back(db_->GetSnapshot(), model);
      } else if (kind == 17 && !snapshots.empty()) {
        db_->ReleaseSnapshot(snapshots.back().first);
        snapshots.pop_back();
      }
      ASSERT_NO_FATAL_FAILURE(CheckMoves(&rng, model, {}, keys));
      for (const auto& [snapshot, seen] : snapshots) {
        ASSERT_NO_FATAL_FAILURE(
            CheckMoves(&rng, seen, {.snapshot = snapshot}, keys));
      }
    }
    for (const auto& [snapshot, seen] : snapshots) {
      db_->ReleaseSnapshot(snapshot);
    }
  }
};

TEST_F(DbDeadWalkTest, RandomWalksOverFewKeys) { RunRandomly(40, true); }
TEST_F(DbDeadWalkTest, RandomWalksOverManyKeys) { RunRandomly(600, false); }
TEST_F(DbDeadWalkTest, RandomWalksAmongRangeDeletions) {
  RunRandomly(600, true);
}
TEST_F(DbDeadWalkTest, RandomWalksInAnotherOrder) {
  // An order that the engine does not recognize as bytewise.
  const UnrecognizedBytewiseComparator comparator;
  options_.comparator = &comparator;
  RunRandomly(300, true);
  db_.reset();
}

// Each place of deletions and values, and both directions.
TEST_F(DbDeadWalkTest, CountsWhatItSkips) {
  constexpr uint64_t kKeys = 500;
  options_.write_buffer_size = 4 << 20;
  // So that the second walk does not step over what the first has passed.
  AblationOptions ablation = TestAblation();
  ablation.waste = WasteMode::kIgnored;
  options_.experiment = NewExperiment(ablation);
  Do("open, put !first 1, put ~last 2");
  // 0: all in the memtable; 1: values in a table; 2: all in one table.
  for (int place = 0; place < 3; ++place) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(Ok(db_->Put({}, KeyOf(i), "value")));
    }
    const Snapshot* snapshot = db_->GetSnapshot();
    if (place == 1) Flush();
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(Ok(db_->Delete({}, KeyOf(i))));
    }
    if (place == 2) Flush();
    SetPerfLevel(PerfLevel::kEnableCount);
    for (const bool forward : {true, false}) {
      const PerfContext before = *GetPerfContext();
      {
        const auto it = db_->NewIterator({});
        Walk(it.get(), forward ? "seek:0" : "for_prev:9");
        ASSERT_TRUE(it->Valid());
        EXPECT_EQ(it->key(), Slice(forward ? "~last" : "!first"));
      }
      const PerfContext& after = *GetPerfContext();
      EXPECT_EQ(
          after.internal_key_skipped_count - before.internal_key_skipped_count,
          2 * kKeys)
          << place << forward;
      EXPECT_EQ(after.internal_delete_skipped_count -
                    before.internal_delete_skipped_count,
                kKeys)
          << place << forward;
    }
    SetPerfLevel(PerfLevel::kDisable);
    // The deleted keys and their values are still there for the snapshot.
    ReadOptions read{.snapshot = snapshot};
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), read, &entries)));
    EXPECT_EQ(entries.size(), kKeys + 2);
    db_->ReleaseSnapshot(snapshot);
    CompactAll();
  }
}

// A key with very many versions below a deletion is passed by a seek.
TEST_F(DbDeadWalkTest, ManyVersionsBelowADeletion) {
  options_.write_buffer_size = 4 << 20;
  Open();
  for (uint64_t i = 0; i < 20; ++i) {
    for (int version = 0; version < 100; ++version) {
      ASSERT_TRUE(Ok(db_->Put({}, KeyOf(i), std::to_string(version))));
    }
    ASSERT_TRUE(Ok(db_->Delete({}, KeyOf(i))));
  }
  ASSERT_TRUE(Ok(db_->Put({}, "~last", "")));
  ASSERT_TRUE(Ok(db_->Put({}, "!first", "")));
  SetPerfLevel(PerfLevel::kEnableCount);
  for (const bool forward : {true, false}) {
    const uint64_t before = GetPerfContext()->internal_key_skipped_count;
    {
      const auto it = db_->NewIterator({});
      Walk(it.get(), forward ? "seek:0" : "for_prev:9");
      ASSERT_TRUE(it->Valid());
      EXPECT_EQ(it->key(), Slice(forward ? "~last" : "!first"));
    }
    EXPECT_LE(GetPerfContext()->internal_key_skipped_count - before, 20u * 30);
  }
  SetPerfLevel(PerfLevel::kDisable);
}

// Writers insert newer versions and new keys between the dead of a snapshot,
// while readers walk over them.
TEST_F(DbDeadWalkTest, WalksWhileLeavesAreSplit) {
  constexpr uint64_t kKeys = 3000;
  constexpr uint64_t kLiveEach = 500;
  options_.write_buffer_size = 64 << 20;
  Open();
  Model model;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(Ok(db_->Put({}, KeyOf(10 * i), "old")));
    if (i % kLiveEach == 7) model[KeyOf(10 * i)] = "old";
  }
  for (uint64_t i = 0; i < kKeys; ++i) {
    if (i % kLiveEach != 7) {
      ASSERT_TRUE(Ok(db_->Delete({}, KeyOf(10 * i))));
    }
  }
  const Snapshot* snapshot = db_->GetSnapshot();
  ReadOptions read{.snapshot = snapshot};
  std::atomic<int> writers{2};
  std::vector<std::thread> threads;
  for (uint64_t w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      Rng rng(w + 1);
      for (int i = 0; i < 20000; ++i) {
        const uint64_t number = rng.Below(10 * kKeys);
        EXPECT_TRUE(Ok(rng.OneIn(2) ? db_->Put({}, KeyOf(number), "new")
                                    : db_->Delete({}, KeyOf(number))));
      }
      writers.fetch_sub(1);
    });
  }
  const EntryList expected = ToList(model);
  do {
    EntryList found;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), read, &found)));
    EXPECT_TRUE(SameEntries(expected, found));
    EXPECT_TRUE(Ok(ScanBackward(db_.get(), read, &found)));
    EXPECT_TRUE(SameEntries(expected, found));
  } while (writers.load() > 0);
  for (std::thread& thread : threads) thread.join();
  db_->ReleaseSnapshot(snapshot);
}

}  // namespace
}  // namespace varve::test
