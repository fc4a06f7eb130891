// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <isa-l/crc.h>

#include <algorithm>

#include "util/bytes/checksum.h"
#include "util/bytes/upper_halves.h"

namespace varve {

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

}  // namespace varve
