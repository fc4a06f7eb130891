// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// CRC-32C for builds without ISA-L: by the processor's instruction where there
// is one, otherwise by tables, eight bytes at a time.
#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve {

namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[n][byte] is what `byte`, followed by n zero bytes, adds to the state.
constexpr Tables MakeTables() {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1) != 0 ? kReversedPolynomial : 0);
    }
    tables[0][byte] = state;
  }
  for (size_t n = 1; n < tables.size(); ++n) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[n - 1][byte];
      tables[n][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

uint32_t AddByte(uint32_t state, char byte) {
  return (state >> 8) ^
         kTables[0][(state ^ static_cast<unsigned char>(byte)) & 0xFF];
}

uint32_t AddByTables(uint32_t state, const char* p, size_t size) {
  for (; size >= 8; p += 8, size -= 8) {
    const uint64_t word = DecodeFixed64(p) ^ state;
    state = 0;
    for (size_t i = 0; i < 8; ++i) {
      state ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
    }
  }
  for (; size > 0; ++p, --size) state = AddByte(state, *p);
  return state;
}

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] uint32_t AddByInstruction(uint32_t state,
                                                    const char* p,
                                                    size_t size) {
  uint64_t wide = state;
  for (; size >= 8; p += 8, size -= 8) {
    wide = _mm_crc32_u64(wide, DecodeFixed64(p));
  }
  state = static_cast<uint32_t>(wide);
  for (; size > 0; ++p, --size) {
    state = _mm_crc32_u8(state, static_cast<unsigned char>(*p));
  }
  return state;
}
bool HasInstruction() { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__ARM_FEATURE_CRC32)
uint32_t AddByInstruction(uint32_t state, const char* p, size_t size) {
  for (; size >= 8; p += 8, size -= 8) {
    state = __crc32cd(state, DecodeFixed64(p));
  }
  for (; size > 0; ++p, --size) {
    state = __crc32cb(state, static_cast<unsigned char>(*p));
  }
  return state;
}
bool HasInstruction() { return true; }
#else
uint32_t AddByInstruction(uint32_t state, const char* p, size_t size) {
  return AddByTables(state, p, size);
}
bool HasInstruction() { return false; }
#endif

}  // namespace

uint32_t Crc32cExtend(uint32_t crc, const char* data, size_t size) {
  return HasInstruction() ? ~AddByInstruction(~crc, data, size)
                          : ~AddByTables(~crc, data, size);
}

}  // namespace varve
