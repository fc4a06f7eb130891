// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/checksum.h"

#include <isa-l/crc.h>
// For hash states on the stack. Their layout is part of the library's ABI.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#if defined(__x86_64__)
#include <immintrin.h>
#if __has_include(<xxh_x86dispatch.h>)
// Makes XXH3_64bits choose the machine's widest vectors at run time.
#include <xxh_x86dispatch.h>
#endif
#endif

#include <algorithm>

namespace varve {

namespace {

// ISA-L's CRC and the wide forms of XXH3 return with dirty upper halves of the
// vector registers. Until these are cleared, every SSE instruction of the
// thread, in Varve or in its caller, depends on them and is slow.
#if defined(__x86_64__)
__attribute__((target("avx"))) void ClearUpperHalvesWithAvx() {
  _mm256_zeroupper();
}
void ClearUpperHalves() {
  if (__builtin_cpu_supports("avx")) ClearUpperHalvesWithAvx();
}
#else
void ClearUpperHalves() {}
#endif

uint64_t Xxh3(const char* data, size_t size) {
  const uint64_t hash = XXH3_64bits(data, size);
  ClearUpperHalves();
  return hash;
}

// Mixes the type byte into a hash of the body alone. The multiplier is odd and
// the byte unsigned, so that all 256 types differ.
uint32_t MixType(uint64_t body_hash, char block_type) {
  return static_cast<uint32_t>(body_hash) ^
         static_cast<unsigned char>(block_type) * 0x6B9083D9u;
}

}  // namespace

uint32_t Crc32cExtend(uint32_t crc, const char* data, size_t size) {
  // The library takes an int, leaves both inversions to its caller, and reads
  // through its pointer although that is not const.
  constexpr size_t kMaxPieceBytes = size_t{1} << 30;
  auto* p =
      const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data));
  uint32_t state = ~crc;
  while (size > 0) {
    const size_t piece_bytes = std::min(size, kMaxPieceBytes);
    state = crc32_iscsi(p, static_cast<int>(piece_bytes), state);
    p += piece_bytes;
    size -= piece_bytes;
  }
  ClearUpperHalves();
  return ~state;
}

uint32_t Crc32c(const char* data, size_t size) {
  return Crc32cExtend(0, data, size);
}

uint32_t BlockChecksum(ChecksumType type, const char* body, size_t body_size) {
  switch (type) {
    case ChecksumType::kNone:
      return 0;
    case ChecksumType::kCrc32c:
      return MaskCrc(Crc32c(body, body_size + 1));
    case ChecksumType::kXxHash32:
      return XXH32(body, body_size + 1, 0);
    case ChecksumType::kXxHash64:
      return static_cast<uint32_t>(XXH64(body, body_size + 1, 0));
    case ChecksumType::kXxh3:
      return MixType(Xxh3(body, body_size), body[body_size]);
  }
  return 0;
}

}  // namespace varve
