// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs pieces of a child process one instruction at a time, and reports the
// instructions that are shared with other processors or with the kernel. Linux
// on x86-64 only.
//
// A restartable sequence (util/threads/per_cpu.h) cannot be stepped through,
// since each trap inside it aborts it. Its instructions are decoded from
// memory. Then it runs as a whole, up to a breakpoint after its end.

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "test/testing/machine/describe_address.h"
#include "test/testing/machine/x86_instruction.h"
#include "util/threads/per_cpu.h"

namespace varve::test {

// Enclose each piece to examine. Their bodies differ, so that the linker does
// not fold them into one function.
[[gnu::noinline]] inline void BeginSteps() {
  asm volatile("# begin" ::: "memory");
}
[[gnu::noinline]] inline void EndSteps() { asm volatile("# end" ::: "memory"); }

struct StepReport {
  std::string error;  // Empty if all pieces were run.
  uint64_t pieces = 0;
  // All pieces together. A repeated string instruction counts once.
  uint64_t instructions = 0;
  // Of each piece, without the file that was left out.
  std::vector<uint64_t> instructions_of_pieces;
  uint64_t locked = 0;  // Fences and instructions with a lock.
  uint64_t system_calls = 0;
  uint64_t mutex_operations = 0;  // Calls of pthread's lock functions.
  uint64_t allocations = 0;       // Calls of malloc and similar functions.
  uint64_t sequences = 0;         // Completed restartable sequences.
  uint64_t aborted_sequences = 0;
  // Each finding with its place, and its count.
  std::map<std::string, uint64_t> findings;
};

// Thread-safety: owned by one thread at a time.
class SingleStepper {
 public:
  // The child's function. It prepares itself, calls the argument once, and runs
  // `pieces` pieces, each between BeginSteps and EndSteps. It returns whether
  // all checks passed.
  using Child = std::function<bool(const std::function<void()>& ready)>;

  // kIntoSequences steps into restartable sequences, as a debugger does.
  enum class Mode { kOverSequences, kIntoSequences };
  explicit SingleStepper(Mode mode = Mode::kOverSequences);

  SingleStepper(const SingleStepper&) = delete;
  SingleStepper& operator=(const SingleStepper&) = delete;

  // instructions_of_pieces has none of the file, a program or a shared library
  // whose name contains `name`. Call before Run.
  void LeaveOut(const std::string& name) { left_out_ = name; }

  // Nothing that a call of `function` executes is counted. It is what the code
  // does only because steps make it slow. Call before Run.
  template <typename Function>
  void LeaveOutCallsOf(Function function) {
    static_assert(sizeof(function) >= sizeof(left_out_call_));
    // Also of a member function that is not virtual: its address comes first.
    memcpy(&left_out_call_, &function, sizeof(left_out_call_));
  }

  // Forks a child and steps through its pieces. REQUIRES: this process has
  // one thread.
  StepReport Run(uint64_t pieces, const Child& child);

 private:
  struct Place {
    InstructionKind kind = InstructionKind::kPlain;
    const char* lock_function = nullptr;  // The function that begins here.
    bool is_allocation = false;
    bool is_own_code = false;  // Not the C library's.
    bool is_call = false;
    bool is_left_out = false;
  };

  void Start(const Child& child);
  void StepThrough(uint64_t pieces);
  void Note(uint64_t address);
  // Runs from the beginning of a sequence to its end or to its abort handler,
  // and sets *address to the place reached.
  bool RunSequence(const RseqSequence& sequence, uint64_t* address);
  bool NoteSequence(const RseqSequence& sequence);
  // Replaces a byte of the code, and sets *before to its old value.
  bool Poke(uint64_t address, uint8_t byte, uint8_t* before);
  bool ReadAddress(uint64_t* address);
  const Place& Look(uint64_t address);
  bool WaitForStop(int* signal_number);
  bool Fail(const std::string& what);
  void Reap();

  // By address in this process. The child has the same addresses, since it was
  // forked without exec.
  std::unordered_map<uint64_t, const char*> lock_functions_;
  std::unordered_map<uint64_t, const char*> allocation_functions_;
  std::unordered_map<uint64_t, Place> places_;
  // By start address.
  std::unordered_map<uint64_t, RseqSequence> sequences_;
  const void* c_library_ = nullptr;
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string left_out_;
  uint64_t left_out_call_ = 0;
  uint64_t return_to_ = 0;  // From that call; 0 outside of it.
  uint64_t in_piece_ = 0;   // Instructions so far, without those left out.
  // The newest call in code outside the C library, to name the caller of
  // findings inside the library.
  uint64_t last_call_ = 0;
  StepReport report_;
};

inline SingleStepper::SingleStepper(Mode mode) {
  if (mode == Mode::kOverSequences) {
    for (const RseqSequence& sequence : TEST_RseqSequences()) {
      sequences_[sequence.start] = sequence;
    }
  }
  for (const char* name :
       {"pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_unlock",
        "pthread_mutex_timedlock", "pthread_rwlock_rdlock",
        "pthread_rwlock_wrlock", "pthread_rwlock_tryrdlock",
        "pthread_rwlock_trywrlock", "pthread_rwlock_unlock",
        "pthread_spin_lock", "pthread_spin_unlock", "pthread_cond_wait",
        "pthread_cond_signal", "pthread_cond_broadcast", "sem_wait",
        "sem_post"}) {
    void* address = dlsym(RTLD_DEFAULT, name);
    if (address == nullptr) continue;
    lock_functions_[reinterpret_cast<uint64_t>(address)] = name;
  }
  for (const char* name :
       {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"}) {
    void* address = dlsym(RTLD_DEFAULT, name);
    if (address == nullptr) continue;
    allocation_functions_[reinterpret_cast<uint64_t>(address)] = name;
  }
  Dl_info info;
  if (dladdr(dlsym(RTLD_DEFAULT, "pthread_mutex_lock"), &info) != 0) {
    c_library_ = info.dli_fbase;
  }
}

// Keeps this thread and another process's on one processor. The two run in
// turns: on two processors, each of which halts while it waits, a step can take
// tens of microseconds, and an operation is so slow that it is noted as slow.
class OneProcessor {
 public:
  explicit OneProcessor(pid_t other) : other_(other) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    sched_getaffinity(0, sizeof(before_), &before_);
    for (const pid_t thread : {other_, pid_t{0}}) {
      sched_setaffinity(thread, sizeof(one), &one);  // A refusal costs time.
    }
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;
  ~OneProcessor() {
    for (const pid_t thread : {other_, pid_t{0}}) {
      sched_setaffinity(thread, sizeof(before_), &before_);
    }
  }

 private:
  const pid_t other_;
  cpu_set_t before_;
};

inline StepReport SingleStepper::Run(uint64_t pieces, const Child& child) {
  report_ = StepReport();
  places_.clear();
  ended_ = false;
  last_call_ = 0;
  if (lock_functions_.size() < 3 || c_library_ == nullptr) {
    report_.error = "pthread's locks were not found";
    return report_;
  }
  Start(child);
  if (report_.error.empty()) {
    const OneProcessor shared(pid_);
    StepThrough(pieces);
  }
  Reap();
  return report_;
}

inline void SingleStepper::Start(const Child& child) {
  fflush(stdout);
  fflush(stderr);
  pid_ = fork();
  if (pid_ < 0) {
    Fail("fork");
    return;
  }
  if (pid_ == 0) {
    const bool good = child([] {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
        perror("ptrace(PTRACE_TRACEME)");
        _exit(2);
      }
      raise(SIGSTOP);
    });
    _exit(good ? 0 : 1);
  }
  int signal_number = 0;
  if (WaitForStop(&signal_number) && signal_number != SIGSTOP) {
    Fail("the child was stopped by another signal than its own");
  }
}

inline void SingleStepper::StepThrough(uint64_t pieces) {
  const uint64_t begin = reinterpret_cast<uint64_t>(&BeginSteps);
  const uint64_t end = reinterpret_cast<uint64_t>(&EndSteps);
  bool inside = false;
  uint64_t last = 0;
  long pass_on = 0;
  while (report_.pieces < pieces) {
    if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, pass_on) != 0) {
      Fail("ptrace(PTRACE_SINGLESTEP)");
      return;
    }
    int signal_number = 0;
    if (!WaitForStop(&signal_number)) return;
    pass_on = signal_number == SIGTRAP ? 0 : signal_number;
    uint64_t address = 0;
    if (!ReadAddress(&address)) return;
    const auto sequence = sequences_.find(address);
    if (sequence != sequences_.end()) {
      if (inside && !NoteSequence(sequence->second)) return;
      if (!RunSequence(sequence->second, &address)) return;
    }
    if (address == begin) {
      inside = true;
      in_piece_ = 0;
    } else if (address == end) {
      inside = false;
      report_.pieces++;
      report_.instructions_of_pieces.push_back(in_piece_);
    }
    // A repeated string instruction stops once for each round.
    if (inside && address != last) Note(address);
    last = address;
  }
  if (ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) {
    Fail("ptrace(PTRACE_CONT)");
  }
}

inline bool SingleStepper::ReadAddress(uint64_t* address) {
  errno = 0;
  *address = static_cast<uint64_t>(
      ptrace(PTRACE_PEEKUSER, pid_, offsetof(user_regs_struct, rip), nullptr));
  return errno == 0 || Fail("ptrace(PTRACE_PEEKUSER)");
}

inline bool SingleStepper::Poke(uint64_t address, uint8_t byte,
                                uint8_t* before) {
  const uint64_t word_at = address & ~uint64_t{7};
  const int shift = 8 * static_cast<int>(address & 7);
  errno = 0;
  uint64_t word =
      static_cast<uint64_t>(ptrace(PTRACE_PEEKTEXT, pid_, word_at, nullptr));
  if (errno != 0) return Fail("ptrace(PTRACE_PEEKTEXT)");
  *before = static_cast<uint8_t>(word >> shift);
  word &= ~(uint64_t{0xff} << shift);
  word |= uint64_t{byte} << shift;
  return ptrace(PTRACE_POKETEXT, pid_, word_at, word) == 0 ||
         Fail("ptrace(PTRACE_POKETEXT)");
}

inline bool SingleStepper::RunSequence(const RseqSequence& sequence,
                                       uint64_t* address) {
  constexpr uint8_t kBreakpoint = 0xcc;
  const uint64_t end = sequence.start + sequence.length;
  uint8_t at_end = 0;
  uint8_t at_abort = 0;
  if (!Poke(end, kBreakpoint, &at_end) ||
      !Poke(sequence.abort_handler, kBreakpoint, &at_abort)) {
    return false;
  }
  int signal_number = 0;
  if (ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) {
    return Fail("ptrace(PTRACE_CONT)");
  }
  if (!WaitForStop(&signal_number) || !ReadAddress(address)) return false;
  // Skips the breakpoint.
  *address -= 1;
  if (signal_number != SIGTRAP ||
      (*address != end && *address != sequence.abort_handler)) {
    return Fail("a restartable sequence was not run to its end");
  }
  (*address == end ? report_.sequences : report_.aborted_sequences)++;
  uint8_t ignored;
  if (!Poke(end, at_end, &ignored) ||
      !Poke(sequence.abort_handler, at_abort, &ignored)) {
    return false;
  }
  return ptrace(PTRACE_POKEUSER, pid_, offsetof(user_regs_struct, rip),
                *address) == 0 ||
         Fail("ptrace(PTRACE_POKEUSER)");
}

inline bool SingleStepper::NoteSequence(const RseqSequence& sequence) {
  // This process has the same code.
  const auto* bytes = reinterpret_cast<const uint8_t*>(sequence.start);
  for (size_t i = 0; i < sequence.length;) {
    const size_t length =
        SequenceInstructionLength(bytes + i, sequence.length - i);
    if (length == 0) {
      errno = 0;
      return Fail("an unknown instruction in a restartable sequence, at " +
                  DescribeAddress(sequence.start + i));
    }
    Note(sequence.start + i);
    i += length;
  }
  return true;
}

// The child is about to execute the instruction at `address`.
inline void SingleStepper::Note(uint64_t address) {
  if (address == return_to_) return_to_ = 0;
  if (address == left_out_call_ && left_out_call_ != 0) {
    const long stack =
        ptrace(PTRACE_PEEKUSER, pid_, offsetof(user_regs_struct, rsp), nullptr);
    return_to_ =
        static_cast<uint64_t>(ptrace(PTRACE_PEEKDATA, pid_, stack, nullptr));
  }
  if (return_to_ != 0) return;
  report_.instructions++;
  const Place& place = Look(address);
  if (!place.is_left_out) in_piece_++;
  if (place.is_own_code && place.is_call) last_call_ = address;
  if (place.is_allocation) report_.allocations++;
  const char* what = place.lock_function;
  if (what != nullptr) report_.mutex_operations++;
  switch (place.kind) {
    case InstructionKind::kPlain:
      break;
    case InstructionKind::kLocked:
      what = "lock prefix";
      report_.locked++;
      break;
    case InstructionKind::kExchange:
      what = "xchg with memory";
      report_.locked++;
      break;
    case InstructionKind::kFence:
      what = "mfence";
      report_.locked++;
      break;
    case InstructionKind::kSystemCall:
      what = "system call";
      report_.system_calls++;
      break;
  }
  if (what == nullptr) return;
  std::string finding = std::string(what) + " at " + DescribeAddress(address);
  if (!place.is_own_code) {
    finding += ", called at " + DescribeAddress(last_call_);
  }
  report_.findings[finding]++;
}

inline const SingleStepper::Place& SingleStepper::Look(uint64_t address) {
  const auto [found, is_new] = places_.try_emplace(address);
  Place& place = found->second;
  if (!is_new) return place;
  // Reads up to the end of the page first: the next page may not be mapped.
  uint8_t bytes[15];
  const size_t in_page = 4096 - address % 4096;
  const size_t first = in_page < sizeof(bytes) ? in_page : sizeof(bytes);
  const iovec local = {bytes, sizeof(bytes)};
  const iovec remote[2] = {
      {reinterpret_cast<void*>(address), first},
      {reinterpret_cast<void*>(address + first), sizeof(bytes) - first}};
  const ssize_t n =
      process_vm_readv(pid_, &local, 1, remote, first < 15 ? 2 : 1, 0);
  if (n <= 0) Fail("process_vm_readv of " + DescribeAddress(address));
  const size_t size = n > 0 ? static_cast<size_t>(n) : 0;
  place.kind = KindOfInstruction(bytes, size);
  place.is_call = IsCall(bytes, size);
  const auto lock = lock_functions_.find(address);
  if (lock != lock_functions_.end()) place.lock_function = lock->second;
  place.is_allocation = allocation_functions_.count(address) != 0;
  Dl_info info;
  const bool known = dladdr(reinterpret_cast<void*>(address), &info) != 0;
  place.is_own_code = known && info.dli_fbase != c_library_;
  place.is_left_out = known && !left_out_.empty() &&
                      strstr(info.dli_fname, left_out_.c_str()) != nullptr;
  return place;
}

inline bool SingleStepper::WaitForStop(int* signal_number) {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return Fail("waitpid");
  }
  if (WIFSTOPPED(status)) {
    *signal_number = WSTOPSIG(status);
    return true;
  }
  ended_ = true;
  errno = 0;
  return Fail("the child ended early, with status " + std::to_string(status));
}

inline bool SingleStepper::Fail(const std::string& what) {
  if (report_.error.empty()) {
    report_.error = what;
    if (errno != 0) report_.error += std::string(": ") + strerror(errno);
  }
  return false;
}

// Waits for the child to end, and takes over its result.
inline void SingleStepper::Reap() {
  if (pid_ <= 0 || ended_) return;
  if (!report_.error.empty()) kill(pid_, SIGKILL);
  int status = 0;
  for (;;) {
    if (waitpid(pid_, &status, 0) < 0) {
      if (errno == EINTR) continue;
      Fail("waitpid");
      return;
    }
    if (!WIFSTOPPED(status)) break;
    const int signal_number = WSTOPSIG(status);
    ptrace(PTRACE_CONT, pid_, nullptr,
           static_cast<long>(signal_number == SIGTRAP ? 0 : signal_number));
  }
  errno = 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    Fail("the child ended with status " + std::to_string(status));
  }
}

}  // namespace varve::test
