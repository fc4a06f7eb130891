// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: db_bench runs every benchmark, and refuses wrong flags before it
// touches a database. Method: run the program on small databases and look at
// its exit code, its lines and its report.

#include <regex>

#include "test/testing/directory.h"
#include "test/testing/engines/db_bench_runner.h"
#include "test/testing/test_headers.h"
#include "tools/db_bench/engine_adapter.h"

namespace varve {
namespace {

using test::ToolResult;

class DbBenchTest : public testing::Test, protected test::DbBenchRunner {
 protected:
  // Whether a line of figures for the benchmark was printed.
  static bool HasResult(const ToolResult& result, const std::string& name) {
    const std::regex line("(^|\n)" + name +
                          " +: +[0-9.]+ micros/op [0-9]+ ops/sec [0-9.]+ "
                          "seconds [0-9]+ operations;[^\n]*\n");
    return std::regex_search(result.out, line);
  }

  static std::vector<std::string> BuiltInEngines() {
    std::vector<std::string> names;
    for (const std::string& name : EngineNames()) {
      std::unique_ptr<Engine> engine;
      if (NewEngine(name, &engine).ok()) names.push_back(name);
    }
    return names;
  }
};

TEST_F(DbBenchTest, RunsEachBenchmark) {
  const std::vector<std::string> names = {
      "fillseq",          "fillrandom", "filluniquerandom",
      "fillsync",         "overwrite",  "readseq",
      "readreverse",      "readrandom", "readmissing",
      "readhot",          "seekrandom", "multireadrandom",
      "readwhilewriting", "deleteseq",  "deleterandom",
      "fillbatch",        "fill100K",   "seekrandomwhilewriting",
      "compact",          "flush",      "waitforcompaction",
      "verifychecksum",   "seekfirst",  "popfirst"};
  std::vector<std::string> arguments = names;
  arguments.push_back("--bloom_bits=10");
  arguments.push_back("--seek_nexts=3");
  arguments.push_back("--subcompactions=2");
  const ToolResult result = RunBench(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  for (const std::string& name : names) {
    EXPECT_TRUE(HasResult(result, name)) << name << "\n" << result.Summary();
  }
  EXPECT_EQ(result.error, "");
}

TEST_F(DbBenchTest, PopsUntilTheDatabaseIsEmpty) {
  for (const std::string& engine : BuiltInEngines()) {
    const ToolResult result =
        RunBench({"--engine=" + engine, "fillseq", "popfirst", "seekfirst",
                  "--reads=5", "--threads=1"});
    ASSERT_EQ(result.exit_code, 0) << engine << "\n" << result.Summary();
    EXPECT_TRUE(HasResult(result, "popfirst")) << result.Summary();
    EXPECT_NE(result.out.find(" 1000 operations;"), std::string::npos)
        << result.Summary();
    EXPECT_NE(result.out.find("(0 of 5 found)"), std::string::npos)
        << result.Summary();
  }
}

// Each engine that has merges reads what it merged, from memory and tables.
TEST_F(DbBenchTest, MergesIntoKeysAndReadsThem) {
  for (const std::string& engine : BuiltInEngines()) {
    const ToolResult result = RunBench(
        {"--engine=" + engine, "--merge_operator=uint64add", "--value_size=8",
         "--merge_keys=50", "--threads=2", "--mergereadpercent=40",
         "mergerandom", "readrandommergerandom", "readseq", "compact",
         "readseq", "readrandom", "--reads=1000"});
    if (engine == "leveldb" || engine == "lmdb") {
      EXPECT_NE(result.exit_code, 0) << result.Summary();
      EXPECT_NE(result.error.find("merge_operator"), std::string::npos)
          << result.Summary();
      continue;
    }
    ASSERT_EQ(result.exit_code, 0) << engine << "\n" << result.Summary();
    // 2000 merges leave none of 50 keys out, in all likelihood.
    for (const char* line :
         {"mergerandom +:[^\n]* 2000 operations;[^\n]*\n",
          "readrandommergerandom +:[^\n]* 2000 operations;[^\n]*"
          "\\((1[12]\\d\\d) of \\1 found\\)",
          "readseq +:[^\n]* 100 operations;[^\n]*\ncompact +:",
          "compact +:[^\n]*\nreadseq +:[^\n]* 100 operations;",
          "readrandom +:[^\n]* 2000 operations;"}) {
      EXPECT_TRUE(std::regex_search(result.out, std::regex(line)))
          << engine << ": " << line << "\n"
          << result.Summary();
    }
  }
}

TEST_F(DbBenchTest, SkipsMergesWithoutAnOperator) {
  const ToolResult result = RunBench({"mergerandom", "readrandommergerandom"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_NE(result.out.find("mergerandom  : skipped (needs --merge_operator)"),
            std::string::npos)
      << result.Summary();
  const ToolResult unknown =
      RunBench({"mergerandom", "--merge_operator=nosuch"});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_NE(unknown.error.find("nosuch"), std::string::npos);
}

// The engines drop the same half, in each compaction of all entries.
TEST_F(DbBenchTest, CompactsWithAFilterThatDropsHalf) {
  for (const std::string& engine : BuiltInEngines()) {
    const std::string name = "--engine=" + engine;
    ASSERT_EQ(RunBench({name, "fillseq", "compact"}).exit_code, 0);
    const ToolResult result =
        RunBench({name, "--use_existing_db", "--compaction_filter=drophalf",
                  "readseq", "compact", "readrandom", "readseq"});
    if (engine == "leveldb" || engine == "lmdb") {
      EXPECT_NE(result.error.find("compaction_filter"), std::string::npos)
          << result.Summary();
      continue;
    }
    ASSERT_EQ(result.exit_code, 0) << engine << "\n" << result.Summary();
    EXPECT_TRUE(std::regex_search(
        result.out, std::regex("readseq +:[^\n]* 1000 operations;[^\n]*\n"
                               "(.*\n)*"
                               "readseq +:[^\n]* 500 operations;")))
        << engine << "\n"
        << result.Summary();
  }
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

TEST_F(DbBenchTest, FillsOfOtherSizesReportTheirBytes) {
  // 3 batches, the last a short one; values of their own; empty values.
  const ToolResult result =
      RunBench({"--num=2500", "--value_size=0", "--histogram", "fillbatch",
                "readrandom", "fill100K", "readseq"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  for (const char* part : {"Count: 3 ", "(2500 of 2500 found)", "Count: 2 "}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n"
                                                        << result.Summary();
  }
}

TEST_F(DbBenchTest, MakesKeysThatShareAPrefix) {
  for (const std::string& engine : BuiltInEngines()) {
    const ToolResult result =
        RunBench({"--engine=" + engine, "--key_size=24", "--prefix_size=16",
                  "--keys_per_prefix=1000", "fillseq", "readrandom",
                  "multireadrandom", "readmissing"});
    ASSERT_EQ(result.exit_code, 0) << result.Summary();
    for (const char* part :
         {"Prefixes:    1 of 16 bytes", "(1000 of 1000 found)",
          "(1024 of 1024 found)", "(0 of 1000 found)"}) {
      EXPECT_NE(result.out.find(part), std::string::npos) << result.Summary();
    }
  }
}

// Whether each key is found where it was written, in every family.
TEST_F(DbBenchTest, SpreadsKeysOverColumnFamilies) {
  for (const char* engine : {"varve", "rocksdb", "leveldb", "lmdb"}) {
    std::unique_ptr<Engine> built_in;
    if (!NewEngine(engine, &built_in).ok()) continue;
    const std::string name = std::string("--engine=") + engine;
    const ToolResult result =
        RunBench({name, "--num_column_families=7", "--batch_size=5", "fillseq",
                  "readseq", "readreverse", "readrandom", "multireadrandom",
                  "seekrandom", "readwhilewriting", "overwrite", "flush",
                  "compact", "verifychecksum", "readrandom", "popfirst"});
    if (name.ends_with("leveldb") || name.ends_with("lmdb")) {
      EXPECT_NE(result.error.find("num_column_families"), std::string::npos)
          << result.Summary();
      continue;
    }
    ASSERT_EQ(result.exit_code, 0) << result.Summary();
    // All entries are walked, looked up, and popped, whatever their family.
    for (const char* line :
         {"readseq +:[^\n]* 1000 operations;", "readreverse +:[^\n]* 1000 op",
          "readrandom +:[^\n]*\\(1000 of 1000 found\\)",
          "multireadrandom +:[^\n]*\\(1000 of 1000 found\\)",
          "seekrandom +:[^\n]*\\(1000 of 1000 found\\)",
          "popfirst +:[^\n]* 1000 operations;"}) {
      EXPECT_TRUE(std::regex_search(result.out, std::regex(line)))
          << line << "\n"
          << result.Summary();
    }
  }
}

TEST_F(DbBenchTest, SpreadsBatchesOverColumnFamilies) {
  for (const char* batch_families : {"1", "3", "4"}) {
    // Each number is written once if the families take turns in the order of
    // the keys, and batches of 3 leave out every fourth.
    const ToolResult result =
        RunBench({"--num_column_families=4", "--batch_size=4",
                  std::string("--batch_families=") + batch_families, "fillseq",
                  "readseq", "stats"});
    ASSERT_EQ(result.exit_code, 0) << result.Summary();
    const std::string expected = std::string(batch_families) == "4"   ? "1000"
                                 : std::string(batch_families) == "3" ? "750"
                                                                      : "250";
    EXPECT_TRUE(std::regex_search(
        result.out,
        std::regex("readseq +:[^\n]* " + expected + " operations;")))
        << result.Summary();
  }
  // They are found without the flag, too, and others are opened beside.
  for (const char* flag : {"--threads=1", "--num_column_families=2"}) {
    const ToolResult again =
        RunBench({"--use_existing_db", flag, "readseq", "compact"});
    ASSERT_EQ(again.exit_code, 0) << again.Summary();
    EXPECT_TRUE(std::regex_search(
        again.out,
        std::regex(std::string("readseq +:[^\n]* ") +
                   (flag[2] == 't' ? "1000" : "500") + " operations;")))
        << again.Summary();
  }
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

TEST_F(DbBenchTest, MeasuresSeeksOnDatabasesThatItRemoves) {
  const std::string report = directory_.Sub("report.json");
  const ToolResult result =
      RunBench({"--seek_scale=0.001", "--report_json=" + report,
                "delete-memory", "queue-1", "worst-live"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  const std::string json = test::ReadWholeFile(report);
  for (const char* part :
       {"\"workload\": \"delete-memory\"", "\"after_quiet\":", "\"clean\":",
        "\"pops_per_sec\":", "\"rounds\":", "\"seek_scale\": \"0.001\""}) {
    EXPECT_NE(json.find(part), std::string::npos) << json;
  }
  EXPECT_FALSE(std::filesystem::exists(database_));
}

// The writer beside the readers is measured on its own, if at all.
TEST_F(DbBenchTest, CountsOnlyReadersOfReadWhileWritingForEachEngine) {
  for (const std::string& engine : BuiltInEngines()) {
    const ToolResult result = RunBench({"--engine=" + engine, "--histogram",
                                        "--threads=2", "readwhilewriting"});
    ASSERT_EQ(result.exit_code, 0) << result.Summary();
    const std::regex figures(
        "readwhilewriting : [^\n]* 2000 operations;[^\n]*\n"
        "Microseconds per read:\nCount: 2000 [^\n]*\n"
        "Min: [0-9.]+ +Median: [0-9.]+ +Max: [0-9.]+\n"
        "Percentiles: P50: [0-9.]+ [^\n]*P99: [0-9.]+ P99.9: ");
    EXPECT_TRUE(std::regex_search(result.out, figures)) << result.Summary();
  }
}

TEST_F(DbBenchTest, PrintsCpuTimeOfEachBenchmarkOnce) {
  const std::vector<std::string> names = {"fillseq", "fillrandom", "readrandom",
                                          "compact"};
  std::vector<std::string> arguments = names;
  arguments.push_back("levelstats");
  const ToolResult without = RunBench(arguments);
  EXPECT_EQ(without.out.find(": CPU "), std::string::npos) << without.Summary();
  arguments.push_back("--cpu_time");
  const ToolResult result = RunBench(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  size_t last = 0;
  for (const std::string& name : names) {
    const std::regex line("\n" + name +
                          " +: CPU [0-9.]+ micros/op "
                          "\\(user [0-9.]+, system [0-9.]+\\)\n");
    std::smatch match;
    ASSERT_TRUE(std::regex_search(result.out, match, line)) << name << "\n"
                                                            << result.Summary();
    const size_t position = static_cast<size_t>(match.position());
    EXPECT_GT(position, last) << name;
    last = position;
    EXPECT_FALSE(std::regex_search(result.out.substr(position + 1), line))
        << name;
  }
}

TEST_F(DbBenchTest, RefusesWrongFlagsBeforeItTouchesADatabase) {
  ASSERT_EQ(RunBench({"fillseq"}).exit_code, 0);
  const auto before = test::ReadDirectory(database_);
  for (const char* wrong : {"nosuchbenchmark",
                            "--engine=nosuch",
                            "--engine=pebble",
                            "--deletion_options",
                            "--seek_scale=0",
                            "delete-memory",
                            "--nosuchflag",
                            "--num=0",
                            "--num=x",
                            "--threads=0",
                            "--reads=0",
                            "--key_size=0",
                            "--key_size=1",
                            "--prefix_size=-1",
                            "--keys_per_prefix=-1",
                            "--keys_per_prefix=1001",
                            "--value_size=-1",
                            "--batch_size=0",
                            "--num_column_families=0",
                            "--num_column_families=1001",
                            "--batch_families=-1",
                            "--batch_families=2",
                            "--merge_keys=0",
                            "--merge_keys=1001",
                            "--mergereadpercent=101",
                            "--merge_operator=nosuch",
                            "--compaction_filter=nosuch",
                            "--compression_type=brotli",
                            "--compression_ratio=0",
                            "--block_size=0",
                            "--cache_size=-1",
                            "--bloom_bits=-2",
                            "--open_files=-2",
                            "--max_background_jobs=0",
                            "--write_buffer_size=1",
                            "--max_write_buffer_number=1",
                            "--subcompactions=0",
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
  for (const std::vector<std::string>& contradiction :
       {std::vector<std::string>{"--sync", "--disable_wal"},
        {"--case_insensitive_keys"},
        {"--text_keys", "--key_size=4", "--num=1000000"},
        {"--text_keys", "--prefix_size=8", "--keys_per_prefix=1000"},
        {"--key_size=16", "--prefix_size=16", "--keys_per_prefix=1000"},
        {"--key_size=17", "--prefix_size=16", "--keys_per_prefix=1000"}}) {
    std::vector<std::string> arguments = contradiction;
    arguments.push_back("fillrandom");
    EXPECT_NE(RunBench(arguments).exit_code, 0) << contradiction.front();
  }
  EXPECT_EQ(test::ReadDirectory(database_), before);
}

TEST_F(DbBenchTest, ReportsNoFigureOfAnAblationThatWasNotInUse) {
  const std::vector<std::string> ablations = {
      "--ablate=superversion=mutex,block_index=binary_search,"
      "block_cache=hash,memtable=skiplist",
      "--ablate=block_index=binary_search"};
  for (const std::string& ablation : ablations) {
    const ToolResult from_tables = RunBench(
        {ablation, "fillseq", "flush", "readrandom", "seekrandom", "readseq"});
    ASSERT_EQ(from_tables.exit_code, 0) << from_tables.Summary();
    EXPECT_TRUE(HasResult(from_tables, "readrandom"));
    // All entries are found in the memtable.
    const ToolResult from_memory =
        RunBench({ablation, "fillseq", "readrandom"});
    EXPECT_NE(from_memory.exit_code, 0) << from_memory.Summary();
    EXPECT_FALSE(HasResult(from_memory, "readrandom"));
    EXPECT_NE(from_memory.error.find("block_index=binary_search"),
              std::string::npos)
        << from_memory.Summary();
    EXPECT_EQ(from_memory.error.find("memtable="), std::string::npos)
        << from_memory.Summary();
    EXPECT_EQ(from_memory.error.find("superversion=mutex"), std::string::npos)
        << from_memory.Summary();
  }
}

TEST_F(DbBenchTest, FindsEveryCaseInsensitiveKeyAndDatabase) {
  for (const char* mode : {"", "key_case=unicode,catalog=folding"}) {
    const ToolResult result =
        RunBench({"--text_keys", "--case_insensitive_keys", "--threads=2",
                  "--ablate=" + std::string(mode), "filluniquerandom",
                  "readrandom", "multireadrandom", "cataloglookup"});
    ASSERT_EQ(result.exit_code, 0) << result.Summary();
    for (const char* name :
         {"readrandom", "multireadrandom", "cataloglookup"}) {
      EXPECT_TRUE(std::regex_search(
          result.out,
          std::regex(std::string(name) + " *:[^\n]*\\((\\d+) of \\1 found\\)")))
          << name << result.Summary();
    }
  }
  // Nothing was folded.
  const ToolResult result =
      RunBench({"--ablate=key_case=unicode", "fillseq", "readrandom"});
  EXPECT_NE(result.exit_code, 0) << result.Summary();
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
