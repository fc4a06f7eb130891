// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The memory that operations of a thread load and store, in order.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace varve::cores {

inline constexpr uint64_t kLineBytes = 64;
// The most that can be simulated.
inline constexpr size_t kMaxCores = 256;

enum class AccessKind : uint8_t {
  kLoad,
  kStore,
  kAtomic,   // A locked read-modify-write, which is also a fence.
  kCompare,  // A locked compare-and-swap, which may fail.
  kLock,     // The atomic that takes a pthread mutex.
  kRelease,  // The atomic that gives it back.
};

struct Access {
  uint64_t line;         // The address divided by kLineBytes.
  uint64_t code;         // The address of the instruction.
  uint32_t instruction;  // Instructions of the operation before this one.
  AccessKind kind;
  uint8_t words = 1;  // A bit for each of the line's words of 8 bytes.
};

struct OperationTrace {
  std::vector<Access> accesses;
  uint32_t instructions = 0;
  uint32_t system_calls = 0;
};

// The operations that each of the simulated cores repeats.
struct Recording {
  std::string name;
  std::vector<std::vector<OperationTrace>> threads;  // One list for each core.
};

}  // namespace varve::cores
