// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: records about prepared transactions share syncs, and keep their order
// and their results. Method: they come while the sync of another is held.

#include "test/testing/db/prepared_fixture.h"
#include "test/testing/env/held_syncs.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

using Names = std::vector<std::string>;

class DbPreparedGroupTest : public PreparedTest {
 protected:
  static constexpr int kCount = 5;

  DbPreparedGroupTest() {
    options_.env = &syncs_;
    sync_.sync = true;
  }
  ~DbPreparedGroupTest() override { Drop(); }

  static std::string Name(int round, int i) {
    return std::to_string(round) + "/" + std::to_string(i);
  }

  HeldSyncs syncs_{&env_};
  WriteOptions sync_;
};

TEST_F(DbPreparedGroupTest, PreparesCommitsAndRollbacksShareSyncs) {
  Open();
  bool shared = false;
  int rounds = 0;
  uint64_t updates = 0;
  for (; !shared || rounds < 5; ++rounds) {
    const int prepares = syncs_.Run(kCount, [&](int i) {
      WriteBatch batch;
      for (int n = 0; n <= i; ++n) batch.Put(Name(rounds, i), "v");
      batch.Merge("order", Name(rounds, i));
      EXPECT_TRUE(Ok(db_->WritePrepared(sync_, Name(rounds, i), &batch)));
    });
    EXPECT_EQ(Prepared().size(), size_t{kCount});
    const int ends = syncs_.Run(kCount, [&](int i) {
      EXPECT_TRUE(Ok(i % 2 == 0
                         ? db_->CommitPrepared(sync_, Name(rounds, i))
                         : db_->RollbackPrepared(sync_, Name(rounds, i))));
    });
    shared = shared || (prepares == 2 && ends == 2);
    for (int i = 0; i < kCount; i += 2) updates += i + 2;
  }
  const std::string order = Get("order");
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(db_->GetLatestSequenceNumber(), updates);
    EXPECT_EQ(Get("order"), order);
    EXPECT_EQ(Prepared(), Names{});
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < kCount; ++i) {
        EXPECT_EQ(Get(Name(round, i)), i % 2 == 0 ? "v" : "-");
      }
    }
    pass == 0 ? PowerCut({.lose_everything_unsynced = true}) : Reopen();
  }
}

// The first record is of another name, so that all others may be in one group.
TEST_F(DbPreparedGroupTest, OneOfSeveralTakesAName) {
  Open();
  for (int round = 0; round < 50; ++round) {
    const auto name = [round](int i) { return Name(round, i == 0 ? 0 : 1); };
    std::atomic<int> prepared{0};
    syncs_.Run(kCount, [&](int i) {
      WriteBatch batch;
      batch.Put(name(i), std::to_string(i));
      const Status s = db_->WritePrepared(sync_, name(i), &batch);
      if (s.ok()) {
        ++prepared;
      } else {
        EXPECT_TRUE(IsInvalidArgument(s));
      }
    });
    EXPECT_EQ(prepared, 2);
    EXPECT_EQ(Prepared().size(), 2u);
    std::atomic<int> ended{0};
    syncs_.Run(kCount, [&](int i) {
      const Status s = i % 2 == 0 ? db_->CommitPrepared(sync_, name(i))
                                  : db_->RollbackPrepared(sync_, name(i));
      if (s.ok()) {
        ++ended;
      } else {
        EXPECT_TRUE(s.IsNotFound()) << s.ToString();
      }
    });
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(Prepared(), Names{});
  }
}

TEST_F(DbPreparedGroupTest, AFailedSyncFailsAllOfItsGroup) {
  Open();
  for (int i = 0; i < kCount; ++i) PreparePut(Name(0, i), "v");
  syncs_.failure = FaultInjectionEnv::InjectedError();
  syncs_.Run(kCount, [&](int i) {
    EXPECT_FALSE(db_->CommitPrepared(sync_, Name(0, i)).ok());
  });
  EXPECT_EQ(Prepared().size(), size_t{kCount});
  EXPECT_EQ(db_->GetLatestSequenceNumber(), 0u);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(Get(Name(0, i)), "-");
}

}  // namespace
}  // namespace varve::test
