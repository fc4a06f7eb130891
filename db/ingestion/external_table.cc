// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ingestion/external_table.h"

#include <memory>

#include "table/block/internal_iterator.h"
#include "table/build/table_builder.h"
#include "table/reader/table.h"

namespace varve {

namespace {

// Makes the file's range of keys include these.
void Extend(const InternalKeyComparator& comparator, const Slice& first,
            const Slice& last, FileMetaData* file) {
  if (file->smallest.empty() || comparator.Compare(first, file->smallest) < 0) {
    file->smallest = first.ToString();
  }
  if (file->largest.empty() || comparator.Compare(last, file->largest) > 0) {
    file->largest = last.ToString();
  }
}

Status FindKeys(const Table& table, const InternalKeyComparator& comparator,
                FileMetaData* file) {
  ReadOptions options;
  options.fill_cache = false;
  const auto entry = table.NewIterator(options);
  entry->SeekToFirst();
  if (entry->Valid()) {
    const std::string first = entry->key().ToString();
    entry->SeekToLast();
    if (entry->Valid()) Extend(comparator, first, entry->key(), file);
  }
  if (!entry->status().ok()) return entry->status();
  const RangeTombstoneSet* const deletions = table.tombstones();
  // relaxed: nobody else has the object yet.
  file->table.without_tombstones.store(deletions == nullptr,
                                       std::memory_order_relaxed);
  for (size_t i = 0; deletions != nullptr && i < deletions->size(); ++i) {
    const RangeTombstone deletion = deletions->at(i);
    Extend(
        comparator,
        MakeInternalKey(deletion.begin, PackTrailer(deletion.sequence,
                                                    ValueType::kRangeDeletion)),
        MakeInternalKey(deletion.end, kRangeEndTrailer), file);
  }
  return Status::OK();
}

}  // namespace

Status ExamineTable(Env* env, const ExternalTableFacts& facts,
                    ExternalTable* found, PropertiesBlock* properties) {
  const std::string& path = found->path;
  FileMetaData* const file = &found->file;
  Status status = env->GetFileSize(path, &file->file_size);
  std::unique_ptr<RandomAccessFile> opened;
  if (status.ok()) {
    status = env->NewRandomAccessFile(path, FileOptions(), &opened);
  }
  if (!status.ok()) return status;
  TableReaderOptions options;
  options.comparator = facts.comparator;
  options.info_log = facts.info_log;
  options.file_name = path;
  options.file_size = file->file_size;
  options.manifest_largest_sequence = facts.largest_sequence;
  std::unique_ptr<Table> table;
  status = Table::Open(options, std::move(opened), &table);
  if (status.ok() && facts.verify_checksums) status = table->VerifyChecksum();
  if (status.ok()) status = FindKeys(*table, *facts.comparator, file);
  if (!status.ok()) return status;
  if (file->smallest.empty()) {
    return Status::InvalidArgument(path, "the table has no entries");
  }
  if (facts.comparator->Compare(file->smallest, file->largest) > 0) {
    return Status::Corruption(path, "its last key is before its first one");
  }
  *properties = table->properties();
  file->dead = DeadEntriesOf(*properties);
  return status;
}

Status CheckWrittenOutside(const ExternalTable& table,
                           const PropertiesBlock& properties,
                           uint32_t family_id) {
  if (properties.external_version != kExternalTableVersion ||
      !properties.has_global_sequence) {
    return Status::InvalidArgument(table.path,
                                   "is no table of SstFileWriter, version " +
                                       std::to_string(kExternalTableVersion));
  }
  const std::string& first = table.file.smallest;
  const std::string& last = table.file.largest;
  if (properties.global_sequence != 0 || ExtractSequence(first) != 0 ||
      (!table.file.EndIsExclusive() && ExtractSequence(last) != 0)) {
    return Status::InvalidArgument(
        table.path, "its entries have sequence numbers of a database");
  }
  if (properties.column_family_id != kUnknownColumnFamilyId &&
      properties.column_family_id != family_id) {
    return Status::InvalidArgument(
        table.path, "was written for the column family with id " +
                        std::to_string(properties.column_family_id));
  }
  return Status::OK();
}

}  // namespace varve
