// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Maps keys to prefixes, for filters by prefix and for seeks that stay in one
// (ColumnFamilyOptions::prefix_extractor). docs/prefixes.md

#include <cstddef>
#include <memory>
#include <string>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

// A function from keys to prefixes. The keys of one prefix must follow each
// other in the comparator's order: no key of another prefix, and none without a
// prefix, may be in between.
//
// Thread-safety: many threads call the methods at once. They must not throw.
class VARVE_EXPORT SliceTransform {
 public:
  virtual ~SliceTransform() = default;
  // The name stored in tables. Filters of tables with another name are not
  // asked for prefixes, so change the name when the function changes.
  virtual const char* Name() const = 0;
  // Returns the prefix of the key: its first bytes. REQUIRES: InDomain(key).
  virtual Slice Transform(const Slice& key) const = 0;
  // Returns true if the key has a prefix. Keys without one are in no prefix
  // filter.
  virtual bool InDomain(const Slice& key) const = 0;
  // Returns true, and sets *length, if a prefix of that many bytes is the
  // prefix of all keys that begin with it. Shorter prefixes may exist, longer
  // ones must not. Under the bytewise comparator the end of a prefix is then
  // known before it is reached. auto_prefix_mode needs it.
  virtual bool FullLengthEnabled(size_t* /*length*/) const { return false; }
  // Returns true if each key that has `prefix` as its first bytes has the
  // prefix that the transform gives for `prefix` itself.
  virtual bool SameResultWhenAppended(const Slice& /*prefix*/) const {
    return false;
  }
};

// The first `prefix_len` bytes; shorter keys have no prefix.
// "rocksdb.FixedPrefix.<n>"
VARVE_EXPORT std::shared_ptr<const SliceTransform> NewFixedPrefixTransform(
    size_t prefix_len);
// At most the first `cap_len` bytes. "rocksdb.CappedPrefix.<n>"
VARVE_EXPORT std::shared_ptr<const SliceTransform> NewCappedPrefixTransform(
    size_t cap_len);
// The whole key. "rocksdb.Noop"
VARVE_EXPORT std::shared_ptr<const SliceTransform> NewNoopTransform();

}  // namespace varve
