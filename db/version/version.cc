// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/version.h"

#include <algorithm>
#include <array>

#include "db/version/dead_bytes.h"
#include "monitoring/read_counts.h"
#include "monitoring/span.h"
#include "table/block/merging_iterator.h"
#include "table/reader/merge_operands.h"
#include "util/bytes/key_prefix.h"
#include "util/bytes/short_copy.h"

namespace varve {

namespace {

// See reclaim_candidates().
constexpr uint64_t kReclaimedPart = 5;

// TableCache::Find, for lookups. The description of the file is made only if
// the table must be found.
inline Status FindTable(TableCache* table_cache, const ReadOptions& options,
                        const FileMetaData& file, const Table** table,
                        std::shared_ptr<Table>* owner) {
  // acquire: as in TableCache::Find.
  *table = file.table.table.load(std::memory_order_acquire);
  if (*table != nullptr) [[likely]]
    return Status();
  return table_cache->Find(file.table_file(), &file.table, table, owner,
                           &options);
}

}  // namespace

size_t FindFile(const InternalKeyComparator& comparator,
                const std::vector<FileMetaData*>& files,
                const Slice& internal_key) {
  const auto it =
      std::lower_bound(files.begin(), files.end(), internal_key,
                       [&](const FileMetaData* file, const Slice& key) {
                         return comparator.Compare(file->largest, key) < 0;
                       });
  return static_cast<size_t>(it - files.begin());
}

size_t FirstFileFrom(const InternalKeyComparator& comparator,
                     const std::vector<FileMetaData*>& files,
                     const Slice& user_key) {
  // This key is after a file that ends before the user key.
  return FindFile(comparator, files,
                  MakeInternalKey(user_key, kRangeEndTrailer - 1));
}

bool EndsBefore(const InternalKeyComparator& comparator, const FileMetaData& a,
                const FileMetaData& b) {
  const int r =
      comparator.CompareUser(a.largest_user_key(), b.smallest_user_key());
  return r < 0 || (r == 0 && a.EndIsExclusive());
}

bool FileOverlaps(const InternalKeyComparator& comparator,
                  const FileMetaData& file, const UserKeyRange& range) {
  if (range.begin != nullptr) {
    const int r = comparator.CompareUser(file.largest_user_key(), *range.begin);
    if (r < 0 || (r == 0 && file.EndIsExclusive())) return false;
  }
  if (range.end == nullptr) return true;
  const int r = comparator.CompareUser(file.smallest_user_key(), *range.end);
  return r < 0 || (r == 0 && !range.end_is_exclusive);
}

uint64_t TotalFileSize(const std::vector<FileMetaData*>& files) {
  uint64_t total = 0;
  for (const FileMetaData* file : files) total += file->file_size;
  return total;
}

Version::Version(const InternalKeyComparator* comparator,
                 TableCache* table_cache, bool prefixes, LevelFiles levels)
    : comparator_(comparator),
      table_cache_(table_cache),
      levels_(std::move(levels)) {
  for (int level = 0; level < kNumLevels; ++level) {
    TableTimes& oldest = oldest_times_[level];
    oldest = {UINT64_MAX, UINT64_MAX};
    for (FileMetaData* file : levels_[level]) {
      ++file->refs;
      largest_sequence_ = std::max(largest_sequence_, file->largest_sequence);
      const TableTimes times = file->FindTimes();
      oldest.oldest_ancestor_s =
          std::min(oldest.oldest_ancestor_s, times.oldest_ancestor_s);
      oldest.file_creation_s =
          std::min(oldest.file_creation_s, times.file_creation_s);
    }
    if (levels_[level].empty()) continue;
    deepest_level_ = level;
    level_bytes_[level] = TotalFileSize(levels_[level]);
    if (level > 0) filled_levels_.push_back(level);
    if (prefixes && comparator->bytewise()) MakePrefixes(level);
  }
  uint64_t entries = 0;
  uint64_t entry_bytes = 0;
  for (const FileMetaData* file : levels_[deepest_level_]) {
    if (file->hidden_bytes != 0 && deepest_level_ > 0) {
      hides_in_deepest_level_ = true;
    }
    const DeadEntries dead = file->FindDead();
    entries += dead.entries;
    if (dead.entries != 0) entry_bytes += file->file_size;
  }
  if (entries != 0) entry_bytes_ = entry_bytes / entries;
  FindReclaimCandidates();
}

void Version::FindReclaimCandidates() {
  uint64_t cost_bytes = 0;
  if (FreesMuch(0, levels_[0], &cost_bytes)) {
    reclaim_candidates_.push_back({0, levels_[0].front(), false, cost_bytes});
  }
  for (const FileMetaData* file : levels_[0]) {
    if (HasManyDead(*file, true)) has_waste_ = true;
  }
  for (int level = 1; level <= deepest_level_; ++level) {
    const std::span<FileMetaData* const> files = levels_[level];
    for (size_t i = 0; i < files.size(); ++i) {
      const bool many_dead = HasManyDead(*files[i], true);
      if (many_dead) has_waste_ = true;
      if (many_dead && !OverlapsDeeper(level, *files[i])) {
        reclaim_candidates_.push_back(
            {level, files[i], true, files[i]->file_size});
      } else if (level < deepest_level_ &&
                 FreesMuch(level, files.subspan(i, 1), &cost_bytes)) {
        reclaim_candidates_.push_back({level, files[i], false, cost_bytes});
      }
    }
  }
}

void Version::FindMarkedLocked() {
  has_marked_ = false;
  for (int level = 0; level < std::max(deepest_level_, 1); ++level) {
    for (const FileMetaData* file : levels_[level]) {
      has_marked_ |= file->marked_for_compaction;
    }
  }
}

uint64_t Version::GainBytes(const FileMetaData& file) const {
  uint64_t bytes = file.reclaimable_bytes +
                   std::max(file.hidden_bytes, OwnDeadBytes(file, false));
  if (!file.points_are_estimated) {
    const uint64_t deletions = file.FindDead().deletions;
    const uint64_t limit = UINT64_MAX - bytes;
    bytes += entry_bytes_ == 0
                 ? 0
                 : std::min(deletions, limit / entry_bytes_) * entry_bytes_;
  }
  return bytes;
}

uint64_t Version::KnownEntries() const {
  uint64_t entries = 0;
  for (const auto& files : levels_) {
    for (const FileMetaData* file : files) entries += file->FindDead().entries;
  }
  return entries;
}

bool Version::OverlapsDeeper(int level, const FileMetaData& file) const {
  const Slice smallest = file.smallest_user_key();
  const Slice largest = file.largest_user_key();
  const UserKeyRange range{&smallest, &largest, file.EndIsExclusive()};
  for (int below = level + 1; below <= deepest_level_; ++below) {
    if (RangeOverlapsLevel(below, range)) return true;
  }
  return false;
}

bool Version::FreesMuch(int level, std::span<FileMetaData* const> files,
                        uint64_t* cost_bytes) const {
  // Bytes beyond `enough` need not be counted.
  uint64_t enough = 0;
  for (const FileMetaData* file : files) {
    const uint64_t space = UINT64_MAX - enough;
    enough +=
        std::min(GainBytes(*file), space / kReclaimedPart) * kReclaimedPart;
  }
  if (enough == 0) return false;
  uint64_t bytes = 0;
  const FileMetaData* first = files.front();
  const FileMetaData* last = files.front();
  for (const FileMetaData* file : files) {
    bytes += file->file_size;
    if (comparator_->CompareUser(file->smallest_user_key(),
                                 first->smallest_user_key()) < 0) {
      first = file;
    }
    const int r = comparator_->CompareUser(file->largest_user_key(),
                                           last->largest_user_key());
    if (r > 0 || (r == 0 && !file->EndIsExclusive())) last = file;
  }
  const Slice smallest = first->smallest_user_key();
  const Slice largest = last->largest_user_key();
  const UserKeyRange range{&smallest, &largest, last->EndIsExclusive()};
  for (int below = level + 1; below <= deepest_level_ && bytes <= enough;
       ++below) {
    bytes += OverlappingBytes(below, range, enough);
  }
  *cost_bytes = bytes;
  return bytes <= enough;
}

uint64_t Version::OverlappingBytes(int level, const UserKeyRange& range,
                                   uint64_t enough) const {
  const auto& files = levels_[level];
  uint64_t bytes = 0;
  for (size_t i = FirstFileFrom(*comparator_, files, *range.begin);
       i < files.size() && bytes <= enough &&
       FileOverlaps(*comparator_, *files[i], range);
       ++i) {
    bytes += files[i]->file_size;
  }
  return bytes;
}

void Version::MakePrefixes(int level) {
  const auto& files = levels_[level];
  LevelPrefixes& prefixes = prefixes_[level];
  const Slice first = files.front()->smallest_user_key();
  size_t& common = prefixes.common_size;
  common = first.size();
  const auto cut = [&](const Slice& key) {
    size_t size = 0;
    const size_t limit = std::min(common, key.size());
    while (size < limit && first[size] == key[size]) ++size;
    common = size;
  };
  // Keys are sorted, so all have the common prefix of the first and the last.
  // Level 0 is not sorted.
  cut(files.back()->largest_user_key());
  if (level == 0) {
    for (const FileMetaData* file : files) {
      cut(file->smallest_user_key());
      cut(file->largest_user_key());
    }
  }
  for (const FileMetaData* file : files) {
    prefixes.smallest.push_back(KeyPrefix(file->smallest_user_key(), common));
    prefixes.largest.push_back(KeyPrefix(file->largest_user_key(), common));
  }
}

const FileMetaData* Version::FileWith(int level,
                                      const TableLookup& lookup) const {
  const auto& files = levels_[level];
  const LevelPrefixes& prefixes = prefixes_[level];
  size_t index;
  if (!prefixes.largest.empty()) {
    const Slice common(files.front()->smallest.data(), prefixes.common_size);
    if (!StartsWithShort(lookup.user_key, common)) return nullptr;
    const uint64_t prefix = KeyPrefix(lookup.user_key, prefixes.common_size);
    index = LowerBoundPrefix(prefixes.largest.data(), files.size(), prefix);
    if (index == files.size() || prefix < prefixes.smallest[index]) {
      return nullptr;
    }
    if (prefix < prefixes.largest[index]) {
      // If prefixes are equal, compare the keys themselves. A file must not be
      // searched for keys outside its range. A range deletion in it may reach
      // beyond, and hide newer entries that were moved to deeper levels.
      const bool has_it = prefix > prefixes.smallest[index] ||
                          InRange(*files[index], lookup.user_key);
      return has_it ? files[index] : nullptr;
    }
  }
  const LookupKey key(lookup.user_key, lookup.sequence);
  index = FindFile(*comparator_, files, key.internal_key());
  if (index == files.size() || !InRange(*files[index], lookup.user_key)) {
    return nullptr;
  }
  return files[index];
}

bool Version::Level0Prefix(const Slice& user_key, uint64_t* prefix) const {
  const LevelPrefixes& prefixes = prefixes_[0];
  if (prefixes.largest.empty()) return true;
  const Slice common(levels_[0].front()->smallest.data(), prefixes.common_size);
  if (!StartsWithShort(user_key, common)) return false;
  *prefix = KeyPrefix(user_key, prefixes.common_size);
  return true;
}

bool Version::Level0Has(size_t index, const Slice& user_key,
                        uint64_t prefix) const {
  const LevelPrefixes& prefixes = prefixes_[0];
  if (!prefixes.largest.empty()) {
    const uint64_t smallest = prefixes.smallest[index];
    const uint64_t largest = prefixes.largest[index];
    if (prefix < smallest || prefix > largest) return false;
    if (prefix > smallest && prefix < largest) return true;
    // If prefixes are equal, compare the keys themselves.
  }
  return InRange(*levels_[0][index], user_key);
}

bool Version::UnrefLocked(std::vector<FileMetaData*>* obsolete) {
  if (--refs_ > 0) return false;
  for (const auto& files : levels_) {
    for (FileMetaData* file : files) {
      if (--file->refs == 0) obsolete->push_back(file);
    }
  }
  delete this;
  return true;
}

inline const FileMetaData* Version::NextFile(const TableLookup& lookup,
                                             FileCursor* cursor) const {
  if (cursor->level == 0) {
    const auto& level0 = levels_[0];
    if (cursor->index == 0 && !level0.empty()) {
      uint64_t prefix = 0;  // Lets the cursor's members stay in registers.
      if (!Level0Prefix(lookup.user_key, &prefix)) {
        cursor->index = level0.size();
      }
      cursor->prefix = prefix;
    }
    while (cursor->index < level0.size()) {
      const size_t index = cursor->index++;
      if (Level0Has(index, lookup.user_key, cursor->prefix)) {
        return level0[index];
      }
    }
    cursor->index = 0;
  }
  while (cursor->index < filled_levels_.size()) {
    cursor->level = filled_levels_[cursor->index++];
    const FileMetaData* const file = FileWith(cursor->level, lookup);
    if (file != nullptr) return file;
  }
  return nullptr;
}

template <bool kSteps>
Status Version::Get(const ReadOptions& options, const TableLookup& lookup,
                    LookupResult* result) const {
  const bool in_steps = kSteps && TraceSteps();
  LocalSpan step("version search", in_steps);
  const Table* table;
  std::shared_ptr<Table> owner;
  const auto look = [&](const FileMetaData& file) {
    Status status = FindTable(table_cache_, options, file, &table, &owner);
    if (!status.ok()) return status;
    if (!in_steps) return table->Get<false>(options, lookup, result);
    step.Next("table");
    status = table->Get<true>(options, lookup, result);
    step.Next("version search");
    return status;
  };
  FileCursor cursor;
  while (const FileMetaData* const file = NextFile(lookup, &cursor)) {
    Status status = look(*file);
    if (!status.ok() || result->state != LookupState::kNotFound) {
      result->counts.level = std::min(cursor.level, 2);
      return status;
    }
  }
  return Status();
}

template Status Version::Get<false>(const ReadOptions&, const TableLookup&,
                                    LookupResult*) const;
template Status Version::Get<true>(const ReadOptions&, const TableLookup&,
                                   LookupResult*) const;

const FileMetaData* Version::FileAfter(int level, const FileMetaData& file,
                                       const Slice& user_key) const {
  if (level == 0 || file.EndIsExclusive() ||
      comparator_->CompareUser(file.largest_user_key(), user_key) != 0) {
    return nullptr;
  }
  const auto& files = levels_[level];
  const size_t next = FindFile(*comparator_, files, file.largest) + 1;
  return next < files.size() && InRange(*files[next], user_key) ? files[next]
                                                                : nullptr;
}

Status Version::ReadVersions(const ReadOptions& options,
                             const TableLookup& lookup,
                             MergeOperands* versions) const {
  FileCursor cursor;
  const FileMetaData* file = nullptr;
  while (versions->NeedsOlder() &&
         (file = NextFile(lookup, &cursor)) != nullptr) {
    for (; file != nullptr && versions->NeedsNextFile();
         file = FileAfter(cursor.level, *file, lookup.user_key)) {
      const Table* table;
      std::shared_ptr<Table> owner;
      Status status = FindTable(table_cache_, options, *file, &table, &owner);
      if (status.ok()) status = table->ReadVersions(options, lookup, versions);
      if (!status.ok()) return status;
    }
  }
  return Status();
}

size_t Version::StartNextTables(MultiLookup** lookups, size_t count) const {
  size_t active = 0;
  for (size_t i = 0; i < count; ++i) {
    MultiLookup* const l = lookups[i];
    const FileMetaData* const file = NextFile(l->probe.lookup, &l->cursor);
    if (file == nullptr) continue;
    const Table* table;
    Status status =
        FindTable(table_cache_, *l->probe.options, *file, &table, &l->owner);
    if (!status.ok()) [[unlikely]] {
      l->probe.status = std::move(status);
      continue;
    }
    table->StartProbe(&l->probe);
    lookups[active++] = l;
  }
  return active;
}

size_t Version::FinishProbes(MultiLookup** lookups, size_t count) {
  size_t left = 0;
  for (size_t i = 0; i < count; ++i) {
    MultiLookup* const l = lookups[i];
    if (!l->probe.done) l->probe.table->FinishProbe(&l->probe);
    if (l->result.state == LookupState::kNotFound && l->probe.status.ok()) {
      lookups[left++] = l;
    }
  }
  return left;
}

void Version::MultiGet(MultiLookup** lookups, size_t count) const {
  while (count > 0) {
    // Each lookup descends the levels until it has ended or needs a block that
    // is not in memory. Then the missing blocks of all levels are read
    // together.
    MultiLookup* waiting = nullptr;
    while (count > 0) {
      const size_t active = StartNextTables(lookups, count);
      for (size_t i = 0; i < active; ++i) {
        TableProbe* const probe = &lookups[i]->probe;
        probe->table->ProbeIndex(probe);
      }
      size_t in_memory = 0;
      for (size_t i = 0; i < active; ++i) {
        MultiLookup* const l = lookups[i];
        if (!l->probe.done) l->probe.table->ProbeBlock(&l->probe);
        if (l->probe.Waits()) {
          l->next_waiting = waiting;
          waiting = l;
        } else {
          lookups[in_memory++] = l;
        }
      }
      count = FinishProbes(lookups, in_memory);
    }
    std::array<TableProbe*, Table::kMaxReadBlocks> probes;
    size_t batch = 0;
    for (; waiting != nullptr; waiting = waiting->next_waiting) {
      lookups[count++] = waiting;
      probes[batch++] = &waiting->probe;
      if (batch < probes.size() && waiting->next_waiting != nullptr) continue;
      Table::ReadBlocks(probes.data(), batch);
      batch = 0;
    }
    count = FinishProbes(lookups, count);
  }
}

void Version::AddIterators(
    const ReadOptions& options, const VersionRangeTombstones* tombstones,
    RangeTombstoneFilters* filters, SourceWrapper* wrapper,
    ArenaVector<std::unique_ptr<InternalIterator>>* out) const {
  ThreadArena* const memory = filters->memory();
  const auto add = [&](std::unique_ptr<InternalIterator> source,
                       std::span<FileMetaData* const> files,
                       const std::shared_ptr<const RangeTombstoneSet>* own) {
    if (wrapper != nullptr) source = wrapper->Wrap(std::move(source), files);
    std::span<const std::shared_ptr<const RangeTombstoneSet>> sets;
    if (own != nullptr && *own != nullptr) sets = {own, 1};
    out->push_back(filters->Wrap(std::move(source), sets));
  };
  std::shared_ptr<const UnreadTables> unread;
  if (tombstones != nullptr) unread = tombstones->unread;
  for (size_t i = 0; i < levels_[0].size(); ++i) {
    const FileMetaData* const file = levels_[0][i];
    Status status = UnreadStatus(unread.get(), file->number);
    if (!status.ok()) {
      out->push_back(NewEmptyIterator(std::move(status), memory));
      continue;
    }
    add(table_cache_->NewIterator(options, file->table_file(), &file->table,
                                  memory),
        {&levels_[0][i], 1},
        tombstones == nullptr ? nullptr : &tombstones->level0[i]);
  }
  for (const int level : filled_levels_) {
    add(NewLevelIterator(options, comparator_, table_cache_, &levels_[level],
                         unread, memory),
        levels_[level],
        tombstones == nullptr ? nullptr : &tombstones->levels[level]);
  }
}

std::vector<FileMetaData*> Version::OverlappingFiles(int level,
                                                     UserKeyRange range,
                                                     bool expand) const {
  std::vector<FileMetaData*> result;
  const auto& files = levels_[level];
  Slice begin;
  Slice end;
  for (size_t i = 0; i < files.size();) {
    FileMetaData* file = files[i++];
    if (!FileOverlaps(*comparator_, *file, range)) continue;
    result.push_back(file);
    if (level != 0 || !expand) continue;
    // Grow the range. If it did grow, check all files again.
    bool grown = false;
    if (range.begin != nullptr &&
        comparator_->CompareUser(file->smallest_user_key(), *range.begin) < 0) {
      begin = file->smallest_user_key();
      range.begin = &begin;
      grown = true;
    }
    if (range.end != nullptr) {
      const int r =
          comparator_->CompareUser(file->largest_user_key(), *range.end);
      if (r > 0 ||
          (r == 0 && range.end_is_exclusive && !file->EndIsExclusive())) {
        end = file->largest_user_key();
        range.end = &end;
        range.end_is_exclusive = file->EndIsExclusive();
        grown = true;
      }
    }
    if (grown) {
      result.clear();
      i = 0;
    }
  }
  return result;
}

bool Version::RangeOverlapsLevel(int level, const UserKeyRange& range) const {
  const auto& files = levels_[level];
  if (level == 0 || range.begin == nullptr) {
    return std::any_of(files.begin(), files.end(),
                       [&](const FileMetaData* file) {
                         return FileOverlaps(*comparator_, *file, range);
                       });
  }
  const size_t index = FirstFileFrom(*comparator_, files, *range.begin);
  return index < files.size() &&
         FileOverlaps(*comparator_, *files[index], range);
}

uint64_t Version::ApproximateOffsetOf(const Slice& internal_key) const {
  uint64_t result = 0;
  for (const auto& files : levels_) {
    for (const FileMetaData* file : files) {
      if (comparator_->Compare(file->largest, internal_key) <= 0) {
        result += file->file_size;
      } else if (comparator_->Compare(file->smallest, internal_key) <= 0) {
        std::shared_ptr<Table> table;
        if (table_cache_->Find(file->table_file(), &table).ok()) {
          result += table->ApproximateOffsetOf(internal_key);
        }
      }
    }
  }
  return result;
}

}  // namespace varve
