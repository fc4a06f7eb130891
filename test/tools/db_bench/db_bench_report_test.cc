// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: results have the line format of RocksDB's db_bench, which scripts
// parse. Method: format known figures and compare the text.
#include "tools/db_bench/db_bench_report.h"

#include <gtest/gtest.h>

#include <memory>

namespace varve {
namespace {

BenchmarkResult ReadRandomResult() {
  BenchmarkResult result;
  result.name = "readrandom";
  result.operation = "read";
  result.operations = 1000000;
  result.elapsed_seconds = 5.9358;
  result.thread_seconds = 5.9358;
  result.bytes = 115999744;
  result.found = 1000000;
  result.lookups = 1000000;
  return result;
}

TEST(DbBenchReportTest, PrintsTheLineOfRocksDB) {
  EXPECT_EQ(FormatResult(ReadRandomResult()),
            "readrandom   :   5.936 micros/op 168469 ops/sec 5.936 seconds "
            "1000000 operations;   18.6 MB/s (1000000 of 1000000 found)\n");
}

TEST(DbBenchReportTest, TakesMicrosPerOpInOneThreadAndOpsOfAll) {
  BenchmarkResult result = ReadRandomResult();
  result.threads = 2;
  result.elapsed_seconds = 1;
  result.thread_seconds = 2;
  result.bytes = 0;
  result.found = 7;
  EXPECT_EQ(FormatResult(result),
            "readrandom   :   2.000 micros/op 1000000 ops/sec 1.000 seconds "
            "1000000 operations; (7 of 1000000 found)\n");
}

TEST(DbBenchReportTest, PrintsNoRateForNoTime) {
  BenchmarkResult result;
  result.name = "fillseq";
  result.bytes = 100;
  EXPECT_EQ(FormatResult(result),
            "fillseq      :   0.000 micros/op 0 ops/sec 0.000 seconds "
            "0 operations;    0.0 MB/s\n");
}

TEST(DbBenchReportTest, PrintsTextInsteadOfFigures) {
  BenchmarkResult result;
  result.name = "flush";
  result.text = "skipped";
  EXPECT_EQ(FormatResult(result), "flush        : skipped\n");
  result.text = "a table\nof lines";
  EXPECT_EQ(FormatResult(result), "flush        :\na table\nof lines\n");
}

TEST(DbBenchReportTest, AddsPercentilesInMicroseconds) {
  BenchmarkResult result = ReadRandomResult();
  result.latency_ns = std::make_unique<Histogram>();
  result.latency_ns->Add(64000);
  const std::string text = FormatResult(result);
  EXPECT_NE(text.find("\nMicroseconds per read:\nCount: 1 Average: 64.0000\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("P99.9: 64.00"), std::string::npos) << text;
}

TEST(DbBenchReportTest, PrintsLatenciesOfPutsAndGets) {
  BenchmarkResult result = ReadRandomResult();
  result.name = "openloop";
  result.elapsed_seconds = 2;
  result.open_loop = std::make_unique<OpenLoopLatency>();
  for (int i = 0; i < 1000; ++i) result.open_loop->puts_ns.Add(100);
  result.open_loop->puts_ns.Add(1234567);
  const std::string text = FormatResult(result);
  EXPECT_NE(
      text.find("found)\n"
                "openloop puts : 1001 operations; 500 ops/sec; P50: 0.100 P99: "
                "0.100 P99.9: 0.100 P99.99: 1234.567 Max: 1234.567 micros\n"
                "openloop gets : 0 operations; 0 ops/sec; P50: 0.000 "),
      std::string::npos)
      << text;
  std::vector<BenchmarkResult> results;
  results.push_back(std::move(result));
  const std::string json = FormatJson(BenchRun(), results);
  EXPECT_NE(json.find("\"puts_ns\""), std::string::npos) << json;
}

TEST(DbBenchReportTest, PrintsCpuTimeOfAnOperation) {
  CpuTime used;
  used.name = "fillseq";
  used.operations = 2000000;
  used.user_seconds = 2.5;
  used.system_seconds = 0.25;
  EXPECT_EQ(FormatCpuTime(used),
            "fillseq      : CPU 1.375 micros/op (user 1.250, system 0.125)\n");
  used.operations = 0;
  EXPECT_NE(FormatCpuTime(used).find("CPU 2750000.000 "), std::string::npos);
}

TEST(DbBenchReportTest, PrintsMeanAndMedianOfRuns) {
  BenchmarkResult results[4];
  const uint64_t operations[] = {100, 200, 300, 1000};
  for (int i = 0; i < 4; ++i) {
    results[i].name = "readseq";
    results[i].operations = operations[i];
    results[i].elapsed_seconds = 1;
    results[i].bytes = 1 << 20;
  }
  // The deviation of the first three is 100.
  EXPECT_EQ(FormatRuns(results, 3),
            "readseq [AVG    3 runs] : 200 (\xC2\xB1 113) ops/sec;    1.0 "
            "MB/sec\nreadseq [MEDIAN 3 runs] : 200 ops/sec\n");
  EXPECT_EQ(FormatRuns(results, 3, /*bounds_only=*/true),
            "readseq [CI95 3 runs] : (87, 313) ops/sec; (1.0, 1.0) MB/sec\n");
  EXPECT_NE(FormatRuns(results, 4).find("MEDIAN 4 runs] : 250 ops"),
            std::string::npos);
}

TEST(DbBenchReportTest, WritesJson) {
  BenchRun run;
  run.engine = "varve";
  run.engine_version = "0 \"quoted\" \\ \n";
  run.environment.warnings = {"slow"};
  run.workload.seed = 18446744073709551615u;
  run.flags = {{"num", "10"}};
  BenchmarkResult table;
  table.name = "stats";
  table.text = "no figures";
  std::vector<BenchmarkResult> results;
  results.push_back(ReadRandomResult());
  results.push_back(std::move(table));
  const std::string json = FormatJson(run, results);
  for (const char* part :
       {"\"engine_version\": \"0 \\\"quoted\\\" \\\\ \\u000a\"",
        "\"seed\": 18446744073709551615", "\"num\": \"10\"",
        "\"name\": \"readrandom\"", "\"micros_per_op\": 5.9358",
        "\"found\": 1000000", "\"slow\""}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
  EXPECT_EQ(json.find("stats"), std::string::npos);
}

}  // namespace
}  // namespace varve
