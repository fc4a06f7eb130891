// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: db_bench killed with -9 at any moment leaves a database that Varve and
// RocksDB open, whole and equal. Method: fillrandom and fillsync, with a log by
// write() and through a mapping, each started anew or on the same database and
// killed at random moments, VARVE_KILLS times (8). Which writes must be there
// is judged in test/stress/kill_test.cc, where the writer keeps a record; here
// it is what both engines make of the files.

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

class KillDbBenchTest : public DbTestBase,
                        public ::testing::WithParamInterface<
                            std::tuple<const char*, const char*>> {};

TEST_P(KillDbBenchTest, LeavesAConsistentDatabase) {
  const std::string benchmark = std::get<0>(GetParam());
  const std::string wal_write = std::get<1>(GetParam());
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  const int kills = EnvironmentInt("VARVE_KILLS", 8);
  size_t most = 0;
  for (int kill = 0; kill < kills; kill++) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    // A new database as well as one that was killed before.
    const bool again =
        std::filesystem::exists(path_ + "/CURRENT") && rng.OneIn(2);
    // overwrite, because a benchmark that fills wants a new database.
    RunningTool bench(
        {VARVE_DB_BENCH_PATH, "--db=" + path_,
         "--benchmarks=" + (again ? std::string("overwrite") : benchmark),
         "--sync=" + std::string(benchmark == "fillsync" ? "1" : "0"),
         "--use_existing_db=" + std::string(again ? "1" : "0"),
         "--num=100000000", "--threads=2", "--write_buffer_size=131072",
         "--wal_write=" + wal_write,
         "--seed=" + std::to_string(1 + rng.Below(1000000))});
    // Some die early, others in the middle of flushes and compactions.
    std::this_thread::sleep_for(
        std::chrono::milliseconds(rng.Below(rng.OneIn(4) ? 30 : 500)));
    bench.Kill();
    const ToolResult& result = bench.Wait();
    ASSERT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
    if (!std::filesystem::exists(path_ + "/CURRENT")) continue;

    // As it is, before Varve's recovery makes it nice.
    const std::string copy = dir_.Sub("copy");
    CopyDirectory(path_, copy);
    ASSERT_TRUE(Ok(TryOpen()));
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    ASSERT_TRUE(HasEntries(db_.get(), entries, {}, false));
    ASSERT_TRUE(Ok(db_->VerifyChecksum()));
    Close();
    most = std::max(most, entries.size());
    EXPECT_TRUE(SameText(ScanLines(entries), Ldb(copy, {"scan"})));
    EXPECT_EQ(Ldb(path_, {"checkconsistency"}), "OK\n");
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(most, 0u) << "never lived long enough to write";
}

INSTANTIATE_TEST_SUITE_P(
    All, KillDbBenchTest,
    ::testing::Combine(::testing::Values("fillrandom", "fillsync"),
                       ::testing::Values("call", "map", "auto")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" +
             std::get<1>(test.param);
    });

}  // namespace
}  // namespace varve::test
