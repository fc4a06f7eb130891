// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/covered_tables.h"

#include <algorithm>

namespace varve {

namespace {

// Sets *sequence to the oldest deletion that is needed to hide all of the
// file's entries. Returns false if some entry is not hidden.
bool IsCovered(const RangeTombstoneSet& tombstones, const FileMetaData& file,
               SequenceNumber* sequence) {
  if (file.sequences_unknown) return false;
  const InternalKeyComparator& comparator = tombstones.comparator();
  size_t last = tombstones.FindInterval(file.largest_user_key());
  if (file.EndIsExclusive() && last > 0 &&
      comparator.CompareUser(tombstones.bound(last - 1),
                             file.largest_user_key()) == 0) {
    --last;
  }
  *sequence = kMaxSequenceNumber;
  for (size_t i = tombstones.FindInterval(file.smallest_user_key()); i <= last;
       ++i) {
    *sequence = std::min(*sequence,
                         tombstones.MaxCoveringInterval(i, kMaxSequenceNumber));
    if (*sequence <= file.largest_sequence) return false;
  }
  return *sequence != kMaxSequenceNumber;
}

}  // namespace

std::vector<CoveredTable> FindCoveredTables(
    const RangeTombstoneSet& tombstones, const Version& version,
    const std::vector<SequenceNumber>& snapshots) {
  std::vector<CoveredTable> result;
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    for (const FileMetaData* file : version.files(level)) {
      SequenceNumber covered_from;
      if (!IsCovered(tombstones, *file, &covered_from)) continue;
      // Whether a snapshot sees entries of the table but not all the deletions.
      const bool is_visible = std::any_of(
          snapshots.begin(), snapshots.end(), [&](SequenceNumber snapshot) {
            return snapshot >= file->smallest_sequence &&
                   snapshot < covered_from;
          });
      if (!is_visible) result.push_back({level, file->number});
    }
  }
  return result;
}

}  // namespace varve
