// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Iterators that stay within the prefix of their seek's target
// (docs/prefixes.md). There are four ways to use a prefix_extractor:
//
// - total_order_seek: no filter is asked, and this class is used only with
//   prefix_same_as_start.
// - prefix_same_as_start: the iterator ends with the prefix.
// - auto_prefix_mode: filters are asked only if the bounds prove that the range
//   from the target to the upper bound is within the prefix.
// - None of these: filters are asked. If one of them tells that a source has no
//   key of the prefix, the iterator ends with the prefix. Otherwise it goes on
//   over all keys.
//
// The invariant of all four: an entry that is shown has no entry missing
// between it and the target. While a source is left out, the iterator is
// limited to the prefix. It does so by bounds where the extractor tells how
// long a prefix is (FullLengthEnabled) and keys are ordered bytewise. Otherwise
// it looks at each key.

#include <memory>

#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/slice_transform.h"

namespace varve {

class InternalKeyComparator;
class PrefixSources;

// An iterator of the engine, whose bounds can be replaced.
class BoundedIterator : public Iterator {
 public:
  // Replaces the bounds. Null is no bound. The slices and their bytes must live
  // until the next call. REQUIRES: the next call of the iterator is a seek.
  virtual void SetBounds(const Slice* lower, const Slice* upper) = 0;
  // Returns the sources of the tree, or null if filters are not to be asked.
  virtual PrefixSources* prefix_sources() const = 0;
};

// How an iterator uses prefixes.
struct PrefixUse {
  // Nothing.
  PrefixUse() = default;
  // As the options say. Those of the family that change while the DB is open
  // are not read.
  PrefixUse(const SliceTransform& its_extractor,
            const ColumnFamilyOptions& family,
            const InternalKeyComparator& comparator,
            const ReadOptions& options);

  const SliceTransform* extractor = nullptr;
  size_t length = 0;          // Of a full prefix, if it is known; otherwise 0.
  bool has_length = false;    // And keys are ordered bytewise.
  bool asks_filters = false;  // Its tree needs sources.
  bool stays_in_prefix = false;
  bool by_bounds = false;  // auto_prefix_mode.

  // Whether a NewPrefixIterator is needed.
  bool any() const { return asks_filters || stays_in_prefix; }
  // Whether what the base finds of dead entries holds for all readers. A prefix
  // without a known end does not cover all keys between its first and last.
  bool MayNoteWalks() const { return !asks_filters || has_length; }
};

// Returns an iterator over the base. `extractor` is the one of `use`. The
// comparator and the bounds in the options must outlive the iterator.
std::unique_ptr<Iterator> NewPrefixIterator(
    std::unique_ptr<BoundedIterator> base, const PrefixUse& use,
    std::shared_ptr<const SliceTransform> extractor,
    const InternalKeyComparator* comparator, const ReadOptions& options);

// Returns an iterator over `base`, whatever it is, that ends with the prefix of
// its seek's target. A null extractor changes nothing.
std::unique_ptr<Iterator> StayInPrefix(
    std::unique_ptr<Iterator> base,
    std::shared_ptr<const SliceTransform> extractor);

}  // namespace varve
