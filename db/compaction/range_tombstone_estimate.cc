// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/range_tombstone_estimate.h"

#include <algorithm>

namespace varve {

namespace {

// A partly hidden table must be opened. With more ranges than this, the
// estimate is extrapolated from some of them.
constexpr size_t kMaxRanges = 256;

uint64_t DataBytes(const FileMetaData& file) {
  return file.file_size - file.tail_size;
}

// Returns the size of an average entry.
uint64_t EntryBytes(const FileMetaData& file, const Table& table) {
  return DataBytes(file) /
         std::max<uint64_t>(table.properties().num_entries, 1);
}

}  // namespace

void RangeTombstoneEstimate::AddRange(const Slice& begin, const Slice& end) {
  if (ranges_.empty() ||
      comparator_.CompareUser(ranges_.back().end, begin) < 0) {
    ranges_.push_back({begin.ToString(), end.ToString()});
  } else if (comparator_.CompareUser(ranges_.back().end, end) < 0) {
    ranges_.back().end = end.ToString();
  }
}

uint64_t RangeTombstoneEstimate::RangeBytes(const Version& version,
                                            int first_level) const {
  uint64_t bytes = 0;
  for (int level = first_level; level <= version.DeepestLevel(); ++level) {
    bytes += BytesOfLevel(version, version.files(level));
  }
  return bytes;
}

uint64_t RangeTombstoneEstimate::Level0RangeBytes(
    const Version& version) const {
  uint64_t bytes = 0;
  // They may overlap each other.
  for (FileMetaData* file : version.files(0)) {
    bytes += BytesOfLevel(version, {file});
  }
  return bytes;
}

uint64_t RangeTombstoneEstimate::BytesOfLevel(
    const Version& version, const std::vector<FileMetaData*>& files) const {
  const size_t step = (ranges_.size() + kMaxRanges - 1) / kMaxRanges;
  uint64_t bytes = 0;
  // The last file found that is partly hidden.
  const FileMetaData* cut = nullptr;
  uint64_t cut_bytes = 0;
  for (size_t r = 0; r < ranges_.size(); ++r) {
    const KeyRange& range = ranges_[r];
    for (size_t i = FirstFileFrom(comparator_, files, range.begin);
         i < files.size() &&
         comparator_.CompareUser(files[i]->smallest_user_key(), range.end) < 0;
         ++i) {
      if (BeginsBefore(range, *files[i]) && EndsAfter(range, *files[i])) {
        bytes += files[i]->file_size;
        continue;
      }
      if (r % step != 0) continue;
      if (cut != files[i]) {
        bytes += cut_bytes;
        cut = files[i];
        cut_bytes = 0;
      }
      cut_bytes = std::min(cut_bytes + PartOf(version, *cut, range) * step,
                           cut->file_size);
    }
  }
  return bytes + cut_bytes;
}

bool RangeTombstoneEstimate::BeginsBefore(const KeyRange& range,
                                          const FileMetaData& file) const {
  return comparator_.CompareUser(range.begin, file.smallest_user_key()) <= 0;
}

bool RangeTombstoneEstimate::EndsAfter(const KeyRange& range,
                                       const FileMetaData& file) const {
  const int r = comparator_.CompareUser(file.largest_user_key(), range.end);
  return r < 0 || (r == 0 && file.EndIsExclusive());
}

uint64_t RangeTombstoneEstimate::PartOf(const Version& version,
                                        const FileMetaData& file,
                                        const KeyRange& range) const {
  std::shared_ptr<Table> table;
  if (!version.table_cache()->Find(file.table_file(), &table).ok()) return 0;
  const auto offset_of = [&table](const std::string& user_key) {
    return table->ApproximateOffsetOf(
        MakeInternalKey(user_key, SeekTrailer(kMaxSequenceNumber)));
  };
  const uint64_t begin = BeginsBefore(range, file) ? 0 : offset_of(range.begin);
  const uint64_t end = EndsAfter(range, file)
                           ? DataBytes(file)
                           : std::min(offset_of(range.end), DataBytes(file));
  // Offsets have the resolution of blocks. A range within a block counts as one
  // entry.
  return end > begin ? end - begin : EntryBytes(file, *table);
}

uint64_t RangeTombstoneEstimate::PointBytes(const Version& version,
                                            int first_level,
                                            const UserKeyRange& range,
                                            uint64_t deletions) {
  if (deletions == 0) return 0;
  uint64_t bytes = 0;
  const FileMetaData* sample = nullptr;  // On the deepest level.
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
  const double hidden = static_cast<double>(EntryBytes(*sample, *table)) *
                        static_cast<double>(deletions);
  return hidden < static_cast<double>(bytes) ? static_cast<uint64_t>(hidden)
                                             : bytes;
}

}  // namespace varve
