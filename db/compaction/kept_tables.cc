// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/kept_tables.h"

#include <memory>

namespace varve {

namespace {

DeadEntries FindCounts(const Version& version, const FileMetaData& file) {
  if (file.dead.known) return file.dead;
  std::shared_ptr<Table> table;
  const Status status =
      version.table_cache()->FindDescription(file.table_file(), &table);
  return status.ok() ? DeadEntriesOf(table->properties()) : DeadEntries();
}

bool IsKept(const Version& version, int level, const FileMetaData& file,
            const std::vector<SequenceNumber>& snapshots, bool merges) {
  if (file.largest_sequence == 0) return false;
  if (file.trace != nullptr) {
    if (file.trace->AnyReleased(file.largest_sequence, snapshots)) return true;
    // The next rewrite would keep the same.
    if (file.trace->bottommost) return false;
  }
  // Tables below may need its deletions.
  if (version.OverlapsDeeper(level, file)) return false;
  const DeadEntries counts = FindCounts(version, file);
  return counts.Dead() != 0 || counts.range_deletions != 0 ||
         (merges && counts.merge_operands != 0);
}

}  // namespace

std::set<uint64_t> FindKeptTables(const Version& version, int level,
                                  const UserKeyRange& range,
                                  const std::vector<SequenceNumber>& snapshots,
                                  bool merges) {
  std::set<uint64_t> numbers;
  for (const FileMetaData* file :
       version.OverlappingFiles(level, range, /*expand=*/false)) {
    if (IsKept(version, level, *file, snapshots, merges)) {
      numbers.insert(file->number);
    }
  }
  return numbers;
}

}  // namespace varve
