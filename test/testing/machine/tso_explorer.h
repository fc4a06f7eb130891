// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs a few short threads through every order of their steps, on a machine
// whose processors have store buffers (TSO, as on x86-64). Other threads see a
// store at any later moment, in the order of its thread's stores.
//
// The threads' code is ordinary code over ModelAtomic. To find a thread's next
// step, the explorer runs its function from the start, replays the results of
// its earlier steps, and leaves the function by longjmp at the new step. Hence
// the function must have no other side effects, and no variables with
// destructors. The explorer does not continue from a state that it has seen
// before. Thread-safety: one explorer at a time.

#include <setjmp.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace varve::test {

class TsoExplorer {
 public:
  TsoExplorer() { current_ = this; }
  TsoExplorer(const TsoExplorer&) = delete;
  TsoExplorer& operator=(const TsoExplorer&) = delete;
  ~TsoExplorer() { current_ = nullptr; }

  static TsoExplorer* current() { return current_; }

  // ---- Initial state, before Explore ----
  //
  // Steps made here, outside the threads, take effect at once.

  size_t NewWord(uint64_t value) {
    start_.memory.push_back(value);
    return start_.memory.size() - 1;
  }
  void AddThread(std::function<void()> body) {
    bodies_.push_back(std::move(body));
    start_.threads.emplace_back();
  }

  // Calls judge() for each final state that the threads can reach. There,
  // ModelAtomic::Final reads words. Returns the first complaint that a thread
  // or judge passes to Complain, or an empty string.
  std::string Explore(const std::function<void()>& judge) {
    std::vector<State> stack = {start_};
    while (!stack.empty() && complaint_.empty()) {
      const State state = std::move(stack.back());
      stack.pop_back();
      if (!seen_.insert(state.Key()).second) continue;
      bool any = false;
      for (size_t t = 0; t < bodies_.size(); ++t) any |= Go(state, t, &stack);
      if (!any) {
        final_ = &state;
        ++ends_;
        if (state.AllDone()) {
          judge();
        } else {
          Complain("deadlock");
        }
      }
    }
    return complaint_;
  }
  size_t states() const { return seen_.size(); }
  size_t ends() const { return ends_; }

  // ---- Steps, for the threads ----

  enum class Kind : uint8_t {
    kNone,
    kLoad,
    kStore,
    kExchangeIfEqual,  // Returns the value before.
    kAdd,              // Returns the value before.
    kLock,
    kFence,
    kHeavyBarrier,
  };
  struct Step {
    Kind kind = Kind::kNone;
    size_t word = 0;
    uint64_t a = 0;
    uint64_t b = 0;
  };

  uint64_t Do(const Step& step) {
    if (history_ == nullptr) return DoAtOnce(step);
    if (position_ < history_->size()) return (*history_)[position_++];
    next_ = step;
    longjmp(leave_, 1);
  }
  // Ends the exploration.
  void Complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }
  void Expect(bool condition, const char* what) {
    if (!condition) Complain(what);
  }

  uint64_t FinalValue(size_t word) const { return final_->memory[word]; }

 private:
  struct Thread {
    std::vector<std::pair<size_t, uint64_t>> buffer;  // Oldest first.
    std::vector<uint64_t> history;
    bool done = false;
    // A heavy barrier has begun, and the threads that have executed its fence.
    bool in_barrier = false;
    uint64_t fenced = 0;
  };
  struct State {
    std::vector<uint64_t> memory;
    std::vector<Thread> threads;

    bool AllDone() const {
      for (const Thread& thread : threads) {
        if (!thread.done) return false;
      }
      return true;
    }
    std::string Key() const {
      std::string key;
      const auto add = [&key](uint64_t value) {
        key.append(reinterpret_cast<const char*>(&value), sizeof(value));
      };
      for (const uint64_t value : memory) add(value);
      for (const Thread& thread : threads) {
        add(thread.buffer.size());
        for (const auto& [word, value] : thread.buffer) {
          add(word);
          add(value);
        }
        add(thread.history.size());
        for (const uint64_t value : thread.history) add(value);
        add((thread.fenced << 2) | (thread.done ? 2u : 0u) |
            (thread.in_barrier ? 1u : 0u));
      }
      return key;
    }
  };

  // Pushes the states that a step of thread t, or of its store buffer, leads
  // to. Returns false if there is none.
  bool Go(const State& state, size_t t, std::vector<State>* stack) {
    const Thread& thread = state.threads[t];
    bool any = false;
    if (!thread.buffer.empty()) {
      any = true;
      State next = state;
      DrainOne(&next, t);
      stack->push_back(std::move(next));
    }
    if (thread.done) return any;
    const Step step = NextStep(t, thread.history);
    if (!complaint_.empty()) return true;
    if (step.kind == Kind::kNone) {
      State next = state;
      next.threads[t].done = true;
      stack->push_back(std::move(next));
      return true;
    }
    if (step.kind == Kind::kLock && state.memory[step.word] != 0) return any;
    if (step.kind == Kind::kHeavyBarrier) {
      GoBarrier(state, t, stack);
      return true;
    }
    State next = state;
    const uint64_t result = Perform(&next, t, step);
    next.threads[t].history.push_back(result);
    stack->push_back(std::move(next));
    return true;
  }

  // The caller's own fence, then one fence of each other thread, in any order
  // and each at its own time.
  void GoBarrier(const State& state, size_t t, std::vector<State>* stack) {
    State base = state;
    Thread& self = base.threads[t];
    if (!self.in_barrier) {
      self.in_barrier = true;
      self.fenced = uint64_t{1} << t;
      Drain(&base, t);
      stack->push_back(std::move(base));
      return;
    }
    const uint64_t all = (uint64_t{1} << bodies_.size()) - 1;
    if (self.fenced == all) {
      self.in_barrier = false;
      self.fenced = 0;
      self.history.push_back(0);
      stack->push_back(std::move(base));
      return;
    }
    for (size_t other = 0; other < bodies_.size(); ++other) {
      if ((self.fenced >> other & 1) != 0) continue;
      State next = base;
      Drain(&next, other);
      next.threads[t].fenced |= uint64_t{1} << other;
      stack->push_back(std::move(next));
    }
  }

  static void DrainOne(State* state, size_t t) {
    auto& buffer = state->threads[t].buffer;
    state->memory[buffer.front().first] = buffer.front().second;
    buffer.erase(buffer.begin());
  }
  static void Drain(State* state, size_t t) {
    while (!state->threads[t].buffer.empty()) DrainOne(state, t);
  }

  static uint64_t Perform(State* state, size_t t, const Step& step) {
    Thread& thread = state->threads[t];
    if (step.kind == Kind::kLoad) {
      for (size_t i = thread.buffer.size(); i-- > 0;) {
        if (thread.buffer[i].first == step.word) return thread.buffer[i].second;
      }
      return state->memory[step.word];
    }
    if (step.kind == Kind::kStore) {
      thread.buffer.emplace_back(step.word, step.a);
      return 0;
    }
    Drain(state, t);  // All other steps are fences, too.
    if (step.kind == Kind::kFence) return 0;
    uint64_t& word = state->memory[step.word];
    const uint64_t before = word;
    if (step.kind == Kind::kAdd) word += step.a;
    if (step.kind == Kind::kLock) word = 1;
    if (step.kind == Kind::kExchangeIfEqual && before == step.a) word = step.b;
    return before;
  }

  uint64_t DoAtOnce(const Step& step) {
    State state = start_;
    state.threads.emplace_back();
    const size_t t = state.threads.size() - 1;
    const uint64_t result = Perform(&state, t, step);
    Drain(&state, t);
    start_.memory = state.memory;
    return result;
  }

  Step NextStep(size_t t, const std::vector<uint64_t>& history) {
    std::string key(1, static_cast<char>(t));
    key.append(reinterpret_cast<const char*>(history.data()),
               history.size() * sizeof(uint64_t));
    const auto known = steps_.find(key);
    if (known != steps_.end()) return known->second;
    history_ = &history;
    position_ = 0;
    next_ = Step();
    if (setjmp(leave_) == 0) bodies_[t]();
    return steps_[key] = next_;
  }

  static inline TsoExplorer* current_ = nullptr;

  State start_;
  std::vector<std::function<void()>> bodies_;
  std::unordered_set<std::string> seen_;
  std::unordered_map<std::string, Step> steps_;
  std::string complaint_;
  size_t ends_ = 0;
  const State* final_ = nullptr;

  // State of the running thread.
  const std::vector<uint64_t>* history_ = nullptr;
  size_t position_ = 0;
  Step next_;
  jmp_buf leave_;
};

// A word of the explorer's machine. Every access has TSO's order.
template <typename T>
class ModelAtomic {
 public:
  static_assert(sizeof(T) <= sizeof(uint64_t));
  using Kind = TsoExplorer::Kind;

  ModelAtomic(T value = T())
      : word_(TsoExplorer::current()->NewWord(Encode(value))) {}
  ModelAtomic(const ModelAtomic&) = delete;
  ModelAtomic& operator=(const ModelAtomic&) = delete;

  T load(std::memory_order = {}) const {
    return Decode(TsoExplorer::current()->Do({Kind::kLoad, word_, 0, 0}));
  }
  void store(T value, std::memory_order = {}) {
    TsoExplorer::current()->Do({Kind::kStore, word_, Encode(value), 0});
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order,
                             std::memory_order) {
    const T before = Decode(TsoExplorer::current()->Do(
        {Kind::kExchangeIfEqual, word_, Encode(expected), Encode(value)}));
    return std::exchange(expected, before) == before;
  }
  T fetch_add(T value, std::memory_order = {}) {
    return Decode(
        TsoExplorer::current()->Do({Kind::kAdd, word_, Encode(value), 0}));
  }
  T fetch_sub(T value, std::memory_order = {}) {
    return fetch_add(static_cast<T>(-value));
  }
  // Uses the word as a mutex: Lock waits for 0 and sets 1, Unlock sets 0.
  void Lock() { TsoExplorer::current()->Do({Kind::kLock, word_, 0, 0}); }
  void Unlock() { store(T()); }

  T Final() const { return Decode(TsoExplorer::current()->FinalValue(word_)); }

 private:
  static uint64_t Encode(T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(value));
    return bits;
  }
  static T Decode(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }

  const size_t word_;
};

}  // namespace varve::test
