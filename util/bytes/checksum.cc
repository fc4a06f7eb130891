// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/checksum.h"

// For hash states on the stack. Their layout is part of the library's ABI.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "util/bytes/upper_halves.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// Makes XXH3_64bits choose the machine's widest vectors at run time.
#include <xxh_x86dispatch.h>
#endif

namespace varve {

namespace {

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
