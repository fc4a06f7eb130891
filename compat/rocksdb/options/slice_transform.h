// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "varve/slice.h"

namespace varve::rocksdb_c {

// Maps keys to their prefixes. Thread-safety: thread-safe.
class SliceTransform {
 public:
  virtual ~SliceTransform() = default;
  virtual std::string Name() const = 0;
  // Returns the prefix, in bytes of the key or of the program.
  // REQUIRES: InDomain(key).
  virtual Slice Transform(const Slice& key) const = 0;
  // Returns whether the key has a prefix.
  virtual bool InDomain(const Slice& key) const = 0;
};

}  // namespace varve::rocksdb_c

struct rocksdb_slicetransform_t : varve::rocksdb_c::SliceTransform {};
