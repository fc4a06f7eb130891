// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/live_files/files_in_ranges.h"

#include <cstddef>

namespace varve {

namespace {

bool IsInRange(const InternalKeyComparator& comparator,
               const FileMetaData& file, const RangePtr& range,
               bool include_end) {
  if (range.start != nullptr &&
      comparator.CompareUser(file.smallest_user_key(), *range.start) < 0) {
    return false;
  }
  if (range.limit == nullptr) return true;
  const int r = comparator.CompareUser(file.largest_user_key(), *range.limit);
  return r < 0 || (r == 0 && (include_end || file.EndIsExclusive()));
}

}  // namespace

std::vector<CoveredTable> FindTablesInRanges(const Version& version,
                                             std::span<const RangePtr> ranges,
                                             bool include_end) {
  const InternalKeyComparator& comparator = version.comparator();
  std::vector<CoveredTable> found;
  for (int level = 1; level <= version.DeepestLevel(); ++level) {
    const std::vector<FileMetaData*>& files = version.files(level);
    std::vector<bool> chosen(files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      if (files[i]->being_compacted) continue;
      for (const RangePtr& range : ranges) {
        if (IsInRange(comparator, *files[i], range, include_end)) {
          chosen[i] = true;
          break;
        }
      }
    }
    // A table that stays keeps those that continue its first or last key, each
    // of which keeps the next one.
    const auto keep_neighbor = [&](size_t left) {
      if (chosen[left] != chosen[left + 1] &&
          !EndsBefore(comparator, *files[left], *files[left + 1])) {
        chosen[left] = chosen[left + 1] = false;
      }
    };
    for (size_t i = 0; i + 1 < files.size(); ++i) keep_neighbor(i);
    for (size_t i = files.size(); i > 1; --i) keep_neighbor(i - 2);
    for (size_t i = 0; i < files.size(); ++i) {
      if (chosen[i]) found.push_back({level, files[i]->number});
    }
  }
  return found;
}

}  // namespace varve
