// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: db_bench runs every benchmark, and refuses wrong flags before it
// touches a database. Method: run the program on small databases and look at
// its exit code, its lines and its report.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "test/testing/directory.h"
#include "test/testing/run_tool.h"
#include "test/testing/temp_dir.h"

namespace varve {
namespace {

using test::RunTool;
using test::ToolResult;

class DbBenchTest : public testing::Test {
 protected:
  ToolResult RunBench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {VARVE_DB_BENCH_PATH, "--db=" + database_, "--num=1000"});
    return RunTool(arguments);
  }

  // Whether a line of figures for the benchmark was printed.
  static bool HasResult(const ToolResult& result, const std::string& name) {
    const std::regex line("(^|\n)" + name +
                          " +: +[0-9.]+ micros/op [0-9]+ ops/sec [0-9.]+ "
                          "seconds [0-9]+ operations;[^\n]*\n");
    return std::regex_search(result.out, line);
  }

  test::TempDir directory_;
  std::string database_ = directory_.Sub("db");
};

TEST_F(DbBenchTest, RunsEachBenchmark) {
  const std::vector<std::string> names = {
      "fillseq",          "fillrandom", "filluniquerandom",
      "fillsync",         "overwrite",  "readseq",
      "readreverse",      "readrandom", "readmissing",
      "readhot",          "seekrandom", "multireadrandom",
      "readwhilewriting", "deleteseq",  "deleterandom",
      "compact",          "flush",      "waitforcompaction",
      "verifychecksum"};
  std::vector<std::string> arguments = names;
  arguments.push_back("--bloom_bits=10");
  arguments.push_back("--seek_nexts=3");
  const ToolResult result = RunBench(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  for (const std::string& name : names) {
    EXPECT_TRUE(HasResult(result, name)) << name << "\n" << result.Summary();
  }
  EXPECT_EQ(result.error, "");
}

TEST_F(DbBenchTest, FillsFirstWhenThereIsNothingToRead) {
  const ToolResult result = RunBench({"readrandom", "--threads=2"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_TRUE(HasResult(result, "filluniquerandom")) << result.Summary();
  EXPECT_NE(result.out.find("(2000 of 2000 found)"), std::string::npos)
      << result.Summary();
}

TEST_F(DbBenchTest, FindsNoMissingKey) {
  const ToolResult result =
      RunBench({"--benchmarks=fillseq,readmissing,readseq"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_NE(result.out.find("(0 of 1000 found)"), std::string::npos)
      << result.Summary();
}

TEST_F(DbBenchTest, KeepsAnExistingDatabase) {
  ASSERT_EQ(RunBench({"fillseq"}).exit_code, 0);
  const ToolResult result =
      RunBench({"--use_existing_db", "fillrandom", "multireadrandom"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_NE(result.out.find("fillrandom   : skipped"), std::string::npos)
      << result.Summary();
  // 32 keys at once, so the last batch goes beyond the 1000.
  EXPECT_NE(result.out.find("(1024 of 1024 found)"), std::string::npos)
      << result.Summary();
}

TEST_F(DbBenchTest, DoesNotMakeADatabaseThatShouldExist) {
  const ToolResult result = RunBench({"--use_existing_db", "readrandom"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(database_ + "/CURRENT"));
}

TEST_F(DbBenchTest, ReportsLatenciesStatisticsAndJson) {
  const std::string report = directory_.Sub("report.json");
  const ToolResult result =
      RunBench({"fillrandom", "readwhilewriting", "--histogram", "--statistics",
                "--report_json=" + report});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  for (const char* part : {"Microseconds per write:", "P99.9:", "Peak RSS:",
                           "varve.number.keys.read COUNT"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << result.Summary();
  }
  const std::string json = test::ReadWholeFile(report);
  for (const char* part :
       {"\"name\": \"readwhilewriting\"", "\"p99.9\":", "\"peak_rss_bytes\":",
        "\"clock_source\":", "\"cache_size\":"}) {
    EXPECT_NE(json.find(part), std::string::npos) << json;
  }
}

TEST_F(DbBenchTest, RefusesWrongFlagsBeforeItTouchesADatabase) {
  ASSERT_EQ(RunBench({"fillseq"}).exit_code, 0);
  const auto before = test::ReadDirectory(database_);
  for (const char* wrong : {"nosuchbenchmark",
                            "--engine=nosuch",
                            "--nosuchflag",
                            "--num=0",
                            "--num=x",
                            "--threads=0",
                            "--reads=0",
                            "--key_size=0",
                            "--key_size=1",
                            "--value_size=0",
                            "--batch_size=0",
                            "--compression_type=zlib",
                            "--compression_ratio=0",
                            "--block_size=1",
                            "--cache_size=-1",
                            "--bloom_bits=-2",
                            "--open_files=-2",
                            "--max_background_jobs=0",
                            "--write_buffer_size=1",
                            "--duration=-1",
                            "--seed=-1",
                            "--ablate=a=b",
                            "--benchmark_write_rate_limit=-1",
                            "--stats_interval_seconds=-1",
                            "--report_json=/nosuchdirectory/report"}) {
    const ToolResult result = RunBench({"fillrandom", wrong});
    EXPECT_NE(result.exit_code, 0) << wrong;
    EXPECT_NE(result.error, "") << wrong;
    EXPECT_EQ(result.out, "") << wrong;
  }
  const ToolResult result = RunBench({"fillrandom", "--sync", "--disable_wal"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(test::ReadDirectory(database_), before);
}

TEST_F(DbBenchTest, RepeatsARunWithItsSeed) {
  const std::vector<std::string> arguments = {"fillrandom", "readrandom",
                                              "--seed=5"};
  const auto found = [](const ToolResult& result) {
    const size_t start = result.out.rfind('(');
    return start == std::string::npos ? "" : result.out.substr(start);
  };
  const std::string first = found(RunBench(arguments));
  EXPECT_NE(first, "");
  EXPECT_EQ(first, found(RunBench(arguments)));
}

}  // namespace
}  // namespace varve
