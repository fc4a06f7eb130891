// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/hash.h"

namespace varve {

namespace hash_internal {

namespace {

constexpr size_t kSecretBytes = 192;
constexpr unsigned char kSecret[kSecretBytes] = {
    // clang-format off
    0xB8, 0xFE, 0x6C, 0x39, 0x23, 0xA4, 0x4B, 0xBE, 0x7C, 0x01, 0x81, 0x2C,
    0xF7, 0x21, 0xAD, 0x1C, 0xDE, 0xD4, 0x6D, 0xE9, 0x83, 0x90, 0x97, 0xDB,
    0x72, 0x40, 0xA4, 0xA4, 0xB7, 0xB3, 0x67, 0x1F, 0xCB, 0x79, 0xE6, 0x4E,
    0xCC, 0xC0, 0xE5, 0x78, 0x82, 0x5A, 0xD0, 0x7D, 0xCC, 0xFF, 0x72, 0x21,
    0xB8, 0x08, 0x46, 0x74, 0xF7, 0x43, 0x24, 0x8E, 0xE0, 0x35, 0x90, 0xE6,
    0x81, 0x3A, 0x26, 0x4C, 0x3C, 0x28, 0x52, 0xBB, 0x91, 0xC3, 0x00, 0xCB,
    0x88, 0xD0, 0x65, 0x8B, 0x1B, 0x53, 0x2E, 0xA3, 0x71, 0x64, 0x48, 0x97,
    0xA2, 0x0D, 0xF9, 0x4E, 0x38, 0x19, 0xEF, 0x46, 0xA9, 0xDE, 0xAC, 0xD8,
    0xA8, 0xFA, 0x76, 0x3F, 0xE3, 0x9C, 0x34, 0x3F, 0xF9, 0xDC, 0xBB, 0xC7,
    0xC7, 0x0B, 0x4F, 0x1D, 0x8A, 0x51, 0xE0, 0x4B, 0xCD, 0xB4, 0x59, 0x31,
    0xC8, 0x9F, 0x7E, 0xC9, 0xD9, 0x78, 0x73, 0x64, 0xEA, 0xC5, 0xAC, 0x83,
    0x34, 0xD3, 0xEB, 0xC3, 0xC5, 0x81, 0xA0, 0xFF, 0xFA, 0x13, 0x63, 0xEB,
    0x17, 0x0D, 0xDD, 0x51, 0xB7, 0xF0, 0xDA, 0x49, 0xD3, 0x16, 0x55, 0x26,
    0x29, 0xD4, 0x68, 0x9E, 0x2B, 0x16, 0xBE, 0x58, 0x7D, 0x47, 0xA1, 0xFC,
    0x8F, 0xF8, 0xB8, 0xD1, 0x7A, 0xD0, 0x31, 0xCE, 0x45, 0xCB, 0x3A, 0x8F,
    0x95, 0x16, 0x04, 0x28, 0xAF, 0xD7, 0xFB, 0xCA, 0xBB, 0x4B, 0x40, 0x7E,
    // clang-format on
};

constexpr uint64_t kPrime32B = 0x85EBCA77;
constexpr uint64_t kPrime32C = 0xC2B2AE3D;
constexpr uint64_t kPrime64C = 0x165667B19E3779F9;
constexpr uint64_t kPrime64D = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime64E = 0x27D4EB2F165667C5;

// Long keys are read in stripes. The n-th stripe of a block uses the secret
// from byte 8 * n on, so a block ends where the secret would run out.
constexpr size_t kLanes = 8;
constexpr size_t kStripeBytes = 8 * kLanes;
constexpr size_t kStripesPerBlock = (kSecretBytes - kStripeBytes) / 8;
constexpr size_t kBlockBytes = kStripesPerBlock * kStripeBytes;

inline uint64_t SecretWord(size_t offset) {
  uint64_t word;
  memcpy(&word, kSecret + offset, sizeof(word));
  return word;
}

inline uint64_t Mix16(const char* p, size_t secret_offset) {
  return Fold(DecodeFixed64(p) ^ SecretWord(secret_offset),
              DecodeFixed64(p + 8) ^ SecretWord(secret_offset + 8));
}

// 17 to 128 bytes: pairs of 16 from both ends towards the middle.
uint64_t HashUpTo128(const char* p, size_t n) {
  uint64_t sum = n * kPrime64A;
  for (size_t i = 0; i <= (n - 1) / 32; i++) {
    sum += Mix16(p + 16 * i, 32 * i);
    sum += Mix16(p + n - 16 * (i + 1), 32 * i + 16);
  }
  return Avalanche(sum);
}

// 129 to 240 bytes: from the front, and the last 16 once more.
uint64_t HashUpTo240(const char* p, size_t n) {
  uint64_t sum = n * kPrime64A;
  for (size_t i = 0; i < 8; i++) sum += Mix16(p + 16 * i, 16 * i);
  sum = Avalanche(sum);
  for (size_t i = 8; i < n / 16; i++) {
    sum += Mix16(p + 16 * i, 16 * (i - 8) + 3);
  }
  sum += Mix16(p + n - 16, 119);
  return Avalanche(sum);
}

inline void AddStripe(uint64_t* lanes, const char* p, size_t secret_offset) {
  for (size_t i = 0; i < kLanes; i++) {
    const uint64_t data = DecodeFixed64(p + 8 * i);
    const uint64_t keyed = data ^ SecretWord(secret_offset + 8 * i);
    lanes[i] += data + (keyed & UINT32_MAX) * (keyed >> 32);
  }
}

void Scramble(uint64_t* lanes) {
  for (size_t i = 0; i < kLanes; i++) {
    lanes[i] ^= lanes[i] >> 47;
    lanes[i] ^= SecretWord(kSecretBytes - kStripeBytes + 8 * i);
    lanes[i] *= kPrime32A;
  }
}

uint64_t HashStripes(const char* p, size_t n) {
  uint64_t lanes[kLanes] = {kPrime32C, kPrime64A, kPrime64B, kPrime64C,
                            kPrime64D, kPrime32B, kPrime64E, kPrime32A};
  const char* const end = p + n;
  for (size_t block = 0; block < n / kBlockBytes; block++) {
    for (size_t i = 0; i < kStripesPerBlock; i++, p += kStripeBytes) {
      AddStripe(lanes, p, 8 * i);
    }
    Scramble(lanes);
  }
  for (size_t i = 0; i < (n % kBlockBytes) / kStripeBytes; i++) {
    AddStripe(lanes, p, 8 * i);
    p += kStripeBytes;
  }
  // The rest is hashed as the last whole stripe, with an overlap.
  if (p != end) AddStripe(lanes, end - kStripeBytes, 121);
  uint64_t sum = n * kPrime64A;
  for (size_t i = 0; i < kLanes / 2; i++) {
    sum += Fold(lanes[2 * i] ^ SecretWord(11 + 16 * i),
                lanes[2 * i + 1] ^ SecretWord(19 + 16 * i));
  }
  return Avalanche(sum);
}

}  // namespace

uint64_t PreviewXxh3Long(const char* data, size_t size) {
  if (size <= 128) return HashUpTo128(data, size);
  if (size <= 240) return HashUpTo240(data, size);
  return HashStripes(data, size);
}

}  // namespace hash_internal

uint32_t Hash32(const Slice& data, uint32_t seed, TailBytes tail_bytes) {
  constexpr uint32_t kMultiplier = 0xC6A4A793;
  const char* p = data.data();
  const char* const end = data.end();
  uint32_t h = seed ^ (static_cast<uint32_t>(data.size()) * kMultiplier);
  for (; end - p >= 4; p += 4) {
    h += DecodeFixed32(p);
    h *= kMultiplier;
    h ^= h >> 16;
  }
  if (p == end) return h;
  for (unsigned shift = 0; p != end; p++, shift += 8) {
    const uint32_t byte =
        tail_bytes == TailBytes::kSignExtended
            ? static_cast<uint32_t>(static_cast<signed char>(*p))
            : static_cast<unsigned char>(*p);
    h += byte << shift;
  }
  h *= kMultiplier;
  return h ^ (h >> 24);
}

}  // namespace varve
