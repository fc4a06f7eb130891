// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/kernel_core.h"

// Saves what a function has to keep on the stack, and goes on with what another
// stack has. The C library's swapcontext makes a system call each time.
extern "C" void varve_switch_stacks(void** save, void* next);
asm(".text\n"
    ".type varve_switch_stacks, @function\n"
    "varve_switch_stacks:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size varve_switch_stacks, . - varve_switch_stacks\n");

namespace varve::cores {

namespace {

constexpr size_t kSavedRegisters = 6;

// Whose first operation is about to begin.
thread_local KernelCore* beginning = nullptr;

}  // namespace

KernelCore::KernelCore(size_t its_number, const varve_kernel& kernel)
    : varve_core(), run_(kernel.run), stack_(new char[kStackBytes]) {
  number = its_number;
  load = [](varve_core* core, uint64_t address) {
    return Of(core)->Ask({KernelRequest::kLoad, address});
  };
  store = [](varve_core* core, uint64_t address, uint64_t value) {
    Of(core)->Ask({KernelRequest::kStore, address, value});
  };
  add = [](varve_core* core, uint64_t address, uint64_t value) {
    return Of(core)->Ask({KernelRequest::kAdd, address, value});
  };
  exchange = [](varve_core* core, uint64_t address, uint64_t value) {
    return Of(core)->Ask({KernelRequest::kExchange, address, value});
  };
  compare_exchange = [](varve_core* core, uint64_t address, uint64_t expected,
                        uint64_t desired) {
    return Of(core)->Ask(
        {KernelRequest::kCompareExchange, address, desired, expected});
  };
  wait_while = [](varve_core* core, uint64_t address, uint64_t value) {
    return Of(core)->Ask({KernelRequest::kWaitWhile, address, value});
  };
  work = [](varve_core* core, uint32_t instructions) {
    Of(core)->Ask({KernelRequest::kWork, 0, instructions});
  };
  // Main begins as if it had been called: the stack is aligned to 16 before
  // the return address, which is null, as it does not return.
  auto top = reinterpret_cast<uintptr_t>(stack_.get() + kStackBytes) & ~15ul;
  auto* words = reinterpret_cast<uintptr_t*>(top);
  *--words = 0;
  *--words = reinterpret_cast<uintptr_t>(&Main);
  for (size_t i = 0; i < kSavedRegisters; ++i) *--words = 0;
  kernel_stack_ = words;
  beginning = this;
  Continue(0);
}

void KernelCore::Main() {
  KernelCore* const self = beginning;
  for (;;) {
    self->run_(self);
    self->Ask({KernelRequest::kEnd});
  }
}

void KernelCore::Continue(uint64_t answer) {
  answer_ = answer;
  varve_switch_stacks(&caller_stack_, kernel_stack_);
}

uint64_t KernelCore::Ask(const KernelRequest& request) {
  request_ = request;
  varve_switch_stacks(&kernel_stack_, caller_stack_);
  return answer_;
}

}  // namespace varve::cores
