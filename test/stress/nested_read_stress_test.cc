// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a thread may read while it reads, the same database or another one, as
// it does from a comparator that reads. Method: such a comparator, while the
// databases change; at random, and once step by step so that the change comes
// right in the middle of a read.

#include "test/testing/comparators.h"
#include "test/testing/db/read_stress.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"

namespace varve::test {
namespace {

class NestedReadStressTest : public ReadStressTestBase {};

// A bytewise comparator that sometimes calls back, in threads that request it.
class CallingComparator : public ComparatorWithoutSeparators {
 public:
  CallingComparator() : ComparatorWithoutSeparators("test.CallingComparator") {}
  int Compare(const Slice& a, const Slice& b) const override {
    if (callback != nullptr && ++calls % 4 == 0) {
      // Not from within itself.
      const std::function<void()>* const now = std::exchange(callback, nullptr);
      (*now)();
      callback = now;
    }
    return a.compare(b);
  }

  static thread_local const std::function<void()>* callback;
  static thread_local int calls;
};
thread_local const std::function<void()>* CallingComparator::callback = nullptr;
thread_local int CallingComparator::calls = 0;

TEST_F(NestedReadStressTest, ReadsWithinReads) {
  static const CallingComparator comparator;
  options_.comparator = &comparator;
  Open();
  Fill(db_.get());
  std::unique_ptr<DB> other = OpenAnother("other");
  Fill(other.get());
  std::atomic<int> nested = 0;
  // The data changes under the outer read all the time.
  Start([&, count = 0](Rng* rng) mutable {
    const std::string key = Key(rng->Between(0, kKeys - 1));
    DB* const db = rng->OneIn(2) ? db_.get() : other.get();
    EXPECT_TRUE(Ok(db->Put({}, key, Value(key, ++count))));
    if (rng->OneIn(5)) {
      EXPECT_TRUE(Ok(db->Flush({})));
    }
    if (rng->OneIn(40)) {
      EXPECT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    }
  });
  for (int r = 0; r < 3; r++) {
    Start([&](Rng* rng) {
      const std::function<void()> read_inside = [&] {
        nested++;
        DB* const db = rng->OneIn(2) ? db_.get() : other.get();
        if (rng->OneIn(10)) {
          ReadSomehow(db, rng);
        } else {
          ReadOne(db, rng);
        }
      };
      CallingComparator::callback = &read_inside;
      ReadSomehow(rng->OneIn(2) ? db_.get() : other.get(), rng);
      CallingComparator::callback = nullptr;
    });
  }
  JoinAll();
  EXPECT_GT(nested.load(), 100);
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
  ASSERT_NO_FATAL_FAILURE(Settle(other.get()));
  EXPECT_TRUE(NothingIsPinned(other.get(), dir_.Sub("other")));
  other.reset();
}

// Each lookup in a block that was just read does another MultiGet that reads.
TEST_F(NestedReadStressTest, MultiGetWithinMultiGetFromFiles) {
  static const CallingComparator comparator;
  options_.comparator = &comparator;
  options_.block_cache = NewBlockCache(0);
  Open();
  Fill(db_.get());
  std::unique_ptr<DB> other = OpenAnother("other");
  Fill(other.get());
  for (DB* db : {db_.get(), other.get()}) {
    ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
  }
  const auto read = [](DB* db, int first, int step) {
    std::vector<std::string> names;
    for (int i = 0; i < 30; ++i) {
      names.push_back(Key((first + i * step) % kKeys));
    }
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db->MultiGet({}, keys.size(), keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(Ok(statuses[i])) << names[i];
      EXPECT_GE(CountIn(names[i], values[i]), 0) << values[i].ToString();
    }
  };
  int nested = 0;
  const std::function<void()> read_inside = [&] {
    ++nested;
    read(nested % 2 == 0 ? db_.get() : other.get(), nested, 7);
  };
  for (int i = 0; i < 5; ++i) {
    CallingComparator::callback = &read_inside;
    read(db_.get(), i, 13);
    CallingComparator::callback = nullptr;
  }
  EXPECT_GT(nested, 100);
  other.reset();
}

// Deterministic: the inner read finds that the database has changed since the
// outer one began. The outer one must continue with its old state.
TEST_F(NestedReadStressTest, InnerReadSeesNewStateAndOuterOneKeepsItsOwn) {
  static const CallingComparator comparator;
  options_.comparator = &comparator;
  options_.block_cache = NewBlockCache(0);
  Open();
  Fill(db_.get());
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  Actor changer;
  int changes = 0;
  for (int i = 0; i < 20; i++) {
    const std::string key = Key(i * 7);
    bool changed = false;
    const std::function<void()> change_and_read = [&] {
      if (std::exchange(changed, true)) return;
      changes++;
      changer.Do([&] {
        for (int k = 0; k < kKeys; k++) {
          EXPECT_TRUE(Ok(db_->Put({}, Key(k), Value(Key(k), 1000 + i))));
        }
        EXPECT_TRUE(Ok(db_->Flush({})));
        EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
      });
      std::string value;
      EXPECT_TRUE(Ok(db_->Get({}, key, &value)));
      EXPECT_EQ(CountIn(key, value), 1000 + i) << value;
    };
    ReadOptions options{.snapshot = db_->GetSnapshot()};
    std::string before, outer;
    ASSERT_TRUE(Ok(db_->Get(options, key, &before)));
    CallingComparator::callback = &change_and_read;
    ASSERT_TRUE(Ok(db_->Get(options, key, &outer)));
    CallingComparator::callback = nullptr;
    EXPECT_EQ(outer, before);
    db_->ReleaseSnapshot(options.snapshot);
    std::string after;
    ASSERT_TRUE(Ok(db_->Get({}, key, &after)));
    EXPECT_EQ(CountIn(key, after), 1000 + i) << after;
  }
  EXPECT_EQ(changes, 20);
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
}

}  // namespace
}  // namespace varve::test
