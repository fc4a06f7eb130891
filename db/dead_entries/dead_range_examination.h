// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "db/dead_entries/dead_ranges.h"
#include "db/snapshot/super_version.h"

namespace varve {

// Where the dead entries of a range are, as far as they can be removed next.
struct DeadRangeFindings {
  // In the active memtable: dead entries in the range, and all entries of the
  // memtable. Dead are deletions and older versions of a key.
  uint64_t memtable_dead = 0;
  uint64_t memtable_entries = 0;
  // In immutable memtables, whose flush is queued already.
  uint64_t immutable_dead = 0;
  // The topmost level with about as many dead entries as were asked for, or -1.
  // Dead are deletions and entries hidden in their own table.
  int level = -1;
  uint64_t level_dead = 0;
  // Of its table with the most of them. All tables of level 0 together.
  uint64_t file_number = 0;
  uint64_t file_dead = 0;
  uint64_t file_entries = 0;
  uint64_t file_bytes = 0;
};

// Examines the range. Only places with `least` dead entries count. Reads at
// most a few hundred thousand entries of memtables, and the indexes of tables
// that overlap an end of the range, which may have to be opened. Tables that
// cannot be opened are ignored. REQUIRES: the caller holds the SuperVersion and
// no mutex.
DeadRangeFindings ExamineDeadRange(const SuperVersion& super_version,
                                   const DeadRange& range, uint64_t least);

}  // namespace varve
