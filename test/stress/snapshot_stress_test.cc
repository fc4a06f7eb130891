// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: what a snapshot or a read transaction shows never changes, whatever
// writers, flushes and compactions do, and wherever it is handed to. Method:
// each write puts one and the same number into a group of keys at once, so
// that a moment in which they differ cannot be right; snapshots are taken all
// the time, compared with what they showed at first, handed to other threads
// and released there, by threads some of which end before.

#include "db/snapshot/snapshot_registry.h"
#include "test/testing/db/read_stress.h"
#include "test/testing/test_headers.h"
#include "varve/read_transaction.h"

namespace varve::test {
namespace {

constexpr int kGroups = 20;
constexpr int kGroupKeys = 8;

std::string GroupKey(int group, int member) {
  // Members of a group are far from each other.
  return Key(member * 1000 + group);
}

// One that is out, and what it showed when it was taken.
struct Held {
  ReadTransaction transaction;  // Or else:
  const Snapshot* snapshot = nullptr;
  int group = 0;
  std::string shown;

  const Snapshot* view() const {
    return snapshot != nullptr ? snapshot : transaction.snapshot();
  }
};

class SnapshotStressTest : public ReadStressTestBase {
 protected:
  void Write(Rng* rng) {
    const int group = rng->Between(0, kGroups - 1);
    const std::string value =
        std::to_string(++writes_) + std::string(rng->Below(200), 'x');
    WriteBatch batch;
    for (int m = 0; m < kGroupKeys; m++) {
      batch.Put(GroupKey(group, m), value);
    }
    // Hides what was there, and nothing of this batch.
    if (rng->OneIn(30)) {
      batch.Clear();
      for (int m = 0; m < kGroupKeys; m++) {
        batch.DeleteRange(GroupKey(group, m), GroupKey(group, m) + "x");
      }
    }
    EXPECT_TRUE(Ok(db_->Write({}, &batch)));
  }

  std::string ReadKey(const Held& held, int member) {
    ReadOptions options{.snapshot = held.view()};
    std::string value;
    const Status s =
        held.transaction.has_ended()
            ? db_->Get(options, GroupKey(held.group, member), &value)
            : held.transaction.Get({}, GroupKey(held.group, member), &value);
    if (s.IsNotFound()) return "deleted";
    EXPECT_TRUE(Ok(s));
    return value;
  }

  void Check(const Held& held, Rng* rng) {
    for (int i = 0; i < 3; i++) {
      const int member = rng->Between(0, kGroupKeys - 1);
      EXPECT_EQ(ReadKey(held, member), held.shown)
          << "at " << held.view()->GetSequenceNumber();
    }
    if (!rng->OneIn(8)) return;
    const auto it = db_->NewIterator({.snapshot = held.view()});
    for (int m = 0; m < kGroupKeys; m++) {
      const std::string key = GroupKey(held.group, m);
      it->Seek(key);
      const bool there = it->Valid() && it->key() == Slice(key);
      EXPECT_EQ(there ? it->value().ToString() : "deleted", held.shown);
    }
    EXPECT_TRUE(Ok(it->status()));
  }

  Held Take(Rng* rng) {
    Held held;
    held.group = rng->Between(0, kGroups - 1);
    if (rng->OneIn(2)) {
      held.transaction = ReadTransaction(db_.get());
    } else {
      held.snapshot = db_->GetSnapshot();
    }
    held.shown = ReadKey(held, 0);
    return held;
  }
  void Release(Held* held) {
    held->transaction.End();
    db_->ReleaseSnapshot(std::exchange(held->snapshot, nullptr));
  }

  // Takes some, checks, and releases its own or what another thread has left.
  void UseSnapshots(Rng* rng) {
    std::vector<Held> mine;
    for (int i = 0; i < 5; i++) mine.push_back(Take(rng));
    for (int i = 0; i < 10; i++) {
      Check(mine[rng->Below(mine.size())], rng);
    }
    for (Held& held : mine) {
      if (rng->OneIn(2)) {
        Release(&held);
        continue;
      }
      Held old;
      {
        const std::lock_guard lock(left_mutex_);
        left_.push_back(std::move(held));
        if (left_.size() < 40) continue;
        old = std::move(left_.front());
        left_.pop_front();
      }
      Check(old, rng);
      Release(&old);
    }
  }

  std::atomic<uint64_t> writes_{0};
  std::mutex left_mutex_;
  std::deque<Held> left_;
};

TEST_F(SnapshotStressTest, ASnapshotNeverChanges) {
  options_.write_buffer_size = 64 << 10;
  options_.level0_file_num_compaction_trigger = 2;
  Open();
  Start([&](Rng* rng) { Write(rng); });
  Start([&](Rng* rng) {
    for (int i = 0; i < 20; i++) Write(rng);
    EXPECT_TRUE(Ok(db_->Flush({})));
    if (rng->OneIn(4)) {
      EXPECT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                       nullptr, nullptr)));
    }
  });
  for (int i = 0; i < 2; i++) {
    Start([&](Rng* rng) { UseSnapshots(rng); });
  }
  // Threads that end with theirs still out.
  Start([&](Rng* rng) { std::thread([&] { UseSnapshots(rng); }).join(); });
  Start([&](Rng*) {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.oldest-snapshot", &text));
    std::this_thread::yield();
  });
  JoinAll();
  Rng rng(seed_);
  for (Held& held : left_) {
    Check(held, &rng);
    Release(&held);
  }
  left_.clear();
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
  EXPECT_GT(writes_.load(), 20u);
  ASSERT_TRUE(Ok(db_->Close()));
}

// Beginning and ending as fast as can be, while what is current changes as fast
// as can be: pins are counted and given back, none is lost.
TEST_F(SnapshotStressTest, PinsAreCountedWhileTheyComeAndGo) {
  Open();
  Fill(db_.get());
  std::atomic<uint64_t> begun{0};
  for (int i = 0; i < 2; i++) {
    Start([&](Rng* rng) {
      ReadTransaction kept(db_.get());
      for (int k = 0; k < 200; k++) {
        ReadTransaction read(db_.get());
        if (rng->OneIn(50)) std::swap(read, kept);
        begun.fetch_add(1, std::memory_order_relaxed);
      }
      const std::string key = Key(rng->Between(0, kKeys - 1));
      std::string value;
      EXPECT_TRUE(Ok(kept.Get({}, key, &value)));
      EXPECT_GE(CountIn(key, value), 0) << value;
    });
  }
  Start([&](Rng* rng) {
    const std::string key = Key(rng->Between(0, kKeys - 1));
    EXPECT_TRUE(Ok(db_->Put({}, key, Value(key, rng->Between(0, 99)))));
    EXPECT_TRUE(Ok(db_->Flush({})));
  });
  JoinAll();
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
  EXPECT_GT(begun.load(), 1000u);
}

}  // namespace
}  // namespace varve::test
