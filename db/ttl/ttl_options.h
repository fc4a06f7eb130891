// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "varve/env.h"
#include "varve/options.h"

namespace varve {

// The time to live of a column family, in seconds. Entries stay for ever if it
// is not above 0. Accessed relaxed: a change counts for compactions that begin
// later, and nothing else is read through it.
using FamilyTtl = std::atomic<int32_t>;

// Lets the operator and the filters of the options see values without their
// times, and lets compactions remove entries that are older than `ttl`. `env`
// has the clock, and must outlive the database.
void AddTtl(const std::shared_ptr<const FamilyTtl>& ttl, Env* env,
            ColumnFamilyOptions* options);

}  // namespace varve
