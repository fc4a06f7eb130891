// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The flags of mixgraph, by RocksDB's names.

#include "tools/db_bench/workload.h"

namespace varve {

// Call it once, before flags are parsed.
void RegisterMixFlags();

// The values of the flags.
const MixConfig& MixFlags();

}  // namespace varve
