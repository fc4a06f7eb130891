// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: commands for RocksDB's db_bench do here what they do there, or say that
// they do not. Method: run the program with RocksDB's flags, and look at its
// lines, its files and the database.

#include <regex>

#include "test/testing/directory.h"
#include "test/testing/engines/db_bench_runner.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/rocksdb/stats_text.h"
#include "tools/db_bench/workload.h"
#include "varve/db.h"
#include "varve/merge_operator.h"

namespace varve {
namespace {

using test::RunTool;
using test::ToolResult;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class DbBenchFlagsTest : public testing::Test, protected test::DbBenchRunner {
 protected:
  // Runs what must end well, and returns its output.
  std::string Out(const std::vector<std::string>& arguments) {
    const ToolResult result = RunBench(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.Summary();
    return result.out;
  }

  static bool HasEngine(const std::string& name) {
    std::unique_ptr<Engine> engine;
    return NewEngine(name, &engine).ok();
  }
};

TEST_F(DbBenchFlagsTest, ThePageHasTheTablesOfTheTool) {
  const std::string page =
      test::ReadWholeFile(test::FixturesDir() + "/../../docs/db_bench.md");
  const ToolResult result = RunTool({VARVE_DB_BENCH_PATH, "--rocksdb_flags"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, Not(HasSubstr("MISSING")));
  EXPECT_TRUE(page.ends_with("\n\n" + result.out))
      << "docs/db_bench.md must end with the output of --rocksdb_flags:\n"
      << result.out;
}

TEST_F(DbBenchFlagsTest, OptionsGoByTheirNames) {
  const std::vector<std::string> engines = {"varve", "rocksdb"};
  for (const std::string& engine : engines) {
    if (!HasEngine(engine)) continue;
    const std::string out =
        Out({"--engine=" + engine, "--num_levels=4",
             "--disable_auto_compactions", "--level0_stop_writes_trigger", "40",
             "--ttl_seconds=100000", "--rate_limiter_bytes_per_sec=100000000",
             "--noparanoid_checks", "--block_restart_interval=8", "fillseq",
             "flush", "readrandom", "sstables"});
    EXPECT_THAT(out, HasSubstr("--- level 3 ---")) << engine;
    EXPECT_THAT(out, Not(HasSubstr("--- level 4 ---"))) << engine;
    EXPECT_THAT(out, HasSubstr("(1000 of 1000 found)")) << engine;
  }
  if (!HasEngine("leveldb")) return;
  const ToolResult other =
      RunBench({"--engine=leveldb", "--num_levels=4", "fillseq"});
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.error, HasSubstr("--num_levels"));
}

TEST_F(DbBenchFlagsTest, AnOptionsFileIsBelowTheFlags) {
  ASSERT_THAT(Out({"--num_levels=4", "fillseq", "sstables"}),
              HasSubstr("--- level 3 ---"));
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(database_)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("OPTIONS-")) file = entry.path();
  }
  ASSERT_NE(file, "");
  const std::string copy = directory_.Sub("options");
  std::filesystem::copy_file(file, copy);
  const std::string of_file =
      Out({"--options_file=" + copy, "fillseq", "sstables"});
  EXPECT_THAT(of_file, HasSubstr("--- level 3 ---"));
  EXPECT_THAT(of_file, Not(HasSubstr("--- level 4 ---")));
  // 7 is the default, too.
  EXPECT_THAT(
      Out({"--options_file=" + copy, "--num_levels=7", "fillseq", "sstables"}),
      HasSubstr("--- level 6 ---"));
  const ToolResult missing =
      RunBench({"--options_file=" + copy + "x", "fillseq"});
  EXPECT_NE(missing.exit_code, 0);
}

TEST_F(DbBenchFlagsTest, SaysWhichFlagsHaveNoEffect) {
  const ToolResult result =
      RunBench({"--cache_numshardbits=6", "--memtablerep=vector",
                "--num_levels=8", "--allow_concurrent_memtable_write=false",
                "--wal_dir=" + database_ + "/", "fillseq"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  for (const char* flag :
       {"--cache_numshardbits=6: ", "--memtablerep=vector: ",
        "--num_levels=8: ", "--allow_concurrent_memtable_write=false: "}) {
    EXPECT_THAT(result.error, HasSubstr(flag));
  }
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 4);
  const ToolResult neutral = RunBench(
      {"--compaction_style=0", "--memtablerep=skip_list",
       "--enable_blob_files=false", "--blob_file_size=1000",
       "--compression_max_dict_bytes=00",
       "--wal_dir=", "--delete_obsolete_files_period_micros=5", "fillseq"});
  EXPECT_EQ(neutral.exit_code, 0) << neutral.Summary();
  EXPECT_EQ(neutral.error, "");
}

TEST_F(DbBenchFlagsTest, RefusesWhatWouldBeAnotherRun) {
  Out({"fillseq"});
  const auto before = test::ReadDirectory(database_);
  for (const char* refused : {"--compaction_style=1",
                              "--enable_blob_files",
                              "--wal_dir=/elsewhere",
                              "--user_timestamp_size=8",
                              "--format_version=2",
                              "--num_multi_db=2",
                              "--value_size_distribution_type=odd",
                              "--num_levels=x",
                              "--level0_file_num_compaction_trigger=y",
                              "--readonly",
                              "--use_existing_keys",
                              "--deletepercent=101",
                              "--put_percent=101",
                              "--rate=0",
                              "--keyrange_num=0",
                              "--mix_get_ratio=0",
                              "--expire_style=odd",
                              "--overwrite_probability=1.5",
                              "--same_value_percentage=101",
                              "--overwrite_window_size=0",
                              "--seek_missing_prefix",
                              "--transaction_sets=0",
                              "--writes=-2",
                              "--report_interval_seconds=-1",
                              "--writes=0",
                              "readseq[X]",
                              "readseq[X2",
                              "readseq[Y2]",
                              "readseq[X2-W0]",
                              "replay",
                              "--min_level_to_compress=9"}) {
    const ToolResult result = RunBench({refused, "fillrandom"});
    EXPECT_NE(result.exit_code, 0) << refused;
    EXPECT_NE(result.error, "") << refused;
    EXPECT_EQ(result.out, "") << refused;
  }
  const ToolResult both = RunBench(
      {"--transaction_db", "--optimistic_transaction_db", "fillrandom"});
  EXPECT_NE(both.exit_code, 0);
  const ToolResult writes =
      RunBench({"--readonly", "--use_existing_db", "readseq", "overwrite"});
  EXPECT_THAT(writes.error, HasSubstr("overwrite writes"));
  EXPECT_EQ(test::ReadDirectory(database_), before);
}

// Leaves out the ones that take long.
TEST_F(DbBenchFlagsTest, RunsEachBenchmark) {
  std::vector<std::string> arguments = {
      "--merge_operator=put", "--transaction_db",    "--threads=2",
      "--writes=500",         "--reads=700",         "--seek_nexts=2",
      "--deletes=10",         "--mix_put_ratio=0.3", "--mix_seek_ratio=0.1",
      "--reverse_iterator",   "--multiread_stride=3"};
  std::vector<std::string> names;
  for (const std::string& name : BenchmarkNames()) {
    const bool long_one = name.starts_with("compressr") || name == "compress" ||
                          name == "uncompress" || name == "acquireload" ||
                          name.starts_with("xx");
    // This one needs another database.
    if (!long_one && name != "verify") names.push_back(name);
  }
  arguments.insert(arguments.end(), names.begin(), names.end());
  const std::string out = Out(arguments);
  for (const std::string& name : names) {
    EXPECT_THAT(out, ContainsRegex("\n" + name + " +:")) << name;
  }
  EXPECT_THAT(out, Not(HasSubstr("skipped")));
  for (const char* line :
       {"\noverwrite +:[^\n]* 1000 operations", "\nreadtocache +:[^\n]* ops",
        "\ndeleteseq +:[^\n]* 20 operations",
        "\nupdaterandom +:[^\n]* 1400 operations",
        "\nnewiterator +:[^\n]* 1400 operations",
        "\nreadwhilescanning +:[^\n]* entries scanned beside",
        "\nreadwhilemerging +:[^\n]* merges beside",
        "\nmixgraph +:[^\n]*[(][0-9]+ gets, [0-9]+ puts, [0-9]+ seeks[)]",
        "\nfillanddeleteuniquerandom +:[^\n]* 500 operations",
        "\nrandomreplacekeys +:[^\n]* 1000 operations;[^\n]*deletes: 1, ",
        "\ntimeseries +:[^\n]* found[)] [(]500 writes beside[)]",
        "\ningestexternalfile +:[^\n]* 1 operations;[^\n]*1 batches x 10 fil",
        "\nrandomtransaction +:[^\n]*of 1400 failed",
        "\nfillseekseq +:[^\n]*[(]1000 of 1000 found[)]",
        "\nnum-entries-active-mem-table: [0-9]+\n"}) {
    EXPECT_THAT(out, ContainsRegex(line));
  }
}

TEST_F(DbBenchFlagsTest, MeasuresCodeOnBlocks) {
  const std::string out =
      Out({"xxhash", "xxhash64", "xxh3", "compress", "uncompress",
           "acquireload", "compressreject", "--compression_type=lz4"});
  for (const char* line :
       {"compressreject +:[^\n]* 786432 operations; +[0-9.]+ MB/s",
        "xxhash +:[^\n]* 128000 operations; +[0-9.]+ MB/s",
        "compress +:[^\n]* 262144 operations;[^\n]*[(]output: [3-7][0-9.]+%",
        "uncompress +:[^\n]* 262144 operations;"}) {
    EXPECT_THAT(out, ContainsRegex(line));
  }
  EXPECT_THAT(Out({"compress", "--compression_type=none"}),
              HasSubstr("compress     : skipped"));
}

TEST_F(DbBenchFlagsTest, TransactionsAreAtomic) {
  EXPECT_THAT(Out({"randomtransaction"}), HasSubstr("skipped (needs"));
  for (const char* kind : {"--transaction_db", "--optimistic_transaction_db"}) {
    // Few keys, so that they meet.
    const std::string out =
        Out({kind, "--num=10", "--writes=500", "--reads=500", "--threads=4",
             "--transaction_sets=3", "--transaction_set_snapshot",
             "randomtransaction", "readseq", "--batch_families=0"});
    EXPECT_THAT(out, ContainsRegex("randomtransaction +:[^\n]* 2000 oper"));
    // Each thread reads three sets of ten keys.
    EXPECT_THAT(out, ContainsRegex("readseq +:[^\n]* 120 operations;"));
  }
}

TEST_F(DbBenchFlagsTest, UpdatesAreWhatTheirNamesSay) {
  // Each of the ten values grows, and all stay.
  const std::string out =
      Out({"--num=10", "--writes=200", "--value_size=7", "fillseq",
           "appendrandom", "xorupdaterandom", "updaterandom", "readseq"});
  EXPECT_THAT(out, ContainsRegex("appendrandom +:[^\n]*[(]200 of 200 found"));
  EXPECT_THAT(out, ContainsRegex("readseq +:[^\n]* 10 operations;"));
}

TEST_F(DbBenchFlagsTest, OpensFamiliesKeysAndOperatorsOfOthers) {
  {
    Options options;
    options.create_if_missing = true;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options, database_, &db)));
    ColumnFamilyHandle* family = nullptr;
    options.merge_operator = NewStringAppendOperator();
    ASSERT_TRUE(Ok(db->CreateColumnFamily(options, "other", &family)));
    for (int i = 0; i < 50; ++i) {
      const std::string key(static_cast<size_t>(i) + 1, 'k');
      ASSERT_TRUE(Ok(db->Put(WriteOptions(), key, "value")));
      ASSERT_TRUE(Ok(db->Merge(WriteOptions(), family, key, "one")));
    }
    delete family;
    ASSERT_TRUE(Ok(db->Close()));
  }
  for (const char* mode : {"--readonly", "--readonly=false"}) {
    const std::string out =
        Out({"--use_existing_db", "--use_existing_keys", mode, "readrandom",
             "multireadrandom", "seekrandom", "--reads=640"});
    for (const char* name : {"readrandom", "multireadrandom", "seekrandom"}) {
      EXPECT_THAT(out, ContainsRegex(std::string("\n") + name +
                                     " +:[^\n]*[(]640 of 640 found[)]"));
    }
  }
  EXPECT_THAT(Out({"--use_existing_db", "flush", "compact", "readseq"}),
              ContainsRegex("readseq +:[^\n]* 50 operations;"));
}

TEST_F(DbBenchFlagsTest, DeletesRangesBetweenWrites) {
  for (const char* single :
       {"--noexpand_range_tombstones", "--expand_range_tombstones"}) {
    const std::string out =
        Out({single, "--seed=3", "--num=10000", "--writes=10000",
             "--writes_per_range_tombstone=100", "--max_num_range_tombstones=3",
             "--writes_before_delete_range=9000", "--range_tombstone_width=500",
             "fillseq", "readseq"});
    std::smatch match;
    ASSERT_TRUE(std::regex_search(
        out, match, std::regex("readseq +:[^\n]* ([0-9]+) operations;")))
        << out;
    // At least one range begins before the end, and three are no more keys.
    EXPECT_GE(std::stoi(match[1]), 8500);
    EXPECT_LT(std::stoi(match[1]), 10000);
  }
}

TEST_F(DbBenchFlagsTest, ReadsAtARateAndPrefersKeys) {
  const std::string out =
      Out({"--num=2000", "--reads=500", "--benchmark_read_rate_limit=100000000",
           "--read_random_exp_range=8", "filluniquerandom", "readrandom",
           "multireadrandom", "seekrandom"});
  EXPECT_THAT(out, ContainsRegex("readrandom +:[^\n]*[(]500 of 500 found"));
  EXPECT_THAT(out, ContainsRegex("seekrandom +:[^\n]*[(]500 of 500 found"));
}

TEST_F(DbBenchFlagsTest, ValuesDifferInSize) {
  for (const char* kind : {"uniform", "normal"}) {
    const std::string out =
        Out({std::string("--value_size_distribution_type=") + kind,
             "--value_size_min=10", "--value_size_max=1010", "fillseq",
             "readseq", "--report_json=" + directory_.Sub("report")});
    EXPECT_THAT(out, ContainsRegex("readseq +:[^\n]* 1000 operations;"));
  }
}

TEST_F(DbBenchFlagsTest, RepeatsABenchmark) {
  const std::string out = Out({"fillseq", "readrandom[X3-W2]", "readseq"});
  size_t count = 0;
  for (size_t at = 0; (at = out.find("\nreadrandom ", at)) != std::string::npos;
       ++at) {
    ++count;
  }
  // Three runs, the mean and the median.
  EXPECT_EQ(count, 5u) << out;
  EXPECT_THAT(out, ContainsRegex("\nreadrandom .AVG    3 runs. : [0-9]+ .*"
                                 "ops/sec; +[0-9.]+ MB/sec\n"
                                 "readrandom .MEDIAN 3 runs. : [0-9]+ ops"));
}

// tools/benchmark.sh of RocksDB finds fields by their places.
TEST_F(DbBenchFlagsTest, PrintsWhatScriptsRead) {
  const std::string out =
      Out({"fillrandom", "stats", "--histogram", "--write_buffer_size=65536"});
  const std::string number = " +[0-9.]+";
  for (const std::string& line :
       {std::string(
            "\nDate: +[A-Z][a-z]+ [A-Z][a-z]+ +[0-9]+ [0-9:]+ [0-9]+\n"),
        "\nfillrandom +:" + number + " micros/op" + number + " ops/sec" +
            number + " seconds" + number + " operations;" + number + " MB/s\n",
        "\nPercentiles: P50:" + number + " P75:" + number + " P99:" + number +
            " P99.9:" + number + " P99.99:" + number + "\n",
        std::string("\nMin: [0-9.]+ +Median: [0-9.]+ +Max: [0-9.]+\n"),
        "\n Sum +[0-9]+/0" + number + " [KMGT]B" + number + number,
        "\nUptime.secs.:" + number + " total,",
        std::string("\nBlob file count: 0, total size: 0.0 GB,"),
        "\nFlush.GB.: cumulative" + number + ", interval",
        "\nCumulative compaction:" + number + " GB write," + number +
            " MB/s write," + number + " GB read,",
        "\nCumulative writes: .*ingest:" + number + " GB,",
        "\nStalls.count.:" + number + " level0_slowdown,",
        "\nCumulative stall: [0-9:.]+ H:M:S," + number + " percent\n"}) {
    EXPECT_THAT(out, ContainsRegex(line));
  }
}

TEST_F(DbBenchFlagsTest, FormatsStatistics) {
  const std::string text = FormatRocksDbStats(
      {{{"compaction.Sum.NumFiles", "3"},
        {"compaction.Sum.SizeBytes", "1610612736"},
        {"compaction.Sum.WriteGB", "2.5"},
        {"compaction.L0.WriteGB", "1.25"},
        {"compaction.Sum.CompSec", "12.5"},
        {"io_stalls.level0_numfiles", "7"},
        {"io_stalls.memtable_compaction", "9"}},
       "Written by users: 512.0 MB, to\nStalls: 2 times, 125.250 seconds; now"},
      StatsBase(), 1000);
  for (const char* part :
       {"\n Sum      3/0    1.50 GB ", "\nFlush(GB): cumulative 1.250,",
        "\nCumulative compaction: 2.50 GB write, 2.56 MB/s write, ",
        " 7 level0_numfiles, ", " 9 memtable_compaction, ",
        "ingest: 0.50 GB, 0.51 MB/s", "stall: 00:02:05.250 H:M:S, 12.5 per"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  // Sum has the seconds in field 15, where scripts look.
  std::istringstream line(text.substr(text.find("\n Sum") + 1));
  std::string field;
  for (int i = 1; i <= 15; ++i) line >> field;
  EXPECT_EQ(field, "12.50");
}

TEST_F(DbBenchFlagsTest, ReportsWhileItRuns) {
  const std::string file = directory_.Sub("report.csv");
  const ToolResult result =
      RunBench({"fillseq", "readrandom", "--duration=3",
                "--report_interval_seconds=1", "--report_file=" + file,
                "--stats_interval=100", "--stats_per_interval=1"});
  ASSERT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_THAT(test::ReadWholeFile(file),
              ContainsRegex("^secs_elapsed,interval_qps\n[0-9]+,[0-9]+\n"));
  EXPECT_THAT(result.error, ContainsRegex("[.][.][.] readrandom: [0-9]+ sec"));
  EXPECT_THAT(result.error, HasSubstr("\nCumulative writes:"));
}

}  // namespace
}  // namespace varve
