// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The clock of traces: a count of ticks that is read in some nanoseconds, and
// turned into time later, when a trace is looked at.
//
// The processor's time stamp counter is that count if it goes at constant speed
// in all states of all cores, and the kernel itself takes its time from it:
// this it does only after it has seen that the cores agree. The kernel's
// *current* clock source counts, not those it offers. Otherwise the counter may
// be used with the differences between cores corrected, once they were measured
// (MeasureCoreOffsets), or else clock_gettime.
//
// Ticks are put beside CLOCK_MONOTONIC at both ends of whatever is converted
// (ClockAnchor): no drift adds up. Nothing is measured before the first use.
// Never used for the engine's own decisions.
// Thread-safety: thread-safe.

#include <time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "varve/experimental.h"
#include "varve/status.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace varve {

enum class ClockKind : uint8_t {
  kTsc,        // Ticks of the time stamp counter.
  kTscByCore,  // The same, plus what the core lacks.
  kSteady,     // Nanoseconds of CLOCK_MONOTONIC.
  kCoarse,     // The same as of the last tick of the kernel, some ms ago.
};

// What the choice depends on.
struct ClockFacts {
  bool constant = false;  // CPU flag constant_tsc
  bool nonstop = false;   // CPU flag nonstop_tsc
  bool rdtscp = false;    // CPU flag rdtscp
  std::string source;     // The kernel's current clock source.
};
ClockFacts ReadClockFacts();
// From the text of /proc/cpuinfo.
void ParseCpuFlags(const std::string& cpuinfo, ClockFacts* facts);

// The best clock under these facts; *why becomes a few words.
ClockKind ChooseClock(const ClockFacts& facts, bool offsets_known,
                      std::string* why);

// The kind for new traces. The first call looks at the machine.
ClockKind CurrentClock();

// If the kernel has turned to another clock source since, looks again.
void ChooseClockAnew();
std::string CurrentClockName();
// For ablation trace_clock; process-wide.
void SetClockMode(TraceClockMode mode);

// What is to be added to a core's counter to get the first core's.
class CoreOffsets {
 public:
  // Where a thread is, and that core's counter, in one step.
  using Read = uint64_t (*)(uint32_t* core);

  CoreOffsets(std::vector<int64_t> offsets, Read read)
      : offsets_(std::move(offsets)), read_(read) {}
  uint64_t Now() const {
    uint32_t core;
    const uint64_t ticks = read_(&core);
    return core < offsets_.size()
               ? ticks + static_cast<uint64_t>(offsets_[core])
               : ticks;
  }
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  const std::vector<int64_t> offsets_;
  const Read read_;
};

// By two threads of its own, bound to the first core and to each other one in
// turn, which read their counters between messages: what is off is less than
// half of the fastest exchange. `read` is that of a thread on the core.
Status MeasureCoreOffsets(CoreOffsets::Read read,
                          std::unique_ptr<CoreOffsets>* offsets);
// The same with the processor's counter, for use from then on.
Status MeasureClockOffsets();
// Makes kTscByCore the current clock, with these. Readers keep using what they
// found: nothing is freed.
void SetCoreOffsets(std::unique_ptr<CoreOffsets> offsets);
// Whatever the machine is like, until the next choice.
void TEST_SetClock(ClockKind kind);

// ---- Reading ----------------------------------------------------------------

uint64_t ReadSlowClock(ClockKind kind);

// Ticks of that kind. Not ordered with the loads and stores around it: may be
// early or late by some nanoseconds.
inline uint64_t ReadClock(ClockKind kind) {
#if defined(__x86_64__)
  if (kind == ClockKind::kTsc) [[likely]]
    return __rdtsc();
#endif
  return ReadSlowClock(kind);
}

// ---- Converting -------------------------------------------------------------

// A moment by two clocks.
struct ClockAnchor {
  uint64_t ticks = 0;
  uint64_t ns = 0;  // CLOCK_MONOTONIC
};
ClockAnchor AnchorClock(ClockKind kind);

// CLOCK_REALTIME minus CLOCK_MONOTONIC, now.
uint64_t EpochOffsetNs();

// Ticks to nanoseconds of CLOCK_MONOTONIC, near two anchors of the same kind.
// The speed is measured once, from the choice of the clock to the first
// conversion, which waits until there are some milliseconds between them; the
// anchors correct it if they are as far apart.
class TickConverter {
 public:
  TickConverter(ClockKind kind, const ClockAnchor& begin,
                const ClockAnchor& end);
  TickConverter(const ClockAnchor& begin, double ns_per_tick);

  // Saturates; never falls as ticks rise.
  uint64_t ToNs(uint64_t ticks) const;
  // A duration in ticks that is at least `ns`.
  uint64_t TicksOf(uint64_t ns) const;
  double ns_per_tick() const;

 private:
  ClockAnchor begin_;
  uint64_t scale_;  // Nanoseconds a tick, in units of 2^-32.
};

}  // namespace varve
