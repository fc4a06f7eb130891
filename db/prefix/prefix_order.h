// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The ordered structure of a memtable with a filter of prefixes
// (memtable_prefix_bloom_size_ratio): a B-link tree, and a Bloom filter to
// which each insert adds the prefix of its key. It takes the place of the
// memtable's own tree, so memtables without a filter execute no instruction for
// it.

#include <functional>

#include "db/memtable/memtable_order.h"
#include "varve/options.h"

namespace varve {

// Returns what creates the ordered structure of a family's memtables, or null
// if it is the memtable's own tree. The options must outlive the result's
// calls.
std::function<NewMemTableOrder> MemTableOrderFor(const Options& options);

}  // namespace varve
