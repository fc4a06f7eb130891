// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files whose keys may be ordered by another comparator: error texts, and
// comparators by name.

#include <string>
#include <string_view>

#include "varve/comparator.h"
#include "varve/status.h"

namespace varve {

// Returns the library's comparator of that name, or null.
inline const Comparator* BuiltInComparator(std::string_view name) {
  for (const Comparator* comparator :
       {BytewiseComparator(), ReverseBytewiseComparator()}) {
    if (name == comparator->Name()) return comparator;
  }
  return nullptr;
}

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

// Returns the refusal of a database that was written with another comparator
// than Options::comparator, whose name is `own`.
inline Status ComparatorMismatch(std::string_view written_with,
                                 std::string_view own) {
  const std::string feature = FeatureOfComparator(written_with, own);
  if (!feature.empty()) return Status::NotSupported(feature);
  return Status::InvalidArgument(
      "comparator: the database was written with " + std::string(written_with) +
      ", Options::comparator is " + std::string(own));
}

}  // namespace varve
