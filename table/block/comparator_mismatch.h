// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Error texts for files whose keys were ordered by another comparator.

#include <string>
#include <string_view>

namespace varve {

// Returns whether the comparator orders keys that end in a timestamp: RocksDB's
// have such names.
inline bool OrdersUserTimestamps(std::string_view comparator) {
  return comparator.ends_with(".u64ts");
}

// Returns the feature that the database was written with, if its comparator
// tells of one; otherwise an empty string. `own` is the name of
// Options::comparator.
inline std::string FeatureOfComparator(std::string_view written_with,
                                       std::string_view own) {
  return OrdersUserTimestamps(written_with) && !OrdersUserTimestamps(own)
             ? "user timestamps (comparator " + std::string(written_with) + ")"
             : "";
}

}  // namespace varve
