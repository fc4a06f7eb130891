// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: whatever threads do to one budget at once, nothing is lost from its
// sums, no client is called after it has unregistered, and no writer hangs.
// Method: writers fill real memtables of families that come and go, and wait
// when they must; a thread flushes; another changes the budget. In the end all
// sums are zero and the cache is empty.

#include "db/memtable/memtable.h"
#include "db/memtable/write_buffer_budget.h"
#include "test/testing/sanitizers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr size_t kBudget = 4 << 20;
constexpr int kWriters = 4;
#ifdef VARVE_TEST_SANITIZED
constexpr int kWrites = 4000;
#else
constexpr int kWrites = 20000;
#endif

// Memtables whose flush is due.
class Flusher {
 public:
  ~Flusher() { EXPECT_TRUE(queue_.empty()); }
  void Add(std::unique_ptr<MemTable> memtable) {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(memtable));
  }
  // Flushes one. Some remain for a while, as those of iterators do.
  bool FlushOne(Rng* rng) {
    std::unique_ptr<MemTable> memtable;
    {
      MutexLock lock(&mu_);
      if (queue_.empty()) return false;
      memtable = std::move(queue_.front());
      queue_.pop_front();
    }
    if (rng->OneIn(8)) {
      memtable->MarkHeld();
      held_.push_back(std::move(memtable));
      if (held_.size() > 4) held_.pop_front();
    }
    return true;
  }
  void ReleaseHeld() { held_.clear(); }

 private:
  Mutex mu_;
  std::deque<std::unique_ptr<MemTable>> queue_ VARVE_GUARDED_BY(mu_);
  std::deque<std::unique_ptr<MemTable>> held_;
};

// A family that one writer uses. A request is only noted; the writer answers.
class Family final : public WriteBufferClient {
 public:
  Family(const std::shared_ptr<WriteBufferManager>& manager, Flusher* flusher)
      : account_(WriteBufferAccount::New(manager)), flusher_(flusher) {
    Begin();
    account_->Register(this);
  }
  ~Family() {
    account_->Unregister();
    is_gone_ = true;
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  void RequestSwitch() override {
    EXPECT_FALSE(is_gone_);
    EXPECT_FALSE(is_called_.exchange(true));
    requested_ = true;
    is_called_ = false;
  }

  void Write(Rng* rng) {
    if (account_->ShouldStall()) {
      while (!account_->AwaitSpace(1000)) Answer(rng);
    }
    Answer(rng);
    ++sequence_;
    const std::string key = std::to_string(rng->Next());
    if (rng->OneIn(100)) {
      memtable_->Add(sequence_, ValueType::kRangeDeletion, key, key + "x");
    } else {
      memtable_->Add(sequence_, ValueType::kValue, key,
                     std::string(rng->Below(2000), 'v'));
    }
  }

 private:
  void Begin() {
    memtable_ = std::make_unique<MemTable>(&comparator_, 1, size_t{1} << 20,
                                           nullptr, account_);
  }
  void Answer(Rng* rng) {
    if (!requested_.exchange(false) || !account_->IsSwitchRequested()) return;
    if (rng->OneIn(10)) {
      account_->Decline();
      return;
    }
    memtable_->MarkImmutable();
    flusher_->Add(std::move(memtable_));
    Begin();
  }

  static inline const InternalKeyComparator comparator_{BytewiseComparator()};
  const std::shared_ptr<WriteBufferAccount> account_;
  Flusher* const flusher_;
  std::unique_ptr<MemTable> memtable_;
  SequenceNumber sequence_ = 0;
  std::atomic<bool> requested_{false};
  std::atomic<bool> is_called_{false};
  std::atomic<bool> is_gone_{false};
};

TEST(WriteBufferStressTest, ManyThreadsShareABudget) {
  const uint64_t seed = TestSeed();
  const std::shared_ptr<Cache> cache = NewBlockCache(64 << 20);
  const size_t empty_bytes = cache->GetUsage();
  auto manager = std::make_shared<WriteBufferManager>(kBudget, cache, true);
  Flusher flusher;
  std::atomic<int> running{kWriters};
  std::atomic<size_t> most_bytes{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&, i] {
      Rng rng(seed + static_cast<uint64_t>(i));
      std::vector<std::unique_ptr<Family>> families(10);
      for (int n = 0; n < kWrites; ++n) {
        std::unique_ptr<Family>& family = families[rng.Below(families.size())];
        if (family == nullptr || rng.OneIn(500)) {
          family = std::make_unique<Family>(manager, &flusher);
        }
        family->Write(&rng);
        const size_t bytes = manager->memory_usage();
        if (bytes > most_bytes) most_bytes = bytes;
      }
      families.clear();
      --running;
    });
  }
  threads.emplace_back([&] {
    Rng rng(seed + 100);
    while (running > 0) {
      if (!flusher.FlushOne(&rng)) std::this_thread::yield();
    }
    while (flusher.FlushOne(&rng)) {
    }
    flusher.ReleaseHeld();
  });
  threads.emplace_back([&] {
    Rng rng(seed + 200);
    while (running > 0) {
      manager->SetBufferSize(kBudget / (1 + rng.Below(3)));
      manager->SetAllowStall(!rng.OneIn(4));
      Env::Default()->SleepForMicroseconds(2000);
    }
  });
  for (std::thread& thread : threads) thread.join();
  printf("most: %zu KiB\n", most_bytes.load() / 1024);
  EXPECT_EQ(manager->memory_usage(), 0u);
  EXPECT_EQ(manager->mutable_memtable_memory_usage(), 0u);
  EXPECT_EQ(manager->dummy_entries_in_cache_usage(), 0u);
  EXPECT_EQ(cache->GetUsage(), empty_bytes);
  EXPECT_FALSE(manager->ShouldFlush());
}

}  // namespace
}  // namespace varve::test
