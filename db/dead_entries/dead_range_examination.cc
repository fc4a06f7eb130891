// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_range_examination.h"

#include <algorithm>
#include <memory>
#include <string>

#include "db/memtable/memtable.h"
#include "db/version/dead_bytes.h"
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
  bool hides_older = false;  // `last` has more than merge operands.
  for (uint64_t i = 0; i < kMaxEntries && it->Valid(); ++i, it->Next()) {
    const Slice user_key = ExtractUserKey(it->key());
    if (range.end && comparator.CompareUser(user_key, *range.end) >= 0) {
      break;
    }
    const bool older = has_last && comparator.CompareUser(user_key, last) == 0;
    const bool hidden = older && hides_older;
    const ValueType type = ExtractValueType(it->key());
    if (hidden || IsDeletion(type)) ++dead;
    hides_older = hidden || type != ValueType::kMerge;
    if (older) continue;
    last.assign(user_key.data(), user_key.size());
    has_last = true;
  }
  return dead;
}

// Returns about how many of the table's dead entries lie in that part of its
// data. They may lie close together, and are often smaller than others.
uint64_t DeadInPart(const DeadEntries& counts, double part) {
  constexpr double kSmaller = 16;
  return std::min(counts.Dead(),
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
      const DeadEntries known = file->FindDead();
      if (known.known && known.Dead() == 0) continue;
      const Table* table;
      std::shared_ptr<Table> owner;
      if (!version.table_cache()
               ->Find(file->table_file(), &file->table, &table, &owner)
               .ok()) {
        continue;
      }
      const DeadEntries counts = DeadEntriesOf(table->properties());
      const uint64_t in_range =
          DeadInPart(counts, PartInRange(comparator, *file, table, keys));
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
