// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: each rule of db/transaction/locks/lock_table.h holds. Method: calls of
// several transactions, one step at a time, with a clock that is moved.

#include "db/transaction/locks/lock_table.h"

#include "test/testing/db/lock_steps.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr LockMode kS = LockMode::kShared;
constexpr LockMode kX = LockMode::kExclusive;

class LockTableTest : public testing::Test {
 protected:
  LockTableTest() { Make({}); }
  ~LockTableTest() override {
    transactions_.clear();
    EXPECT_EQ(Locks(), "");
  }

  void Make(LockTableOptions options) {
    options.parking = &parking_;
    table_ = std::make_unique<LockTable>(options);
  }
  SteppedTransaction& New(uint64_t id, uint64_t expiry_us = 0) {
    transactions_.push_back(
        std::make_unique<SteppedTransaction>(table_.get(), id, expiry_us));
    return *transactions_.back();
  }
  std::string Locks() { return LocksText(table_.get()); }
  void End(SteppedTransaction* each) { table_->UnlockAll(each->owner()); }

  VirtualParking parking_;
  std::unique_ptr<LockTable> table_;
  std::vector<std::unique_ptr<SteppedTransaction>> transactions_;
};

TEST_F(LockTableTest, SharedLocksGoTogetherAndExclusiveOnesAlone) {
  auto &t1 = New(1), &t2 = New(2), &t3 = New(3);
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Shared("a"), "ok");
  EXPECT_EQ(t3.Lock("a", kX, 0), "TimedOut");
  EXPECT_EQ(
      t3.text(),
      "Operation timed out: Timeout waiting to lock key: key 61 of column "
      "family 0");
  EXPECT_EQ(t3.Exclusive("b"), "ok");
  EXPECT_EQ(t1.Lock("b", kS, 0), "TimedOut");
  EXPECT_EQ(t1.Lock("b", kX, 0), "TimedOut");
  EXPECT_EQ(t1.Lock("b", kX, 0, 7), "ok") << "another family";
  EXPECT_EQ(Locks(), "7/b X 1; a S 1 2; b X 3");
}

TEST_F(LockTableTest, ALockIsTakenOnceAndNotDowngraded) {
  auto& t1 = New(1);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  LockHold* const hold = t1.hold();
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t1.hold(), hold);
  EXPECT_EQ(t1.owner()->lock_count(), 1u);
  EXPECT_EQ(Locks(), "a X 1");
  EXPECT_EQ(table_->Find(*t1.owner(), 0, "a"), hold);
  EXPECT_EQ(table_->Find(*t1.owner(), 0, "b"), nullptr);
}

TEST_F(LockTableTest, WaitersAreServedInOrder) {
  auto &t1 = New(1), &t2 = New(2), &t3 = New(3), &t4 = New(4), &t5 = New(5);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t2.Shared("a"), "waits");
  EXPECT_EQ(t3.Shared("a"), "waits");
  EXPECT_EQ(t4.Exclusive("a"), "waits");
  EXPECT_EQ(t5.Shared("a"), "waits");
  t2.FallAsleep();
  End(&t1);
  EXPECT_EQ(Locks(), "a S 2 3");
  EXPECT_EQ(parking_.wakes, 1) << "only one is in the kernel";
  EXPECT_EQ(t2.Look(), "ok");
  EXPECT_EQ(t3.Look(), "ok");
  EXPECT_FALSE(t4.is_awake());
  EXPECT_FALSE(t5.is_awake()) << "went before an exclusive one";
  EXPECT_EQ(New(6).Lock("a", kS, 0), "TimedOut");
  End(&t2);
  EXPECT_FALSE(t4.is_awake());
  End(&t3);
  EXPECT_EQ(t4.Look(), "ok");
  EXPECT_FALSE(t5.is_awake());
  End(&t4);
  EXPECT_EQ(t5.Look(), "ok");
}

TEST_F(LockTableTest, AnUpgradeGoesFirst) {
  auto &t1 = New(1), &t2 = New(2), &t3 = New(3);
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t1.owner()->lock_count(), 1u);
  EXPECT_EQ(Locks(), "a X 1");
  End(&t1);
  // Alone, with others waiting.
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Exclusive("a"), "waits");
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  End(&t1);
  EXPECT_EQ(t2.Look(), "ok");
  End(&t2);
  // It waits for the other holder, and is before the one that came earlier.
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Shared("a"), "ok");
  EXPECT_EQ(t3.Exclusive("a"), "waits");
  EXPECT_EQ(t1.Exclusive("a"), "waits");
  End(&t2);
  EXPECT_FALSE(t3.is_awake());
  EXPECT_EQ(t1.Look(), "ok");
  EXPECT_EQ(t1.owner()->lock_count(), 1u);
  End(&t1);
  EXPECT_EQ(t3.Look(), "ok");
}

TEST_F(LockTableTest, TwoUpgradesAreADeadlock) {
  auto &t1 = New(1), &t2 = New(2);
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Shared("a"), "ok");
  EXPECT_EQ(t1.Exclusive("a"), "waits");
  EXPECT_EQ(t2.Exclusive("a"), "Deadlock");
  EXPECT_EQ(t2.text(),
            "Busy: Deadlock: 2 waits for 1 (family 0, key 61, exclusive), 1 "
            "waits for 2 (family 0, key 61, exclusive)");
  EXPECT_EQ(Locks(), "a S 1 2") << "the loser keeps what it had";
  End(&t2);
  EXPECT_EQ(t1.Look(), "ok");
}

TEST_F(LockTableTest, ADeadlockIsReportedWithItsCycle) {
  auto &t1 = New(1), &t2 = New(2), &t3 = New(3);
  parking_.now_us = 77;
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t2.Exclusive("b"), "ok");
  EXPECT_EQ(t3.Lock("c", kS, -1, 5), "ok");
  EXPECT_EQ(t1.Shared("b"), "waits");
  EXPECT_EQ(t2.Lock("c", kX, -1, 5), "waits");
  uint32_t family = 0;
  std::string key;
  EXPECT_THAT(table_->GetWaitingTxns(*t2.owner(), &family, &key),
              testing::ElementsAre(3));
  EXPECT_EQ(family, 5u);
  EXPECT_EQ(key, "c");
  EXPECT_TRUE(table_->GetWaitingTxns(*t3.owner(), &family, &key).empty());
  EXPECT_EQ(t3.Exclusive("a"), "Deadlock");
  EXPECT_EQ(t3.text(),
            "Busy: Deadlock: 3 waits for 1 (family 0, key 61, exclusive), 1 "
            "waits for 2 (family 0, key 62, shared), 2 waits for 3 (family 5, "
            "key 63, exclusive)");
  const std::vector<DeadlockPath> paths = table_->GetDeadlockInfoBuffer();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0].deadlock_time, 77);
  EXPECT_FALSE(paths[0].limit_exceeded);
  ASSERT_EQ(paths[0].path.size(), 3u);
  const DeadlockInfo& last = paths[0].path[2];
  EXPECT_EQ(paths[0].path[0].m_txn_id, 1u);
  EXPECT_EQ(paths[0].path[1].m_txn_id, 2u);
  EXPECT_EQ(paths[0].path[1].m_cf_id, 5u);
  EXPECT_EQ(last.m_txn_id, 3u);
  EXPECT_EQ(last.m_waiting_key, "a");
  EXPECT_TRUE(last.m_exclusive);
  End(&t3);
  EXPECT_EQ(t2.Look(), "ok");
  End(&t2);
  EXPECT_EQ(t1.Look(), "ok");
}

TEST_F(LockTableTest, TheCycleNamesTheWaiterBetween) {
  auto &t1 = New(1), &t2 = New(2), &t3 = New(3);
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Shared("b"), "ok");
  EXPECT_EQ(t3.Exclusive("a"), "waits");
  EXPECT_EQ(t1.Exclusive("b"), "waits");
  EXPECT_EQ(t2.Shared("a"), "Deadlock");
  EXPECT_EQ(t2.text(),
            "Busy: Deadlock: 2 waits for 3 (family 0, key 61, shared), 3 waits "
            "for 1 (family 0, key 61, exclusive), 1 waits for 2 (family 0, key "
            "62, exclusive)");
  End(&t2);
  EXPECT_EQ(t1.Look(), "ok");
  End(&t1);
  EXPECT_EQ(t3.Look(), "ok");
}

TEST_F(LockTableTest, TheHistoryOfDeadlocksIsBounded) {
  LockTableOptions options;
  options.max_num_deadlocks = 2;
  Make(options);
  const auto deadlock = [&](uint64_t id) {
    SteppedTransaction one(table_.get(), id), two(table_.get(), id + 1);
    EXPECT_EQ(one.Exclusive("a"), "ok");
    EXPECT_EQ(two.Exclusive("b"), "ok");
    EXPECT_EQ(one.Exclusive("b"), "waits");
    EXPECT_EQ(two.Exclusive("a"), "Deadlock");
    End(&two);
    EXPECT_EQ(one.Look(), "ok");
  };
  const auto ids = [&] {
    std::vector<uint64_t> victims;
    for (const DeadlockPath& path : table_->GetDeadlockInfoBuffer()) {
      victims.push_back(path.path.back().m_txn_id);
    }
    return victims;
  };
  for (const uint64_t id : {10, 20, 30}) deadlock(id);
  EXPECT_THAT(ids(), testing::ElementsAre(31, 21));
  table_->SetDeadlockInfoBufferSize(1);
  EXPECT_THAT(ids(), testing::ElementsAre(31));
  table_->SetDeadlockInfoBufferSize(3);
  for (const uint64_t id : {40, 50, 60}) deadlock(id);
  EXPECT_THAT(ids(), testing::ElementsAre(61, 51, 41));
  table_->SetDeadlockInfoBufferSize(0);
  deadlock(70);
  EXPECT_TRUE(ids().empty());
}

TEST_F(LockTableTest, TheSearchForADeadlockIsBounded) {
  // 1 has "a"; each next one waits for the one before it.
  constexpr int kCount = 6;
  LockRequest request;
  request.detect_depth = 100;
  for (uint64_t id = 1; id <= kCount; ++id) {
    auto& each = New(id);
    EXPECT_EQ(each.Lock("k" + std::to_string(id), request), "ok");
    if (id == 1) continue;
    if (id == kCount) request.timeout_us = 500;
    EXPECT_EQ(each.Lock("k" + std::to_string(id - 1), request), "waits");
  }
  request.timeout_us = LockRequest::kForever;
  auto& last = New(50);
  request.detect_depth = kCount - 1;
  EXPECT_EQ(last.Lock("k6", request), "waits") << "5 others wait";
  auto& one_more = New(51);
  request.detect_depth = kCount - 2;
  EXPECT_EQ(one_more.Lock("k6", request), "Deadlock");
  EXPECT_EQ(one_more.text(),
            "Busy: Deadlock: assumed after 4 transactions that wait");
  const std::vector<DeadlockPath> paths = table_->GetDeadlockInfoBuffer();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_TRUE(paths[0].limit_exceeded);
  EXPECT_TRUE(paths[0].path.empty());
  EXPECT_FALSE(paths[0].empty());
  // Without a search all may wait.
  request.detects_deadlock = false;
  EXPECT_EQ(transactions_[0]->Lock("k6", request), "waits");
  request.timeout_us = 0;
  EXPECT_EQ(one_more.Lock("k6", request), "TimedOut");
  parking_.now_us = 1000;
  EXPECT_EQ(transactions_[5]->Look(), "TimedOut");
  End(transactions_[5].get());
  EXPECT_EQ(last.Look(), "ok");
  End(&last);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(transactions_[i]->Look(), "ok");
    End(transactions_[i].get());
  }
}

TEST_F(LockTableTest, ManyWaitersOfOneKeyAreNoDepth) {
  auto& holder = New(1);
  EXPECT_EQ(holder.Exclusive("a"), "ok");
  LockRequest request;
  request.detect_depth = 1;
  for (uint64_t id = 2; id < 100; ++id) {
    EXPECT_EQ(New(id).Lock("a", request), "waits");
  }
  for (const auto& each : transactions_) {
    if (each->waits()) {
      EXPECT_EQ(each->Look(), "ok");
    }
    End(each.get());
  }
}

TEST_F(LockTableTest, AWaitEndsAtItsTime) {
  auto &t1 = New(1), &t2 = New(2), &t3 = New(3), &t4 = New(4);
  parking_.now_us = 5;
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Lock("a", kX, 100), "waits");
  EXPECT_EQ(t2.wake_at_us(), 105u);
  EXPECT_EQ(t3.Lock("a", kS, 100), "waits");
  EXPECT_EQ(t4.Lock("a", kX, INT64_MAX), "waits");
  EXPECT_EQ(t4.wake_at_us(), kNever / 1000);
  parking_.now_us = 104;
  EXPECT_EQ(t2.Look(), "waits");
  parking_.now_us = 105;
  EXPECT_EQ(t2.Look(), "TimedOut");
  EXPECT_TRUE(t3.is_settled()) << "nobody is before it any more";
  // The lock is granted in time, and the thread comes late.
  parking_.now_us = 500;
  EXPECT_EQ(t3.Look(), "ok");
  End(&t1);
  End(&t3);
  EXPECT_EQ(t4.Look(), "ok");
}

TEST_F(LockTableTest, ExpiredLocksAreStolen) {
  auto &t1 = New(1, 100), &t2 = New(2), &t3 = New(3);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t1.Exclusive("b"), "ok");
  EXPECT_EQ(t2.Exclusive("a"), "waits");
  EXPECT_EQ(t2.wake_at_us(), 100u);
  EXPECT_EQ(t3.Exclusive("a"), "waits");
  parking_.now_us = 100;
  EXPECT_FALSE(t1.owner()->IsStolen());
  EXPECT_EQ(t3.Look(), "waits") << "not its turn";
  EXPECT_EQ(t2.Look(), "ok");
  EXPECT_EQ(Locks(), "a X 2; b X 1");
  EXPECT_TRUE(t1.owner()->IsStolen());
  EXPECT_FALSE(t1.owner()->BeginCommit(parking_.NowNanos()));
  EXPECT_EQ(t1.Exclusive("c"), "Expired");
  EXPECT_FALSE(table_->Unlock(t1.owner(), 0, "a"));
  EXPECT_EQ(t2.Lock("b", kX, 0), "ok") << "all its locks can be stolen";
  End(&t1);
  EXPECT_EQ(Locks(), "a X 2; b X 2");
  t1.owner()->Reset(9, 0);
  EXPECT_EQ(t1.Exclusive("c"), "ok");
  EXPECT_TRUE(t1.owner()->BeginCommit(parking_.NowNanos()));
  End(&t2);
  EXPECT_EQ(t3.Look(), "ok");
}

TEST_F(LockTableTest, NoLockOfACommitIsStolen) {
  auto &t1 = New(1, 100), &t2 = New(2);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_TRUE(t1.owner()->BeginCommit(99'000));
  EXPECT_EQ(t2.Lock("a", kX, 1000), "waits");
  parking_.now_us = 100;
  EXPECT_EQ(t2.Look(), "waits");
  EXPECT_EQ(t2.wake_at_us(), 1000u) << "the holder's time counts no more";
  EXPECT_EQ(t2.word(), LockParking::kAwake);
  EXPECT_TRUE(t1.owner()->BeginCommit(parking_.NowNanos())) << "repeated";
  End(&t1);
  EXPECT_EQ(t2.Look(), "ok");
}

TEST_F(LockTableTest, AnExpiredTransactionTakesWhatIsFree) {
  auto &t1 = New(1, 100), &t2 = New(2);
  parking_.now_us = 200;
  EXPECT_EQ(t1.Shared("a"), "ok");
  EXPECT_EQ(t2.Shared("b"), "ok");
  EXPECT_EQ(t1.Exclusive("a"), "ok") << "steals from itself";
  EXPECT_EQ(t1.Exclusive("b"), "Expired") << "would have to wait";
  EXPECT_FALSE(t1.owner()->BeginCommit(parking_.NowNanos()));
}

TEST_F(LockTableTest, AWaitEndsWithItsTransactionsTime) {
  auto &t1 = New(1), &t2 = New(2, 100);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t2.Exclusive("a"), "waits");
  EXPECT_EQ(t2.wake_at_us(), 100u);
  parking_.now_us = 100;
  EXPECT_EQ(t2.Look(), "Expired");
}

// B6 of lock_table.h.
TEST_F(LockTableTest, TheFirstWaiterLearnsTheNextHoldersTimeB6) {
  auto &t1 = New(1), &t2 = New(2, 100), &t3 = New(3);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t2.Exclusive("a"), "waits");
  EXPECT_EQ(t3.Exclusive("a"), "waits");
  EXPECT_EQ(t3.wake_at_us(), kNever / 1000);
  t3.FallAsleep();
  End(&t1);
  EXPECT_EQ(t2.Look(), "ok");
  EXPECT_EQ(t3.word(), LockParking::kLook);
  EXPECT_EQ(parking_.wakes, 1);
  EXPECT_EQ(t3.Look(), "waits");
  EXPECT_EQ(t3.wake_at_us(), 100u);
  EXPECT_EQ(t3.word(), LockParking::kAwake);
  parking_.now_us = 100;
  EXPECT_EQ(t3.Look(), "ok");
  EXPECT_EQ(Locks(), "a X 3");
}

TEST_F(LockTableTest, TheNumberOfLockedKeysIsLimited) {
  LockTableOptions options;
  options.max_num_locks = 2;
  Make(options);
  auto &t1 = New(1), &t2 = New(2);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t1.Shared("b"), "ok");
  EXPECT_EQ(t1.Exclusive("c"), "LockLimit");
  EXPECT_EQ(t1.text(),
            "Busy: Failed to acquire lock due to max_num_locks limit");
  EXPECT_EQ(t2.Shared("b"), "ok") << "the key is locked already";
  EXPECT_EQ(t2.Lock("c", kX, 0, 1), "ok") << "another family";
  EXPECT_TRUE(table_->Unlock(t1.owner(), 0, "a"));
  EXPECT_EQ(t2.Exclusive("c"), "ok");
  EXPECT_EQ(t2.Exclusive("d"), "LockLimit");
  table_->DropFamily(0);
  EXPECT_EQ(t2.Exclusive("d"), "ok");
}

TEST_F(LockTableTest, LocksAreGivenBackOneByOneAndToASavePoint) {
  auto &t1 = New(1), &t2 = New(2);
  EXPECT_EQ(t1.Exclusive("a"), "ok");
  EXPECT_EQ(t1.Shared("b"), "ok");
  LockHold* const b = t1.hold();
  const uint32_t mark = t1.owner()->Mark();
  EXPECT_EQ(t1.Exclusive("b"), "ok");
  EXPECT_EQ(t1.Exclusive("c"), "ok");
  EXPECT_EQ(t1.Exclusive("d"), "ok");
  EXPECT_EQ(t2.Exclusive("d"), "waits");
  EXPECT_TRUE(table_->Unlock(t1.owner(), 0, "c"));
  EXPECT_FALSE(table_->Unlock(t1.owner(), 0, "c"));
  EXPECT_EQ(Locks(), "a X 1; b X 1; d X 1");
  table_->UnlockSince(t1.owner(), mark);
  EXPECT_EQ(Locks(), "a X 1; b X 1; d X 2");
  EXPECT_EQ(t2.Look(), "ok");
  // As UndoGetForUpdate does.
  table_->Unlock(t1.owner(), b);
  EXPECT_EQ(Locks(), "a X 1; d X 2");
  EXPECT_EQ(t1.owner()->lock_count(), 1u);
}

TEST_F(LockTableTest, TheLocksOfADroppedFamilyGoAway) {
  auto &t1 = New(1), &t2 = New(2);
  EXPECT_EQ(t1.Lock("a", kX, -1, 3), "ok");
  EXPECT_EQ(t1.Lock("a", kX, -1, 4), "ok");
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(t1.Lock(std::to_string(i), kS, -1, 3), "ok");
  }
  EXPECT_EQ(t2.Lock("a", kS, -1, 3), "waits");
  table_->DropFamily(3);
  EXPECT_EQ(Locks(), "4/a X 1");
  EXPECT_TRUE(t2.is_settled());
  EXPECT_EQ(t2.Look(), "Dropped");
  EXPECT_EQ(t2.text(), "Invalid argument: column family 3: was dropped");
  EXPECT_EQ(t1.owner()->lock_count(), 102u);
  EXPECT_FALSE(table_->Unlock(t1.owner(), 3, "a"));
}

TEST_F(LockTableTest, KeysOfAllSizesAndManyOfThem) {
  auto& t1 = New(1);
  std::set<std::string> keys = {"", std::string(1, '\0'), std::string(2, '\0')};
  for (size_t size = 1; size < 2000; size += 7) {
    keys.insert(std::string(size, 'k'));
  }
  for (int i = 0; i < 20000; ++i) keys.insert(std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (const std::string& key : keys) ASSERT_EQ(t1.Exclusive(key), "ok");
    EXPECT_EQ(table_->GetLockStatusData().size(), keys.size());
    auto& t2 = New(2);
    for (const std::string& key : keys) {
      ASSERT_EQ(t2.Lock(key, kS, 0), "TimedOut");
    }
    End(&t1);
    EXPECT_EQ(Locks(), "");
  }
}

TEST_F(LockTableTest, LongListsOfHoldersAndOfLocks) {
  auto& t1 = New(1);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(t1.Shared(std::to_string(i)), "ok");
    ASSERT_EQ(New(static_cast<uint64_t>(i) + 2).Shared("500"), "ok");
  }
  ASSERT_EQ(t1.Shared("500"), "ok");
  EXPECT_EQ(t1.owner()->lock_count(), 1000u);
  SteppedTransaction& other = *transactions_[7];
  ASSERT_EQ(other.Shared("500"), "ok");
  EXPECT_EQ(other.owner()->lock_count(), 1u);
}

}  // namespace
}  // namespace varve::test
