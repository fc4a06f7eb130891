// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Whether a field of AblationOptions is the production choice, which is the
// zero value of each enum.

#include "varve/experimental.h"

namespace varve {

template <typename Mode>
constexpr bool IsProduction(Mode mode) {
  return mode == Mode{};
}

}  // namespace varve
