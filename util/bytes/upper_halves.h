// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace varve {

// ISA-L's CRC and the wide forms of XXH3 return with dirty upper halves of the
// vector registers. Until these are cleared, every SSE instruction of the
// thread, in Varve or in its caller, depends on them and is slow.
#if defined(__x86_64__)
[[gnu::target("avx")]] inline void ClearUpperHalvesWithAvx() {
  _mm256_zeroupper();
}
inline void ClearUpperHalves() {
  if (__builtin_cpu_supports("avx")) ClearUpperHalvesWithAvx();
}
#else
inline void ClearUpperHalves() {}
#endif

}  // namespace varve
