// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/live_files/table_metadata.h"

#include <memory>
#include <utility>

#include "env/file_names.h"
#include "table/block/public_properties.h"
#include "table/reader/table_opener.h"

namespace varve {

namespace {

// Sets the counts of the entries, range deletions among them.
void SetCounts(const FamilyTables& tables, const FileMetaData& file,
               SstFileMetaData* result) {
  const DeadEntries dead = file.FindDead();
  if (dead.known) {
    result->num_entries = dead.entries + dead.range_deletions;
    result->num_deletions = dead.deletions + dead.range_deletions;
    return;
  }
  std::shared_ptr<Table> table;
  // Without its counts, the rest is still true.
  if (!tables.family->table_cache()
           ->FindDescription(file.table_file(), &table)
           .ok()) {
    return;
  }
  result->num_entries = table->properties().num_entries;
  result->num_deletions = table->properties().num_deletions;
}

}  // namespace

FamilyTables ListTablesLocked(ColumnFamily* family) {
  FamilyTables result{
      family, family->version(), family->options().num_levels, {}};
  result.version->RefLocked();
  for (int level = 0; level <= result.version->DeepestLevel(); ++level) {
    for (const FileMetaData* file : result.version->files(level)) {
      result.tables.push_back({level, file, file->being_compacted});
    }
  }
  return result;
}

SstFileMetaData DescribeTable(const FamilyTables& tables,
                              const FamilyTables::Table& table,
                              const std::string& directory) {
  const FileMetaData& file = *table.file;
  SstFileMetaData result;
  result.name = TableFileName("", file.number);
  result.relative_filename = result.name.substr(1);
  result.directory = directory;
  result.db_path = directory;
  result.file_number = file.number;
  result.file_type = FileType::kTableFile;
  result.size = file.file_size;
  result.smallest_seqno = file.smallest_sequence;
  result.largest_seqno = file.largest_sequence;
  result.smallestkey = file.smallest_user_key().ToString();
  result.largestkey = file.largest_user_key().ToString();
  result.being_compacted = table.being_compacted;
  SetCounts(tables, file, &result);
  const TableTimes times = file.FindTimes();
  result.oldest_ancester_time = times.oldest_ancestor_s;
  result.file_creation_time = times.file_creation_s;
  return result;
}

Status ReadTableProperties(Env* env, const std::string& directory,
                           const FileMetaData& file, TableProperties* result) {
  std::string path = TableFileName(directory, file.number);
  std::unique_ptr<RandomAccessFile> opened;
  Status status = env->NewRandomAccessFile(path, FileOptions(), &opened);
  if (status.IsNotFound()) {
    path = LevelDbTableFileName(directory, file.number);
    status = env->NewRandomAccessFile(path, FileOptions(), &opened);
  }
  TableReaderOptions options;
  options.file_name = path;
  options.file_size = file.file_size;
  PropertiesBlock properties;
  if (status.ok()) {
    status = ReadPropertiesOf(options, std::move(opened), &properties);
  }
  if (status.ok()) *result = ToTableProperties(std::move(properties));
  return status;
}

bool ParseTableName(std::string_view name, uint64_t* number) {
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  FileKind kind;
  return ParseFileName(std::string(name), number, &kind) &&
         (kind == FileKind::kTable || kind == FileKind::kLevelDbTable);
}

}  // namespace varve
