// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Which tables are due for their age:
// - with `ttl`, a table above the deepest level with tables, or of level 0,
//   whose oldest data was written more than ttl seconds ago;
// - with `periodic_compaction_seconds`, any table that was written more than so
//   many seconds ago.
// A table of unknown age is due. A table of the future, from before the clock
// was set back, is not. Pure functions; the DB mutex must be held.

#include <cstdint>
#include <functional>

#include "db/version/version.h"
#include "varve/options.h"

namespace varve {

// Returns whether tables are compacted for their age.
inline bool CompactsByAge(const Options& options) {
  return options.ttl != 0 || options.periodic_compaction_seconds != 0;
}

// Returns when the first table gets due, in seconds since 1970. Returns a time
// in the past if a table is due, and UINT64_MAX if none will be. Tables that
// are being compacted count.
uint64_t NextDueTime(const Options& options, const Version& version);

// Calls `visit` for each table that is due at `now_s` and is not being
// compacted, the uppermost level first, until it returns true. `is_expired`:
// because of ttl. Returns whether `visit` returned true.
bool VisitDueByAge(const Options& options, const Version& version,
                   uint64_t now_s,
                   const std::function<bool(int level, FileMetaData* file,
                                            bool is_expired)>& visit);

}  // namespace varve
