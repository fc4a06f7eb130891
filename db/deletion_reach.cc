// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/deletion_reach.h"

#include <algorithm>

namespace varve {

namespace {

// Of more ranges than this, some stand for all.
constexpr size_t kMaxRanges = 256;

uint64_t DataBytes(const FileMetaData& file) {
  return file.file_size - file.tail_size;
}

}  // namespace

void DeletionReach::AddRange(const Slice& begin, const Slice& end) {
  if (ranges_.empty() ||
      comparator_.CompareUser(ranges_.back().end, begin) < 0) {
    ranges_.push_back({begin.ToString(), end.ToString()});
  } else if (comparator_.CompareUser(ranges_.back().end, end) < 0) {
    ranges_.back().end = end.ToString();
  }
}

uint64_t DeletionReach::RangeBytes(const Version& version,
                                   int first_level) const {
  const size_t step = (ranges_.size() + kMaxRanges - 1) / kMaxRanges;
  uint64_t bytes = 0;
  for (size_t i = 0; i < ranges_.size(); i += step) {
    for (int level = first_level; level <= version.DeepestLevel(); ++level) {
      bytes += BytesBetween(version, level, ranges_[i]);
    }
  }
  return bytes * step;
}

uint64_t DeletionReach::BytesBetween(const Version& version, int level,
                                     const KeyRange& range) const {
  const auto& files = version.files(level);
  uint64_t bytes = 0;
  for (size_t i = FirstFileFrom(comparator_, files, range.begin);
       i < files.size() &&
       comparator_.CompareUser(files[i]->smallest_user_key(), range.end) < 0;
       ++i) {
    bytes += PartOf(version, *files[i], range);
  }
  return bytes;
}

uint64_t DeletionReach::PartOf(const Version& version, const FileMetaData& file,
                               const KeyRange& range) const {
  const bool from_begin =
      comparator_.CompareUser(range.begin, file.smallest_user_key()) <= 0;
  const int r = comparator_.CompareUser(file.largest_user_key(), range.end);
  const bool to_end = r < 0 || (r == 0 && file.EndIsExclusive());
  if (from_begin && to_end) return file.file_size;
  std::shared_ptr<Table> table;
  if (!version.table_cache()->Find(file.table_file(), &table).ok()) return 0;
  const auto offset_of = [&table](const std::string& user_key) {
    return table->ApproximateOffsetOf(
        MakeInternalKey(user_key, SeekTrailer(kMaxSequenceNumber)));
  };
  const uint64_t begin = from_begin ? 0 : offset_of(range.begin);
  const uint64_t end = std::min(to_end ? DataBytes(file) : offset_of(range.end),
                                DataBytes(file));
  return end > begin ? end - begin : 0;
}

uint64_t DeletionReach::PointBytes(const Version& version, int first_level,
                                   const UserKeyRange& range,
                                   uint64_t deletions) {
  if (deletions == 0) return 0;
  uint64_t bytes = 0;
  const FileMetaData* sample = nullptr;  // Of the deepest level.
  for (int level = first_level; level <= version.DeepestLevel(); ++level) {
    const auto files = version.OverlappingFiles(level, range, false);
    bytes += TotalFileSize(files);
    if (!files.empty()) sample = files[files.size() / 2];
  }
  std::shared_ptr<Table> table;
  if (sample == nullptr ||
      !version.table_cache()->Find(sample->table_file(), &table).ok()) {
    return 0;
  }
  const uint64_t entries =
      std::max<uint64_t>(table->properties().num_entries, 1);
  const double hidden = static_cast<double>(DataBytes(*sample)) /
                        static_cast<double>(entries) *
                        static_cast<double>(deletions);
  return hidden < static_cast<double>(bytes) ? static_cast<uint64_t>(hidden)
                                             : bytes;
}

}  // namespace varve
