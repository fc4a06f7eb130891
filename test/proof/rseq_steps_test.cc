// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an update of a per-CPU cell that a debugger steps through, so that no
// restartable sequence ever comes to its end, is done all the same, once, and
// after a bounded number of attempts. Method: a child process is led through
// updates one instruction at a time, into their sequences.

#include <gtest/gtest.h>

#include <cstdio>

#include "test/testing/machine/single_stepper.h"
#include "util/threads/per_cpu.h"

namespace varve::test {
namespace {

constexpr uint64_t kUpdates = 20;
using Cells = PerCpuCells<100>;

template <typename Update>
StepReport StepUpdates(SingleStepper::Mode mode, uint64_t overflows,
                       const Update& update) {
  SingleStepper stepper(mode);
  return stepper.Run(kUpdates, [&](const std::function<void()>& ready) {
    Cells cells;
    for (uint64_t i = 0; i < kUpdates; ++i) update(&cells, i);
    ready();
    for (uint64_t i = 0; i < kUpdates; ++i) {
      BeginSteps();
      update(&cells, i);
      EndSteps();
    }
    const bool good = cells.Sum(7) == 2 * kUpdates &&
                      cells.TEST_overflow_count() == overflows;
    if (!good) {
      fprintf(stderr, "sum %llu, overflows %llu\n",
              static_cast<unsigned long long>(cells.Sum(7)),
              static_cast<unsigned long long>(cells.TEST_overflow_count()));
    }
    return good;
  });
}

const auto kAdd = [](Cells* cells, uint64_t) { cells->Add(7, 1); };
const auto kRecord = [](Cells* cells, uint64_t i) { cells->Record(8, 7, i); };

class RseqStepsTest : public ::testing::Test {
 protected:
  const bool has_sequences_ = BestPerCpuPath() != PerCpuPath::kAtomic;
  const uint64_t overflows_ = has_sequences_ ? kUpdates : 0;
};

TEST_F(RseqStepsTest, UpdatesGoToTheOverflowUnderADebugger) {
  const auto into = SingleStepper::Mode::kIntoSequences;
  for (const StepReport& report : {StepUpdates(into, overflows_, kAdd),
                                   StepUpdates(into, overflows_, kRecord)}) {
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.pieces, kUpdates);
    EXPECT_GE(report.locked, kUpdates);
    EXPECT_LT(report.instructions, 400 * kUpdates);
  }
}

TEST_F(RseqStepsTest, UpdatesLockNothingElse) {
  const auto over = SingleStepper::Mode::kOverSequences;
  for (const StepReport& report :
       {StepUpdates(over, 0, kAdd), StepUpdates(over, 0, kRecord)}) {
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.pieces, kUpdates);
    if (!has_sequences_) continue;
    EXPECT_EQ(report.locked, 0u);
    EXPECT_EQ(report.sequences, kUpdates);
    EXPECT_EQ(report.aborted_sequences, 0u);
    printf("%.1f instructions an update\n",
           static_cast<double>(report.instructions) / kUpdates);
  }
}

}  // namespace
}  // namespace varve::test
