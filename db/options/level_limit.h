// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

namespace varve {

// How many levels a database has at most. Its per-level arrays have this size.
constexpr int kNumLevels = 7;

}  // namespace varve
