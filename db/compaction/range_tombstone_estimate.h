// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How much of deeper levels the deletions of a table hide. A range deletion
// takes some tens of bytes whatever it hides, and a deletion less than its
// entry, so the sizes of levels say nothing about the space that compacting the
// table would give back. What is estimated here does: see
// Version::reclaimers(). RocksDB counts such bytes to a table's size.

#include <cstdint>
#include <string>
#include <vector>

#include "db/version/version.h"
#include "varve/slice.h"

namespace varve {

// Gathers the range deletions of a table while it is written.
// Thread-safety: owned by one thread.
class RangeTombstoneEstimate {
 public:
  // `comparator` must outlive it.
  explicit RangeTombstoneEstimate(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}

  // A deletion of keys from `begin` up to, not including, `end`. Begins rise.
  void AddRange(const Slice& begin, const Slice& end);

  // Bytes of tables from `first_level` on that are hidden, about: by the range
  // deletions; by so many others, each of which is taken for one of an entry
  // in the range of keys. May open tables; those that cannot be opened count
  // for nothing; and of many ranges that hide parts of tables, some are taken
  // for all.
  uint64_t RangeBytes(const Version& version, int first_level) const;
  static uint64_t PointBytes(const Version& version, int first_level,
                             const UserKeyRange& range, uint64_t deletions);

 private:
  struct KeyRange {
    std::string begin;
    std::string end;
  };

  uint64_t BytesOfLevel(const Version& version,
                        const std::vector<FileMetaData*>& files) const;
  // All of the file's keys that are before the range's end, or from its begin
  // on, are in it.
  bool BeginsBefore(const KeyRange& range, const FileMetaData& file) const;
  bool EndsAfter(const KeyRange& range, const FileMetaData& file) const;
  // Of one file, some of whose keys are in the range.
  uint64_t PartOf(const Version& version, const FileMetaData& file,
                  const KeyRange& range) const;

  const InternalKeyComparator& comparator_;
  std::vector<KeyRange> ranges_;  // Rising and disjoint.
};

}  // namespace varve
