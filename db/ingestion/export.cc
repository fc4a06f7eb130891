// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ingestion/export.h"

#include <memory>
#include <utility>

#include "db/recovery/checkpoint_builder.h"

namespace varve {

namespace {

// REQUIRES: no file is removed.
Status ExportTables(DB* db, ColumnFamilyHandle* family,
                    const std::string& directory,
                    ExportImportFilesMetaData* metadata) {
  Status status = db->Flush(FlushOptions(), family);
  if (!status.ok()) return status;
  ColumnFamilyMetaData found;
  db->GetColumnFamilyMetaData(family, &found);
  std::string source;
  CheckpointCut cut;
  for (const LevelMetaData& level : found.levels) {
    for (const SstFileMetaData& table : level.files) {
      source = table.directory;
      cut.tables.emplace_back(table.file_number, table.size);
      LiveFileMetaData& listed = metadata->files.emplace_back();
      static_cast<SstFileMetaData&>(listed) = table;
      listed.directory = directory;
      listed.db_path = directory;
      listed.column_family_name = found.name;
      listed.level = level.level;
    }
  }
  CheckpointBuilder builder(db->GetEnv(), source, directory);
  status = builder.Begin();
  return status.ok() ? builder.Build(cut) : status;
}

}  // namespace

Status ExportFamily(DB* db, ColumnFamilyHandle* family,
                    const std::string& directory,
                    ExportImportFilesMetaData** metadata) {
  *metadata = nullptr;
  if (family == nullptr) family = db->DefaultColumnFamily();
  auto exported = std::make_unique<ExportImportFilesMetaData>();
  exported->db_comparator_name = family->GetComparator()->Name();
  Status status = db->DisableFileDeletions();
  if (!status.ok()) return status;
  status = ExportTables(db, family, directory, exported.get());
  const Status enabled = db->EnableFileDeletions();
  if (status.ok()) status = enabled;
  if (status.ok()) *metadata = exported.release();
  return status;
}

}  // namespace varve
