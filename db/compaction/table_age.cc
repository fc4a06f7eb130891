// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/table_age.h"

#include <algorithm>

namespace varve {

namespace {

// Returns whether more than `age_s` seconds have passed. An unknown time, 0, is
// long ago. A time in the future, from before the clock was set back, is not.
bool IsOlder(uint64_t time_s, uint64_t age_s, uint64_t now_s) {
  return age_s != 0 && now_s > time_s && now_s - time_s > age_s;
}

// Returns whether ttl applies to the tables of the level. In RocksDB it does
// not if level 0 is the only one with tables. There the oldest tables could
// keep deleted entries for ever.
bool HasTtl(const Options& options, const Version& version, int level) {
  return options.ttl != 0 && (level < version.DeepestLevel() || level == 0);
}

// Returns whether a table with these times is due for its age. Sets *expired if
// its oldest data is.
bool IsDueByAge(const Options& options, const Version& version, int level,
                const TableTimes& times, uint64_t now_s, bool* expired) {
  *expired = HasTtl(options, version, level) &&
             IsOlder(times.oldest_ancestor_s, options.ttl, now_s);
  return *expired || IsOlder(times.file_creation_s,
                             options.periodic_compaction_seconds, now_s);
}

}  // namespace

uint64_t NextDueTime(const Options& options, const Version& version) {
  uint64_t first_s = UINT64_MAX;
  const auto add = [&first_s](uint64_t time_s, uint64_t age_s) {
    // Due when more seconds than these have passed.
    const uint64_t most = UINT64_MAX - 1;
    if (age_s >= most - std::min(time_s, most)) return;
    first_s = std::min(first_s, time_s + age_s + 1);
  };
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    if (version.NumFiles(level) == 0) continue;
    const TableTimes& oldest = version.OldestTimes(level);
    if (HasTtl(options, version, level)) {
      add(oldest.oldest_ancestor_s, options.ttl);
    }
    if (options.periodic_compaction_seconds != 0) {
      add(oldest.file_creation_s, options.periodic_compaction_seconds);
    }
  }
  return first_s;
}

bool VisitDueByAge(const Options& options, const Version& version,
                   uint64_t now_s,
                   const std::function<bool(int level, FileMetaData* file,
                                            bool is_expired)>& visit) {
  if (!CompactsByAge(options)) return false;
  bool expired = false;
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    if (!IsDueByAge(options, version, level, version.OldestTimes(level), now_s,
                    &expired)) {
      continue;
    }
    for (FileMetaData* file : version.files(level)) {
      if (!file->being_compacted &&
          IsDueByAge(options, version, level, file->FindTimes(), now_s,
                     &expired) &&
          visit(level, file, expired)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace varve
