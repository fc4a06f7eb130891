// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The flags that only some benchmarks have, by RocksDB's names.

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/workload.h"
#include "varve/status.h"

namespace varve {

// Call it once, before flags are parsed.
void RegisterBenchmarkFlags();

// Checks the values of the flags.
Status CheckBenchmarkFlags();

// Sets the fields that the flags are for. REQUIRES: the path of *engine is set.
void ApplyBenchmarkFlags(WorkloadConfig* workload, EngineConfig* engine);

}  // namespace varve
