// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a Put that meets no other write takes no mutex, allocates nothing and
// makes one system call, the log's write(); none, if the log is mapped or there
// is none. Method: a child process opens a database and is then led through
// Puts one instruction at a time. A machine that forbids that fails the test.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "test/testing/machine/single_stepper.h"
#include "test/testing/temp_dir.h"
#include "varve/db.h"

namespace varve::test {
namespace {

constexpr uint64_t kPuts = 15;

StepReport StepPuts(const Options& options, const WriteOptions& write_options) {
  TempDir dir;
  SingleStepper stepper;
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

TEST(PutCostTest, NoneThroughAMapping) {
  Options options = MakeOptions();
  options.wal_write = WriteMethod::kMap;
  ExpectCost(StepPuts(options, {}), 0);
}

TEST(PutCostTest, NoneIntoTheBufferNorWithoutALog) {
  Options options = MakeOptions();
  options.manual_wal_flush = true;
  ExpectCost(StepPuts(options, {}), 0);
  WriteOptions no_log;
  no_log.disable_wal = true;
  ExpectCost(StepPuts(MakeOptions(), no_log), 0);
}

}  // namespace
}  // namespace varve::test
