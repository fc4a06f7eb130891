// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_range_examination.h"

#include <algorithm>
#include <memory>
#include <string>

#include "db/memtable/memtable.h"
#include "db/version/version.h"

namespace varve {

namespace {

constexpr uint64_t kMaxEntries = 400000;

uint64_t CountDead(const InternalKeyComparator& comparator,
                   const MemTable& memtable, const DeadRange& range) {
  const std::unique_ptr<InternalIterator> it = memtable.NewIterator();
  if (range.begin) {
    it->Seek(MakeInternalKey(*range.begin, SeekTrailer(kMaxSequenceNumber)));
  } else {
    it->SeekToFirst();
  }
  uint64_t dead = 0;
  std::string last;
  bool has_last = false;
  for (uint64_t i = 0; i < kMaxEntries && it->Valid(); ++i, it->Next()) {
    const Slice user_key = ExtractUserKey(it->key());
    if (range.end && comparator.CompareUser(user_key, *range.end) >= 0) {
      break;
    }
    const bool older = has_last && comparator.CompareUser(user_key, last) == 0;
    if (older || ExtractValueType(it->key()) != ValueType::kValue) ++dead;
    if (older) continue;
    last.assign(user_key.data(), user_key.size());
    has_last = true;
  }
  return dead;
}

struct DeadCounts {
  uint64_t entries = 0;
  uint64_t dead = 0;
};

DeadCounts CountsOf(const Version& version, const FileMetaData& file) {
  DeadEntries dead = file.FindDead();
  std::shared_ptr<Table> table;
  if (dead.known) return {dead.entries, dead.Dead()};
  if (!version.table_cache()->FindDescription(file.table_file(), &table).ok()) {
    return {};
  }
  dead = DeadEntriesOf(table->properties());
  return {dead.entries, dead.Dead()};
}

// Returns the part of the file that lies in the range.
double PartInRange(const Version& version, const FileMetaData& file,
                   const DeadRange& range) {
  const InternalKeyComparator& comparator = version.comparator();
  const bool begins_in =
      !range.begin ||
      comparator.CompareUser(*range.begin, file.smallest_user_key()) < 0;
  const bool ends_in =
      !range.end ||
      comparator.CompareUser(file.largest_user_key(), *range.end) < 0;
  if (begins_in && ends_in) return 1;
  std::shared_ptr<Table> table;
  if (!version.table_cache()->Find(file.table_file(), &table).ok()) return 0;
  const auto offset = [&](const std::string& user_key) {
    return static_cast<double>(table->ApproximateOffsetOf(
        MakeInternalKey(user_key, SeekTrailer(kMaxSequenceNumber))));
  };
  const auto size = static_cast<double>(std::max<uint64_t>(file.file_size, 1));
  const double begin = begins_in ? 0 : offset(*range.begin);
  const double end = ends_in ? size : offset(*range.end);
  return std::clamp((end - begin) / size, 0.0, 1.0);
}

// Returns about how many of the dead entries lie in a part of the file's bytes.
// They may lie close together there, and are often smaller than others.
uint64_t DeadInRange(const DeadCounts& counts, double part) {
  constexpr double kSmaller = 16;
  return std::min(counts.dead,
                  static_cast<uint64_t>(static_cast<double>(counts.entries) *
                                        part * kSmaller));
}

}  // namespace

DeadRangeFindings ExamineDeadRange(const SuperVersion& super_version,
                                   const DeadRange& range, uint64_t least) {
  const Version& version = *super_version.version;
  const InternalKeyComparator& comparator = version.comparator();
  DeadRangeFindings found;
  found.memtable_dead = CountDead(comparator, *super_version.memtable, range);
  found.memtable_entries = super_version.memtable->EntryCount();
  for (const MemTable* memtable : super_version.immutable) {
    found.immutable_dead += CountDead(comparator, *memtable, range);
  }
  Slice begin;
  Slice end;
  UserKeyRange keys;
  if (range.begin) {
    begin = *range.begin;
    keys.begin = &begin;
  }
  if (range.end) {
    end = *range.end;
    keys.end = &end;
    keys.end_is_exclusive = true;
  }
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    uint64_t dead = 0;
    uint64_t bytes = 0;
    uint64_t entries = 0;
    uint64_t most = 0;
    for (const FileMetaData* file :
         version.OverlappingFiles(level, keys, false)) {
      const DeadCounts counts = CountsOf(version, *file);
      if (counts.dead == 0) continue;
      const uint64_t in_range =
          DeadInRange(counts, PartInRange(version, *file, range));
      dead += in_range;
      if (level == 0) {
        bytes = version.NumBytes(0);
        entries += counts.entries;
      } else if (in_range > most) {
        most = in_range;
        found.file_number = file->number;
        bytes = file->file_size;
        entries = counts.entries;
      }
    }
    if (dead < least) continue;
    found.level = level;
    found.level_dead = dead;
    found.file_dead = level == 0 ? dead : most;
    found.file_entries = entries;
    found.file_bytes = bytes;
    return found;
  }
  return found;
}

}  // namespace varve
