// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/older_tables.h"

#include <algorithm>
#include <utility>

namespace varve {

OlderTables::OlderTables(const Version& version, int first_level)
    : version_(version),
      comparator_(version.comparator()),
      first_level_(first_level) {
  if (first_level > 0) return;
  const auto& files = version.files(0);
  unsorted_.assign(files.begin(), files.end());
}

OlderTables::OlderTables(const Compaction& compaction)
    : OlderTables(*compaction.version,
                  (compaction.bottommost ? compaction.version->DeepestLevel()
                                         : compaction.output_level) +
                      1) {
  if (compaction.bottommost) return;
  for (const FileMetaData* file : compaction.older) Add(*file);
}

bool OlderTables::MayHave(const Slice& user_key) {
  for (size_t i = passed_; i < unsorted_.size(); ++i) {
    const FileMetaData& file = *unsorted_[i];
    if (comparator_.CompareUser(file.largest_user_key(), user_key) < 0) {
      std::swap(unsorted_[i], unsorted_[passed_++]);
    } else if (comparator_.CompareUser(file.smallest_user_key(), user_key) <=
               0) {
      return true;
    }
  }
  for (int level = std::max(first_level_, 1); level <= version_.DeepestLevel();
       ++level) {
    const auto& files = version_.files(level);
    size_t& position = positions_[level];
    while (position < files.size() &&
           comparator_.CompareUser(files[position]->largest_user_key(),
                                   user_key) < 0) {
      ++position;
    }
    if (position < files.size() &&
        comparator_.CompareUser(files[position]->smallest_user_key(),
                                user_key) <= 0) {
      return true;
    }
  }
  return false;
}

bool OlderTables::MayHaveAny(const Slice& begin, const Slice& end) const {
  const UserKeyRange range{&begin, &end, true};
  for (const FileMetaData* file : unsorted_) {
    if (FileOverlaps(comparator_, *file, range)) return true;
  }
  for (int level = std::max(first_level_, 1); level <= version_.DeepestLevel();
       ++level) {
    if (version_.RangeOverlapsLevel(level, range)) return true;
  }
  return false;
}

}  // namespace varve
