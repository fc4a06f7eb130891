// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: after power losses and kills, the stream of all updates is the
// database: applied from the first one on, it gives the entries that the
// database has. A follower goes on where it was, unless the source has lost
// updates that were not synced. Method: random writes, flushes and reopenings
// on files in memory that lose what was not synced. VARVE_STREAM_CRASHES sets
// how many there are.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr char kPath[] = "/db";

// Applies batches to entries.
class Replay final : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    entries[key.ToString()] = value.ToString();
  }
  void Delete(const Slice& key) override { entries.erase(key.ToString()); }
  void DeleteRange(const Slice& begin, const Slice& end) override {
    entries.erase(entries.lower_bound(begin.ToString()),
                  entries.lower_bound(end.ToString()));
  }

  std::map<std::string, std::string> entries;
  uint64_t next = 1;
};

class StreamCrashTest : public ::testing::Test {
 protected:
  StreamCrashTest() : base_(NewMemoryEnv(Env::Default())), env_(base_.get()) {
    options_ = TinyOptions();
    options_.env = &env_;
    options_.disable_auto_compactions = true;
    options_.WAL_ttl_seconds = uint64_t{1} << 40;
  }

  void Open() { ASSERT_TRUE(Ok(DB::Open(options_, kPath, &db_))); }

  // Brings the replay up to date.
  void Follow(Replay* replay) {
    std::unique_ptr<TransactionLogIterator> stream;
    ASSERT_TRUE(Ok(db_->GetUpdatesSince(replay->next, &stream)));
    for (;; stream->Next()) {
      TransactionLogGap gap;
      // Numbers that the MANIFEST has and whose updates the power loss took:
      // the database does not have them either, which is checked below.
      if (lost_power_ && stream->GetGap(&gap)) {
        ASSERT_EQ(gap.first, replay->next);
        replay->next = gap.last + 1;
        continue;
      }
      if (!stream->Valid()) break;
      const BatchResult batch = stream->GetBatch();
      ASSERT_EQ(batch.sequence, replay->next);
      ASSERT_TRUE(Ok(batch.writeBatchPtr->Iterate(replay)));
      replay->next += static_cast<uint64_t>(batch.writeBatchPtr->Count());
    }
    ASSERT_TRUE(Ok(stream->status()));
    ASSERT_EQ(replay->next, db_->GetLatestSequenceNumber() + 1);
    EXPECT_TRUE(HasEntries(db_.get(), ToList(replay->entries)));
  }
  static EntryList ToList(const std::map<std::string, std::string>& entries) {
    return EntryList(entries.begin(), entries.end());
  }

  void WriteSome(Rng* random) {
    for (int i = random->Between(1, 30); i > 0; --i) {
      WriteBatch batch;
      for (int j = random->Between(1, random->OneIn(5) ? 50 : 3); j > 0; --j) {
        const std::string key = Key(random->Between(0, 50));
        if (random->OneIn(4)) {
          batch.Delete(key);
        } else if (random->OneIn(20)) {
          batch.DeleteRange(nullptr, key, key + "~");
        } else {
          batch.Put(key, std::string(random->Below(300), 'v') +
                             std::to_string(++count_));
        }
      }
      ASSERT_TRUE(Ok(db_->Write({.sync = random->OneIn(6)}, &batch)));
      if (random->OneIn(8)) {
        ASSERT_TRUE(Ok(db_->Flush({.wait = random->OneIn(2)})));
      }
    }
  }

  std::unique_ptr<Env> base_;
  FaultInjectionEnv env_;
  Options options_;
  std::unique_ptr<DB> db_;
  int count_ = 0;
  bool lost_power_ = false;
};

TEST_F(StreamCrashTest, TheStreamIsTheDatabase) {
  const uint64_t seed = TestSeed();
  const char* const text = getenv("VARVE_STREAM_CRASHES");
  const int crashes = text != nullptr ? atoi(text) : 40;
  Rng random(seed);
  Replay follower;
  for (int crash = 0; crash < crashes; ++crash) {
    Open();
    if (HasFatalFailure()) return;
    const uint64_t newest = db_->GetLatestSequenceNumber();
    if (follower.next > newest + 1) {
      // It had updates that the power loss took: it is told, and begins anew.
      std::unique_ptr<TransactionLogIterator> stream;
      if (follower.next > newest + 1) {
        EXPECT_TRUE(db_->GetUpdatesSince(follower.next, &stream).IsNotFound());
      }
      follower = Replay();
    }
    // As a new follower sees it.
    Replay all;
    Follow(&all);
    if (HasFailure()) FAIL() << "crash " << crash;
    follower = all;
    WriteSome(&random);
    if (random.OneIn(2)) Follow(&follower);
    if (HasFailure()) FAIL() << "crash " << crash;
    if (random.OneIn(3)) {
      ASSERT_TRUE(Ok(db_->Close()));
      db_.reset();
      continue;
    }
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    lost_power_ = true;
    env_.SetFilesystemActive(false);
    db_.reset();
    ASSERT_TRUE(
        Ok(env_.CrashAndReset({.seed = random.Below(1000000),
                               .lose_everything_unsynced = random.OneIn(3)})));
  }
}

}  // namespace
}  // namespace varve::test
