// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Why files are refused whose keys another comparator has ordered.

#include <string>
#include <string_view>

namespace varve {

// RocksDB's comparators of keys that end in a timestamp have such names.
inline bool OrdersUserTimestamps(std::string_view comparator) {
  return comparator.ends_with(".u64ts");
}

// Names the feature that the database was written with, if it is one; else
// empty. `own` is Options::comparator's name.
inline std::string FeatureOfComparator(std::string_view written_with,
                                       std::string_view own) {
  return OrdersUserTimestamps(written_with) && !OrdersUserTimestamps(own)
             ? "user timestamps (comparator " + std::string(written_with) + ")"
             : "";
}

}  // namespace varve
