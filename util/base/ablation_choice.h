// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How the engine reads a field of AblationOptions: whether it is the production
// choice, which is the zero value of each enum. In a sealed build (CMake option
// VARVE_SEAL_ABLATIONS) that is a constant: what the other choices need is
// compiled away, and DB::Open refuses them.

#include "varve/ablation.h"
#include "varve/status.h"

namespace varve {

// InvalidArgument: a field has a value, made by a cast, that is none of its
// enum's.
Status CheckAblations(const AblationOptions& options);

#if defined(VARVE_SEAL_ABLATIONS)
inline constexpr bool kAblationsSealed = true;
#else
inline constexpr bool kAblationsSealed = false;
#endif

template <bool kSealed = kAblationsSealed, typename Mode>
constexpr bool IsProduction(Mode mode) {
  return kSealed || mode == Mode{};
}

}  // namespace varve
