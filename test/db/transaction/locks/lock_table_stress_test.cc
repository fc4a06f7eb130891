// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: no waiter is lost, a lock protects what its transaction commits, and no
// lock is left after any path. Method: threads run random transactions on few
// keys, with all kinds of waits, and change plain memory while they hold the
// keys' locks; the thread sanitizer sees every access that no lock orders. One
// test sleeps in the kernel. In the other a thread moves the clock, so that
// waits time out and locks are stolen. A lost waiter hangs the test.

#include "db/transaction/locks/lock_table.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/futex.h"
#include "util/base/mutex.h"

namespace varve::test {
namespace {

constexpr int kThreads = 4;
constexpr int kKeys = 6;
constexpr uint32_t kDroppedFamily = 1;

// Threads sleep until the test moves the clock far enough, or wakes them.
class MovedClock : public LockParking {
 public:
  MovedClock() : LockParking(nullptr) {}

  uint64_t NowNanos() override {
    MutexLock lock(&mutex_);
    return now_ns_;
  }
  int64_t NowSeconds() override { return 0; }
  void Sleep(std::atomic<uint32_t>* word, uint64_t wake_at_ns, bool) override {
    MutexLock lock(&mutex_);
    uint32_t awake = kAwake;
    if (!word->compare_exchange_strong(awake, kAsleep)) return;
    while (word->load() == kAsleep && now_ns_ < wake_at_ns) {
      changed_.Wait(&mutex_);
    }
  }
  void Wake(std::atomic<uint32_t>*) override { Move(0); }
  void Move(uint64_t nanos) {
    MutexLock lock(&mutex_);
    now_ns_ += nanos;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;  // The time, or a word.
  uint64_t now_ns_ VARVE_GUARDED_BY(mutex_) = 1000;
};

class KernelParking : public LockParking {
 public:
  KernelParking() : LockParking(nullptr) {}
  uint64_t NowNanos() override { return FutexClockNanos(); }
  int64_t NowSeconds() override { return 0; }
};

class LockTableStressTest : public testing::Test {
 protected:
  void Make(LockParking* parking) {
    parking_ = parking;
    LockTableOptions options;
    options.parking = parking;
    options.stripe_count = 4;
    table_ = std::make_unique<LockTable>(options);
  }

  // Returns a request for one of the keys.
  static LockRequest RandomRequest(Rng* rng, bool moves_clock) {
    static const std::string keys[kKeys] = {"a", "b", "c", "d", "e", "f"};
    LockRequest request;
    request.key = keys[rng->Below(kKeys)];
    request.mode = rng->OneIn(2) ? LockMode::kShared : LockMode::kExclusive;
    if (rng->OneIn(8)) request.family = kDroppedFamily;
    if (rng->OneIn(8)) {
      request.timeout_us = 0;
    } else if (moves_clock && rng->OneIn(2)) {
      request.timeout_us = static_cast<int64_t>(rng->Below(5));
      request.detects_deadlock = rng->OneIn(2);
    }
    return request;
  }

  // Runs transactions, and counts the outcomes of commits and of locks.
  void RunTransactions(int thread, uint64_t seed, int count, bool moves_clock) {
    Rng rng(seed + static_cast<uint64_t>(thread));
    LockOwner owner;
    for (int i = 0; i < count; ++i) {
      const uint64_t expiry_ns = moves_clock && rng.OneIn(3)
                                     ? parking_->NowNanos() + rng.Below(8000)
                                     : 0;
      owner.Reset(static_cast<uint64_t>(i * kThreads + thread), expiry_ns);
      TakeLocks(&owner, &rng, moves_clock);
      if (owner.BeginCommit(parking_->NowNanos())) Commit(owner);
      if (rng.OneIn(4) && owner.newest() != nullptr) {
        table_->Unlock(&owner, owner.newest());
      }
      table_->UnlockAll(&owner);
    }
  }

  void TakeLocks(LockOwner* owner, Rng* rng, bool moves_clock) {
    const uint64_t locks = 1 + rng->Below(4);
    for (uint64_t i = 0; i < locks; ++i) {
      // So that others run in the middle of a transaction.
      if (rng->OneIn(2)) std::this_thread::yield();
      const uint32_t mark = owner->Mark();
      const LockRequest request = RandomRequest(rng, moves_clock);
      LockHold* hold = nullptr;
      const Status status = table_->Lock(owner, request, &hold);
      if (status.ok() && rng->OneIn(8)) {
        table_->UnlockSince(owner, mark);
        continue;
      }
      if (status.ok()) {
        // For Commit: the key's number and the mode.
        hold->reads = static_cast<uint32_t>(request.key[0] - 'a');
        if (request.family == kDroppedFamily) hold->reads = kKeys;
        if (request.mode == LockMode::kExclusive) hold->writes = 1;
        continue;
      }
      if (status.IsDeadlock()) ++deadlocks_;
      if (status.IsTimedOut() && request.timeout_us != 0) ++timeouts_;
      if (status.IsExpired()) ++expired_;
      if (status.IsInvalidArgument()) ++dropped_;
      if (!status.IsLockTimeout()) return;
    }
  }
  // Changes the memory of the keys that are locked exclusively, and reads the
  // others'.
  void Commit(const LockOwner& owner) {
    for (const LockHold* hold = owner.newest(); hold != nullptr;
         hold = hold->older) {
      if (hold->reads == kKeys) continue;
      if (hold->writes == 0) {
        EXPECT_LE(values_[hold->reads], written_.load());
        continue;
      }
      ++written_;
      ++values_[hold->reads];
    }
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(table_->GetLockStatusData().empty());
    uint64_t sum = 0;
    for (const uint64_t value : values_) sum += value;
    EXPECT_EQ(sum, written_.load());
    printf("%" PRIu64
           " writes; %d deadlocks, %d timeouts, %d expired, %d "
           "dropped\n",
           sum, deadlocks_.load(), timeouts_.load(), expired_.load(),
           dropped_.load());
  }

  // Calls function() again and again while the transactions run.
  template <typename Function>
  void RunBeside(int count, bool moves_clock, const Function& function) {
    const uint64_t seed = TestSeed();
    std::atomic<int> running{kThreads};
    RunThreads(kThreads + 1, [&](int thread) {
      if (thread < kThreads) {
        RunTransactions(thread, seed, count, moves_clock);
        --running;
        return;
      }
      while (running != 0) {
        function();
        std::this_thread::yield();
      }
    });
  }

  LockParking* parking_ = nullptr;
  std::unique_ptr<LockTable> table_;
  uint64_t values_[kKeys] = {};  // Each guarded by its key's lock.
  std::atomic<uint64_t> written_{0};
  std::atomic<int> deadlocks_{0};
  std::atomic<int> timeouts_{0};
  std::atomic<int> expired_{0};
  std::atomic<int> dropped_{0};
};

TEST_F(LockTableStressTest, WaitsInTheKernel) {
  KernelParking parking;
  Make(&parking);
  RunBeside(5000, false, [this] {
    table_->DropFamily(kDroppedFamily);
    static_cast<void>(table_->GetLockStatusData());
    static_cast<void>(table_->GetDeadlockInfoBuffer());
  });
  ExpectNothingLeft();
}

TEST_F(LockTableStressTest, WaitsOnAMovedClock) {
  MovedClock parking;
  Make(&parking);
  RunBeside(5000, true, [&] {
    parking.Move(1000);
    table_->DropFamily(kDroppedFamily);
  });
  ExpectNothingLeft();
}

}  // namespace
}  // namespace varve::test
