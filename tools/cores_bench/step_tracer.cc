// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/step_tracer.h"

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

namespace varve::cores {

namespace {

constexpr greg_t kTrapFlag = 0x100;

// ---- Instructions -----------------------------------------------------------

// A memory operand, as what its address is computed from.
struct Operand {
  int8_t base = -1;  // Places in gregs; -1: none, -2: the next instruction.
  int8_t index = -1;
  uint8_t scale = 0;
  bool thread = false;  // Relative to the thread pointer.
  bool reads = false;
  bool writes = false;
  int64_t displacement = 0;
  uint32_t bytes = 0;
};

struct Instruction {
  uint64_t address = 0;  // 0: no instruction.
  uint8_t length = 0;
  uint8_t operand_count = 0;
  bool atomic = false;
  bool compares = false;  // Atomic, and writes only what it expected.
  bool system_call = false;
  bool repeated = false;  // Each repetition traps.
  std::array<Operand, 3> operands;
};

// The place of a 64-bit register, or of the one that contains it, in gregs.
int8_t PlaceOf(ZydisRegister name) {
  switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name)) {
    case ZYDIS_REGISTER_RAX:
      return REG_RAX;
    case ZYDIS_REGISTER_RBX:
      return REG_RBX;
    case ZYDIS_REGISTER_RCX:
      return REG_RCX;
    case ZYDIS_REGISTER_RDX:
      return REG_RDX;
    case ZYDIS_REGISTER_RSI:
      return REG_RSI;
    case ZYDIS_REGISTER_RDI:
      return REG_RDI;
    case ZYDIS_REGISTER_RBP:
      return REG_RBP;
    case ZYDIS_REGISTER_RSP:
      return REG_RSP;
    case ZYDIS_REGISTER_R8:
      return REG_R8;
    case ZYDIS_REGISTER_R9:
      return REG_R9;
    case ZYDIS_REGISTER_R10:
      return REG_R10;
    case ZYDIS_REGISTER_R11:
      return REG_R11;
    case ZYDIS_REGISTER_R12:
      return REG_R12;
    case ZYDIS_REGISTER_R13:
      return REG_R13;
    case ZYDIS_REGISTER_R14:
      return REG_R14;
    case ZYDIS_REGISTER_R15:
      return REG_R15;
    case ZYDIS_REGISTER_RIP:
      return -2;
    default:
      return -1;
  }
}

bool IsStringInstruction(ZydisInstructionCategory category) {
  return category == ZYDIS_CATEGORY_STRINGOP;
}

// Decodes without memory of its own: the handler calls it. Returns false if the
// bytes are no instruction.
bool Decode(const ZydisDecoder& decoder, uint64_t address,
            Instruction* instruction) {
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(
          &decoder, reinterpret_cast<const void*>(address),
          ZYDIS_MAX_INSTRUCTION_LENGTH, &decoded, operands))) {
    return false;
  }
  *instruction = Instruction();
  instruction->address = address;
  instruction->length = decoded.length;
  instruction->system_call = decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
  instruction->repeated = IsStringInstruction(decoded.meta.category);
  bool writes_memory = false;
  for (int i = 0; i < decoded.operand_count; ++i) {
    const ZydisDecodedOperand& from = operands[i];
    if (from.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    // An address alone, as LEA's.
    if (from.mem.type != ZYDIS_MEMOP_TYPE_MEM) continue;
    if (instruction->operand_count == instruction->operands.size()) break;
    Operand& to = instruction->operands[instruction->operand_count++];
    to.reads = (from.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
    to.writes = (from.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    writes_memory |= to.writes;
    to.bytes = from.size / 8;
    to.base = from.mem.base == ZYDIS_REGISTER_NONE ? int8_t{-1}
                                                   : PlaceOf(from.mem.base);
    to.index = from.mem.index == ZYDIS_REGISTER_NONE ? int8_t{-1}
                                                     : PlaceOf(from.mem.index);
    to.scale = from.mem.scale;
    to.displacement = from.mem.disp.has_displacement ? from.mem.disp.value : 0;
    to.thread = from.mem.segment == ZYDIS_REGISTER_FS;
  }
  // XCHG with memory locks without a prefix.
  instruction->atomic =
      writes_memory && ((decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 ||
                        decoded.mnemonic == ZYDIS_MNEMONIC_XCHG);
  instruction->compares =
      instruction->atomic && (decoded.mnemonic == ZYDIS_MNEMONIC_CMPXCHG ||
                              decoded.mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B);
  return true;
}

// ---- What the handler works on ----------------------------------------------

struct State {
  ZydisDecoder decoder;
  // Decoded before, by address.
  static constexpr size_t kKept = size_t{1} << 18;
  std::unique_ptr<Instruction[]> kept = std::make_unique<Instruction[]>(kKept);
  std::unique_ptr<Access[]> accesses;
  size_t most = 0;
  size_t count = 0;
  uint32_t instructions = 0;
  uint32_t system_calls = 0;
  // Where pthread's functions begin and end.
  uint64_t lock_begin = 0;
  uint64_t lock_end = 0;
  uint64_t try_begin = 0;
  uint64_t try_end = 0;
  // Mutexes that the operation holds, and who called pthread to take them.
  struct Held {
    uint64_t mutex;
    uint64_t caller;
  };
  std::array<Held, 16> held = {};
  size_t held_count = 0;
  uint64_t caller = 0;  // The latest one of a function that locks.
  // The C library's function that reads a clock.
  uint64_t clock_begin = 0;
  // Of its latest call: where it returns to, which clock it reads, and where it
  // puts the time.
  uint64_t clock_return = 0;
  uint64_t clock = 0;
  struct timespec* clock_time = nullptr;
  // The time of each clock when the tracer was created.
  static constexpr uint64_t kClocks = CLOCK_BOOTTIME + 1;
  std::array<struct timespec, kClocks> clock_times = {};
};

State* state = nullptr;

[[noreturn]] void Fail(const char* what) {
  // The handler may run anywhere.
  const ssize_t ignored [[maybe_unused]] =
      write(STDERR_FILENO, what, strlen(what));
  _exit(1);
}

// pthread takes a mutex by the first atomic instruction on it inside the
// functions that lock, and gives it back by the next one. The code of both is
// the caller.
AccessKind KindOf(const Instruction& instruction, const Operand& operand,
                  uint64_t address, uint64_t* code) {
  if (!operand.writes) return AccessKind::kLoad;
  if (!instruction.atomic) return AccessKind::kStore;
  for (size_t i = 0; i < state->held_count; ++i) {
    if (state->held[i].mutex != address) continue;
    *code = state->held[i].caller;
    state->held[i] = state->held[--state->held_count];
    return AccessKind::kRelease;
  }
  const bool locks = (*code >= state->lock_begin && *code < state->lock_end) ||
                     (*code >= state->try_begin && *code < state->try_end);
  if (!locks) {
    return instruction.compares ? AccessKind::kCompare : AccessKind::kAtomic;
  }
  if (state->held_count == state->held.size()) {
    Fail("cores_bench: too many mutexes at a time\n");
  }
  *code = state->caller;
  state->held[state->held_count++] = {address, *code};
  return AccessKind::kLock;
}

// The words of a line from the one with the first byte to that with the last.
uint8_t WordsOf(uint64_t line, uint64_t first, uint64_t last) {
  const uint64_t begin = line * kLineBytes;
  const uint64_t from = first > begin ? (first - begin) / 8 : 0;
  const uint64_t to = std::min(last - begin, kLineBytes - 1) / 8;
  return static_cast<uint8_t>((0xff << from) & (0xff >> (7 - to)));
}

void Record(const Instruction& instruction, const greg_t* registers) {
  for (int i = 0; i < instruction.operand_count; ++i) {
    const Operand& operand = instruction.operands[i];
    uint64_t address = static_cast<uint64_t>(operand.displacement);
    if (operand.base == -2) {
      address += instruction.address + instruction.length;
    } else if (operand.base >= 0) {
      address += static_cast<uint64_t>(registers[operand.base]);
    }
    if (operand.index >= 0) {
      address +=
          static_cast<uint64_t>(registers[operand.index]) * operand.scale;
    }
    if (operand.thread) {
      address += reinterpret_cast<uint64_t>(__builtin_thread_pointer());
    }
    uint64_t code = instruction.address;
    const AccessKind kind = KindOf(instruction, operand, address, &code);
    const uint64_t last = address + (operand.bytes > 0 ? operand.bytes - 1 : 0);
    for (uint64_t line = address / kLineBytes; line <= last / kLineBytes;
         ++line) {
      if (state->count == state->most)
        Fail("cores_bench: a trace is too long\n");
      state->accesses[state->count++] = {line, code, state->instructions, kind,
                                         WordsOf(line, address, last)};
    }
  }
}

// Its first instruction ends a trace.
[[gnu::noinline]] void EndOfTrace() { asm volatile("# end" ::: "memory"); }

// An instruction takes a thousand times as long as otherwise, and what depends
// on time is to happen nevertheless: clocks stand still.
void HoldClock(uint64_t address, const greg_t* registers) {
  if (address == state->clock_begin) {
    state->clock_return =
        *reinterpret_cast<const uint64_t*>(registers[REG_RSP]);
    state->clock = static_cast<uint64_t>(registers[REG_RDI]);
    state->clock_time = reinterpret_cast<struct timespec*>(registers[REG_RSI]);
  } else if (address == state->clock_return) {
    if (state->clock < State::kClocks) {
      *state->clock_time = state->clock_times[state->clock];
    }
    state->clock_return = 0;
  }
}

// Runs before each instruction.
void OnTrap(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* const machine = static_cast<ucontext_t*>(context);
  greg_t* const registers = machine->uc_mcontext.gregs;
  const auto address = static_cast<uint64_t>(registers[REG_RIP]);
  if (address == reinterpret_cast<uint64_t>(&EndOfTrace)) {
    registers[REG_EFL] &= ~kTrapFlag;
    return;
  }
  if (address == state->lock_begin || address == state->try_begin) {
    // The return address, less one: a call may be the last of its function.
    state->caller = *reinterpret_cast<const uint64_t*>(registers[REG_RSP]) - 1;
  }
  HoldClock(address, registers);
  Instruction& instruction =
      state->kept[(address ^ (address >> 18)) % State::kKept];
  if (instruction.address != address &&
      !Decode(state->decoder, address, &instruction)) {
    Fail("cores_bench: an instruction cannot be decoded\n");
  }
  Record(instruction, registers);
  ++state->instructions;
  if (instruction.system_call) ++state->system_calls;
}

void SetTrapFlag() {
  asm volatile(
      "pushfq\n"
      "orq $0x100, (%%rsp)\n"
      "popfq\n" ::
          : "memory", "cc");
}

// Of a function of the C library, whose length its symbol tells.
void Bounds(const char* name, uint64_t* begin, uint64_t* end) {
  void* const address = dlsym(RTLD_DEFAULT, name);
  if (address == nullptr) return;
  *begin = reinterpret_cast<uint64_t>(address);
  Dl_info info;
  void* extra = nullptr;
  uint64_t size = 512;
  if (dladdr1(address, &info, &extra, RTLD_DL_SYMENT) != 0 &&
      extra != nullptr) {
    size = static_cast<const ElfW(Sym)*>(extra)->st_size;
  }
  *end = *begin + size;
}

}  // namespace

StepTracer::StepTracer(size_t most) {
  state = new State();
  state->most = most;
  state->accesses = std::make_unique<Access[]>(most);
  ZydisDecoderInit(&state->decoder, ZYDIS_MACHINE_MODE_LONG_64,
                   ZYDIS_STACK_WIDTH_64);
  Bounds("pthread_mutex_lock", &state->lock_begin, &state->lock_end);
  Bounds("pthread_mutex_trylock", &state->try_begin, &state->try_end);
  uint64_t clock_end = 0;
  Bounds("clock_gettime", &state->clock_begin, &clock_end);
  for (uint64_t clock = 0; clock < State::kClocks; ++clock) {
    clock_gettime(static_cast<clockid_t>(clock), &state->clock_times[clock]);
  }
  struct sigaction action = {};
  action.sa_sigaction = OnTrap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGTRAP, &action, nullptr);
}

StepTracer::~StepTracer() {
  signal(SIGTRAP, SIG_DFL);
  delete state;
  state = nullptr;
}

OperationTrace StepTracer::Trace(void (*operation)(void*), void* argument) {
  state->count = 0;
  state->instructions = 0;
  state->system_calls = 0;
  state->held_count = 0;
  state->clock_return = 0;
  SetTrapFlag();
  operation(argument);
  EndOfTrace();
  OperationTrace trace;
  trace.instructions = state->instructions;
  trace.system_calls = state->system_calls;
  trace.accesses.assign(state->accesses.get(),
                        state->accesses.get() + state->count);
  return trace;
}

}  // namespace varve::cores
