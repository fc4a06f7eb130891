// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a lock table takes the time from its Env, and its threads sleep until
// they are woken or their time comes. Method: an Env whose clock the test sets,
// and words that change or do not.

#include "db/transaction/locks/lock_parking.h"

#include "db/transaction/locks/lock_table.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "varve/env.h"

namespace varve::test {
namespace {

class SetClockEnv : public EnvWrapper {
 public:
  SetClockEnv() : EnvWrapper(Env::Default()) {}
  uint64_t NowNanos() override { return nanos; }
  uint64_t NowMicros() override { return 5'000'000; }

  std::atomic<uint64_t> nanos{1000};
};

TEST(LockParkingTest, SleepsUntilItsTimeOrUntilItIsWoken) {
  SetClockEnv env;
  LockParking parking(&env);
  EXPECT_EQ(parking.NowNanos(), 1000u);
  EXPECT_EQ(parking.NowSeconds(), 5);
  std::atomic<uint32_t> word{LockParking::kAwake};
  parking.Sleep(&word, 1000, false);
  EXPECT_EQ(word, LockParking::kAwake) << "its time has come";
  parking.Sleep(&word, 1001, true);  // A nanosecond of the kernel's time.
  EXPECT_EQ(word, LockParking::kAsleep);
  word = LockParking::kSettled;
  parking.Sleep(&word, kNever, true);
  word = LockParking::kAwake;
  Actor sleeper;
  sleeper.Start([&] { parking.Sleep(&word, kNever, true); });
  while (word != LockParking::kAsleep) std::this_thread::yield();
  word = LockParking::kSettled;
  parking.Wake(&word);
  sleeper.Wait();
}

TEST(LockParkingTest, ATableUsesItsEnvsClock) {
  SetClockEnv env;
  LockTableOptions options;
  options.env = &env;
  LockTable table(options);
  LockOwner first(1, 2000), second(2);
  LockRequest request;
  request.key = "a";
  request.timeout_us = 0;
  EXPECT_TRUE(table.Lock(&first, request).ok());
  EXPECT_TRUE(table.Lock(&second, request).IsLockTimeout());
  env.nanos = 2000;
  EXPECT_TRUE(table.Lock(&second, request).ok());
  EXPECT_TRUE(first.IsStolen());
  // A wait in the kernel that another thread ends.
  LockOwner third(3);
  request.timeout_us = LockRequest::kForever;
  Actor waiter;
  waiter.Start([&] { EXPECT_TRUE(table.Lock(&third, request).ok()); });
  uint32_t family = 0;
  std::string key;
  while (table.GetWaitingTxns(third, &family, &key).empty()) {
    std::this_thread::yield();
  }
  table.UnlockAll(&second);
  waiter.Wait();
  table.UnlockAll(&first);
  table.UnlockAll(&third);
  EXPECT_TRUE(table.GetLockStatusData().empty());
}

}  // namespace
}  // namespace varve::test
