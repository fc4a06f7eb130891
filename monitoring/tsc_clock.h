// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The clock of traces. A read returns a tick count and takes some nanoseconds.
// The ticks are converted to time later, when a trace is examined.
//
// The processor's time stamp counter is used if it has constant speed in all
// states of all cores and the kernel itself uses it as its clock source. The
// kernel does so only after it has verified that the cores agree. The kernel's
// *current* clock source decides, not the list that it offers. Otherwise the
// counter is used with corrected differences between cores, once these were
// measured (MeasureCoreOffsets), or else clock_gettime.
//
// Each converted interval has anchors at both ends that pair ticks with
// CLOCK_MONOTONIC (ClockAnchor), so no drift accumulates. Nothing is measured
// before the first use. The engine's own decisions never use this clock.
// Thread-safety: thread-safe.

#include <time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "util/base/experiment.h"
#include "varve/status.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace varve {

enum class ClockKind : uint8_t {
  kTsc,        // Ticks of the time stamp counter.
  kTscByCore,  // kTsc plus the core's offset.
  kSteady,     // Nanoseconds of CLOCK_MONOTONIC.
  kCoarse,     // CLOCK_MONOTONIC at the kernel's last tick, some ms ago.
};

// The facts that determine the choice of the clock.
struct ClockFacts {
  bool constant = false;  // CPU flag constant_tsc
  bool nonstop = false;   // CPU flag nonstop_tsc
  bool rdtscp = false;    // CPU flag rdtscp
  std::string source;     // The kernel's current clock source.
};
ClockFacts ReadClockFacts();
// Reads the flags from the text of /proc/cpuinfo.
void ParseCpuFlags(const std::string& cpuinfo, ClockFacts* facts);

// Returns the best clock under these facts. Sets *why to a short reason.
ClockKind ChooseClock(const ClockFacts& facts, bool offsets_known,
                      std::string* why);

// Returns the kind for new traces. The first call examines the machine.
ClockKind CurrentClock();

// Chooses again if the kernel has changed its clock source.
void ChooseClockAnew();
std::string CurrentClockName();
// For ablation trace_clock; process-wide.
void SetClockMode(TraceClockMode mode);

// The offsets to add to each core's counter to get the first core's.
class CoreOffsets {
 public:
  // Reads the current core and its counter in one step.
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

// Measures by two threads of its own, bound to the first core and to each other
// core in turn, which read their counters between messages. The error is less
// than half of the fastest exchange. `read` is the reading function of a thread
// on the core.
Status MeasureCoreOffsets(CoreOffsets::Read read,
                          std::unique_ptr<CoreOffsets>* offsets);
// Measures with the processor's counter, and uses the offsets from then on.
Status MeasureClockOffsets();
// Makes kTscByCore the current clock, with these offsets. Readers continue to
// use the offsets that they found: nothing is freed.
void SetCoreOffsets(std::unique_ptr<CoreOffsets> offsets);
// Sets the clock on any machine, until the next choice.
void TEST_SetClock(ClockKind kind);

// ---- Reading ----------------------------------------------------------------

uint64_t ReadSlowClock(ClockKind kind);

// Returns ticks of that kind. Not ordered with the loads and stores around it:
// it may be early or late by some nanoseconds.
inline uint64_t ReadClock(ClockKind kind) {
#if defined(__x86_64__)
  if (kind == ClockKind::kTsc) [[likely]]
    return __rdtsc();
#endif
  return ReadSlowClock(kind);
}

// ---- Converting -------------------------------------------------------------

// The same moment on two clocks.
struct ClockAnchor {
  uint64_t ticks = 0;
  uint64_t ns = 0;  // CLOCK_MONOTONIC
};
ClockAnchor AnchorClock(ClockKind kind);

// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC, now.
uint64_t EpochOffsetNs();

// Converts ticks to nanoseconds of CLOCK_MONOTONIC, near two anchors of the
// same kind. The speed is measured once, from the choice of the clock to the
// first conversion, which waits until some milliseconds have passed in between.
// Anchors that are as far apart correct it.
class TickConverter {
 public:
  TickConverter(ClockKind kind, const ClockAnchor& begin,
                const ClockAnchor& end);
  TickConverter(const ClockAnchor& begin, double ns_per_tick);

  // Saturates; never falls as ticks rise.
  uint64_t ToNs(uint64_t ticks) const;
  // Returns a duration in ticks that is at least `ns`.
  uint64_t TicksOf(uint64_t ns) const;
  double ns_per_tick() const;

 private:
  ClockAnchor begin_;
  uint64_t scale_;  // Nanoseconds a tick, in units of 2^-32.
};

}  // namespace varve
