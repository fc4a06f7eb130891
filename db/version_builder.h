// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "db/version_edit.h"
#include "table/internal_key.h"
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
  // Frees the files that edits added, if Finish did not hand them over.
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
  // A file in two levels would be freed twice, and removed with the first.
  Status CheckNumbers() const;
  Status CollectLevels(std::vector<FileMetaData*> levels[kNumLevels]) const;
  void ReleaseAdded(const std::vector<FileMetaData*> levels[kNumLevels]);

  const InternalKeyComparator* const comparator_;
  std::map<uint64_t, FileMetaData*> levels_[kNumLevels];
  std::vector<FileMetaData*> added_;
};

}  // namespace varve
