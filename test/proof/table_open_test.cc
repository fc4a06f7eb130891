// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the first open of a table takes two system calls, an open and a read;
// to open its file again takes one; foreign tables take three at most. A large
// table takes three, and two more reads when its index is loaded, once. And the
// ablation table_open=uncached does what it is there to show. Method: this
// program starts itself under strace and counts the calls that name a table or
// its descriptor, between marks.

#include <unistd.h>

#include <regex>

#include "experimental/ablation.h"
#include "test/testing/directory.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/run_tool.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr const char* kTracedArgument = "--traced";
constexpr const char* kMarkOpened = "/mark-opened";
constexpr const char* kMarkRead = "/mark-read";
constexpr int kTables = 40;
constexpr int kKeysPerTable = 500;

std::string KeyOf(int number) {
  char text[32];
  snprintf(text, sizeof(text), "user%012d", number);
  return text;
}

Options DbOptions() {
  Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.filter_policy = NewBloomFilterPolicy(10);
  return options;
}

// A database of some tables.
void MakeDatabase(const std::string& path, int tables, int keys_per_table) {
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(DbOptions(), path, &db).ok());
  for (int t = 0; t < tables; ++t) {
    for (int i = 0; i < keys_per_table; ++i) {
      ASSERT_TRUE(
          db->Put({}, KeyOf(t * keys_per_table + i), std::string(100, 'v'))
              .ok());
    }
    ASSERT_TRUE(db->Flush({}).ok());
  }
}
void MakeDatabase(const std::string& path) {
  MakeDatabase(path, kTables, kKeysPerTable);
}

// The traced program: opens the database, and reads a key of each table.
int RunTraced(const std::string& path, const std::string& ablation) {
  Options options = DbOptions();
  options.max_open_files = 16;
  options.block_cache = NewBlockCache(size_t{0});
  AblationOptions choices;
  if (!choices.Parse(ablation).ok()) return 2;
  if (!ablation.empty()) options.experiment = NewExperiment(choices);
  std::unique_ptr<DB> db;
  const Status s = DB::Open(options, path, &db);
  if (!s.ok()) {
    fprintf(stderr, "%s\n", s.ToString().c_str());
    return 1;
  }
  std::string value;
  access(kMarkOpened, F_OK);
  for (int t = 0; t < kTables; ++t) {
    // Also keys that are not there: foreign databases have others.
    const Status got = db->Get({}, KeyOf(t * kKeysPerTable), &value);
    if (!got.ok() && !got.IsNotFound()) return 1;
  }
  access(kMarkRead, F_OK);
  return 0;
}

// How often each call named each table, by file name.
using Calls = std::map<std::string, std::map<std::string, int>>;

struct Trace {
  Calls opening;  // Opens the database, and so all tables.
  Calls reading;
  int sysfs_calls = 0;
  std::string error;
};

Trace TraceRun(const std::string& path, const std::string& ablation) {
  Trace trace;
  TempDir dir;
  char self[PATH_MAX] = "";
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) return trace;
  const std::string output = dir.Sub("trace");
  const ToolResult result =
      RunTool({"strace", "-f", "-y", "-qq", "-s", "8", "-o", output, self,
               kTracedArgument, path, ablation});
  if (result.exit_code != 0) {
    trace.error = result.Summary();
    return trace;
  }
  static const std::regex call_on_table(
      R"((?:^|\s)(\w+)\(.*?([0-9]{6}\.(?:sst|ldb))[">])");
  std::istringstream lines(ReadWholeFile(output));
  std::string line;
  Calls* phase = &trace.opening;
  while (phase != nullptr && std::getline(lines, line)) {
    if (line.find(kMarkOpened) != std::string::npos) phase = &trace.reading;
    if (line.find(kMarkRead) != std::string::npos) phase = nullptr;
    // The number of processors is read once.
    if (line.find("\"/sys/dev/block") != std::string::npos) ++trace.sysfs_calls;
    std::smatch match;
    if (phase != nullptr && std::regex_search(line, match, call_on_table)) {
      ++(*phase)[match[2]][match[1]];
    }
  }
  if (phase != nullptr) trace.error = "the marks were not seen";
  return trace;
}

int Sum(const std::map<std::string, int>& calls) {
  int sum = 0;
  for (const auto& [name, count] : calls) {
    if (name != "close") sum += count;
  }
  return sum;
}

std::string Describe(const std::map<std::string, int>& calls) {
  std::string text;
  for (const auto& [name, count] : calls) {
    text += name + " " + std::to_string(count) + ", ";
  }
  return text;
}

TEST(TableOpenTest, FirstOpenIsTwoCallsAndAnotherOne) {
  TempDir dir;
  ASSERT_NO_FATAL_FAILURE(MakeDatabase(dir.Sub("db")));
  const Trace trace = TraceRun(dir.Sub("db"), "");
  ASSERT_EQ(trace.error, "");
  ASSERT_EQ(trace.opening.size(), size_t{kTables});
  for (const auto& [table, calls] : trace.opening) {
    EXPECT_EQ(calls.at("openat"), 1) << table;
    EXPECT_EQ(calls.at("pread64"), 1) << table;
    EXPECT_EQ(Sum(calls), 2) << table << ": " << Describe(calls);
  }
  int opened_again = 0;
  for (const auto& [table, calls] : trace.reading) {
    const int opens = calls.contains("openat") ? calls.at("openat") : 0;
    opened_again += opens;
    EXPECT_LE(opens, 1) << table;
    // Beside the open just the read of the block.
    const int reads = calls.contains("pread64") ? calls.at("pread64") : 0;
    EXPECT_LE(reads, 1) << table;
    EXPECT_EQ(Sum(calls), opens + reads) << table << ": " << Describe(calls);
  }
  EXPECT_GE(opened_again, kTables - 16);
  EXPECT_EQ(trace.sysfs_calls, 0);
  printf("%d tables opened by 2 calls each, %d of them again by 1\n", kTables,
         opened_again);
}

TEST(TableOpenTest, LargeTablesAreLoadedByTheirFirstRead) {
  TempDir dir;
  constexpr int kLargeTables = 2;
  constexpr int kKeys = 60000;
  ASSERT_NO_FATAL_FAILURE(MakeDatabase(dir.Sub("db"), kLargeTables, kKeys));
  const Trace trace = TraceRun(dir.Sub("db"), "");
  ASSERT_EQ(trace.error, "");
  ASSERT_EQ(trace.opening.size(), size_t{kLargeTables});
  for (const auto& [table, calls] : trace.opening) {
    EXPECT_EQ(calls.at("openat"), 1) << table;
    // The end of the file, and the index, to verify its checksum.
    EXPECT_EQ(calls.at("pread64"), 2) << table;
    EXPECT_EQ(Sum(calls), 3) << table << ": " << Describe(calls);
  }
  // All keys are in the first table.
  ASSERT_EQ(trace.reading.size(), size_t{1});
  for (const auto& [table, calls] : trace.reading) {
    // The filter and the index once, and a block for each key.
    EXPECT_EQ(calls.at("pread64"), 2 + kTables) << table;
    EXPECT_EQ(Sum(calls), 2 + kTables) << table << ": " << Describe(calls);
  }
}

TEST(TableOpenTest, ForeignTablesTakeThreeCallsAtMost) {
  int tables = 0;
  for (const char* fixture :
       {"rocksdb-default-levels", "rocksdb-big-values", "rocksdb-bloom-xxh3",
        "rocksdb-fv2", "rocksdb-index-partitioned", "rocksdb-bloom-partitioned",
        "rocksdb-index-hash-large", "dbbench-default"}) {
    TempDir dir;
    std::filesystem::copy(FixturesDir() + "/" + fixture + "/db", dir.Sub("db"),
                          std::filesystem::copy_options::recursive);
    const Trace trace = TraceRun(dir.Sub("db"), "");
    ASSERT_EQ(trace.error, "") << fixture;
    for (const auto& [table, calls] : trace.opening) {
      // The table that the log was flushed to is written here.
      if (calls.contains("write")) continue;
      EXPECT_LE(Sum(calls), 3)
          << fixture << " " << table << ": " << Describe(calls);
      ++tables;
    }
  }
  EXPECT_GT(tables, 4);
}

TEST(TableOpenTest, UncachedOpensWalkToTheDevice) {
  TempDir dir;
  ASSERT_NO_FATAL_FAILURE(MakeDatabase(dir.Sub("db")));
  const Trace trace = TraceRun(dir.Sub("db"), "table_open=uncached");
  ASSERT_EQ(trace.error, "");
  for (const auto& [table, calls] : trace.opening) {
    EXPECT_EQ(calls.at("openat"), 1) << table;
    EXPECT_EQ(calls.at("fcntl"), 2) << table;
    // Footer, metaindex, properties, filter, index.
    EXPECT_GE(calls.at("pread64"), 5) << table;
    EXPECT_GE(Sum(calls), 9) << table << ": " << Describe(calls);
  }
  // A table that was closed is read anew.
  int read_again = 0;
  for (const auto& [table, calls] : trace.reading) {
    read_again += calls.contains("pread64") && calls.at("pread64") >= 6;
  }
  EXPECT_GE(read_again, kTables - 16);
  EXPECT_GE(trace.sysfs_calls, kTables);
}

}  // namespace
}  // namespace varve::test

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == varve::test::kTracedArgument) {
    return varve::test::RunTraced(argv[2], argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
