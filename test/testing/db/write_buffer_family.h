// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A budget of write buffers whose column families have no engine.

#include "db/memtable/write_buffer_budget.h"
#include "test/testing/env/set_clock.h"
#include "test/testing/test_headers.h"
#include "util/base/mutex.h"

namespace varve::test {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;

// A column family: an active charge, and those that a flush should free.
class Family final : public WriteBufferClient {
 public:
  explicit Family(std::shared_ptr<WriteBufferBudget> budget)
      : account_(std::make_shared<WriteBufferAccount>(std::move(budget))) {
    active_ = std::make_shared<WriteBufferCharge>(account_);
    account_->Register(this);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() { account_->Unregister(); }

  // `on_request` runs for each request.
  std::function<void(Family*)> on_request;

  void RequestSwitch() override {
    ++requests_;
    if (on_request) on_request(this);
  }

  void Grow(size_t bytes) {
    std::shared_ptr<WriteBufferCharge> active;
    {
      MutexLock lock(&mu_);
      active_bytes_ += bytes;
      bytes = active_bytes_;
      active = active_;
    }
    active->Update(bytes);
  }
  void Switch() {
    MutexLock lock(&mu_);
    active_->MarkImmutable();
    immutable_.push_back(std::move(active_));
    active_ = std::make_shared<WriteBufferCharge>(account_);
    active_bytes_ = 0;
  }
  // Frees all that was switched. They are destroyed without the mutex.
  void Flush() {
    std::vector<std::shared_ptr<WriteBufferCharge>> flushed;
    MutexLock lock(&mu_);
    flushed.swap(immutable_);
  }
  void Hold() {
    MutexLock lock(&mu_);
    for (const auto& charge : immutable_) charge->MarkHeld();
  }
  size_t ActiveBytes() {
    MutexLock lock(&mu_);
    return active_bytes_;
  }

  int requests() const { return requests_; }
  WriteBufferAccount* account() const { return account_.get(); }

 private:
  const std::shared_ptr<WriteBufferAccount> account_;
  std::atomic<int> requests_{0};
  Mutex mu_;
  std::shared_ptr<WriteBufferCharge> active_ VARVE_GUARDED_BY(mu_);
  size_t active_bytes_ VARVE_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<WriteBufferCharge>> immutable_
      VARVE_GUARDED_BY(mu_);
};

class WriteBufferBudgetTest : public testing::Test {
 protected:
  void Open(size_t buffer_size, bool allow_stall = false,
            std::shared_ptr<Cache> cache = nullptr) {
    budget_ = std::make_shared<WriteBufferBudget>(buffer_size, std::move(cache),
                                                  allow_stall, &clock_);
  }
  std::unique_ptr<Family> NewFamily() {
    return std::make_unique<Family>(budget_);
  }
  std::vector<std::unique_ptr<Family>> NewFamilies(size_t count) {
    std::vector<std::unique_ptr<Family>> families;
    for (size_t i = 0; i < count; ++i) families.push_back(NewFamily());
    return families;
  }
  void Settle() { budget_->TEST_WaitForRequests(); }
  void ExpectEmpty() {
    EXPECT_EQ(budget_->usage(), 0u);
    EXPECT_EQ(budget_->active(), 0u);
    EXPECT_EQ(budget_->immutable(), 0u);
    EXPECT_EQ(budget_->charged_to_cache(), 0u);
    EXPECT_FALSE(budget_->ShouldFlush());
    EXPECT_FALSE(budget_->ShouldStall());
  }

  SetClock clock_;
  std::shared_ptr<WriteBufferBudget> budget_;
};

}  // namespace varve::test
