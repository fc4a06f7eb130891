// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/coding.h"

namespace varve {

const char* GetVarint64PtrSlow(const char* p, const char* limit,
                               uint64_t* value) {
  // Most offsets and sizes take two or three bytes.
  if (limit - p >= 3) {
    const auto* const byte = reinterpret_cast<const unsigned char*>(p);
    const uint64_t low = (byte[0] & 0x7fu) | uint64_t{byte[1] & 0x7fu} << 7;
    if (byte[0] >= 0x80 && byte[1] < 0x80) {
      *value = low;
      return p + 2;
    }
    if (byte[0] >= 0x80 && byte[2] < 0x80) {
      *value = low | uint64_t{byte[2]} << 14;
      return p + 3;
    }
  }
  uint64_t result = 0;
  for (unsigned shift = 0; shift <= 63 && p < limit; shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(*p++);
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      // The tenth byte has space for one bit only.
      if (shift == 63 && byte > 1) return nullptr;
      *value = result;
      return p;
    }
  }
  return nullptr;
}

const char* GetVarint32PtrSlow(const char* p, const char* limit,
                               uint32_t* value) {
  if (limit - p > static_cast<ptrdiff_t>(kMaxVarint32Bytes)) {
    limit = p + kMaxVarint32Bytes;
  }
  uint64_t wide;
  p = GetVarint64PtrSlow(p, limit, &wide);
  if (p == nullptr || wide > UINT32_MAX) return nullptr;
  *value = static_cast<uint32_t>(wide);
  return p;
}

}  // namespace varve
