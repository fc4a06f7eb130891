// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ingestion/level_choice.h"

#include <memory>

#include "db/compaction/level_targets.h"
#include "table/block/internal_iterator.h"

namespace varve {

namespace {

KeySpan SpanOf(const FileMetaData& file) {
  return {file.smallest_user_key(), file.largest_user_key(),
          file.EndIsExclusive()};
}

}  // namespace

Status LevelChoice::HasEntry(const Version& version, const FileMetaData& file,
                             const UserKeyRange& range, bool* has) {
  const InternalKeyComparator& comparator = version.comparator();
  std::shared_ptr<Table> table;
  Status status = version.table_cache()->Find(file.table_file(), &table);
  if (!status.ok()) return status;
  // Its range deletions may reach beyond its keys, where they do not count.
  const KeySpan keys = SpanOf(file);
  UserKeyRange part = range;
  if (comparator.CompareUser(*part.begin, keys.smallest) < 0) {
    part.begin = &keys.smallest;
  }
  const int r = comparator.CompareUser(*part.end, keys.largest);
  if (r > 0 || (r == 0 && keys.end_is_exclusive)) {
    part.end = &keys.largest;
    part.end_is_exclusive = keys.end_is_exclusive;
  }
  const RangeTombstoneSet* const deletions = table->tombstones();
  *has = deletions != nullptr &&
         deletions->ReachesInto(part.begin, part.end, part.end_is_exclusive, 0);
  if (*has) return status;
  ReadOptions options;
  options.fill_cache = false;
  const auto entry = Table::NewIterator(options, std::move(table));
  entry->Seek(LookupKey(*part.begin, kMaxSequenceNumber).internal_key());
  if (entry->Valid()) {
    const int end =
        comparator.CompareUser(ExtractUserKey(entry->key()), *part.end);
    *has = end < 0 || (end == 0 && !part.end_is_exclusive);
  }
  return entry->status();
}

Status LevelChoice::Examine(const Version& version) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const KeySpan span = SpanOf(tables_[i].file);
    bool has = false;
    for (int level = 0; level <= version.DeepestLevel() && !has; ++level) {
      for (const FileMetaData* const file :
           version.OverlappingFiles(level, span.range(), false)) {
        if (apart_.contains({i, file->number})) continue;
        Status status = HasEntry(version, *file, span.range(), &has);
        if (!status.ok()) return status;
        if (has) break;
        apart_.emplace(i, file->number);
      }
    }
  }
  return Status::OK();
}

LevelChoice::Result LevelChoice::Choose(const CompactionContext& context,
                                        int base_level, size_t i) const {
  const Version& version = *context.version;
  const KeySpan span = SpanOf(tables_[i].file);
  const int last = LastCompactedLevel(options_);
  Result result;
  for (int level = 0; level < kNumLevels; ++level) {
    const auto files = version.OverlappingFiles(level, span.range(), false);
    for (const FileMetaData* const file : files) {
      if (apart_.contains({i, file->number})) continue;
      result.overlaps = true;
      return result;
    }
    if (level >= base_level && level <= last && files.empty() &&
        !MeetsOutput(context, level, version.comparator(), span)) {
      result.level = level;
    }
  }
  return result;
}

Status LevelChoice::FitsBelow(const CompactionContext& context,
                              size_t i) const {
  const Version& version = *context.version;
  const ExternalTable& table = tables_[i];
  const KeySpan span = SpanOf(table.file);
  if (!options_.allow_ingest_behind) {
    return Status::InvalidArgument(
        "ingest_behind needs the option allow_ingest_behind");
  }
  if (version.RangeOverlapsLevel(LastLevel(), span.range()) ||
      MeetsOutput(context, LastLevel(), version.comparator(), span)) {
    return Status::InvalidArgument(table.path,
                                   "its keys meet tables of the last level");
  }
  for (int level = 0; level < LastLevel(); ++level) {
    for (const FileMetaData* const file : version.files(level)) {
      if (file->smallest_sequence != 0) continue;
      return Status::InvalidArgument(
          table.path,
          "cannot go below tables from before allow_ingest_behind was set");
    }
  }
  return Status::OK();
}

}  // namespace varve
