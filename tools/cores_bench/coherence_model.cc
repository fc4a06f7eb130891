// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/coherence_model.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>

#include "tools/cores_bench/kernel_core.h"
#include "util/base/check.h"
#include "util/base/random.h"

namespace varve::cores {

namespace {

constexpr uint16_t kNobody = UINT16_MAX;
using LineId = uint32_t;
constexpr LineId kNoLine = UINT32_MAX;
constexpr uint32_t kNoStep = UINT32_MAX;
// Accesses of a kernel's operation, after which it is said to be stuck.
// Each core executes each operation so often before any are counted, unless it
// starves: others have executed so many times as many as they had to.
constexpr size_t kWarmTimes = 3;
constexpr size_t kStarvedTimes = 100;
constexpr uint64_t kMostRequests = 1'000'000;

// ---- A private cache --------------------------------------------------------

// Which lines it holds. Sets of ways, the one used longest ago makes place.
class SetCache {
 public:
  SetCache(size_t bytes, size_t ways)
      : ways_(ways),
        sets_(std::max<size_t>(1, bytes / kLineBytes / ways)),
        lines_(sets_ * ways, kNoLine) {}

  // Moves the line to the front of its set. Returns whether it was there.
  bool Touch(LineId line) {
    LineId* const set = SetOf(line);
    for (size_t i = 0; i < ways_; ++i) {
      if (set[i] != line) continue;
      std::rotate(set, set + i, set + i + 1);
      return true;
    }
    return false;
  }
  // Puts it to the front. Returns what had to make place, or kNoLine.
  LineId Insert(LineId line) {
    LineId* const set = SetOf(line);
    const LineId last = set[ways_ - 1];
    std::rotate(set, set + ways_ - 1, set + ways_);
    set[0] = line;
    return last;
  }
  void Remove(LineId line) {
    LineId* const set = SetOf(line);
    LineId* const place = std::find(set, set + ways_, line);
    if (place == set + ways_) return;
    std::rotate(place, place + 1, set + ways_);
    set[ways_ - 1] = kNoLine;
  }

 private:
  // Recordings number their lines in order of use, so neighbours differ.
  LineId* SetOf(LineId line) { return &lines_[line % sets_ * ways_]; }

  const size_t ways_;
  const size_t sets_;
  std::vector<LineId> lines_;
};

// ---- The machine ------------------------------------------------------------

// Invariant: a line has an owner, which alone holds it and may write it, or
// any number of sharers.
struct Line {
  uint16_t owner = kNobody;
  bool modified = false;
  bool in_l3[2] = {false, false};
  std::bitset<kMaxCores> sharers;  // The owner too.
  std::bitset<kMaxCores> had;      // Since the beginning.
  std::bitset<kMaxCores> taken;    // By a write of another core.
  double busy_until = 0;
  // Counted.
  double busy_ns = 0;  // With transfers.
  double held_ns = 0;  // As a mutex.
  uint64_t transfers = 0;
  uint64_t code = 0;

  // Others that want it wait for so long.
  double SerialNs() const { return std::max(busy_ns, held_ns); }
  // As a mutex.
  uint16_t holder = kNobody;
  double held_since = 0;
  std::vector<uint16_t> sleepers;  // The first one is woken first.
  std::vector<uint16_t> spinners;  // Cores that wait until it is written.
  // In the recording.
  uint16_t first_user = kNobody;
  bool has_users = false;  // More than one.
  bool is_written = false;

  // Whether it does not matter when a core accesses it.
  bool IsUndisputed() const { return !has_users || !is_written; }
  // How many times each word was written.
  std::array<uint32_t, 8> versions = {};

  // Is another number if one of the words was written.
  uint64_t VersionOf(uint8_t words) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < versions.size(); ++i) {
      if ((words >> i & 1) != 0) sum += versions[i];
    }
    return sum;
  }
};

// An access, with the line's number in this simulation.
struct Step {
  LineId line;
  uint32_t instruction;
  uint64_t code;
  AccessKind kind;
  uint8_t words;
  // Of kCompare: the step that read what it expects, or kNoStep.
  uint32_t read = kNoStep;
};
struct Operation {
  std::vector<Step> steps;
  uint32_t instructions;
};

struct Core {
  double now = 0;
  std::vector<Operation> operations;
  size_t operation = 0;
  size_t done = 0;
  size_t step = 0;
  uint32_t instruction = 0;    // Up to which time has been counted.
  std::vector<uint64_t> seen;  // By the operation's steps: VersionOf the line.
  double begin = 0;
  std::deque<double> stores;  // When each store of the buffer ends.
  bool asleep = false;
  // The line that the latest atomic instruction to miss one has fetched, when
  // it came, and, if a compare-and-swap on it failed, until when it is kept.
  LineId came = kNoLine;
  double came_at = 0;
  std::optional<double> kept_until;
  bool failed = false;  // The latest atomic instruction, as compare-and-swap.
  std::unique_ptr<SetCache> l1;
  std::unique_ptr<SetCache> l2;
  std::unique_ptr<KernelCore> kernel;  // Null if it executes a recording.
  uint64_t requests = 0;               // Of the kernel's operation.

  // Operations with lines of their own.
  size_t Different() const { return std::max<size_t>(1, operations.size()); }
};

class Machine {
 public:
  Machine(const ModelParameters& parameters, const Recording& recording,
          const Schedule& schedule)
      : Machine(parameters, schedule) {
    VARVE_DCHECK(schedule.cores <= recording.threads.size());
    for (size_t c = 0; c < schedule.cores; ++c) {
      Core& core = cores_[c];
      for (const OperationTrace& trace : recording.threads[c]) {
        core.operations.push_back(Renumbered(c, trace));
        core.seen.resize(std::max(core.seen.size(), trace.accesses.size()));
      }
      core.operation = random_.Uniform(core.operations.size());
      BeginWithin(&core, core.operations[core.operation].instructions);
    }
  }
  Machine(const ModelParameters& parameters, const varve_kernel& kernel,
          const Schedule& schedule)
      : Machine(parameters, schedule) {
    kernel_code_ = reinterpret_cast<uint64_t>(kernel.run);
    for (size_t c = 0; c < schedule.cores; ++c) {
      cores_[c].kernel = std::make_unique<KernelCore>(c, kernel);
      BeginWithin(&cores_[c], kKernelInstructions);
    }
  }

  ModelReport Run() {
    using Entry = std::pair<double, uint16_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint16_t c = 0; c < cores_.size(); ++c) ready.push({cores_[c].now, c});
    while (!ready.empty()) {
      const uint16_t c = ready.top().second;
      ready.pop();
      const Core& core = cores_[c];
      // As long as no other core is behind it, or can get the line.
      do {
        StepCore(c);
        for (const uint16_t woken : woken_) {
          ready.push({cores_[woken].now, woken});
        }
        woken_.clear();
      } while (
          !core.asleep && !is_stuck_ && done_ < last_ &&
          (ready.empty() || core.now <= ready.top().first || TriesAgain(core)));
      if (done_ == last_ || is_stuck_) break;
      if (!core.asleep) ready.push({core.now, c});
    }
    if (done_ == last_) return Report();
    ModelReport stuck;
    stuck.is_stuck = true;
    return stuck;
  }

 private:
  static constexpr double kNanos = 1e9;
  // About as many as an operation of a kernel has.
  static constexpr uint32_t kKernelInstructions = 100;

  Machine(const ModelParameters& parameters, const Schedule& schedule)
      : p_(parameters), schedule_(schedule), random_(schedule.seed) {
    VARVE_DCHECK(schedule.cores <= kMaxCores);
    cores_.resize(schedule.cores);
    for (Core& core : cores_) {
      core.l1 = std::make_unique<SetCache>(p_.l1_bytes, p_.l1_ways);
      core.l2 = std::make_unique<SetCache>(p_.l2_bytes, p_.l2_ways);
    }
    cold_cores_ = schedule.cores;
    first_ = schedule.cores * schedule.warm_operations;
  }

  // Cores do not begin in step, but within the time of one operation.
  void BeginWithin(Core* core, uint32_t instructions) {
    core->now = core->begin =
        Cycles(p_.cycles_per_instruction *
               static_cast<double>(random_.Uniform(instructions + 1)));
  }

  LineId NumberOf(uint64_t line) {
    const auto [found, is_new] =
        numbers_.try_emplace(line, static_cast<LineId>(numbers_.size()));
    if (is_new) {
      lines_.emplace_back();
      // Nobody knows what a kernel will do.
      lines_.back().has_users = lines_.back().is_written = kernel_code_ != 0;
      addresses_.push_back(line);
    }
    return found->second;
  }

  Operation Renumbered(size_t c, const OperationTrace& trace) {
    Operation operation{.steps = {}, .instructions = trace.instructions};
    operation.steps.reserve(trace.accesses.size());
    // The latest step of the operation on each word.
    std::unordered_map<uint64_t, uint32_t> latest;
    for (const Access& access : trace.accesses) {
      Step step = {.line = NumberOf(access.line),
                   .instruction = access.instruction,
                   .code = access.code,
                   .kind = access.kind,
                   .words = access.words};
      Line& line = lines_[step.line];
      line.is_written |= step.kind != AccessKind::kLoad;
      line.has_users |= line.first_user != kNobody && line.first_user != c;
      line.first_user = static_cast<uint16_t>(c);
      for (uint64_t word = 0; word < 8; ++word) {
        if ((step.words >> word & 1) == 0) continue;
        const auto [before, is_first] = latest.try_emplace(
            8 * uint64_t{step.line} + word, operation.steps.size());
        if (is_first) continue;
        const AccessKind kind = operation.steps[before->second].kind;
        // It need not read a word that it wrote itself.
        if (kind == AccessKind::kLoad || kind == AccessKind::kCompare) {
          step.read = before->second;
        }
        before->second = static_cast<uint32_t>(operation.steps.size());
      }
      operation.steps.push_back(step);
    }
    return operation;
  }

  size_t NumberOf(const Core& core) const {
    return static_cast<size_t>(&core - cores_.data());
  }
  size_t SocketOf(size_t core) const {
    return schedule_.sockets < 2 ? 0 : core * 2 / cores_.size();
  }
  double Cycles(double cycles) const { return cycles / p_.gigahertz; }
  double TransferNs(size_t from, size_t to) const {
    return SocketOf(from) == SocketOf(to) ? p_.other_core_ns
                                          : p_.other_socket_ns;
  }

  // ---- Time of a core -------------------------------------------------------

  void StepCore(uint16_t c) {
    Core& core = cores_[c];
    if (core.kernel != nullptr) {
      StepKernel(c);
      return;
    }
    const Operation& operation = core.operations[core.operation];
    DoUndisputed(c, operation);
    const bool at_end = core.step == operation.steps.size();
    const uint32_t until = at_end ? operation.instructions
                                  : operation.steps[core.step].instruction;
    if (until > core.instruction) {
      // Another core may access something before this one does.
      AddInstructions(&core, until - core.instruction);
      core.instruction = until;
      return;
    }
    if (at_end) {
      core.operation = (core.operation + 1) % core.operations.size();
      core.step = 0;
      core.instruction = 0;
      EndOperation(&core);
      return;
    }
    const Step& step = operation.steps[core.step];
    if (WaitsForStores(&core, step.kind)) return;
    if (step.kind == AccessKind::kLock && !TakeMutex(c, step)) return;
    if (step.kind == AccessKind::kCompare && IsOvertaken(c, step)) {
      Do(c, step);
      NoteFailed(&core);
      // It has read the line, and computes again what to write.
      core.seen[step.read] = lines_[step.line].VersionOf(step.words);
      core.instruction = operation.steps[step.read].instruction;
      core.step = step.read + 1;
      return;
    }
    Do(c, step);
    if (step.kind != AccessKind::kLoad) NoteWritten(step);
    core.seen[core.step] = lines_[step.line].VersionOf(step.words);
    if (step.kind == AccessKind::kLock) lines_[step.line].held_since = core.now;
    if (step.kind == AccessKind::kRelease) GiveMutex(c, step);
    ++core.step;
  }

  bool MayBeDisturbed(const Step& step) const {
    return !lines_[step.line].IsUndisputed() ||
           step.kind == AccessKind::kLock || step.kind == AccessKind::kRelease;
  }

  // The steps until the next one that other cores might disturb.
  void DoUndisputed(uint16_t c, const Operation& operation) {
    Core& core = cores_[c];
    for (; core.step < operation.steps.size(); ++core.step) {
      const Step& step = operation.steps[core.step];
      if (MayBeDisturbed(step)) return;
      if (step.instruction > core.instruction) {
        AddInstructions(&core, step.instruction - core.instruction);
        core.instruction = step.instruction;
      }
      while (WaitsForStores(&core, step.kind)) {
      }
      Do(c, step);
    }
  }

  // Whether another core has written what the compare-and-swap expects.
  bool IsOvertaken(uint16_t c, const Step& step) const {
    return step.read != kNoStep &&
           cores_[c].seen[step.read] != lines_[step.line].VersionOf(step.words);
  }

  void NoteWritten(const Step& step) {
    for (size_t i = 0; i < 8; ++i) {
      lines_[step.line].versions[i] += step.words >> i & 1;
    }
  }

  // ---- Kernels --------------------------------------------------------------

  void StepKernel(uint16_t c) {
    Core& core = cores_[c];
    const KernelRequest request = core.kernel->request();
    if (request.kind == KernelRequest::kEnd) {
      core.requests = 0;
      EndOperation(&core);
      core.kernel->Continue(0);
      return;
    }
    is_stuck_ = ++core.requests > kMostRequests;
    if (request.kind == KernelRequest::kWork) {
      AddInstructions(&core, request.value);
      core.kernel->Continue(0);
      return;
    }
    const bool loads = request.kind == KernelRequest::kLoad ||
                       request.kind == KernelRequest::kWaitWhile;
    const Step step = {.line = NumberOf(request.address / kLineBytes),
                       .instruction = 0,
                       .code = kernel_code_,
                       .kind = loads ? AccessKind::kLoad
                               : request.kind == KernelRequest::kStore
                                   ? AccessKind::kStore
                                   : AccessKind::kAtomic,
                       .words = 1};
    if (WaitsForStores(&core, step.kind)) return;
    Do(c, step);
    uint64_t& word = memory_[request.address / 8 * 8];
    const uint64_t before = word;
    if (request.kind == KernelRequest::kWaitWhile && before == request.value) {
      core.asleep = true;
      lines_[step.line].spinners.push_back(c);
      return;
    }
    switch (request.kind) {
      case KernelRequest::kAdd:
        word += request.value;
        break;
      case KernelRequest::kCompareExchange:
        if (before == request.expected) {
          word = request.value;
        } else {
          NoteFailed(&core);
        }
        break;
      case KernelRequest::kStore:
      case KernelRequest::kExchange:
        word = request.value;
        break;
      default:
        break;
    }
    AddInstructions(&core, 1);
    if (!loads) WakeSpinners(c, step);
    core.kernel->Continue(before);
  }

  // They lose the line, and load it again.
  void WakeSpinners(uint16_t c, const Step& step) {
    Line& line = lines_[step.line];
    const double gone = std::max(cores_[c].now, line.busy_until);
    for (const uint16_t spinner : line.spinners) {
      Core& core = cores_[spinner];
      const double loop = Cycles(p_.spin_cycles);
      core.now = std::max(core.now, gone) +
                 loop * static_cast<double>(random_.Uniform(1000)) / 1000;
      core.asleep = false;
      woken_.push_back(spinner);
    }
    line.spinners.clear();
  }

  // ---- What both have -------------------------------------------------------

  void NoteFailed(Core* core) {
    if (counting_) ++failures_;
    core->failed = true;
    // An attempt that fails while the line is kept does not prolong that.
    if (core->kept_until.has_value()) return;
    const auto thousandths = static_cast<double>(1 + random_.Uniform(1000));
    core->kept_until =
        core->came_at + Cycles(p_.hold_cycles) * thousandths / 1000;
  }

  // Whether the core still has the line that came for its compare-and-swap in
  // vain.
  bool Keeps(const Core& core) const {
    return core.failed && core.came != kNoLine &&
           lines_[core.came].owner == NumberOf(core) &&
           core.now <= core.kept_until;
  }

  // Whether its next attempt comes before that of any other core.
  bool TriesAgain(const Core& core) const {
    if (!Keeps(core)) return false;
    if (core.kernel != nullptr) {
      const KernelRequest& next = core.kernel->request();
      if (next.kind == KernelRequest::kWork) return true;
      return (next.kind == KernelRequest::kLoad ||
              next.kind == KernelRequest::kCompareExchange) &&
             addresses_[core.came] == next.address / kLineBytes;
    }
    const Operation& operation = core.operations[core.operation];
    for (size_t i = core.step; i < operation.steps.size(); ++i) {
      const Step& step = operation.steps[i];
      if (step.line == core.came) {
        return step.kind == AccessKind::kLoad ||
               step.kind == AccessKind::kCompare;
      }
      if (MayBeDisturbed(step)) return false;
    }
    return false;
  }

  void AddInstructions(Core* core, uint64_t count) {
    core->now += Cycles(p_.cycles_per_instruction * static_cast<double>(count));
    if (counting_) instructions_ += count;
  }

  void EndOperation(Core* core) {
    if (counting_) times_.push_back(core->now - core->begin);
    core->begin = core->now;
    ++done_;
    // A core that begins with misses may have done less than others.
    cold_cores_ -= ++core->done == kWarmTimes * core->Different() ? 1 : 0;
    if (!counting_ && done_ >= first_ &&
        (cold_cores_ == 0 || done_ >= kStarvedTimes * first_)) {
      counting_ = true;
      begin_ = core->now;
      last_ = done_ + cores_.size() * schedule_.operations;
    }
    end_ = core->now;
  }

  // ---- Mutexes --------------------------------------------------------------

  bool TakeMutex(uint16_t c, const Step& step) {
    Core& core = cores_[c];
    Line& line = lines_[step.line];
    if (line.holder != kNobody && line.holder != c) {
      // The attempt moves the line, and the second one marks it as contended.
      Do(c, step);
      core.now += p_.sleep_ns;
      core.asleep = true;
      line.sleepers.push_back(c);
      if (counting_) ++sleeps_;
      return false;
    }
    line.holder = c;
    return true;
  }

  void GiveMutex(uint16_t c, const Step& step) {
    Core& core = cores_[c];
    Line& line = lines_[step.line];
    // A compare-and-swap that failed may repeat what it has given already.
    if (line.holder != c) return;
    if (counting_) {
      line.held_ns += core.now - std::max(line.held_since, begin_);
    }
    line.holder = kNobody;
    if (line.sleepers.empty()) return;
    // It tries again when it runs. Another one may be faster.
    const uint16_t sleeper = line.sleepers.front();
    line.sleepers.erase(line.sleepers.begin());
    cores_[sleeper].asleep = false;
    cores_[sleeper].now = std::max(cores_[sleeper].now, core.now + p_.wake_ns);
    woken_.push_back(sleeper);
    core.now += p_.waker_ns;
  }

  // ---- Memory ---------------------------------------------------------------

  // Returns whether the core had to wait for stores. If so, another core may
  // access something before this one does.
  bool WaitsForStores(Core* core, AccessKind kind) {
    if (kind == AccessKind::kLoad) return false;
    std::deque<double>& stores = core->stores;
    while (!stores.empty() && stores.front() <= core->now) stores.pop_front();
    const bool is_store = kind == AccessKind::kStore;
    if (stores.size() < (is_store ? p_.store_buffer : 1)) return false;
    core->now = is_store ? stores.front() : stores.back();
    return true;
  }

  // REQUIRES: !WaitsForStores().
  void Do(uint16_t c, const Step& step) {
    Core& core = cores_[c];
    if (step.line == core.came && Keeps(core)) {
      // The others have waited.
      Line& line = lines_[step.line];
      const double since = std::max(core.came_at, line.busy_until);
      if (core.now > since) Occupy(&line, since, core.now - since);
    }
    if (step.kind == AccessKind::kLoad) {
      core.now = Load(c, step, core.now);
      return;
    }
    if (step.kind == AccessKind::kStore) {
      // Stores become visible in order.
      const double begin = core.stores.empty()
                               ? core.now
                               : std::max(core.now, core.stores.back());
      const double end = Own(c, step, begin);
      if (end > core.now) core.stores.push_back(end);
      return;
    }
    if (counting_) ++atomics_;
    const bool comes = lines_[step.line].owner != c;
    core.now = Own(c, step, core.now);
    if (comes) {
      core.came = step.line;
      core.came_at = core.now;
      core.kept_until.reset();
    }
    core.failed = false;
    core.now += Cycles(p_.atomic_cycles);
  }

  // Returns when the line is in the core's caches, to be read.
  double Load(uint16_t c, const Step& step, double now) {
    Core& core = cores_[c];
    Line& line = lines_[step.line];
    if (line.sharers[c]) return now + HitNs(&core, step.line);
    const double end = Fetch(c, step, &line, now);
    if (line.owner != kNobody) {
      line.owner = kNobody;
      // The shared cache gets the modified line.
      line.modified = false;
      line.in_l3[SocketOf(c)] = true;
    } else if (line.sharers.none()) {
      line.owner = c;
    }
    line.sharers.set(c);
    line.had.set(c);
    Fill(&core, step.line);
    return end;
  }

  // Returns when the core alone has the line, to write it.
  double Own(uint16_t c, const Step& step, double now) {
    Core& core = cores_[c];
    Line& line = lines_[step.line];
    double end = now;
    if (line.owner == c) {
      line.modified = true;
      return now + HitNs(&core, step.line);
    }
    if (line.sharers[c]) {
      HitNs(&core, step.line);
      end = Invalidate(c, step, &line, now);
    } else {
      end = Fetch(c, step, &line, now);
      InvalidateCopies(c, step, &line);
      Fill(&core, step.line);
    }
    line.owner = c;
    line.modified = true;
    line.in_l3[0] = line.in_l3[1] = false;
    line.sharers.reset();
    line.sharers.set(c);
    line.had.set(c);
    return end;
  }

  double HitNs(Core* core, LineId line) {
    if (core->l1->Touch(line)) return 0;
    core->l2->Touch(line);
    core->l1->Insert(line);
    return p_.l2_ns;
  }

  void Fill(Core* core, LineId line) {
    core->l1->Insert(line);
    const LineId gone = core->l2->Insert(line);
    if (gone == kNoLine) return;
    core->l1->Remove(gone);
    const size_t c = NumberOf(*core);
    Line& left = lines_[gone];
    left.sharers.reset(c);
    if (left.owner == c) left.owner = kNobody;
    left.in_l3[SocketOf(c)] = true;
  }

  // Waits until the line is free, and occupies it for `ns` then.
  double Occupy(Line* line, double now, double ns) {
    const double begin = std::max(now, line->busy_until);
    line->busy_until = begin + ns;
    if (counting_) line->busy_ns += ns;
    return begin + ns;
  }

  // A copy for a core that has none.
  double Fetch(uint16_t c, const Step& step, Line* line, double now) {
    if (counting_) {
      if (line->taken[c]) {
        ++coherence_misses_;
      } else if (line->had[c]) {
        ++capacity_misses_;
      } else {
        ++cold_misses_;
      }
    }
    line->taken.reset(c);
    if (line->owner != kNobody && line->modified) {
      CountTransfer(step, line);
      return Occupy(line, now, TransferNs(line->owner, c));
    }
    // A clean copy comes through the shared cache, once it is there. That gives
    // it to one core after the other.
    const double begin = line->IsUndisputed()
                             ? now
                             : Occupy(line, now, Cycles(p_.shared_line_cycles));
    const size_t socket = SocketOf(c);
    if (line->in_l3[socket]) return begin + p_.l3_ns;
    line->in_l3[socket] = true;
    bool is_elsewhere = line->in_l3[1 - socket];
    for (size_t other = line->sharers._Find_first(); other < cores_.size();
         other = line->sharers._Find_next(other)) {
      if (SocketOf(other) == socket) return begin + p_.l3_ns;
      is_elsewhere = true;
    }
    return begin + (is_elsewhere ? p_.other_socket_ns : p_.memory_ns);
  }

  // Ends the copies of others, for a core that has one.
  double Invalidate(uint16_t c, const Step& step, Line* line, double now) {
    double ns = 0;
    for (size_t other = line->sharers._Find_first(); other < cores_.size();
         other = line->sharers._Find_next(other)) {
      if (other != c) ns = std::max(ns, TransferNs(other, c));
    }
    InvalidateCopies(c, step, line);
    // Alone with it, it has only to say so.
    return ns == 0 ? now : Occupy(line, now, ns);
  }

  void InvalidateCopies(uint16_t c, const Step& step, Line* line) {
    for (size_t other = line->sharers._Find_first(); other < cores_.size();
         other = line->sharers._Find_next(other)) {
      if (other == c) continue;
      line->taken.set(other);
      cores_[other].l1->Remove(step.line);
      cores_[other].l2->Remove(step.line);
      if (counting_) {
        ++invalidations_;
        line->code = step.code;
      }
    }
  }

  void CountTransfer(const Step& step, Line* line) {
    if (!counting_) return;
    ++transfers_;
    ++line->transfers;
    line->code = step.code;
    ++moves_[{step.line, step.code}];
  }

  // ---- The end --------------------------------------------------------------

  std::vector<LineReport::Mover> MoversOf(LineId line,
                                          double operations) const {
    std::vector<LineReport::Mover> movers;
    for (auto it = moves_.lower_bound({line, 0});
         it != moves_.end() && it->first.first == line; ++it) {
      movers.push_back(
          {.code = it->first.second,
           .transfers = static_cast<double>(it->second) / operations});
    }
    std::stable_sort(
        movers.begin(), movers.end(),
        [](const auto& a, const auto& b) { return a.transfers > b.transfers; });
    return movers;
  }

  ModelReport Report() {
    ModelReport report;
    report.cores = cores_.size();
    const auto operations =
        static_cast<double>(std::max<size_t>(1, times_.size()));
    report.operations_a_second = kNanos * operations / (end_ - begin_);
    // Those that are under way for long count too.
    const double longest = *std::max_element(times_.begin(), times_.end());
    for (const Core& core : cores_) {
      if (core.asleep || end_ - core.begin > longest) {
        times_.push_back(end_ - core.begin);
      }
    }
    double sum = 0;
    for (const double time : times_) sum += time;
    report.nanoseconds = sum / static_cast<double>(times_.size());
    {
      const auto place = static_cast<ptrdiff_t>(
          .99 * static_cast<double>(times_.size() - 1) + .5);
      std::nth_element(times_.begin(), times_.begin() + place, times_.end());
      report.p99_ns = times_[static_cast<size_t>(place)];
    }
    report.transfers = static_cast<double>(transfers_) / operations;
    report.invalidations = static_cast<double>(invalidations_) / operations;
    report.cold_misses = static_cast<double>(cold_misses_) / operations;
    report.coherence_misses =
        static_cast<double>(coherence_misses_) / operations;
    report.capacity_misses = static_cast<double>(capacity_misses_) / operations;
    report.sleeps = static_cast<double>(sleeps_) / operations;
    report.atomics = static_cast<double>(atomics_) / operations;
    report.failures = static_cast<double>(failures_) / operations;
    report.instructions = static_cast<double>(instructions_) / operations;
    std::vector<LineId> order;
    for (LineId i = 0; i < lines_.size(); ++i) {
      if (lines_[i].SerialNs() > 0) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [this](LineId a, LineId b) {
      return lines_[a].SerialNs() > lines_[b].SerialNs();
    });
    if (!order.empty()) {
      report.serial_bound = kNanos * operations / lines_[order[0]].SerialNs();
    }
    for (size_t i = 0; i < order.size() && i < schedule_.lines; ++i) {
      const Line& line = lines_[order[i]];
      report.hottest.push_back(
          {.line = addresses_[order[i]],
           .code = line.code,
           .transfers = static_cast<double>(line.transfers) / operations,
           .busy_ns = line.SerialNs() / operations,
           .movers = MoversOf(order[i], operations)});
    }
    report.ended = done_;
    report.memory = memory_;
    return report;
  }

  const ModelParameters& p_;
  const Schedule& schedule_;
  Random random_;
  std::vector<Core> cores_;
  std::vector<Line> lines_;
  std::unordered_map<uint64_t, LineId> numbers_;   // By addresses.
  std::vector<uint64_t> addresses_;                // By numbers.
  std::unordered_map<uint64_t, uint64_t> memory_;  // Of a kernel.
  uint64_t kernel_code_ = 0;
  bool is_stuck_ = false;
  std::vector<uint16_t> woken_;  // In this step.
  // Operations of all cores: done, when counting begins, and at the end.
  size_t done_ = 0;
  size_t first_ = 0;
  size_t last_ = SIZE_MAX;
  size_t cold_cores_ = 0;
  bool counting_ = false;
  double begin_ = 0;  // When counting began.
  double end_ = 0;    // When the last operation ended.
  // Counted.
  std::vector<double> times_;
  uint64_t instructions_ = 0;
  uint64_t transfers_ = 0;
  uint64_t invalidations_ = 0;
  uint64_t cold_misses_ = 0;
  uint64_t coherence_misses_ = 0;
  uint64_t capacity_misses_ = 0;
  uint64_t sleeps_ = 0;
  uint64_t atomics_ = 0;
  uint64_t failures_ = 0;
  // Transfers of a line by an instruction.
  std::map<std::pair<LineId, uint64_t>, uint64_t> moves_;
};

}  // namespace

ModelReport Simulate(const ModelParameters& parameters,
                     const Recording& recording, const Schedule& schedule) {
  return Machine(parameters, recording, schedule).Run();
}

ModelReport Simulate(const ModelParameters& parameters,
                     const varve_kernel& kernel, const Schedule& schedule) {
  return Machine(parameters, kernel, schedule).Run();
}

}  // namespace varve::cores
