// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a failed sync is reported to every caller until it is forgiven, and
// nobody waits for the device to learn of it. Method: a directory whose syncs
// fail or wait on demand.

#include "db/directory/sticky_error_directory.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

struct Control {
  std::atomic<bool> fails{false};
  std::atomic<bool> waits{false};
  std::atomic<int> syncs{0};
};

class ControlledDirectory : public Directory {
 public:
  explicit ControlledDirectory(Control* control) : control_(control) {}
  Status Sync() override {
    ++control_->syncs;
    while (control_->waits) std::this_thread::yield();
    return control_->fails ? Status::IOError("test") : Status::OK();
  }

 private:
  Control* const control_;
};

class StickyErrorDirectoryTest : public ::testing::Test {
 protected:
  Control control_;
  StickyErrorDirectory directory_{
      std::make_unique<ControlledDirectory>(&control_)};
};

TEST_F(StickyErrorDirectoryTest, ReportsAFailureUntilItIsCleared) {
  EXPECT_TRUE(directory_.Sync().ok());
  EXPECT_FALSE(directory_.ClearError());
  control_.fails = true;
  EXPECT_TRUE(directory_.Sync().IsIOError());
  control_.fails = false;
  EXPECT_TRUE(directory_.Sync().IsIOError());
  EXPECT_TRUE(directory_.failure().IsIOError());
  EXPECT_EQ(control_.syncs, 2);
  EXPECT_TRUE(directory_.ClearError());
  EXPECT_TRUE(directory_.Sync().ok());
  EXPECT_TRUE(directory_.failure().ok());
}

TEST_F(StickyErrorDirectoryTest, AskingForTheFailureWaitsForNoSync) {
  control_.waits = true;
  std::thread other([this] { EXPECT_TRUE(directory_.Sync().ok()); });
  while (control_.syncs == 0) std::this_thread::yield();
  EXPECT_TRUE(directory_.failure().ok());
  control_.waits = false;
  other.join();
}

TEST_F(StickyErrorDirectoryTest, ASyncDuringAFailingOneFailsToo) {
  control_.waits = true;
  control_.fails = true;
  std::thread first([this] { EXPECT_TRUE(directory_.Sync().IsIOError()); });
  while (control_.syncs == 0) std::this_thread::yield();
  std::thread second([this] { EXPECT_TRUE(directory_.Sync().IsIOError()); });
  control_.waits = false;
  first.join();
  second.join();
  EXPECT_EQ(control_.syncs, 1);
}

}  // namespace
}  // namespace varve::test
