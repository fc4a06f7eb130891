// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string>

#include "tools/db_bench/engine_adapter.h"
#include "varve/status.h"

namespace varve {

// Loads Pebble from the library that `tools/peers/build pebble_library` makes.
// Returns NotSupported if it cannot be loaded. Its sessions cannot Get, and
// Commit writes one update after the other.
Status NewPebbleEngine(const std::string& library_path,
                       std::unique_ptr<Engine>* engine);

}  // namespace varve
