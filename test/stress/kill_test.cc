// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: after kill -9 at any moment, every write that returned is there, and
// of those that did not, each thread has a prefix. Method: this program starts
// itself as a worker, whose threads write numbered keys and note in a shared
// file what has returned; it is killed at random moments, 20 times, and the
// database is opened again each time and checked. The log is written by write()
// and through a mapping. VARVE_KILLS sets how often.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/testing/db/table_calls.h"
#include "test/testing/db_helpers.h"
#include "test/testing/faults/large_writes.h"
#include "test/testing/machine/shared_memory.h"
#include "test/testing/run_tool.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/threads/path_counter.h"

namespace varve::test {
namespace {

constexpr int kThreads = 8;

// The worker threads' progress, in a file that outlives the worker.
struct Progress {
  struct PerThread {
    std::atomic<int64_t> returned;  // Writes that returned OK.
    std::atomic<int64_t> begun;     // Including the one under way.
    std::atomic<int64_t> failed;
  };
  PerThread threads[kThreads];
  std::atomic<uint64_t> large;  // Inserted beside others, by the last worker.
};

std::string KillKey(int thread, int64_t number) {
  // Spread over the key space, so that compactions have work.
  const uint64_t mixed = static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15u;
  char text[64];
  snprintf(text, sizeof(text), "%04x-%d-%lld",
           static_cast<unsigned>(mixed >> 48), thread,
           static_cast<long long>(number));
  return text;
}
std::string KillValue(int thread, int64_t number) {
  return KillKey(thread, number) +
         std::string(static_cast<size_t>(number % 200), 'v');
}

struct Mode {
  const char* name;  // The directory has it too, so that the worker knows it.
  bool sync;
  WriteMethod method;
};
constexpr Mode kModes[] = {{"UnsyncedCall", false, WriteMethod::kCall},
                           {"SyncedCall", true, WriteMethod::kCall},
                           {"UnsyncedMapped", false, WriteMethod::kMap},
                           {"SyncedMapped", true, WriteMethod::kMap},
                           {"UnsyncedAuto", false, WriteMethod::kAuto},
                           {"SyncedAuto", true, WriteMethod::kAuto}};

Options OptionsFor(const Mode& mode) {
  Options options = TinyOptions();
  options.wal_write = mode.method;
  return options;
}

// The worker: writes until it is killed.
int Work(const std::string& path, const std::string& progress_path,
         const Mode& mode) {
  Progress* progress = MapShared<Progress>(progress_path);
  std::unique_ptr<DB> db;
  Status s = DB::Open(OptionsFor(mode), path, &db);
  if (!s.ok()) {
    fprintf(stderr, "%s\n", s.ToString().c_str());
    return 1;
  }
  RunThreads(kThreads, [&](int t) {
    Progress::PerThread& mine = progress->threads[t];
    WriteOptions options{.sync = mode.sync};
    Rng rng(static_cast<uint64_t>(mine.returned.load()));
    for (;;) {
      const int64_t number = mine.returned.load();
      // One thread also compacts, moves and marks tables.
      if (t == 0 && rng.OneIn(500) &&
          !WorkOnTables(db.get(), nullptr, &rng).ok()) {
        mine.failed.store(1);
        return;
      }
      mine.begun.store(number + 1);
      WriteBatch batch;
      batch.Put(KillKey(t, number), KillValue(t, number));
      batch.Put("last of thread " + std::to_string(t), std::to_string(number));
      AddIfLarge(&batch, t, number);
      if (!db->Write(options, &batch).ok()) {
        mine.failed.store(1);
        return;
      }
      mine.returned.store(number + 1);
      if (number % kLargeWriteEvery == 0) {
        progress->large = PathCount(PathCounter::kLargeBatch);
      }
    }
  });
  return 1;
}

constexpr const char* kWorkerVariable = "VARVE_KILL_TEST_WORKER";

class KillTest : public ::testing::TestWithParam<Mode> {};

// Run by the tests below in a process of its own; by itself it does nothing.
TEST(KillWorkerTest, Work) {
  const char* work = getenv(kWorkerVariable);
  if (work == nullptr) return;
  const std::string path = work;
  for (const Mode& mode : kModes) {
    if (path.ends_with(std::string("/") + mode.name)) {
      _exit(Work(path + "/db", path + "/progress", mode));
    }
  }
  _exit(2);
}

TEST_P(KillTest, AllWritesThatReturnedAreThere) {
  const Mode& mode = GetParam();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  TempDir dir;
  const std::string place = dir.Sub(mode.name);
  ASSERT_EQ(mkdir(place.c_str(), 0755), 0);
  Progress* progress = MapShared<Progress>(place + "/progress");
  const int kills = EnvironmentInt("VARVE_KILLS", 20);
  for (int kill = 0; kill < kills; kill++) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    const int64_t before = progress->threads[0].returned.load();
    setenv(kWorkerVariable, place.c_str(), 1);
    RunningTool worker(
        {"/proc/self/exe", "--gtest_filter=KillWorkerTest.Work"});
    unsetenv(kWorkerVariable);
    // Some die while they open, others when they have written for a while.
    if (rng.OneIn(4)) {
      std::this_thread::sleep_for(std::chrono::microseconds(rng.Below(20000)));
    } else {
      const auto timeout =
          std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (progress->threads[0].returned.load() == before &&
             std::chrono::steady_clock::now() < timeout) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(rng.Below(150000)));
    }
    worker.Kill();
    const ToolResult& result = worker.Wait();
    ASSERT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();

    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(OptionsFor(mode), place + "/db", &db)));
    for (int t = 0; t < kThreads; t++) {
      Progress::PerThread& mine = progress->threads[t];
      ASSERT_EQ(mine.failed.load(), 0) << result.Summary();
      const int64_t returned = mine.returned.load();
      std::string value;
      for (int64_t i = 0; i < returned; i++) {
        ASSERT_TRUE(Ok(db->Get({}, KillKey(t, i), &value)))
            << "write " << i << " of thread " << t << " returned";
        ASSERT_EQ(value, KillValue(t, i));
      }
      // The one under way is there as a whole or not at all.
      const bool one_more = db->Get({}, KillKey(t, returned), &value).ok();
      if (one_more) {
        ASSERT_EQ(mine.begun.load(), returned + 1);
        mine.returned.store(returned + 1);
      }
      ASSERT_TRUE(db->Get({}, KillKey(t, returned + 1), &value).IsNotFound());
      const int64_t count = returned + (one_more ? 1 : 0);
      Status s = db->Get({}, "last of thread " + std::to_string(t), &value);
      if (count == 0) {
        ASSERT_TRUE(s.IsNotFound());
      } else {
        ASSERT_EQ(value, std::to_string(count - 1));
      }
      ExpectLargeWrite(db.get(), t, 0, count - 1);
    }
    ASSERT_TRUE(Ok(db->VerifyChecksum()));
    ASSERT_TRUE(Ok(db->Close()));
  }
  EXPECT_GT(progress->threads[0].returned.load(), 0) << "nothing was written";
  EXPECT_GT(progress->large.load(), 0u);
  munmap(progress, sizeof(Progress));
}

INSTANTIATE_TEST_SUITE_P(All, KillTest, ::testing::ValuesIn(kModes),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace varve::test
