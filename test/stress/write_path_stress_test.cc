// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: concurrent writes of all kinds, together with operations that must not
// interfere, each take effect exactly once, as a whole, and are visible to
// their writer when they return. Method: threads that write with and without
// sync and log, small and large, some of which refuse to wait, while others
// flush, sync and read. Each batch sets two keys to one number, so the two must
// always be equal. Meant to run under ThreadSanitizer. VARVE_STRESS_SECONDS
// sets the length.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

class WritePathStressTest : public DbTestBase,
                            public ::testing::WithParamInterface<WriteMethod> {
 protected:
  static std::string PairKey(int thread, const char* half) {
    return "pair" + std::to_string(thread) + half;
  }

  // Numbers the writes of one thread.
  void Write(int thread, Rng* rng, int* number) {
    WriteOptions options;
    options.sync = rng->OneIn(20);
    options.disable_wal = !options.sync && rng->OneIn(4);
    options.no_slowdown = rng->OneIn(4);
    WriteBatch batch;
    const std::string value = std::to_string(*number + 1);
    batch.Put(PairKey(thread, "a"), value);
    if (rng->OneIn(30)) batch.Put("filler", rng->Bytes(20000));
    if (rng->OneIn(1000)) batch.Put("large", std::string(300 << 10, 'x'));
    batch.Put(PairKey(thread, "b"), value);
    const Status s = db_->Write(options, &batch);
    if (options.no_slowdown && s.IsIncomplete()) return;
    ASSERT_TRUE(Ok(s));
    ++*number;
    std::string found;
    ASSERT_TRUE(Ok(db_->Get({}, PairKey(thread, "a"), &found)));
    ASSERT_EQ(found, value);
  }

  void Look(int threads) {
    const Snapshot* const snapshot = db_->GetSnapshot();
    ReadOptions options{.snapshot = snapshot};
    for (int t = 0; t < threads; ++t) {
      std::string a, b;
      const Status status_a = db_->Get(options, PairKey(t, "a"), &a);
      const Status status_b = db_->Get(options, PairKey(t, "b"), &b);
      EXPECT_EQ(status_a.ok(), status_b.ok());
      EXPECT_EQ(a, b);
    }
    db_->ReleaseSnapshot(snapshot);
  }

  void Disturb(Rng* rng) {
    FlushOptions no_wait{.wait = false};
    switch (rng->Below(4)) {
      case 0:
        EXPECT_TRUE(Ok(db_->Flush(no_wait)));
        break;
      case 1:
        EXPECT_TRUE(Ok(db_->SyncWAL()));
        break;
      case 2:
        EXPECT_TRUE(Ok(db_->FlushWAL(false)));
        break;
      default:
        EXPECT_TRUE(Ok(db_->Resume()));
    }
  }
};

TEST_P(WritePathStressTest, EachWriteTakesEffectOnceAsAWhole) {
  constexpr int kWriters = 4;
  options_.wal_write = GetParam();
  options_.manual_wal_flush = GetParam() == WriteMethod::kCall;
  options_.max_write_buffer_number = 4;
  options_.statistics = NewTestStatistics();
  Open();
  const uint64_t seed = TestSeed();
  std::atomic<bool> stop = false;
  std::vector<int> numbers(kWriters, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(seed + static_cast<uint64_t>(t));
      while (!stop && !HasFatalFailure()) {
        Write(t, &rng, &numbers[static_cast<size_t>(t)]);
      }
    });
  }
  threads.emplace_back([&] {
    Rng rng(seed - 1);
    while (!stop) Disturb(&rng);
  });
  threads.emplace_back([&] {
    while (!stop) Look(kWriters);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(
      1000 * EnvironmentInt("VARVE_STRESS_SECONDS", 2)));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const bool reopened : {false, true}) {
    if (reopened) Reopen();
    for (int t = 0; t < kWriters; ++t) {
      for (const char* half : {"a", "b"}) {
        const int number = numbers[static_cast<size_t>(t)];
        EXPECT_EQ(Get(PairKey(t, half)),
                  number == 0 ? "NotFound" : std::to_string(number));
      }
    }
  }
  printf("%llu writes led, %llu done by others\n",
         static_cast<unsigned long long>(
             options_.statistics->getTickerCount(Ticker::kWriteDoneBySelf)),
         static_cast<unsigned long long>(
             options_.statistics->getTickerCount(Ticker::kWriteDoneByOther)));
}

INSTANTIATE_TEST_SUITE_P(All, WritePathStressTest,
                         ::testing::ValuesIn(kWriteMethods),
                         [](const auto& test) {
                           return WriteMethodName(test.param);
                         });

}  // namespace
}  // namespace varve::test
