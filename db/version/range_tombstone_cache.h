// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "db/version/version_edit.h"
#include "table/block/range_tombstone_set.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// The tables whose range deletions could not be read, by number, with the
// reason. None of their entries may be read then. Otherwise, entries that their
// deletions hide in other tables would reappear.
using UnreadTables = std::map<uint64_t, Status>;

// Returns the table's status, or OK if the table is not in `unread`, which may
// be null.
inline Status UnreadStatus(const UnreadTables* unread, uint64_t number) {
  if (unread == nullptr) return Status();
  const auto found = unread->find(number);
  return found == unread->end() ? Status() : found->second;
}

// The range deletions of a version's tables, each clipped to its table's keys.
// A set without deletions is null.
struct VersionRangeTombstones {
  std::vector<std::shared_ptr<const RangeTombstoneSet>>
      level0;  // One for each file.
  std::shared_ptr<const RangeTombstoneSet> levels[kNumLevels];  // From level 1.
  std::shared_ptr<const UnreadTables> unread;  // Null if there are none.
  bool empty = true;
};

// Lazy initialization by compare-and-swap. It finds a version's range deletions
// when they are first requested, and keeps them. Point lookups do not need
// them, and many versions are never iterated over.
//
// `sets_` is null until a thread stores its result, release. A thread that
// loads it, acquire, sees the complete result. If several threads compute it
// concurrently, one of them stores it. The version's destructor frees it.
//
// Thread-safety: thread-safe.
class RangeTombstoneCache {
 public:
  RangeTombstoneCache() = default;
  RangeTombstoneCache(const RangeTombstoneCache&) = delete;
  RangeTombstoneCache& operator=(const RangeTombstoneCache&) = delete;
  ~RangeTombstoneCache();

  // Sets *sets to the range deletions, or to null if no table has any. The
  // result is valid as long as the version. If it has unread tables, it is
  // valid as long as the pointer. May open tables that were not opened before.
  // Damaged tables become unread, so that the others can still be read. Errors:
  // also those of MayReadFile.
  Status Find(const InternalKeyComparator* comparator, TableCache* table_cache,
              const ReadOptions& options, const LevelFiles& levels,
              std::shared_ptr<const VersionRangeTombstones>* sets);

 private:
  std::atomic<const VersionRangeTombstones*> sets_{nullptr};
};

}  // namespace varve
