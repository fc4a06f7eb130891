// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a Put that meets no other write takes no mutex, allocates nothing and
// makes one system call, the log's write(); none, if there is no log, and
// hardly any, if the log is mapped. Method: a child process opens a database
// and is then led through Puts one instruction at a time. A machine that
// forbids that fails the test. This program starts itself under strace for the
// mapped log.

#include <unistd.h>

#include "monitoring/instrumented_file.h"
#include "test/testing/directory.h"
#include "test/testing/machine/single_stepper.h"
#include "test/testing/run_tool.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr uint64_t kPuts = 15;

constexpr const char* kTracedArgument = "--traced";
constexpr const char* kMark = "/mark-puts";
constexpr int kTracedPuts = 20000;

StepReport StepPuts(const Options& options, const WriteOptions& write_options) {
  TempDir dir;
  SingleStepper stepper;
  // An append in single steps takes so long that it is recorded as a wait.
  stepper.LeaveOutCallsOf(&FileWaits::Record);
  return stepper.Run(kPuts, [&](const std::function<void()>& ready) {
    std::unique_ptr<DB> db;
    if (!DB::Open(options, dir.Sub("db"), &db).ok()) return false;
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < 2 * kPuts; ++i) {
      keys.push_back("key" + std::to_string(i * 7919 % 1000));
    }
    const std::string value(100, 'v');
    bool good = true;
    for (uint64_t i = 0; i < kPuts; ++i) {
      good &= db->Put(write_options, keys[i], value).ok();
    }
    ready();
    for (uint64_t i = kPuts; i < 2 * kPuts; ++i) {
      const Slice key(keys[i]);
      const Slice slice(value);
      BeginSteps();
      good &= db->Put(write_options, key, slice).ok();
      EndSteps();
    }
    return good;
  });
}

Options MakeOptions() {
  Options options;
  options.create_if_missing = true;
  return options;
}

void ExpectCost(const StepReport& report, uint64_t system_calls) {
  ASSERT_EQ(report.error, "");
  std::string findings;
  for (const auto& [what, count] : report.findings) {
    findings += what + ": " + std::to_string(count) + "\n";
  }
  EXPECT_EQ(report.pieces, kPuts);
  EXPECT_EQ(report.system_calls, system_calls * kPuts) << findings;
  EXPECT_EQ(report.mutex_operations, 0u) << findings;
  EXPECT_EQ(report.allocations, 0u) << findings;
  printf("%llu instructions and %.1f locked ones a Put\n",
         static_cast<unsigned long long>(report.instructions / kPuts),
         static_cast<double>(report.locked) / kPuts);
}

TEST(PutCostTest, OneWrite) { ExpectCost(StepPuts(MakeOptions(), {}), 1); }

// The program that is traced: puts between two marks.
int RunTraced(const std::string& path, const std::string& method) {
  Options options = MakeOptions();
  if (!SetOption("wal_write", method, &options).ok()) return 2;
  std::unique_ptr<DB> db;
  if (!DB::Open(options, path, &db).ok()) return 1;
  const std::string value(100, 'v');
  access(kMark, F_OK);
  for (int i = 0; i < kTracedPuts; ++i) {
    if (!db->Put({}, std::to_string(i * 7919 % 100000), value).ok()) return 1;
  }
  access(kMark, F_OK);
  return 0;
}

TEST(PutCostTest, HardlyAnyThroughAMapping) {
  for (const char* method : {"map", "auto", "call"}) {
    SCOPED_TRACE(method);
    TempDir dir;
    char self[PATH_MAX] = "";
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    const std::string output = dir.Sub("trace");
    const ToolResult result =
        RunTool({"strace", "-qq", "-s", "16", "-o", output, self,
                 kTracedArgument, dir.Sub("db"), method});
    ASSERT_EQ(result.exit_code, 0) << result.Summary();
    std::istringstream lines(ReadWholeFile(output));
    bool between = false;
    int calls = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(kMark) != std::string::npos) {
        between = !between;
      } else {
        calls += between;
      }
    }
    printf("%s: %d system calls for %d puts\n", method, calls, kTracedPuts);
    if (std::string(method) == "call") {
      EXPECT_GE(calls, kTracedPuts);
    } else {
      EXPECT_LT(calls, kTracedPuts / 10);
    }
  }
}

TEST(PutCostTest, NoneIntoTheBufferNorWithoutALog) {
  Options options = MakeOptions();
  options.manual_wal_flush = true;
  ExpectCost(StepPuts(options, {}), 0);
  ExpectCost(StepPuts(MakeOptions(), {.disable_wal = true}), 0);
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
