// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/coherence_model.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <deque>
#include <memory>
#include <queue>
#include <unordered_map>

#include "util/base/check.h"
#include "util/base/random.h"

namespace varve::cores {

namespace {

constexpr uint16_t kNobody = UINT16_MAX;
using LineId = uint32_t;
constexpr LineId kNoLine = UINT32_MAX;

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
};

// An access, with the line's number in this simulation.
struct Step {
  LineId line;
  uint32_t instruction;
  uint64_t code;
  AccessKind kind;
};
struct Operation {
  std::vector<Step> steps;
  uint32_t instructions;
};

struct Core {
  double now = 0;
  std::vector<Operation> operations;
  size_t operation = 0;
  size_t step = 0;
  uint32_t instruction = 0;  // Up to which time has been counted.
  double begin = 0;
  std::deque<double> stores;  // When each store of the buffer ends.
  bool asleep = false;
  std::unique_ptr<SetCache> l1;
  std::unique_ptr<SetCache> l2;
};

class Machine {
 public:
  Machine(const ModelParameters& parameters, const Recording& recording,
          const Schedule& schedule)
      : p_(parameters), schedule_(schedule), random_(schedule.seed) {
    VARVE_DCHECK(schedule.cores <= kMaxCores &&
                 schedule.cores <= recording.threads.size());
    std::unordered_map<uint64_t, LineId> numbers;
    cores_.resize(schedule.cores);
    for (size_t c = 0; c < schedule.cores; ++c) {
      for (const OperationTrace& trace : recording.threads[c]) {
        cores_[c].operations.push_back(Renumbered(trace, &numbers));
      }
      cores_[c].l1 = std::make_unique<SetCache>(p_.l1_bytes, p_.l1_ways);
      cores_[c].l2 = std::make_unique<SetCache>(p_.l2_bytes, p_.l2_ways);
      cores_[c].operation = random_.Uniform(cores_[c].operations.size());
      // Cores do not begin in step, but within the time of one operation.
      const Operation& first = cores_[c].operations[cores_[c].operation];
      cores_[c].now =
          Cycles(p_.cycles_per_instruction *
                 static_cast<double>(random_.Uniform(first.instructions + 1)));
    }
    lines_.resize(numbers.size());
    first_ = schedule.cores * schedule.warm_operations;
    last_ = first_ + schedule.cores * schedule.operations;
    for (const auto& [address, number] : numbers) addresses_[number] = address;
  }

  ModelReport Run() {
    using Entry = std::pair<double, uint16_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint16_t c = 0; c < cores_.size(); ++c) ready.push({cores_[c].now, c});
    while (!ready.empty()) {
      const uint16_t c = ready.top().second;
      ready.pop();
      const Core& core = cores_[c];
      // As long as no other core is behind it.
      do {
        StepCore(c);
        if (woken_ == kNobody) continue;
        ready.push({cores_[woken_].now, woken_});
        woken_ = kNobody;
      } while (!core.asleep && done_ < last_ &&
               (ready.empty() || core.now <= ready.top().first));
      if (done_ == last_) break;
      if (!core.asleep) ready.push({core.now, c});
    }
    return Report();
  }

 private:
  static constexpr double kNanos = 1e9;

  Operation Renumbered(const OperationTrace& trace,
                       std::unordered_map<uint64_t, LineId>* numbers) {
    Operation operation{.steps = {}, .instructions = trace.instructions};
    operation.steps.reserve(trace.accesses.size());
    for (const Access& access : trace.accesses) {
      const auto [place, is_new] = numbers->try_emplace(
          access.line, static_cast<LineId>(numbers->size()));
      operation.steps.push_back(
          {place->second, access.instruction, access.code, access.kind});
    }
    return operation;
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
    const Operation& operation = core.operations[core.operation];
    if (core.step == 0 && core.instruction == 0) core.begin = core.now;
    if (core.step == operation.steps.size()) {
      AddInstructions(&core, operation.instructions);
      EndOperation(&core);
      return;
    }
    const Step& step = operation.steps[core.step];
    AddInstructions(&core, step.instruction);
    if (step.kind == AccessKind::kLock && !TakeMutex(c, step)) return;
    Do(c, step);
    if (step.kind == AccessKind::kLock) lines_[step.line].held_since = core.now;
    if (step.kind == AccessKind::kRelease) GiveMutex(c, step);
    ++core.step;
  }

  void AddInstructions(Core* core, uint32_t until) {
    if (until <= core->instruction) return;
    core->now += Cycles(p_.cycles_per_instruction *
                        static_cast<double>(until - core->instruction));
    core->instruction = until;
  }

  void EndOperation(Core* core) {
    if (counting_) {
      times_.push_back(core->now - core->begin);
      instructions_ += core->operations[core->operation].instructions;
    }
    core->operation = (core->operation + 1) % core->operations.size();
    core->step = 0;
    core->instruction = 0;
    ++done_;
    if (done_ == first_) {
      counting_ = true;
      begin_ = core->now;
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
    woken_ = sleeper;
    core.now += p_.waker_ns;
  }

  // ---- Memory ---------------------------------------------------------------

  void Do(uint16_t c, const Step& step) {
    Core& core = cores_[c];
    if (step.kind == AccessKind::kLoad) {
      core.now = Load(c, step, core.now);
      return;
    }
    if (step.kind == AccessKind::kStore) {
      while (!core.stores.empty() && core.stores.front() <= core.now) {
        core.stores.pop_front();
      }
      if (core.stores.size() >= p_.store_buffer) {
        core.now = core.stores.front();
        core.stores.pop_front();
      }
      // Stores become visible in order.
      const double begin = core.stores.empty()
                               ? core.now
                               : std::max(core.now, core.stores.back());
      const double end = Own(c, step, begin);
      if (end > core.now) core.stores.push_back(end);
      return;
    }
    if (!core.stores.empty()) {
      core.now = std::max(core.now, core.stores.back());
      core.stores.clear();
    }
    if (counting_) ++atomics_;
    core.now = Own(c, step, core.now) + Cycles(p_.atomic_cycles);
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
    const auto c = static_cast<size_t>(core - cores_.data());
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
    const size_t socket = SocketOf(c);
    if (line->in_l3[socket]) return now + p_.l3_ns;
    for (size_t other = 0; other < cores_.size(); ++other) {
      if (line->sharers[other] && SocketOf(other) == socket) {
        // A clean copy comes through the shared cache.
        line->in_l3[socket] = true;
        return now + p_.l3_ns;
      }
    }
    if (line->sharers.any() || line->in_l3[1 - socket]) {
      line->in_l3[socket] = true;
      return now + p_.other_socket_ns;
    }
    line->in_l3[socket] = true;
    return now + p_.memory_ns;
  }

  // Ends the copies of others, for a core that has one.
  double Invalidate(uint16_t c, const Step& step, Line* line, double now) {
    double ns = 0;
    for (size_t other = 0; other < cores_.size(); ++other) {
      if (other != c && line->sharers[other]) {
        ns = std::max(ns, TransferNs(other, c));
      }
    }
    InvalidateCopies(c, step, line);
    // Alone with it, it has only to say so.
    return ns == 0 ? now : Occupy(line, now, ns);
  }

  void InvalidateCopies(uint16_t c, const Step& step, Line* line) {
    for (size_t other = 0; other < cores_.size(); ++other) {
      if (other == c || !line->sharers[other]) continue;
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
  }

  // ---- The end --------------------------------------------------------------

  ModelReport Report() {
    ModelReport report;
    report.cores = cores_.size();
    const auto operations =
        static_cast<double>(std::max<size_t>(1, times_.size()));
    report.operations_a_second = kNanos * operations / (end_ - begin_);
    // Those that are under way for long count too.
    for (const Core& core : cores_) {
      if (core.asleep) times_.push_back(end_ - core.begin);
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
    for (size_t i = 0; i < order.size() && i < 5; ++i) {
      const Line& line = lines_[order[i]];
      report.hottest.push_back(
          {.line = addresses_[order[i]],
           .code = line.code,
           .transfers = static_cast<double>(line.transfers) / operations,
           .busy_ns = line.SerialNs() / operations});
    }
    return report;
  }

  const ModelParameters& p_;
  const Schedule& schedule_;
  Random random_;
  std::vector<Core> cores_;
  std::vector<Line> lines_;
  std::unordered_map<LineId, uint64_t> addresses_;
  uint16_t woken_ = kNobody;
  // Operations of all cores: done, when counting begins, and at the end.
  size_t done_ = 0;
  size_t first_ = 0;
  size_t last_ = 0;
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
};

}  // namespace

ModelReport Simulate(const ModelParameters& parameters,
                     const Recording& recording, const Schedule& schedule) {
  return Machine(parameters, recording, schedule).Run();
}

}  // namespace varve::cores
