// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/recovery_flush.h"

#include <utility>

#include "db/compaction/flush_job.h"
#include "env/file_names.h"
#include "env/stopwatch.h"

namespace varve {

RecoveryFlush::RecoveryFlush(const TableOutputContext* context,
                             VersionSet* versions)
    : given_context_(context), versions_(versions) {}

Status RecoveryFlush::Add(MemTable* memtable) {
  if (flush_count_ == 0) {
    context_ = *given_context_;
    context_.temporary_names = true;
    RemoveLeftovers();
  }
  const Stopwatch stopwatch(context_.env);
  VersionEdit edit;
  CompactionIterator::Drops drops;
  // The tables of earlier memtables are in no version yet.
  Status status =
      FlushMemTables(context_, *versions_->current(), tables_, {memtable}, {},
                     versions_->NewFileNumber(), &edit, &drops);
  if (memtable->Unref()) delete memtable;
  for (auto& [level, file] : *edit.mutable_new_files()) {
    tables_.push_back(std::move(file));
  }
  ++flush_count_;
  micros_ += stopwatch.ElapsedMicros();
  drops_.Add(drops);
  return status;
}

Status RecoveryFlush::Publish(VersionEdit* edit) {
  published_ = true;
  for (const FileMetaData& table : tables_) {
    Status status =
        context_.env->RenameFile(TempFileName(context_.db_path, table.number),
                                 TableFileName(context_.db_path, table.number));
    if (!status.ok()) return status;
    edit->AddFile(0, table);
  }
  return Status::OK();
}

void RecoveryFlush::Abandon() {
  for (const FileMetaData& table : tables_) {
    // The next Open tries again to remove a file that stays.
    context_.env->RemoveFile(TempFileName(context_.db_path, table.number))
        .IgnoreError();
    if (!published_) continue;
    // The table has one of the two names.
    context_.env->RemoveFile(TableFileName(context_.db_path, table.number))
        .IgnoreError();
  }
  tables_.clear();
}

void RecoveryFlush::RemoveLeftovers() {
  for (const std::string& name : leftovers_) {
    const std::string path = context_.db_path + "/" + name;
    // Until the first edit, this file marks the database as not clean.
    if (path == TempFileName(context_.db_path, 0)) continue;
    // A file that stays is removed after recovery.
    context_.env->RemoveFile(path).IgnoreError();
  }
  leftovers_.clear();
}

}  // namespace varve
