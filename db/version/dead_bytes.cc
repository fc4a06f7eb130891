// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/dead_bytes.h"

#include <algorithm>

#include "table/reader/table.h"

namespace varve {

namespace {

// A table has many dead entries if it has one in this many.
constexpr uint64_t kManyPart = 4;

// An offset in a table is the begin of a block, which has about this size.
constexpr uint64_t kBlockBytes = 4096;

uint64_t CountDead(const DeadEntries& dead, bool deletions_too) {
  return deletions_too ? dead.Dead() : dead.hidden;
}

// Returns bytes * part / whole. REQUIRES: part <= whole.
uint64_t Share(uint64_t bytes, uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return static_cast<uint64_t>(
      static_cast<double>(bytes) *
      (static_cast<double>(part) / static_cast<double>(whole)));
}

}  // namespace

uint64_t DataBytes(const FileMetaData& file) {
  return file.file_size - std::min(file.tail_size, file.file_size);
}

uint64_t AverageEntryBytes(const FileMetaData& file) {
  return Share(DataBytes(file), 1, file.FindDead().entries);
}

uint64_t OwnDeadBytes(const FileMetaData& file, bool deletions_too) {
  const DeadEntries dead = file.FindDead();
  return Share(DataBytes(file), CountDead(dead, deletions_too), dead.entries);
}

bool HasManyDead(const FileMetaData& file, bool deletions_too) {
  const DeadEntries dead = file.FindDead();
  const uint64_t count = CountDead(dead, deletions_too);
  return count != 0 && count >= dead.entries / kManyPart;
}

double PartInRange(const InternalKeyComparator& comparator,
                   const FileMetaData& file, const Table* table,
                   const UserKeyRange& range) {
  if (!FileOverlaps(comparator, file, range)) return 0;
  const uint64_t bytes = DataBytes(file);
  if (table == nullptr || bytes == 0) return 1;
  const auto offset_of = [&](const Slice& user_key, uint64_t trailer) {
    return std::min(
        table->ApproximateOffsetOf(MakeInternalKey(user_key, trailer)), bytes);
  };
  const uint64_t begin =
      range.begin == nullptr
          ? 0
          : offset_of(*range.begin, SeekTrailer(kMaxSequenceNumber));
  uint64_t end = bytes;
  if (range.end != nullptr &&
      comparator.CompareUser(*range.end, file.largest_user_key()) < 0) {
    end = offset_of(*range.end, 0);
    end += std::min(bytes - end, kBlockBytes);
  }
  if (end <= begin) return 0;
  return static_cast<double>(end - begin) / static_cast<double>(bytes);
}

}  // namespace varve
