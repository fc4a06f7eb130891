// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/filter_policy.h"

// Options that get it share `rep`, and destroy this object.
struct rocksdb_filterpolicy_t {
  // Null if tables are to have no filters.
  std::shared_ptr<const varve::FilterPolicy> rep;
  // A Ribbon filter was requested. `rep` is the Bloom filter with the same
  // rate of false answers.
  bool is_ribbon = false;
};
