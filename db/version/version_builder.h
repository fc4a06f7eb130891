// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "db/version/version_edit.h"
#include "table/block/internal_key.h"
#include "varve/status.h"

namespace varve {

class Version;

// Applies edits to a set of files and checks that the result is consistent.
//
// Thread-safety: owned by one thread. The DB mutex guards the files' counts.
class VersionBuilder {
 public:
  // Starts with the files of `base`, or with no files if it is null.
  VersionBuilder(const InternalKeyComparator* comparator, const Version* base);
  VersionBuilder(const VersionBuilder&) = delete;
  VersionBuilder& operator=(const VersionBuilder&) = delete;
  // Frees the files that edits added and Finish did not return.
  ~VersionBuilder();

  // Applies the edit and takes over its files. Returns Corruption if the edit
  // deletes a file that is not present or adds a file twice.
  Status Apply(VersionEdit edit);

  // Sets *levels to the result: level 0 newest first, other levels in key
  // order. Returns Corruption if a file is in two levels, or if files of a
  // level above 0 overlap. Then *levels is empty. On success the caller owns
  // the files and must pass them to a version. Must be called once.
  Status Finish(LevelFiles* levels);

 private:
  using Files = std::map<uint64_t, FileMetaData*>;  // By number.

  // Moves the files that the edit deletes to *deleted, and moves them back if
  // the edit adds them to another level.
  Status ApplyTo(VersionEdit* edit, Files* deleted);
  // Returns Corruption if a file is in two levels. It would be freed twice, and
  // removed with the first one.
  Status CheckNumbers() const;
  Status CollectLevels(LevelFiles* levels) const;
  // Frees the files that no version holds. These are files that edits added.
  static void FreeAdded(const Files& files);

  const InternalKeyComparator* const comparator_;
  Files levels_[kNumLevels];
};

}  // namespace varve
