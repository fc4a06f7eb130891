// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/newer_updates.h"

#include <memory>

namespace varve {

namespace {

// Sets *found to whether the table has an update of the key after `since`.
Status FindInFile(const Version& version, const FileMetaData& file,
                  const TableLookup& lookup, SequenceNumber since,
                  bool* found) {
  const UserKeyRange key{&lookup.user_key, &lookup.user_key};
  // A range deletion of the table may reach beyond the file's keys, where it
  // does not count.
  if (file.largest_sequence <= since ||
      !FileOverlaps(version.comparator(), file, key)) {
    return Status();
  }
  const Table* table;
  std::shared_ptr<Table> owner;
  Status status = version.table_cache()->Find(file.table_file(), &file.table,
                                              &table, &owner);
  SequenceNumber newest = 0;
  if (status.ok()) status = table->FindNewest(ReadOptions(), lookup, &newest);
  if (newest > since) *found = true;
  return status;
}

// Sets *found to whether the file has an update of a key in the range after
// `since`. REQUIRES: they overlap.
Status FindInFile(const Version& version, const FileMetaData& file,
                  const UserKeyRange& range, SequenceNumber since,
                  bool* found) {
  const InternalKeyComparator& comparator = version.comparator();
  std::shared_ptr<Table> table;
  Status status = version.table_cache()->Find(file.table_file(), &table);
  if (!status.ok()) return status;
  // The part of the range that the file has.
  const Slice smallest = file.smallest_user_key();
  const Slice largest = file.largest_user_key();
  UserKeyRange part = range;
  if (part.begin == nullptr ||
      comparator.CompareUser(*part.begin, smallest) < 0) {
    part.begin = &smallest;
  }
  const int r =
      part.end == nullptr ? 1 : comparator.CompareUser(*part.end, largest);
  if (r > 0 || (r == 0 && file.EndIsExclusive())) {
    part.end = &largest;
    part.end_is_exclusive = file.EndIsExclusive();
  }
  const RangeTombstoneSet* const tombstones = table->tombstones();
  if (tombstones != nullptr &&
      tombstones->ReachesInto(part.begin, part.end, part.end_is_exclusive,
                              since + 1)) {
    *found = true;
    return status;
  }
  const auto entry = Table::NewIterator(ReadOptions(), std::move(table));
  for (entry->Seek(LookupKey(*part.begin, kMaxSequenceNumber).internal_key());
       entry->Valid(); entry->Next()) {
    const int to_end =
        comparator.CompareUser(ExtractUserKey(entry->key()), *part.end);
    if (to_end > 0 || (to_end == 0 && part.end_is_exclusive)) break;
    if (ExtractSequence(entry->key()) > since) {
      *found = true;
      break;
    }
  }
  return entry->status();
}

}  // namespace

Status FindNewer(const Version& version, const TableLookup& lookup,
                 SequenceNumber since, bool* found) {
  *found = false;
  if (version.LargestSequence() <= since) return Status();
  Status status;
  for (const FileMetaData* const file : version.files(0)) {
    status = FindInFile(version, *file, lookup, since, found);
    if (!status.ok() || *found) return status;
  }
  // After the largest key of a file that ends before the user key.
  const LookupKey key(lookup.user_key, kMaxSequenceNumber - 1);
  for (int level = 1; level <= version.DeepestLevel(); ++level) {
    // All versions of a key that is newer are in one file.
    const auto& files = version.files(level);
    const size_t i = FindFile(version.comparator(), files, key.internal_key());
    if (i == files.size()) continue;
    status = FindInFile(version, *files[i], lookup, since, found);
    if (!status.ok() || *found) return status;
  }
  return status;
}

Status FindNewerIn(const Version& version, const UserKeyRange& range,
                   SequenceNumber since, bool* found) {
  *found = false;
  if (version.LargestSequence() <= since) return Status();
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    for (const FileMetaData* const file : version.files(level)) {
      if (file->largest_sequence <= since ||
          !FileOverlaps(version.comparator(), *file, range)) {
        continue;
      }
      Status status = FindInFile(version, *file, range, since, found);
      if (!status.ok() || *found) return status;
    }
  }
  return Status();
}

}  // namespace varve
