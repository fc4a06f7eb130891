// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Executes a kernel until it accesses memory, so that the model decides what
// the access finds and how long it takes.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tools/cores_bench/cores_kernel.h"

namespace varve::cores {

struct KernelRequest {
  enum Kind : uint8_t {
    kLoad,
    kStore,
    kAdd,
    kExchange,
    kCompareExchange,
    kWaitWhile,
    kWork,  // `value` instructions.
    kEnd,   // Of an operation.
  };
  Kind kind = kEnd;
  uint64_t address = 0;
  uint64_t value = 0;
  uint64_t expected = 0;  // Of kCompareExchange.
};

// The kernel's operations, one after the other, on a stack of its own. It does
// not return to what called it when it is destroyed: whatever the kernel has in
// its functions is dropped.
//
// Thread-safety: thread-compatible. x86-64 only.
class KernelCore : private varve_core {
 public:
  KernelCore(size_t its_number, const varve_kernel& kernel);
  KernelCore(const KernelCore&) = delete;
  KernelCore& operator=(const KernelCore&) = delete;

  // The access that the kernel waits for.
  const KernelRequest& request() const { return request_; }
  // Answers the request, and runs the kernel to its next one.
  void Continue(uint64_t answer);

 private:
  static constexpr size_t kStackBytes = size_t{64} << 10;

  static void Main();
  uint64_t Ask(const KernelRequest& request);
  static KernelCore* Of(varve_core* core) {
    return static_cast<KernelCore*>(core);
  }

  void (*const run_)(varve_core*);
  const std::unique_ptr<char[]> stack_;
  void* kernel_stack_ = nullptr;  // The pointer, while the caller runs.
  void* caller_stack_ = nullptr;  // And while the kernel does.
  KernelRequest request_;
  uint64_t answer_ = 0;
};

}  // namespace varve::cores
