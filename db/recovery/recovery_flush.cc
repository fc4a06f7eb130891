// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/recovery_flush.h"

#include <utility>

#include "db/compaction/flush_job.h"
#include "env/file_names.h"
#include "env/stopwatch.h"

namespace varve {

RecoveryFlush::RecoveryFlush(std::vector<Family> families, VersionSet* versions)
    : families_(std::move(families)),
      versions_(versions),
      tables_(families_.size()) {}

Status RecoveryFlush::Add(size_t family, MemTable* memtable) {
  TableOutputContext context = *families_[family].context;
  context.temporary_names = true;
  if (flush_count_ == 0) RemoveLeftovers();
  const Stopwatch stopwatch(env());
  VersionEdit edit;
  CompactionIterator::Drops drops;
  // The tables of earlier memtables are in no version yet.
  Status status =
      FlushMemTables({.context = context,
                      .version = *families_[family].versions->current(),
                      .memtables = {memtable},
                      .file_number = versions_->NewFileNumber(),
                      .other_tables = tables_[family],
                      .reason = TableFileCreationReason::kRecovery},
                     &edit, &drops);
  if (memtable->Unref()) delete memtable;
  for (auto& [level, file] : *edit.mutable_new_files()) {
    tables_[family].push_back(std::move(file));
  }
  ++flush_count_;
  micros_ += stopwatch.ElapsedMicros();
  drops_.Add(drops);
  return status;
}

Status RecoveryFlush::Publish(std::span<VersionEdit> edits) {
  published_ = true;
  for (size_t i = 0; i < tables_.size(); ++i) {
    for (const FileMetaData& table : tables_[i]) {
      Status status = env()->RenameFile(TempFileName(db_path(), table.number),
                                        TableFileName(db_path(), table.number));
      if (!status.ok()) return status;
      edits[i].AddFile(0, table);
    }
  }
  return Status::OK();
}

void RecoveryFlush::Abandon() {
  for (const std::vector<FileMetaData>& tables : tables_) {
    for (const FileMetaData& table : tables) {
      // The next Open tries again to remove a file that stays.
      env()->RemoveFile(TempFileName(db_path(), table.number)).IgnoreError();
      if (!published_) continue;
      // The table has one of the two names.
      env()->RemoveFile(TableFileName(db_path(), table.number)).IgnoreError();
    }
  }
  Commit();  // None is left.
}

void RecoveryFlush::RemoveLeftovers() {
  for (const std::string& name : leftovers_) {
    const std::string path = db_path() + "/" + name;
    // Until the first edit, this file marks the database as not clean.
    if (path == TempFileName(db_path(), 0)) continue;
    // A file that stays is removed after recovery.
    env()->RemoveFile(path).IgnoreError();
  }
  leftovers_.clear();
}

}  // namespace varve
