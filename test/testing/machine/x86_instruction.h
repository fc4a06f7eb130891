// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tells the x86-64 instructions that cost a processor its independence from
// all others.

#include <cstddef>
#include <cstdint>

namespace varve::test {

enum class InstructionKind {
  kPlain,
  kLocked,      // With a lock prefix.
  kExchange,    // xchg with memory, which locks without a prefix.
  kFence,       // mfence.
  kSystemCall,  // syscall, sysenter or int 0x80.
};

inline bool IsLegacyPrefix(uint8_t byte) {
  switch (byte) {
    case 0xf0:  // lock
    case 0xf2:
    case 0xf3:  // repeat
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:  // segments
    case 0x66:
    case 0x67:  // sizes
      return true;
    default:
      return false;
  }
}

// The instruction that begins at bytes[0]. 15 bytes hold any; fewer will do
// at the end of what can be read.
inline InstructionKind KindOfInstruction(const uint8_t* bytes, size_t size) {
  size_t i = 0;
  bool repeated = false;
  for (; i < size && IsLegacyPrefix(bytes[i]); i++) {
    if (bytes[i] == 0xf0) return InstructionKind::kLocked;
    repeated |= bytes[i] == 0xf2 || bytes[i] == 0xf3;
  }
  if (i < size && (bytes[i] & 0xf0) == 0x40) i++;  // REX.
  const auto at = [&](size_t offset) -> unsigned {
    return i + offset < size ? bytes[i + offset] : 0;
  };
  const auto names_memory = [](unsigned modrm) { return modrm >> 6 != 3; };
  switch (at(0)) {
    case 0x86:
    case 0x87:
      return names_memory(at(1)) ? InstructionKind::kExchange
                                 : InstructionKind::kPlain;
    case 0xcd:
      return at(1) == 0x80 ? InstructionKind::kSystemCall
                           : InstructionKind::kPlain;
    case 0x0f:
      if (at(1) == 0x05 || at(1) == 0x34) return InstructionKind::kSystemCall;
      // /6 with registers; with a repeat prefix it is another instruction.
      if (at(1) == 0xae && at(2) >> 3 == 036 && !repeated) {
        return InstructionKind::kFence;
      }
      return InstructionKind::kPlain;
    default:
      // C4, C5 and 62 begin vector instructions, which never lock.
      return InstructionKind::kPlain;
  }
}

// Bytes of what a ModRM byte at bytes[0] begins: itself, and the place in
// memory that it names.
inline size_t ModRmLength(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const unsigned mode = bytes[0] >> 6;
  const unsigned base = bytes[0] & 7;
  if (mode == 3) return 1;
  size_t length = 1;
  bool is_far = mode == 2 || (mode == 0 && base == 5);
  if (base == 4) {
    if (size < 2) return 0;
    length = 2;
    is_far = is_far || (mode == 0 && (bytes[1] & 7) == 5);
  }
  if (mode == 1) return length + 1;
  return is_far ? length + 4 : length;
}

// Returns the length of the instruction at bytes[0], if it is one of the few
// that restartable sequences consist of, or 0 otherwise.
inline size_t SequenceInstructionLength(const uint8_t* bytes, size_t size) {
  size_t i = 0;
  while (i < size && IsLegacyPrefix(bytes[i])) i++;
  if (i < size && (bytes[i] & 0xf0) == 0x40) i++;  // REX.
  if (i >= size) return 0;
  const uint8_t opcode = bytes[i++];
  const size_t operand = ModRmLength(bytes + i, size - i);
  if (opcode == 0x73) return i + 1;  // jae, near.
  if (operand == 0) return 0;
  switch (opcode) {
    case 0x01:  // add
    case 0x03:
    case 0x39:  // cmp
    case 0x3b:
    case 0x89:  // mov
    case 0x8b:
    case 0x8d:  // lea
    case 0xff:  // inc
      return i + operand;
    case 0x6b:  // imul
    case 0x83:  // add, cmp
      return i + operand + 1;
    case 0x69:
    case 0x81:
      return i + operand + 4;
    case 0x0f:  // imul
      return bytes[i] == 0xaf ? i + 1 + ModRmLength(bytes + i + 1, size - i - 1)
                              : 0;
    default:
      return 0;
  }
}

inline bool IsCall(const uint8_t* bytes, size_t size) {
  size_t i = 0;
  while (i < size && IsLegacyPrefix(bytes[i])) i++;
  if (i < size && (bytes[i] & 0xf0) == 0x40) i++;  // REX.
  if (i >= size) return false;
  if (bytes[i] == 0xe8) return true;
  return bytes[i] == 0xff && i + 1 < size && ((bytes[i + 1] >> 3) & 7) == 2;
}

}  // namespace varve::test
