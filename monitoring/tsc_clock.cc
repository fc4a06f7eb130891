// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/tsc_clock.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>
#include <utility>

#include "env/descriptor_supply.h"
#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/threads/background_thread.h"

namespace varve {

namespace {

// Anchors this far apart determine the speed to some hundred-thousandths. The
// error of each is at most the time of reading two clocks.
constexpr uint64_t kMinBaselineNs = 5'000'000;
// A reading that took longer was interrupted.
constexpr uint64_t kMaxAnchorNs = 500;
constexpr int kAnchorAttempts = 10;
constexpr int kExchanges = 400;
constexpr uint64_t kUnit = uint64_t{1} << 32;

uint64_t KernelNs(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_nsec);
}

std::string ReadText(const char* path) {
  std::string text;
  FILE* file = nullptr;
  OpenDescriptor([&] {
    file = fopen(path, "r");
    return file == nullptr ? -1 : fileno(file);
  });
  if (file == nullptr) return text;
  char buffer[4096];
  size_t n;
  while ((n = fread(buffer, 1, sizeof(buffer), file)) > 0) {
    text.append(buffer, n);
  }
  fclose(file);
  return text;
}

uint64_t Scaled(uint64_t value, uint64_t scale) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(value) * scale >> 32;
  return product > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(product);
}

uint64_t ScaleBetween(const ClockAnchor& begin, const ClockAnchor& end) {
  return static_cast<uint64_t>(static_cast<double>(end.ns - begin.ns) /
                               static_cast<double>(end.ticks - begin.ticks) *
                               static_cast<double>(kUnit));
}

// ---- The choice, made once --------------------------------------------------

struct Choice {
  ClockKind kind;
  std::string why;
};

Mutex& ClockMutex() {
  static constinit ProcessWide<Mutex> mu;
  return mu.Get();
}

constinit std::atomic<const CoreOffsets*> core_offsets{nullptr};
constinit TraceClockMode clock_mode VARVE_GUARDED_BY(ClockMutex()) = {};
// The kind plus one; 0 if it is not chosen yet.
constinit std::atomic<uint8_t> current_kind{0};

std::string& CurrentWhy() VARVE_REQUIRES(ClockMutex()) {
  static constinit ProcessWide<std::string> why;
  return why.Get();
}

// The kernel's clock source at the time of the choice.
std::string& ChosenSource() VARVE_REQUIRES(ClockMutex()) {
  static constinit ProcessWide<std::string> source;
  return source.Get();
}

std::string ReadSource() {
  std::string source = ReadText(
      "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  while (!source.empty() && source.back() == '\n') source.pop_back();
  return source;
}

const ClockAnchor& FirstAnchor(ClockKind kind);

void ChooseLocked() VARVE_REQUIRES(ClockMutex()) {
  const ClockFacts facts = ReadClockFacts();
  // relaxed: it is set under the mutex.
  const bool known = core_offsets.load(std::memory_order_relaxed) != nullptr;
  std::string why = "ablation";
  ClockKind kind = ClockKind::kSteady;
  if (clock_mode == TraceClockMode()) {
    kind = ChooseClock(facts, known, &why);
  } else if (clock_mode == TraceClockMode::kCoarse) {
    kind = ClockKind::kCoarse;
  }
  CurrentWhy() = std::move(why);
  ChosenSource() = facts.source;
  FirstAnchor(kind);  // The earlier, the better.
  // release: pairs with the acquire in CurrentClock, for core_offsets.
  current_kind.store(static_cast<uint8_t>(1 + static_cast<int>(kind)),
                     std::memory_order_release);
}

// Returns the first anchor: the beginning of the process's baseline.
const ClockAnchor& FirstAnchor(ClockKind kind) {
  const auto anchor = [kind] {
    return std::make_unique<ClockAnchor>(
        AnchorClock(kind == ClockKind::kTscByCore ? kind : ClockKind::kTsc));
  };
  if (kind == ClockKind::kTscByCore) {
    static constinit ProcessWide<ClockAnchor> by_core;
    return by_core.Get(anchor);
  }
  static constinit ProcessWide<ClockAnchor> tsc;
  return tsc.Get(anchor);
}

uint64_t MeasureScale(ClockKind kind) {
  const ClockAnchor& begin = FirstAnchor(kind);
  ClockAnchor end;
  do {
    end = AnchorClock(kind);
  } while (end.ns - begin.ns < kMinBaselineNs);
  return end.ticks > begin.ticks ? ScaleBetween(begin, end) : kUnit;
}

// Measured once: the speed is constant.
uint64_t ProcessScale(ClockKind kind) {
  const auto scale = [kind] {
    return std::make_unique<uint64_t>(
        MeasureScale(kind == ClockKind::kTscByCore ? kind : ClockKind::kTsc));
  };
  if (kind == ClockKind::kTscByCore) {
    static constinit ProcessWide<uint64_t> by_core;
    return by_core.Get(scale);
  }
  static constinit ProcessWide<uint64_t> tsc;
  return tsc.Get(scale);
}

// ---- Offsets ----------------------------------------------------------------

Status BindTo(size_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  const int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  return error == 0 ? Status::OK()
                    : Status::NotSupported("cannot bind a thread to core " +
                                           std::to_string(core));
}

// Runs a function in a thread of its own.
class Helper {
 public:
  explicit Helper(std::function<void()> run) : run_(std::move(run)) {}
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  Status Start() {
    const int error = StartBackgroundThread(&thread_, &ThreadMain, this);
    return error == 0 ? Status::OK()
                      : Status::FromErrno("starting a thread", error);
  }
  // REQUIRES: Start returned OK.
  void Join() { pthread_join(thread_, nullptr); }

 private:
  static void* ThreadMain(void* helper) {
    static_cast<Helper*>(helper)->run_();
    return nullptr;
  }

  const std::function<void()> run_;
  pthread_t thread_ = {};
};

// One pair of cores: the asking thread and the answering thread.
class Exchange {
 public:
  explicit Exchange(CoreOffsets::Read read) : read_(read) {}

  void Answer(size_t core) {
    answer_status_ = BindTo(core);
    for (uint32_t turn = 1; turn < 2 * kExchanges; turn += 2) {
      Await(turn);
      uint32_t where;
      answer_ = read_(&where);
      // release: pairs with the acquire in Await.
      turn_.store(turn + 1, std::memory_order_release);
    }
  }
  void Ask() {
    uint64_t fastest = UINT64_MAX;
    for (uint32_t turn = 0; turn < 2 * kExchanges; turn += 2) {
      Await(turn);
      uint32_t where;
      const uint64_t begin = read_(&where);
      // release: as above.
      turn_.store(turn + 1, std::memory_order_release);
      Await(turn + 2);
      const uint64_t end = read_(&where);
      const uint64_t took = end - begin;
      if (end < begin || took >= fastest) continue;
      fastest = took;
      offset_ = static_cast<int64_t>(begin + took / 2 - answer_);
    }
  }
  const Status& status() const { return answer_status_; }
  int64_t offset() const { return offset_; }

 private:
  void Await(uint32_t turn) {
    // acquire: pairs with the releases above, for answer_.
    while (turn_.load(std::memory_order_acquire) != turn) sched_yield();
  }

  const CoreOffsets::Read read_;
  std::atomic<uint32_t> turn_{0};
  uint64_t answer_ = 0;
  int64_t offset_ = 0;
  Status answer_status_;
};

#if defined(__x86_64__)
uint64_t ReadTscAndCore(uint32_t* core) {
  unsigned aux;
  const uint64_t ticks = __rdtscp(&aux);
  *core = aux & 0xFFF;  // The node is in the bits above.
  return ticks;
}
#endif

}  // namespace

void ParseCpuFlags(const std::string& cpuinfo, ClockFacts* facts) {
  const size_t line = cpuinfo.find("\nflags");
  if (line == std::string::npos) return;
  const size_t end = std::min(cpuinfo.find('\n', line + 1), cpuinfo.size());
  const std::string flags = cpuinfo.substr(line + 1, end - line - 1) + " ";
  const auto has = [&flags](const char* name) {
    return flags.find(" " + std::string(name) + " ") != std::string::npos;
  };
  facts->constant = has("constant_tsc");
  facts->nonstop = has("nonstop_tsc");
  facts->rdtscp = has("rdtscp");
}

ClockFacts ReadClockFacts() {
  ClockFacts facts;
#if defined(__x86_64__)
  ParseCpuFlags(ReadText("/proc/cpuinfo"), &facts);
#endif
  facts.source = ReadSource();
  return facts;
}

ClockKind ChooseClock(const ClockFacts& facts, bool offsets_known,
                      std::string* why) {
  if (!facts.constant || !facts.nonstop) {
    *why = "the time stamp counter is not constant and nonstop";
    return ClockKind::kSteady;
  }
  if (facts.source == "tsc") {
    *why = "constant, nonstop, and the kernel's own clock source";
    return ClockKind::kTsc;
  }
  *why = "the kernel's clock source is " +
         (facts.source.empty() ? std::string("unknown") : facts.source);
  if (offsets_known && facts.rdtscp) {
    *why += "; offsets of the cores were measured";
    return ClockKind::kTscByCore;
  }
  return ClockKind::kSteady;
}

ClockKind CurrentClock() {
  // acquire: pairs with the release in ChooseLocked.
  uint8_t kind = current_kind.load(std::memory_order_acquire);
  if (kind == 0) [[unlikely]] {
    MutexLock lock(&ClockMutex());
    ChooseLocked();
    // relaxed: it was just set, or is set under the mutex.
    kind = current_kind.load(std::memory_order_relaxed);
  }
  return static_cast<ClockKind>(kind - 1);
}

std::string CurrentClockName() {
  static constexpr const char* kNames[] = {"tsc", "tsc by core", "steady",
                                           "coarse"};
  const ClockKind kind = CurrentClock();
  MutexLock lock(&ClockMutex());
  return std::string(kNames[static_cast<int>(kind)]) + " (" + CurrentWhy() +
         ")";
}

void ChooseClockAnew() {
  MutexLock lock(&ClockMutex());
  // relaxed: it is set under the mutex.
  if (current_kind.load(std::memory_order_relaxed) != 0 &&
      ReadSource() != ChosenSource()) {
    ChooseLocked();
  }
}

void SetClockMode(TraceClockMode mode) {
  MutexLock lock(&ClockMutex());
  if (clock_mode == mode) return;
  clock_mode = mode;
  // release: as in ChooseLocked. It is chosen at the next use.
  current_kind.store(0, std::memory_order_release);
}

uint64_t ReadSlowClock(ClockKind kind) {
  switch (kind) {
    case ClockKind::kTscByCore: {
      // acquire: pairs with the release in SetCoreOffsets.
      const CoreOffsets* offsets = core_offsets.load(std::memory_order_acquire);
      return offsets == nullptr ? ReadSlowClock(ClockKind::kTsc)
                                : offsets->Now();
    }
#if defined(__x86_64__)
    case ClockKind::kTsc:
      return __rdtsc();
#endif
    case ClockKind::kCoarse:
      return KernelNs(CLOCK_MONOTONIC_COARSE);
    default:
      return KernelNs(CLOCK_MONOTONIC);
  }
}

Status MeasureCoreOffsets(CoreOffsets::Read read,
                          std::unique_ptr<CoreOffsets>* offsets) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return Status::NotSupported("the cores cannot be listed");
  }
  std::vector<size_t> cores;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  std::vector<int64_t> found(cores.back() + 1, 0);
  Status status;
  // The caller's own affinity stays unchanged.
  Helper asker([&] {
    status = BindTo(cores[0]);
    for (size_t i = 1; i < cores.size() && status.ok(); ++i) {
      Exchange exchange(read);
      Helper answerer([&] { exchange.Answer(cores[i]); });
      status = answerer.Start();
      if (!status.ok()) return;
      exchange.Ask();
      answerer.Join();
      status = exchange.status();
      found[cores[i]] = exchange.offset();
    }
  });
  Status started = asker.Start();
  if (!started.ok()) return started;
  asker.Join();
  if (status.ok()) {
    *offsets = std::make_unique<CoreOffsets>(std::move(found), read);
  }
  return status;
}

Status MeasureClockOffsets() {
#if defined(__x86_64__)
  const ClockFacts facts = ReadClockFacts();
  std::string why;
  if (ChooseClock(facts, false, &why) == ClockKind::kTsc) return Status::OK();
  if (ChooseClock(facts, true, &why) != ClockKind::kTscByCore) {
    return Status::NotSupported(why);
  }
  std::unique_ptr<CoreOffsets> offsets;
  Status status = MeasureCoreOffsets(ReadTscAndCore, &offsets);
  if (status.ok()) SetCoreOffsets(std::move(offsets));
  return status;
#else
  return Status::NotSupported("there is no time stamp counter");
#endif
}

void TEST_SetClock(ClockKind kind) {
  CurrentClock();
  // release: as in ChooseLocked.
  current_kind.store(static_cast<uint8_t>(1 + static_cast<int>(kind)),
                     std::memory_order_release);
}

void SetCoreOffsets(std::unique_ptr<CoreOffsets> offsets) {
  MutexLock lock(&ClockMutex());
  // release: pairs with the acquire in ReadSlowClock.
  core_offsets.store(offsets.release(), std::memory_order_release);
  ChooseLocked();
}

ClockAnchor AnchorClock(ClockKind kind) {
  ClockAnchor anchor;
  if (kind == ClockKind::kSteady || kind == ClockKind::kCoarse) {
    anchor.ticks = anchor.ns = ReadSlowClock(kind);
    return anchor;
  }
  for (int i = 0; i < kAnchorAttempts; ++i) {
    const uint64_t before = ReadClock(kind);
    anchor.ns = KernelNs(CLOCK_MONOTONIC);
    const uint64_t after = ReadClock(kind);
    const uint64_t took = after > before ? after - before : 0;
    anchor.ticks = before + took / 2;
    // No counter is much slower than one tick per nanosecond, nor faster than
    // five.
    if (took < 5 * kMaxAnchorNs) break;
  }
  return anchor;
}

uint64_t EpochOffsetNs() {
  return KernelNs(CLOCK_REALTIME) - KernelNs(CLOCK_MONOTONIC);
}

TickConverter::TickConverter(ClockKind kind, const ClockAnchor& begin,
                             const ClockAnchor& end)
    : begin_(begin), scale_(kUnit) {
  if (kind == ClockKind::kSteady || kind == ClockKind::kCoarse) return;
  scale_ = ProcessScale(kind);
  if (end.ticks <= begin.ticks || end.ns < begin.ns + kMinBaselineNs) return;
  // Time servers adjust the kernel's clock by at most one part in 2000. A
  // larger deviation means that a counter was set.
  const uint64_t here = ScaleBetween(begin, end);
  const uint64_t slack = scale_ / 500;
  if (here > scale_ - slack && here < scale_ + slack) scale_ = here;
}

TickConverter::TickConverter(const ClockAnchor& begin, double ns_per_tick)
    : begin_(begin),
      scale_(static_cast<uint64_t>(ns_per_tick * static_cast<double>(kUnit))) {}

uint64_t TickConverter::ToNs(uint64_t ticks) const {
  if (ticks >= begin_.ticks) {
    const uint64_t after = Scaled(ticks - begin_.ticks, scale_);
    return after > UINT64_MAX - begin_.ns ? UINT64_MAX : begin_.ns + after;
  }
  const uint64_t before = Scaled(begin_.ticks - ticks, scale_);
  return before > begin_.ns ? 0 : begin_.ns - before;
}

uint64_t TickConverter::TicksOf(uint64_t ns) const {
  const double ticks = static_cast<double>(ns) / ns_per_tick();
  return ticks > 9e18 ? UINT64_MAX : static_cast<uint64_t>(ticks);
}

double TickConverter::ns_per_tick() const {
  return static_cast<double>(scale_) / static_cast<double>(kUnit);
}

}  // namespace varve
