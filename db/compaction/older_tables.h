// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The tables that may hold older entries than the output of a flush or a
// compaction. A deletion is needed only if one of them may have its key.
//
// A flush may ask a version that is no longer the current one when its table is
// added. This is safe for the following reasons.
//  - Flushes run one after the other. Each takes all immutable memtables, so
//    every older entry is in its input or in a table of the version.
//  - A compaction that ends in the meantime writes no key that its inputs do
//    not have. If no table had the key in its range, none has it afterwards.
//  - Recovery writes several tables before it adds them to a version. It passes
//    the earlier ones with Add (RecoveryFlush).
//  - The edit that adds the table also names the oldest log that is still
//    needed. A crash before it leads to a replay of all logs of the memtables,
//    a crash after it to a replay of none of them.
//  - Only deletions that the oldest snapshot sees are dropped. Snapshots that
//    are taken later see them too. Older iterators keep the memtables.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/version/version.h"
#include "varve/slice.h"

namespace varve {

// Answers for rising user keys. Thread-safety: owned by one thread.
class OlderTables {
 public:
  // The tables of the version's levels from `first_level` on. The version must
  // outlive this object.
  OlderTables(const Version& version, int first_level);
  // The tables deeper than a compaction's output, and older ones of level 0.
  explicit OlderTables(const Compaction& compaction);
  OlderTables(const OlderTables&) = delete;
  OlderTables& operator=(const OlderTables&) = delete;

  // Adds a further table, which may overlap others. It must outlive this
  // object. REQUIRES: MayHave was not called.
  void Add(const FileMetaData& file) { unsorted_.push_back(&file); }

  // Returns false if no table has the user key.
  // REQUIRES: the key is not before the one of the last call.
  bool MayHave(const Slice& user_key);
  // Returns false if no table has a user key at or after `begin` and before
  // `end`. May be called for any range at any time.
  bool MayHaveAny(const Slice& begin, const Slice& end) const;

 private:
  const Version& version_;
  const InternalKeyComparator& comparator_;
  const int first_level_;
  // Tables that overlap each other. The first ones end before the last key.
  std::vector<const FileMetaData*> unsorted_;
  size_t passed_ = 0;
  // The first table of each level that does not end before the last key.
  size_t positions_[kNumLevels] = {};
};

}  // namespace varve
