// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: any number of threads may read, write, iterate, take snapshots, flush
// and compact at once, and each sees a consistent database. Method: values
// carry their key, writer and count, so that every reader can judge what it
// sees; meant to run under ThreadSanitizer as well. VARVE_STRESS_SECONDS sets
// the length of each test.

#include "test/testing/db/stress_threads.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbConcurrencyTest : public StressTestBase {
 protected:
  // Flushes and compactions at random.
  void Disturb(Rng* rng) {
    if (rng->OneIn(2)) {
      EXPECT_TRUE(Ok(db_->Flush({})));
    } else {
      const std::string low = Key(rng->Between(0, 500));
      const std::string high = Key(rng->Between(0, 500));
      const Slice begin(low), end(high);
      EXPECT_TRUE(Ok(db_->CompactRange({}, rng->OneIn(3) ? nullptr : &begin,
                                       rng->OneIn(3) ? nullptr : &end)));
    }
    std::this_thread::yield();
  }
};

TEST_F(DbConcurrencyTest, EachThreadReadsItsOwnWritesAndOthersNeverGoBack) {
  constexpr int kWriters = 3;
  constexpr int kKeys = 40;
  options_.filter_policy = NewBloomFilterPolicy(10);
  options_.block_cache = NewTestCache(64 << 10);
  options_.max_open_files = 16;
  Open();
  const auto key_of = [](int writer, int i) {
    return Key(i) + "w" + std::to_string(writer);
  };
  std::vector<int> counts[kWriters];
  for (int w = 0; w < kWriters; w++) {
    counts[w].assign(kKeys, 0);
    Start([&, w](Rng* rng) {
      const int i = rng->Between(0, kKeys - 1);
      const std::string key = key_of(w, i);
      const int count = ++counts[w][static_cast<size_t>(i)];
      EXPECT_TRUE(Ok(db_->Put({}, key, Value(key, count))));
      PinnableSlice value;
      EXPECT_TRUE(Ok(db_->Get({}, key, &value)));
      EXPECT_EQ(CountIn(key, value), count) << value.ToString();
      // Filler, so that tables come and go.
      EXPECT_TRUE(Ok(db_->Put({}, key + rng->Bytes(4), rng->Bytes(300))));
    });
  }
  for (int r = 0; r < 2; r++) {
    auto seen = std::make_shared<std::map<std::string, int>>();
    Start([&, seen](Rng* rng) {
      const std::string key =
          key_of(rng->Between(0, kWriters - 1), rng->Between(0, kKeys - 1));
      std::string value;
      Status s = db_->Get({}, key, &value);
      if (s.IsNotFound()) {
        EXPECT_EQ((*seen)[key], 0) << key << " was lost";
        return;
      }
      EXPECT_TRUE(Ok(s));
      const int count = CountIn(key, value);
      EXPECT_GE(count, (*seen)[key]) << key << " = " << value;
      (*seen)[key] = count;
    });
  }
  Start([&](Rng* rng) { Disturb(rng); });
  JoinAll();
  for (int w = 0; w < kWriters; w++) {
    for (int i = 0; i < kKeys; i++) {
      const int count = counts[w][static_cast<size_t>(i)];
      if (count == 0) continue;
      EXPECT_EQ(CountIn(key_of(w, i), Get(key_of(w, i))), count);
    }
  }
  Reopen();
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

// Batches write one number to all keys: every view of one moment must show
// one number.
TEST_F(DbConcurrencyTest, BatchesAreSeenWholeByAllKindsOfReaders) {
  constexpr int kKeys = 30;
  Open();
  std::atomic<int> next = 0;
  const auto write = [&] {
    WriteBatch batch;
    const std::string number = std::to_string(next.fetch_add(1));
    const std::string value = number + ":" + std::string(200, 'x');
    for (int i = 0; i < kKeys; i++) {
      // Deleted and put again: the end of the batch counts.
      batch.Delete(Key(i));
      batch.Put(Key(i), value);
    }
    EXPECT_TRUE(Ok(db_->Write({}, &batch)));
  };
  write();
  for (int w = 0; w < 2; w++) Start([&](Rng*) { write(); });

  const auto expect_one_value = [&](const ReadOptions& options, bool forward) {
    auto it = db_->NewIterator(options);
    std::string first;
    int count = 0;
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev()) {
      if (count++ == 0) first = it->value().ToString();
      EXPECT_EQ(it->value().ToString(), first) << it->key().ToString();
    }
    EXPECT_TRUE(Ok(it->status()));
    EXPECT_EQ(count, kKeys);
    return first;
  };
  Start([&](Rng* rng) { expect_one_value({}, rng->OneIn(2)); });
  Start([&](Rng*) {
    std::vector<std::string> names;
    for (int i = 0; i < kKeys; i++) names.push_back(Key(i));
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = db_->MultiGet({}, keys, &values);
    for (int i = 0; i < kKeys; i++) {
      EXPECT_TRUE(Ok(statuses[static_cast<size_t>(i)]));
      EXPECT_EQ(values[static_cast<size_t>(i)], values[0]) << "key " << i;
    }
  });
  Start([&](Rng* rng) {
    ReadOptions options{.snapshot = db_->GetSnapshot()};
    const std::string then = expect_one_value(options, true);
    // It does not change, whatever others do.
    for (int i = 0; i < 3; i++) {
      EXPECT_EQ(expect_one_value(options, rng->OneIn(2)), then);
      const std::string key = Key(rng->Between(0, kKeys - 1));
      std::string value;
      EXPECT_TRUE(Ok(db_->Get(options, key, &value)));
      EXPECT_EQ(value, then);
    }
    db_->ReleaseSnapshot(options.snapshot);
  });
  Start([&](Rng* rng) { Disturb(rng); });
  JoinAll();
}

TEST_F(DbConcurrencyTest, SnapshotsOfManyThreadsRiseAndHold) {
  Open();
  Put("counter", "0");
  Start([&, count = 0](Rng*) mutable {
    EXPECT_TRUE(Ok(db_->Put({}, "counter", std::to_string(++count))));
    EXPECT_TRUE(Ok(db_->Put({}, Key(count % 1000), std::string(100, 'x'))));
  });
  for (int r = 0; r < 4; r++) {
    Start([&, last_sequence = uint64_t{0}, last_count = 0](Rng*) mutable {
      const Snapshot* snapshot = db_->GetSnapshot();
      EXPECT_GE(snapshot->GetSequenceNumber(), last_sequence);
      last_sequence = snapshot->GetSequenceNumber();
      const int count = atoi(Get("counter", snapshot).c_str());
      EXPECT_GE(count, last_count);
      last_count = count;
      std::this_thread::yield();
      EXPECT_EQ(atoi(Get("counter", snapshot).c_str()), count);
      db_->ReleaseSnapshot(snapshot);
    });
  }
  Start([&](Rng* rng) { Disturb(rng); });
  JoinAll();
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
}

TEST_F(DbConcurrencyTest, MixedSyncAndUnsyncedWritersAllSucceed) {
  options_.max_write_buffer_number = 3;
  Open();
  std::atomic<int> written = 0;
  for (int w = 0; w < 4; w++) {
    Start([&, w, count = 0](Rng* rng) mutable {
      WriteOptions options;
      options.sync = rng->OneIn(50);
      options.disable_wal = !options.sync && w == 3;
      const std::string key = "w" + std::to_string(w) + Key(count++);
      EXPECT_TRUE(Ok(db_->Put(options, key, Value(key, count))));
      written.fetch_add(1);
    });
  }
  Start([&](Rng*) {
    EXPECT_TRUE(Ok(db_->SyncWAL()));
    std::this_thread::yield();
  });
  JoinAll();
  EntryList entries;
  ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
  EXPECT_EQ(static_cast<int>(entries.size()), written.load());
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), entries, {}, false));
}

TEST_F(DbConcurrencyTest, PropertiesAndIteratorsOfManyThreads) {
  options_.statistics = nullptr;
  Open();
  Start([&](Rng* rng) {
    EXPECT_TRUE(Ok(db_->Put({}, Key(rng->Between(0, 2000)), rng->Bytes(200))));
  });
  Start([&](Rng*) {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.stats", &text));
    EXPECT_TRUE(db_->GetProperty("varve.sstables", &text));
    uint64_t number = 0;
    EXPECT_TRUE(db_->GetIntProperty("varve.estimate-num-keys", &number));
    const Range range{"a", "z"};
    EXPECT_TRUE(Ok(db_->GetApproximateSizes(&range, 1, &number)));
    std::this_thread::yield();
  });
  for (int r = 0; r < 3; r++) {
    Start([&](Rng* rng) {
      auto it = db_->NewIterator({});
      it->Seek(Key(rng->Between(0, 2000)));
      std::string last;
      for (int i = 0; i < 50 && it->Valid(); i++, it->Next()) {
        EXPECT_LT(last, it->key().ToString());
        last = it->key().ToString();
      }
      for (int i = 0; i < 20 && it->Valid(); i++, it->Prev()) {
      }
      EXPECT_TRUE(Ok(it->status()));
    });
  }
  Start([&](Rng* rng) { Disturb(rng); });
  JoinAll();
}

// Short-lived threads leak nothing.
TEST_F(DbConcurrencyTest, ShortLivedThreadsReadAndWrite) {
  Open();
  int started = 0;
  while (GoesOn() && started < 2000) {
    std::vector<std::thread> some;
    for (int i = 0; i < 4; i++, started++) {
      some.emplace_back([this, key = Key(started)] {
        EXPECT_TRUE(Ok(db_->Put({}, key, "v")));
        EXPECT_EQ(Get(key), "v");
      });
    }
    for (std::thread& thread : some) thread.join();
  }
  Flush();
  EXPECT_EQ(Number("varve.num-live-versions"), 1u);
}

}  // namespace
}  // namespace varve::test
