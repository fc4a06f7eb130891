// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: after a power cut, a database is as it was after one of its newest
// writes, none of which was before the last sync, however the log is written.
// Method: a child writes to a database on a real file system in a file. The
// file system is shut down without being written out, mounted again, and the
// database is compared with what the child had recorded in shared memory.
// VARVE_POWER_CUTS sets the number of cuts.

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db/table_calls.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/failing_file_system.h"
#include "test/testing/faults/large_writes.h"
#include "test/testing/forked.h"
#include "test/testing/seed.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kKeys = 500;
constexpr uint64_t kImageBytes = 48 << 20;

struct Progress {
  std::atomic<int64_t> attempted;  // The number of the last write begun.
  std::atomic<int64_t> synced;     // Of the last one that must survive.
  // Set before the cut. A sync that runs during the cut proves nothing: ext4
  // returns success from it if only the end of its work was refused.
  std::atomic<bool> cut;
  std::atomic<int64_t> found;  // The last write that is in the database.
};

class PowerCutTest : public ::testing::TestWithParam<WriteMethod> {
 protected:
  void SetUp() override {
    void* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    progress_ = static_cast<Progress*>(memory);
  }
  void TearDown() override { munmap(progress_, sizeof(Progress)); }

  Options MakeOptions() const {
    Options options = TinyOptions();
    options.wal_write = GetParam();
    return options;
  }

  // Writes until it is killed or fails. Write n sets key n % kKeys and "last".
  void Work(const std::string& path, uint64_t seed, int64_t next) {
    std::unique_ptr<DB> db;
    // Check tells whether that is the cut.
    if (!DB::Open(MakeOptions(), path, &db).ok()) _exit(0);
    Rng rng(seed);
    uint64_t until_sync = 0;
    for (int64_t n = next;; ++n) {
      if (until_sync == 0) until_sync = 1 + rng.Below(rng.OneIn(2) ? 5 : 3000);
      WriteOptions options{.sync = --until_sync == 0};
      progress_->attempted = n;
      WriteBatch batch;
      batch.Put(Key(static_cast<int>(n % kKeys)),
                std::to_string(n) + std::string(n % 300, 'v'));
      batch.Put("last", std::to_string(n));
      AddIfLarge(&batch, 0, n);
      if (!db->Write(options, &batch).ok()) _exit(0);
      if (options.sync && !progress_->cut) progress_->synced = n;
      // It fails if the cut has come.
      if (rng.OneIn(1000)) {
        WorkOnTables(db.get(), nullptr, &rng).IgnoreError();
      }
      if (rng.OneIn(3000)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(rng.Below(15)));
      }
    }
  }

  // Waits until the child has begun write n, or has ended.
  void AwaitWrites(pid_t child, int64_t n) {
    siginfo_t ended;
    ended.si_pid = 0;
    while (progress_->attempted < n && ended.si_pid == 0) {
      ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended,
                       WEXITED | WNOHANG | WNOWAIT),
                0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Checks the database. Returns the number of its last write.
  int64_t Check(const std::string& path, int64_t first) {
    std::unique_ptr<DB> db;
    EXPECT_TRUE(Ok(DB::Open(MakeOptions(), path, &db)));
    if (db == nullptr) return -1;
    std::string text;
    const Status found = db->Get({}, "last", &text);
    EXPECT_TRUE(found.ok() || found.IsNotFound()) << found.ToString();
    const int64_t last = found.ok() ? std::stoll(text) : 0;
    EXPECT_GE(last, progress_->synced.load());
    EXPECT_LE(last, std::max(progress_->attempted.load(), first - 1));
    for (int64_t n = std::max<int64_t>(1, last - kKeys + 1); n <= last; ++n) {
      EXPECT_TRUE(Ok(db->Get({}, Key(static_cast<int>(n % kKeys)), &text)));
      EXPECT_TRUE(text == std::to_string(n) +
                              std::string(static_cast<size_t>(n % 300), 'v'))
          << n << " of " << last << ": " << text.substr(0, 10);
      if (HasFailure()) break;
    }
    ExpectLargeWrite(db.get(), 0, 1, last);
    EXPECT_TRUE(Ok(db->Close()));
    return last;
  }

  Progress* progress_ = nullptr;
};

TEST_P(PowerCutTest, LosesOnlyTheNewestUnsyncedWrites) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  TempDir dir;
  const SmallFileSystem memory(dir.path(), "64m");
  if (!memory.is_mounted()) GTEST_SKIP() << kMayNotMount;
  const std::string image = dir.Sub("image");
  const std::string path = dir.Sub("disk") + "/db";
  const int cuts = EnvironmentInt("VARVE_POWER_CUTS", 12);
  int64_t next = 1;
  int64_t lost = 0;
  for (int cut = 0; cut < cuts; ++cut) {
    SCOPED_TRACE("cut " + std::to_string(cut));
    {
      LoopFileSystem disk(image, kImageBytes, dir.Sub("disk"));
      if (!disk.is_mounted()) GTEST_SKIP() << kMayNotUseDevices;
      const uint64_t work_seed = rng.Below(UINT32_MAX);
      progress_->cut = false;
      progress_->attempted = next - 1;
      const pid_t child = fork();
      if (child == 0) Work(path, work_seed, next);
      // The cut comes after some writes. Some cuts come while it opens.
      if (rng.OneIn(3)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(rng.Below(20)));
      } else {
        AwaitWrites(child, next + static_cast<int64_t>(rng.Below(4000)));
      }
      progress_->cut = true;
      ASSERT_TRUE(disk.ShutDown());
      kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                                      : WEXITSTATUS(status) == 0)
          << status;
    }
    const LoopFileSystem disk(image, kImageBytes, dir.Sub("disk"));
    ASSERT_TRUE(disk.is_mounted());
    // In a child too: the thread sanitizer wants no threads where a child is
    // forked that will have some.
    ASSERT_EQ(RunForked([&] {
                progress_->found = Check(path, next);
                return HasFailure() ? 1 : 0;
              }),
              0);
    const int64_t last = progress_->found;
    lost += std::max(progress_->attempted.load(), next - 1) - last;
    next = last + 1;
  }
  printf("%d cuts: %lld writes kept, %lld newest ones lost\n", cuts,
         static_cast<long long>(next - 1), static_cast<long long>(lost));
  EXPECT_GT(next, 1);
}

INSTANTIATE_TEST_SUITE_P(All, PowerCutTest, ::testing::ValuesIn(kWriteMethods),
                         [](const auto& test) {
                           return WriteMethodName(test.param);
                         });

}  // namespace
}  // namespace varve::test
