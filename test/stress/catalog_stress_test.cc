// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: whatever is created, dropped and closed at the same time, a reference
// leads to an open database of the requested name, and no write is lost to a
// database that was not dropped. Method: threads find databases by names in
// random case, write and read in them, keep them for a while and pass them to
// each other. One thread creates and drops databases, and one closes idle ones.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/base/mutex.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

constexpr int kStaying = 4;
constexpr int kComing = 4;
constexpr int kFinders = 4;

std::string RandomCase(std::string name, Rng* rng) {
  for (char& c : name) {
    if (c >= 'a' && c <= 'z' && rng->OneIn(2)) c ^= 0x20;
  }
  return name;
}
std::string StayingName(int i) { return "stays" + std::to_string(i); }
std::string ComingName(int i) { return "comes" + std::to_string(i); }

class CatalogStressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seed_ = TestSeed();
    options_.options = TinyOptions();
    options_.options.max_open_files = 16;
    options_.create_if_missing = true;
    options_.max_cached_names = 16;
    options_.drop_timeout_us = 20000;
    ASSERT_TRUE(Ok(Catalog::Open(options_, dir_.Sub("catalog"), &catalog_)));
    for (int i = 0; i < kStaying; ++i) {
      ASSERT_TRUE(Ok(catalog_->Create(StayingName(i))));
    }
    end_ = std::chrono::steady_clock::now() +
           std::chrono::seconds(EnvironmentInt("VARVE_STRESS_SECONDS", 2));
  }

  bool GoesOn() const {
    return std::chrono::steady_clock::now() < end_ && !HasFailure();
  }

  // The database contains its own name, if anything.
  void Use(const DatabaseRef& ref, const std::string& name, Rng* rng) {
    std::string value;
    const Status status = ref->Get({}, "name", &value);
    if (status.IsNotFound()) {
      EXPECT_TRUE(Ok(ref->Put({}, "name", name)));
    } else {
      EXPECT_TRUE(Ok(status));
      EXPECT_EQ(value, name);
    }
    if (rng->OneIn(20)) {
      const auto it = ref->NewIterator({});
      it->SeekToFirst();
      EXPECT_TRUE(Ok(it->status()));
    }
    if (rng->OneIn(50)) {
      EXPECT_TRUE(Ok(ref->Flush({})));
    }
  }

  void FindAndUse(int thread, Rng* rng, int* written) {
    const bool stays = rng->OneIn(2);
    const int number = rng->Between(0, kStaying - 1);
    const std::string name = stays ? StayingName(number) : ComingName(number);
    DatabaseRef ref;
    const Status status = catalog_->Find(RandomCase(name, rng), &ref);
    if (!status.ok()) {
      EXPECT_TRUE(!stays && status.IsNotFound()) << status.ToString();
      return;
    }
    Use(ref, name, rng);
    if (stays && number == thread % kStaying) {
      EXPECT_TRUE(Ok(ref->Put({}, "of" + std::to_string(thread),
                              std::to_string(++*written))));
    }
    if (rng->OneIn(4)) {
      // Passes it to the thread that takes it next.
      MutexLock lock(&mutex_);
      const size_t place = rng->Below(left_.size());
      // A Drop waits for it in vain until some thread resets it.
      std::swap(left_[place], ref);
      return;
    }
    // A second one while the first is held.
    DatabaseRef again;
    if (catalog_->Find(RandomCase(name, rng), &again).ok()) {
      EXPECT_EQ(again.get(), ref.get());
    }
  }

  uint64_t seed_ = 0;
  TempDir dir_;
  CatalogOptions options_;
  std::unique_ptr<Catalog> catalog_;
  std::chrono::steady_clock::time_point end_;

  Mutex mutex_;
  std::array<DatabaseRef, 3> left_;
};

TEST_F(CatalogStressTest, FindBesideCreateDropAndCloseIdle) {
  std::array<int, kFinders> written = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kFinders; ++t) {
    threads.emplace_back([this, t, &written] {
      Rng rng(seed_ + static_cast<uint64_t>(t));
      while (GoesOn()) {
        FindAndUse(t, &rng, &written[static_cast<size_t>(t)]);
        if (rng.OneIn(10)) {
          MutexLock lock(&mutex_);
          left_[rng.Below(left_.size())].Reset();
        }
      }
    });
  }
  int created = 0;
  int dropped = 0;
  threads.emplace_back([&] {
    Rng rng(seed_ + 100);
    while (GoesOn()) {
      const std::string name = ComingName(rng.Between(0, kComing - 1));
      if (rng.OneIn(2)) {
        const Status status = catalog_->Create(RandomCase(name, &rng));
        EXPECT_TRUE(status.ok() || status.IsInvalidArgument())
            << status.ToString();
        created += status.ok();
      } else {
        const Status status = catalog_->Drop(RandomCase(name, &rng));
        EXPECT_TRUE(status.ok() || status.IsNotFound() || status.IsBusy())
            << status.ToString();
        dropped += status.ok();
      }
    }
  });
  size_t closed = 0;
  threads.emplace_back([&] {
    while (GoesOn()) {
      size_t count = 0;
      EXPECT_TRUE(Ok(catalog_->CloseIdle(0, &count)));
      closed += count;
    }
  });
  for (std::thread& thread : threads) thread.join();
  printf("%d created, %d dropped, %zu closed\n", created, dropped, closed);
  EXPECT_GT(created, 0);
  EXPECT_GT(dropped, 0);
  EXPECT_GT(closed, 0u);
  for (DatabaseRef& ref : left_) ref.Reset();
  // All are closed, as no reference is left.
  ASSERT_TRUE(Ok(catalog_->Close()));
  catalog_.reset();
  ASSERT_TRUE(Ok(Catalog::Open(options_, dir_.Sub("catalog"), &catalog_)));
  for (int t = 0; t < kFinders; ++t) {
    DatabaseRef ref;
    ASSERT_TRUE(Ok(catalog_->Find(StayingName(t % kStaying), &ref)));
    std::string value;
    const Status status = ref->Get({}, "of" + std::to_string(t), &value);
    const int last = written[static_cast<size_t>(t)];
    EXPECT_EQ(status.ok() ? value : "0", std::to_string(last));
  }
}

}  // namespace
}  // namespace varve::test
