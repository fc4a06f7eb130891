// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Tags: threads
//
// Goal: streams of updates are the writers' own history, batch by batch, beside
// them. Method: eight threads write batches of 1 to 100 updates to three
// families, with flushes and switches of logs, and three followers read along.
// They stop at random and begin again where they were. One of them waits for
// each write.

#include "test/testing/db/families_fixture.h"
#include "test/testing/db/stream_history.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kWriters = 8;
constexpr int kBatches = 120;
constexpr int kFollowers = 3;

class StreamStressTest : public FamiliesTest,
                         public ::testing::WithParamInterface<WriteMethod> {
 protected:
  StreamStressTest() {
    options_.wal_write = GetParam();
    options_.WAL_ttl_seconds = 1000000;
    options_.max_total_wal_size = 256 << 10;
  }

  void Write(int writer, uint64_t seed,
             const std::vector<ColumnFamilyHandle*>& families) {
    Rng random(seed);
    for (int i = 0; i < kBatches; ++i) {
      WriteBatch batch;
      FillBatch(writer, i, random.Between(1, random.OneIn(4) ? 100 : 5),
                random.Below(100), families, &batch);
      ASSERT_TRUE(Ok(db_->Write({.sync = random.OneIn(50)}, &batch)));
      if (random.OneIn(40)) {
        ASSERT_TRUE(Ok(db_->Flush({.wait = random.OneIn(2)},
                                  families[random.Below(families.size())])));
      }
    }
  }

  void Follow(bool waits, uint64_t seed, StreamHistory* history) {
    Rng random(seed);
    std::unique_ptr<TransactionLogIterator> stream;
    // `done_` first: what was written before it is to be found.
    for (bool done = false;;) {
      if (stream == nullptr || random.OneIn(200)) {
        stream.reset();
        ASSERT_TRUE(Ok(db_->GetUpdatesSince(
            std::max<uint64_t>(history->next(), 1), &stream)));
      }
      const bool before = done_.load();
      if (stream->Valid()) {
        ASSERT_TRUE(history->Take(stream->GetBatch()));
        stream->Next();
        continue;
      }
      ASSERT_TRUE(Ok(stream->status()));
      if (done) return;
      done = before;
      if (waits) {
        stream->Wait(1000);
      } else {
        std::this_thread::yield();
        stream->Next();
      }
    }
  }

  std::atomic<bool> done_{false};
};

TEST_P(StreamStressTest, FollowersSeeTheHistory) {
  const uint64_t seed = TestSeed();
  OpenNew({"one", "two"});
  const std::vector<ColumnFamilyHandle*> families = {
      db_->DefaultColumnFamily(), handles_.at("one"), handles_.at("two")};
  StreamHistory histories[kFollowers];
  std::vector<std::thread> followers;
  for (int i = 0; i < kFollowers; ++i) {
    followers.emplace_back([this, i, seed, &histories] {
      Follow(i != 0, seed + 100 + static_cast<uint64_t>(i), &histories[i]);
    });
  }
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([this, i, seed, &families] {
      Write(i, seed + static_cast<uint64_t>(i), families);
    });
  }
  for (std::thread& writer : writers) writer.join();
  done_ = true;
  for (std::thread& follower : followers) follower.join();
  for (const StreamHistory& history : histories) {
    EXPECT_EQ(history.next(), db_->GetLatestSequenceNumber() + 1);
    ASSERT_EQ(history.batches().size(), size_t{kWriters});
    for (const auto& [writer, next] : history.batches()) {
      EXPECT_EQ(next, kBatches) << writer;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, StreamStressTest,
                         ::testing::ValuesIn(kWriteMethods),
                         [](const auto& method) {
                           return std::string(WriteMethodName(method.param));
                         });

}  // namespace
}  // namespace varve::test
