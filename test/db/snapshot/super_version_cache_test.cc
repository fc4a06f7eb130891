// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a SuperVersion is installed with a barrier in each mode, since a
// snapshot pins without one and its pin must be seen. Method: barriers are
// counted. snapshot_handshake_test.cc shows what a missing one does.

#include "db/snapshot/super_version_cache.h"

#include <gtest/gtest.h>

#include "util/base/mutex.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

class DeletingDisposer final : public SuperVersionDisposer {
 public:
  void DisposeLocked(SuperVersion* super_version) override {
    delete super_version;
  }
  void FreeLaterLocked() override {}
};

TEST(SuperVersionCacheTest, EachInstallHasABarrier) {
  for (const bool locks_reads : {false, true}) {
    LoneDbMutex mutex;
    DeletingDisposer disposer;
    SuperVersionCache cache(locks_reads, mutex.lockable(), &disposer, nullptr);
    for (int i = 0; i < 3; ++i) {
      const uint64_t barriers = TEST_HeavyBarrierCount();
      MutexLock lock(mutex.lockable());
      cache.InstallLocked(new SuperVersion);
      EXPECT_GT(TEST_HeavyBarrierCount(), barriers) << locks_reads;
    }
    cache.Close();
  }
}

}  // namespace
}  // namespace varve::test
