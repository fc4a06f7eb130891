// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "db/version_edit.h"
#include "table/range_tombstones.h"
#include "table/table_cache.h"
#include "varve/status.h"

namespace varve {

// The range deletions of a version's tables, each clipped to its table's keys;
// null where there are none.
struct TombstoneSets {
  std::vector<std::shared_ptr<const RangeTombstones>> level0;  // For each file.
  std::shared_ptr<const RangeTombstones> levels[kNumLevels];   // But level 0.
  bool empty = true;
};

// Finds them when they are first asked for, and keeps them: point lookups need
// none of it, and many versions are never walked.
//
// `sets_` is null until a thread stores what it found, release; who loads it,
// acquire, sees it whole. Of several that find it at once, one stores. It goes
// with the version.
// Thread-safety: thread-safe.
class VersionTombstones {
 public:
  VersionTombstones() = default;
  VersionTombstones(const VersionTombstones&) = delete;
  VersionTombstones& operator=(const VersionTombstones&) = delete;
  ~VersionTombstones();

  // *sets is null if no table has range deletions, else valid as long as the
  // version. May open tables, those of which nothing is known. One that is
  // damaged counts as without: whatever reads of its keys finds the damage.
  Status Find(const InternalKeyComparator* comparator, TableCache* table_cache,
              const std::vector<FileMetaData*>* levels,
              std::shared_ptr<const TombstoneSets>* sets);

 private:
  std::atomic<const TombstoneSets*> sets_{nullptr};
};

}  // namespace varve
