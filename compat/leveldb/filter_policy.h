// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "compat/leveldb/abi.h"
#include "varve/filter_policy.h"

namespace varve::compat {

// Returns the policy of the engine for a program's: the built-in Bloom filter
// for the result of leveldb::NewBloomFilterPolicy, else one that calls
// `target`, which must then outlive the result. Returns null for null.
std::shared_ptr<const FilterPolicy> MakeFilterPolicy(
    const leveldb::FilterPolicy* target);

}  // namespace varve::compat
