// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

namespace varve {

// The most levels of a database, and the size of its per-level arrays.
constexpr int kNumLevels = 7;

}  // namespace varve
