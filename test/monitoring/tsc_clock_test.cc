// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the clock of traces is the time stamp counter only where that can be
// trusted, and ticks become the right time. Method: the choice under facts of
// other machines; conversions beside clock_gettime; and a simulated processor
// whose cores are apart by known amounts, of which the measurement must find
// out and the clock correct.
#include "monitoring/tsc_clock.h"

#include <sched.h>

#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t SteadyNs() { return ReadSlowClock(ClockKind::kSteady); }

ClockFacts GoodFacts() {
  ClockFacts facts;
  facts.constant = facts.nonstop = facts.rdtscp = true;
  facts.source = "tsc";
  return facts;
}

TEST(TscClockTest, IsUsedIfConstantNonstopAndTheKernelsOwnSource) {
  std::string why;
  EXPECT_EQ(ChooseClock(GoodFacts(), false, &why), ClockKind::kTsc);
  EXPECT_NE(why.find("clock source"), std::string::npos) << why;
}

TEST(TscClockTest, IsNotUsedIfTheKernelTakesAnotherSource) {
  for (const char* source : {"kvm-clock", "hpet", "acpi_pm", ""}) {
    ClockFacts facts = GoodFacts();
    facts.source = source;
    std::string why;
    EXPECT_EQ(ChooseClock(facts, false, &why), ClockKind::kSteady);
    EXPECT_NE(why.find(source), std::string::npos) << why;
    EXPECT_EQ(ChooseClock(facts, true, &why), ClockKind::kTscByCore);
    facts.rdtscp = false;
    EXPECT_EQ(ChooseClock(facts, true, &why), ClockKind::kSteady);
  }
}

TEST(TscClockTest, IsNeverUsedIfItStopsOrChangesItsSpeed) {
  for (const bool constant : {false, true}) {
    ClockFacts facts = GoodFacts();
    facts.constant = constant;
    facts.nonstop = !constant;
    std::string why;
    EXPECT_EQ(ChooseClock(facts, true, &why), ClockKind::kSteady);
  }
}

TEST(TscClockTest, FindsFlagsAsWholeWordsOnTheirLine) {
  ClockFacts facts;
  ParseCpuFlags(
      "processor\t: 0\nflags\t\t: fpu constant_tsc rdtscp tsc_known_freq\n"
      "bugs\t\t: nonstop_tsc\n",
      &facts);
  EXPECT_TRUE(facts.constant);
  EXPECT_TRUE(facts.rdtscp);
  EXPECT_FALSE(facts.nonstop);
  ClockFacts other;
  ParseCpuFlags("\nflags\t: nonconstant_tsc rdtscpx nonstop_tsc\n", &other);
  EXPECT_FALSE(other.constant);
  EXPECT_FALSE(other.rdtscp);
  EXPECT_TRUE(other.nonstop);
  ClockFacts none;
  ParseCpuFlags("", &none);
  EXPECT_FALSE(none.nonstop);
}

TEST(TscClockTest, NamesItsChoice) {
  EXPECT_NE(CurrentClockName().find("("), std::string::npos);
  printf("%s\n", CurrentClockName().c_str());
}

TEST(TscClockTest, AgreesWithTheKernelOverATenthOfASecond) {
  const ClockKind kind = CurrentClock();
  const ClockAnchor begin = AnchorClock(kind);
  uint64_t before[100];
  uint64_t ticks[100];
  uint64_t after[100];
  for (int i = 0; i < 100; ++i) {
    const uint64_t start = SteadyNs();
    while (SteadyNs() < start + kSecond / 1000) {
    }
    before[i] = SteadyNs();
    ticks[i] = ReadClock(kind);
    after[i] = SteadyNs();
  }
  const TickConverter converter(kind, begin, AnchorClock(kind));
  // The error of an anchor, and reordered instructions.
  constexpr uint64_t kSlackNs = 2000;
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(converter.ToNs(ticks[i]) + kSlackNs, before[i]);
    EXPECT_LE(converter.ToNs(ticks[i]), after[i] + kSlackNs);
  }
}

TEST(TscClockTest, TellsTheSpeedOfAShortTraceByTheProcessesLife) {
  const ClockKind kind = CurrentClock();
  const ClockAnchor anchor = AnchorClock(kind);
  const TickConverter no_time(kind, anchor, anchor);
  const uint64_t start = SteadyNs();
  while (SteadyNs() < start + kSecond / 20) {
  }
  const TickConverter long_time(kind, anchor, AnchorClock(kind));
  EXPECT_NEAR(no_time.ns_per_tick() / long_time.ns_per_tick(), 1, 0.002);
}

TEST(TscClockTest, ConvertsWithSaturation) {
  ClockAnchor anchor;
  anchor.ticks = 1000;
  anchor.ns = 5 * kSecond;
  const TickConverter converter(anchor, 0.25);
  EXPECT_EQ(converter.ToNs(1000), 5 * kSecond);
  EXPECT_EQ(converter.ToNs(1000 + 4 * kSecond), 6 * kSecond);
  EXPECT_EQ(converter.ToNs(600), 5 * kSecond - 100);
  EXPECT_EQ(converter.TicksOf(kSecond), 4 * kSecond);
  EXPECT_EQ(converter.TicksOf(UINT64_MAX), UINT64_MAX);
  uint64_t last = 0;
  for (uint64_t ticks = 0; ticks < 20000; ticks += 7) {
    EXPECT_GE(converter.ToNs(ticks), last);
    last = converter.ToNs(ticks);
  }
  anchor.ns = 10;
  const TickConverter early(anchor, 1);
  EXPECT_EQ(early.ToNs(0), 0u);
  const TickConverter slow(anchor, 3);
  EXPECT_EQ(slow.ToNs(UINT64_MAX), UINT64_MAX);
}

TEST(TscClockTest, CoarseClockIsConstantForMilliseconds) {
  std::set<uint64_t> readings;
  const uint64_t start = SteadyNs();
  while (SteadyNs() < start + kSecond / 20) {
    readings.insert(ReadClock(ClockKind::kCoarse));
  }
  // The kernel ticks 100 to 1000 times a second.
  EXPECT_LE(readings.size(), 52u);
}

// ---- A simulated processor --------------------------------------------------

constexpr uint32_t kCores = CPU_SETSIZE;
int64_t simulated_lead[kCores];

uint64_t ReadSimulated(uint32_t* core) {
  *core = static_cast<uint32_t>(sched_getcpu());
  return SteadyNs() + static_cast<uint64_t>(simulated_lead[*core]);
}

TEST(CoreOffsetsTest, AreFoundAndCorrected) {
  test::Rng rng(test::TestSeed());
  for (int64_t& lead : simulated_lead) {
    lead = rng.Between(-1'000'000'000, 1'000'000'000);
  }
  std::unique_ptr<CoreOffsets> offsets;
  ASSERT_TRUE(Ok(MeasureCoreOffsets(ReadSimulated, &offsets)));
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  size_t first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  size_t cores = 0;
  for (size_t core = 0; core < offsets->offsets().size(); ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    ++cores;
    const int64_t expected = simulated_lead[first] - simulated_lead[core];
    const int64_t error = offsets->offsets()[core] - expected;
    printf("core %zu: off by %lld ns\n", core, static_cast<long long>(error));
    // Half of an exchange, which a busy machine makes long.
    EXPECT_LT(std::abs(error), 20'000'000) << core;
  }
  EXPECT_EQ(cores, static_cast<size_t>(CPU_COUNT(&allowed)));
  // A core that was not measured is unchanged.
  const CoreOffsets unknown({}, ReadSimulated);
  uint32_t core;
  const uint64_t before = ReadSimulated(&core);
  if (static_cast<uint32_t>(sched_getcpu()) == core) {
    EXPECT_LT(unknown.Now() - before, 10 * kSecond);
  }
}

TEST(CoreOffsetsTest, LeaveTheCallersAffinityAlone) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  std::unique_ptr<CoreOffsets> offsets;
  ASSERT_TRUE(MeasureCoreOffsets(ReadSimulated, &offsets).ok());
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace varve
