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

// Applies edits to a set of files and checks that the result makes sense.
// Thread-safety: owned by one thread; the DB mutex guards the files' counts.
class VersionBuilder {
 public:
  // `base` may be null: no files.
  VersionBuilder(const InternalKeyComparator* comparator, const Version* base);
  VersionBuilder(const VersionBuilder&) = delete;
  VersionBuilder& operator=(const VersionBuilder&) = delete;
  // Frees the files that edits added and Finish did not hand over.
  ~VersionBuilder();

  // Takes the edit's files. Corruption if a file is deleted that is not there,
  // or added twice.
  Status Apply(VersionEdit edit);

  // The result: level 0 newest first, other levels in key order. Corruption
  // if a file is in two levels, or files of a level above 0 overlap; `levels`
  // is empty then. To be called once. On success the files belong to the
  // caller, who gives them to a version.
  Status Finish(std::vector<FileMetaData*> levels[kNumLevels]);

 private:
  using Files = std::map<uint64_t, FileMetaData*>;  // By number.

  // What an edit takes out of a level goes into *deleted, and out of it again
  // where the edit adds it to another level.
  Status ApplyTo(VersionEdit* edit, Files* deleted);
  // A file in two levels would be freed twice, and removed with the first.
  Status CheckNumbers() const;
  Status CollectLevels(std::vector<FileMetaData*> levels[kNumLevels]) const;
  // Those that no version holds, which edits have added.
  static void FreeAdded(const Files& files);

  const InternalKeyComparator* const comparator_;
  Files levels_[kNumLevels];
};

}  // namespace varve
