// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

// A filter tells, for most keys that a table does not hold, that it does not,
// without reading its data.
//
// The built-in Bloom filter is written in RocksDB's format, a cache line a
// key. A policy of your own is stored beside it under its own name, and is
// asked only by databases opened with a policy of the same name.
// Thread-safety: methods are called from many threads at once.
class VARVE_EXPORT VARVE_USES_CONTAINERS FilterPolicy {
 public:
  virtual ~FilterPolicy() = default;

  // The name stored with filters. Change it when their format changes.
  virtual const char* Name() const = 0;

  // Appends to *filter a filter of the keys, which are in order and may
  // repeat; nothing if the table is to have no filter.
  virtual void CreateFilter(const std::vector<Slice>& keys,
                            std::string* filter) const = 0;

  // `filter` is what CreateFilter appended, or damaged bytes. Must be true
  // for each of its keys; should be false for most others.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;

  // Bits a key of the built-in Bloom filter; 0 for other policies.
  virtual double BuiltinBloomBitsPerKey() const { return 0; }
};

// The built-in Bloom filter. `bits_per_key` is clamped to [1, 100]; 10 bits
// give about one false answer in a hundred, at 1.25 bytes a key. It looks at
// the bytes: under a comparator for which other bytes may be the same key, a
// key that is there would not be found.
VARVE_EXPORT std::shared_ptr<const FilterPolicy> NewBloomFilterPolicy(
    double bits_per_key);

}  // namespace varve
