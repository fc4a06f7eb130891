// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the benchmarks of db_bench that change what they have written leave the
// entries that their flags say. Method: run the program, with each engine that
// is there, and count the entries, or open the database.

#include <regex>

#include "test/testing/directory.h"
#include "test/testing/engines/db_bench_runner.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/rocksdb/stats_text.h"
#include "tools/db_bench/workload.h"
#include "varve/db.h"

namespace varve {
namespace {

using test::ToolResult;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class DbBenchWorkloadsTest : public testing::TestWithParam<const char*>,
                             protected test::DbBenchRunner {
 protected:
  void SetUp() override {
    std::unique_ptr<Engine> engine;
    if (!NewEngine(GetParam(), &engine).ok()) {
      GTEST_SKIP() << GetParam() << " is not built in";
    }
  }

  ToolResult RunBench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"--seed=5", std::string("--engine=") + GetParam()});
    return DbBenchRunner::RunBench(std::move(arguments));
  }
  // Runs what must end well, and returns its output.
  std::string Out(const std::vector<std::string>& arguments) {
    const ToolResult result = RunBench(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.Summary();
    return result.out;
  }
  // The number that follows `name`, any text of its line, and `before`.
  static int Number(const std::string& out, const std::string& name,
                    const std::string& before) {
    std::smatch match;
    const std::regex line("\n" + name + " +:[^\n]*" + before + "([0-9]+)");
    EXPECT_TRUE(std::regex_search(out, match, line)) << out;
    return match.empty() ? -1 : std::stoi(match[1]);
  }
  static int Entries(const std::string& out) {
    return Number(out, "readseq", "seconds ");
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, DbBenchWorkloadsTest,
                         testing::Values("varve", "rocksdb"));

// After each 10 entries, 5 are written, and the 10 are deleted: 25 operations.
TEST_P(DbBenchWorkloadsTest, DeletesWhatIsDisposable) {
  const std::string out =
      Out({"fillanddeleteuniquerandom", "readseq", "--threads=1",
           "--disposable_entries_batch_size=10",
           "--persistent_entries_batch_size=5", "--batch_size=7"});
  EXPECT_THAT(out, ContainsRegex("random +:[^\n]* 1000 operations;[^\n]*"
                                 "600 keys written, 400 of them deleted"));
  EXPECT_EQ(Entries(out), 200);
  // Later than the end.
  const std::string late =
      Out({"fillanddeleteuniquerandom", "readseq",
           "--disposable_entries_batch_size=10",
           "--disposable_entries_delete_delay=1000000000000"});
  EXPECT_EQ(Entries(late), 1000);
  EXPECT_EQ(Entries(Out({"fillanddeleteuniquerandom", "readseq"})), 1000);
}

TEST_P(DbBenchWorkloadsTest, WritesRecentKeysAgain) {
  const std::string out =
      Out({"filluniquerandom", "readseq", "--overwrite_probability=0.5",
           "--overwrite_window_size=10"});
  const int keys = Number(out, "filluniquerandom", "[(]");
  EXPECT_GT(keys, 400);
  EXPECT_LT(keys, 600);
  EXPECT_EQ(Entries(out), keys);
}

// Each of the threads has 20 keys, of which it replaces some.
TEST_P(DbBenchWorkloadsTest, ReplacesKeys) {
  for (const char* deletes :
       {"--use_single_deletes", "--nouse_single_deletes"}) {
    const std::string out =
        Out({"randomreplacekeys", "readseq", "flush", "compact", "readseq",
             "--numdistinct=20", "--stddev=3", "--threads=2",
             "--write_buffer_size=65536", deletes});
    EXPECT_THAT(out, ContainsRegex("keys +:[^\n]* 2000 operations;"));
    EXPECT_THAT(out, HasSubstr("standard deviation: 3.0"));
    // Each thread reads all.
    EXPECT_EQ(Entries(out), 2 * 2 * 20);
    EXPECT_EQ(Entries(out.substr(out.find("\ncompact "))), 2 * 2 * 20);
  }
}

TEST_P(DbBenchWorkloadsTest, IngestsTables) {
  const std::string out = Out({"ingestexternalfile", "readseq",
                               "--ingest_external_file_batch_size=3",
                               "--ingest_external_file_num_batches=4",
                               "--ingest_external_file_fill_"
                               "cache=false"});
  EXPECT_THAT(out, ContainsRegex("file +:[^\n]* 4 operations;[^\n]*4 batches x "
                                 "3 files, 1000 keys/file"));
  EXPECT_EQ(Entries(out), 1000);
  EXPECT_FALSE(std::filesystem::exists(database_ + "/ingest_tmp"));
}

TEST_P(DbBenchWorkloadsTest, ExpiresSeries) {
  const std::vector<std::string> common = {
      "timeseries",        "flush",           "compact", "readseq",
      "--key_id_range=10", "--time_range=100"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return Out(more);
  };
  EXPECT_EQ(Entries(run({})), 1000);
  // The last 100 entries are not older than the range.
  EXPECT_EQ(Entries(run({"--expire_style=compaction_filter"})), 100);
  // The reader may have begun late, or never.
  const std::string out =
      run({"--threads=3", "--expire_style=delete", "--num_deletion_threads=1",
           "--benchmark_write_rate_limit=1000000"});
  EXPECT_THAT(out,
              ContainsRegex("timeseries +:[^\n]* found[)] [(]1000 writes"));
  EXPECT_GE(Entries(out), 100);
  const ToolResult small = RunBench({"timeseries", "--key_size=8"});
  EXPECT_THAT(small.out, HasSubstr("skipped (timeseries needs --key_size=16"));
}

TEST_P(DbBenchWorkloadsTest, BacksUpAndRestores) {
  const std::string restored = directory_.Sub("restored");
  const std::string out =
      Out({"fillrandom", "backup", "backup", "overwrite", "restore",
           "--backup_dir=" + directory_.Sub("backups"),
           "--restore_dir=" + restored, "--backup_rate_limit=1000000000"});
  EXPECT_THAT(out, ContainsRegex("\nbackup +:[^\n]* 1 operations;"));
  EXPECT_THAT(out, ContainsRegex("\nrestore +:[^\n]* 1 operations;"));
  const std::string entries =
      Out({"--use_existing_db", "--db=" + restored, "readseq"});
  EXPECT_GT(Entries(entries), 500);
  // Without directories, in the database's.
  Out({"fillseq", "backup", "restore"});
  EXPECT_EQ(Entries(Out({"--use_existing_db", "--db=" + database_ + "/restore",
                         "readseq"})),
            1000);
  EXPECT_NE(
      RunBench({"fillseq", "restore", "--backup_dir=" + directory_.Sub("none")})
          .exit_code,
      0);
}

TEST_P(DbBenchWorkloadsTest, ComparesWithAnotherDatabase) {
  const std::string other = directory_.Sub("other");
  Out({"--db=" + other, "fillseq"});
  const std::string same = Out({"fillseq", "verify", "--truth_db=" + other});
  EXPECT_THAT(same, ContainsRegex("\nverify +:[^\n]* 1000 operations;"));
  const std::vector<std::vector<std::string>> differing = {
      {"fillseq", "deleteseq", "--deletes=1"},
      {"--num=1001", "fillseq"},
      {"--value_size=99", "fillseq"}};
  for (std::vector<std::string> arguments : differing) {
    arguments.insert(arguments.end(), {"verify", "--truth_db=" + other});
    const ToolResult result = RunBench(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.error, HasSubstr("verify"));
  }
  EXPECT_NE(RunBench({"fillseq", "verify"}).exit_code, 0);
}

TEST_P(DbBenchWorkloadsTest, SearchesOperands) {
  const std::string out =
      Out({"--merge_operator=sortlist", "getmergeoperands"});
  if (std::string(GetParam()) == "varve") {
    EXPECT_THAT(out, ContainsRegex("[(]Get: [0-9.]+ seconds, found; "
                                   "GetMergeOperands: [0-9.]+ seconds, found"));
  } else {
    EXPECT_THAT(out, HasSubstr("getmergeoperands : skipped (reads of"));
  }
}

TEST_P(DbBenchWorkloadsTest, SeeksWithinBounds) {
  const auto bytes_of = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {
        "fillseq", "seekrandom", "--seek_nexts=20", "--histogram",
        "--report_json=" + directory_.Sub("report")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Out(arguments);
  };
  EXPECT_THAT(bytes_of({"--max_scan_distance=3"}), HasSubstr("1000 found)"));
  EXPECT_THAT(bytes_of({"--max_scan_distance=3", "--reverse_iterator"}),
              HasSubstr("(1000 of 1000 found)"));
  // A bound of one key leaves nothing after it.
  EXPECT_THAT(Out({"fillseq", "seekrandom", "--max_scan_distance=1",
                   "--seek_nexts_to_delete=1", "readseq", "--reads=100",
                   "--seek_nexts=1"}),
              ContainsRegex("readseq +:[^\n]* 1000 operations|readseq +:[^\n]* "
                            "100 operations"));
  EXPECT_THAT(Out({"fillseq", "seekrandom", "--prefix_size=9",
                   "--seek_missing_prefix"}),
              HasSubstr("(0 of 1000 found)"));
  const std::string out =
      Out({"fillseq", "seekrandom", "--seek_nexts_to_delete=5", "readrandom"});
  EXPECT_LT(Number(out, "readrandom", "[(]"), 500);
}

TEST_P(DbBenchWorkloadsTest, FollowsASine) {
  const std::string out =
      Out({"fillrandom", "mixgraph", "--sine_write_rate", "--sine_mix_rate",
           "--sine_write_rate_interval_milliseconds=1",
           "--sine_mix_rate_interval_milliseconds=1", "--sine_a=10000000",
           "--sine_d=100000000", "--sine_b=1000", "--sine_mix_rate_noise=0.5",
           "--mix_put_ratio=0.5", "--mix_seek_ratio=0.1"});
  EXPECT_THAT(out, ContainsRegex("fillrandom +:[^\n]* 1000 operations;"));
  EXPECT_THAT(out, ContainsRegex("mixgraph +:[^\n]* 1000 operations;"));
}

TEST_P(DbBenchWorkloadsTest, DoesAllOperationsOfASchedule) {
  const auto count = [](const std::string& out, const std::string& kind) {
    std::smatch match;
    const std::regex line("\nopenloop " + kind + " : ([0-9]+) operations;");
    EXPECT_TRUE(std::regex_search(out, match, line)) << out;
    return match.empty() ? -1 : std::stoi(match[1]);
  };
  std::string out = Out({"fillseq", "openloop", "--rate=20000", "--threads=2",
                         "--duration=1", "--put_percent=30", "--histogram"});
  EXPECT_THAT(out, ContainsRegex("\nopenloop +:[^\n]* 20000 operations;"));
  EXPECT_NEAR(count(out, "puts"), 6000, 1000);
  EXPECT_EQ(count(out, "puts") + count(out, "gets"), 20000);
  EXPECT_THAT(out, HasSubstr("\nCount: 20000 "));
  // Without a duration, as many as those that read and write do.
  out = Out({"fillseq", "openloop", "--writes=1000", "--reads=1100",
             "--rate=1000000000", "--put_percent=0"});
  EXPECT_THAT(out, ContainsRegex("\nopenloop +:[^\n]* 1100 operations;[^\n]*"
                                 "[(]1100 of 1100 found"));
  EXPECT_EQ(count(out, "puts"), 0);
}

TEST_P(DbBenchWorkloadsTest, TakesTheOtherFlags) {
  const std::string out =
      Out({"fillrandom", "readrandom", "compact", "--same_value_percentage=100",
           "--use_keep_filter", "--db_write_buffer_size=1000000",
           "--cost_write_buffer_to_cache",
           "--ingest_external_file_file_"
           "opening_threads=3"});
  EXPECT_THAT(out, ContainsRegex("readrandom +:[^\n]* found"));
}

TEST_P(DbBenchWorkloadsTest, ReportsMore) {
  const ToolResult result =
      RunBench({"fillseq[X2]", "--report_open_timing",
                "--use_stderr_info_logger", "--confidence_interval_only"});
  EXPECT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_THAT(result.out, ContainsRegex("OpenDb: +[0-9.]+ milliseconds\n"));
  EXPECT_THAT(result.out,
              ContainsRegex("\nfillseq .CI95 2 runs. : [(][0-9-]+, [0-9]+[)] "
                            "ops/sec; [(][0-9.-]+, [0-9.]+[)] MB/sec\n"));
  EXPECT_THAT(result.error, HasSubstr("\n"));
}

TEST_P(DbBenchWorkloadsTest, ResetsStatistics) {
  const std::string out =
      Out({"--statistics", "fillseq", "flush", "resetstats", "stats"});
  EXPECT_THAT(out, ContainsRegex("\nresetstats +:"));
  EXPECT_THAT(out, ContainsRegex("Flush.GB.: cumulative 0.000,"));
  EXPECT_THAT(out, ContainsRegex("keys.written COUNT : 0"));
}

// ---- The parts alone ----

TEST(DbBenchPartsTest, SineIsNeverBelowOne) {
  const SineRate sine = {.a = 10, .b = 1, .c = 0, .d = 20};
  EXPECT_DOUBLE_EQ(sine.At(0), 20);
  EXPECT_NEAR(sine.At(std::numbers::pi / 2), 30, 1e-9);
  EXPECT_DOUBLE_EQ((SineRate{.a = 10, .d = -20}.At(1)), 1);
}

TEST(DbBenchPartsTest, APacerTakesTheNewRate) {
  int calls = 0;
  Pacer pacer(
      [&calls](double /*seconds*/) {
        ++calls;
        return 1e12;
      },
      std::chrono::nanoseconds(0), 2);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(pacer.Wait(1000, [] { return true; }));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(pacer.Wait(2000, [] { return false; }));
  EXPECT_EQ(calls, 2);
}

TEST(DbBenchPartsTest, StatisticsCountFromTheReset) {
  const StatsBase base = {{{"compaction.Sum.WriteGB", "2"},
                           {"compaction.Sum.ReadGB", "1"},
                           {"compaction.Sum.CompSec", "10"},
                           {"compaction.Sum.ReadMBps", "102.4"},
                           {"compaction.Sum.NumFiles", "9"},
                           {"compaction.L0.WriteGB", "1"}},
                          "Written by users: 512.0 MB, to"};
  const StatsBase now = {{{"compaction.Sum.WriteGB", "5"},
                          {"compaction.Sum.ReadGB", "3"},
                          {"compaction.Sum.CompSec", "20"},
                          {"compaction.Sum.ReadMBps", "153.6"},
                          {"compaction.Sum.NumFiles", "3"},
                          {"compaction.L0.WriteGB", "1.5"}},
                         "Written by users: 1536.0 MB, to"};
  const std::string text = FormatRocksDbStats(now, base, 100);
  for (const char* part :
       {"\n Sum      3/0 ", " 204.8 ", "\nFlush(GB): cumulative 0.500,",
        "\nCumulative compaction: 3.00 GB write,", "2.00 GB read,",
        "ingest: 1.00 GB,"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(DbBenchPartsTest, ValuesAreTheSame) {
  ValueSource values("abcdefgh", ValueSizes{.bytes = 2}, 1, 100);
  EXPECT_EQ(values.Next(), "ab");
  EXPECT_EQ(values.Next(), "ab");
  EXPECT_EQ(SortedNumbers("1,20,300"), (std::vector<int>{1, 20, 300}));
  EXPECT_TRUE(SortedNumbers("").empty());
}

}  // namespace
}  // namespace varve
