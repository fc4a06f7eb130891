// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Estimates how many bytes of deeper levels the deletions of a table hide. A
// range deletion takes some tens of bytes whatever it hides, and a deletion
// takes less than its entry. So the sizes of levels do not show how much space
// a compaction of the table would free. See Version::reclaim_candidates().
// RocksDB adds such bytes to a table's size.

#include <cstdint>
#include <string>
#include <vector>

#include "db/version/version.h"
#include "varve/slice.h"

namespace varve {

// Collects the range deletions of a table while it is written. Thread-safety:
// owned by one thread.
class RangeTombstoneEstimate {
 public:
  // `comparator` must outlive it.
  explicit RangeTombstoneEstimate(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}

  // Adds a deletion of the keys from `begin` up to, not including, `end`.
  // REQUIRES: `begin` does not decrease.
  void AddRange(const Slice& begin, const Slice& end);

  // RangeBytes returns about how many bytes of tables from `first_level` on the
  // range deletions hide. PointBytes does so for point deletions, each of which
  // is assumed to hide an entry in the range of keys. Both may open tables, and
  // ignore tables that cannot be opened. If many ranges hide parts of tables,
  // the estimate is extrapolated from some of them.
  // Level0RangeBytes does so for tables of level 0. REQUIRES, for RangeBytes:
  // first_level > 0.
  uint64_t RangeBytes(const Version& version, int first_level) const;
  uint64_t Level0RangeBytes(const Version& version) const;
  static uint64_t PointBytes(const Version& version, int first_level,
                             const UserKeyRange& range, uint64_t deletions);

 private:
  struct KeyRange {
    std::string begin;
    std::string end;
  };

  uint64_t BytesOfLevel(const Version& version,
                        const std::vector<FileMetaData*>& files) const;
  // BeginsBefore returns true if all keys of the file are at or after the
  // range's begin. EndsAfter returns true if all of them are before its end.
  bool BeginsBefore(const KeyRange& range, const FileMetaData& file) const;
  bool EndsAfter(const KeyRange& range, const FileMetaData& file) const;
  // Returns the hidden bytes of a file that has some keys in the range.
  uint64_t PartOf(const Version& version, const FileMetaData& file,
                  const KeyRange& range) const;

  const InternalKeyComparator& comparator_;
  std::vector<KeyRange> ranges_;  // Rising and disjoint.
};

}  // namespace varve
