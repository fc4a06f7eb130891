// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/ingestion/export.h"
#include "db/recovery/checkpoint_builder.h"
#include "varve/checkpoint.h"

namespace varve {

// Finds the files that are the database now, and takes a reference to its
// version. Stores its options too, unless `options` is null. Nothing is removed
// until EndCut was called, also after an error.
Status DBImpl::Cut(CheckpointCut* cut, OptionsDocument* options) {
  // No thread writes a log while this thread leads the queue, and no thread
  // writes the MANIFEST after FindManifest.
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  core_.obsolete.HoldLocked();
  Status status = core_.control.error();
  // Unlogged updates would be missing from the copy, although it has later
  // updates.
  if (status.ok() && core_.families.HasUnloggedLocked())
    status = flusher_.FlushAllLocked();
  if (status.ok()) status = flusher_.FlushLogLocked(false);
  if (status.ok()) status = CutTablesLocked(cut);
  if (!status.ok()) return status;
  cut->wals =
      core_.wals.SizesFromLocked(core_.versions->FirstLogNumberLocked());
  if (options != nullptr) *options = PresentOptionsLocked();
  return status;
}

// Finds the MANIFEST and the tables. Needs no leadership. May release the mutex
// and reacquire it before it finds them.
Status DBImpl::CutTablesLocked(CheckpointCut* cut) {
  while (!core_.versions->FindManifest(&cut->manifest_number,
                                       &cut->manifest_size)) {
    // Nothing was written since the database was opened.
    VersionEdit edit;
    Status status =
        core_.versions->LogAndApply(core_.default_family.versions(), &edit);
    if (status.ok()) continue;
    // A failed sync of the directory is sticky until Resume.
    core_.control.SetErrorLocked(status, "writing the MANIFEST");
    core_.events.DeliverLocked();
    return status;
  }
  for (const ColumnFamily* family : core_.families.live()) {
    Version* const version = family->version();
    version->RefLocked();
    cut->versions.push_back(version);
    for (const auto& files : version->levels()) {
      for (const FileMetaData* file : files) {
        cut->tables.emplace_back(file->number, file->file_size);
      }
    }
  }
  return Status::OK();
}

void DBImpl::EndCut(const CheckpointCut& cut) {
  MutexLock lock(core_.mutex());
  core_.obsolete.LetGoLocked();
  for (Version* const version : cut.versions) {
    core_.versions->UnrefVersionLocked(version);
  }
  core_.jobs.PurgeLocked();
}

Status DBImpl::FlushAll() {
  Status status;
  // A family that is dropped in the meantime need not be flushed.
  for (bool again = true; again;) {
    std::vector<ColumnFamily*> families;
    {
      MutexLock lock(core_.mutex());
      families = core_.families.RefLiveLocked();
    }
    status = FlushFamilies(FlushOptions(), families);
    again = false;
    MutexLock lock(core_.mutex());
    for (const ColumnFamily* family : families) {
      again |= !status.ok() && family->is_dropped();
    }
    core_.families.UnrefLocked(families);
    core_.jobs.PurgeLaterLocked();
  }
  return status;
}

Status DBImpl::CreateCheckpoint(const std::string& directory) {
  if (core_.is_read_only) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  // Two concurrent calls might build under one name.
  MutexLock checkpoint_lock(&checkpoint_mutex_);
  CheckpointBuilder builder(core_.env, core_.directory.path(), directory);
  Status status = builder.Begin();
  // Logged updates then need no replay, and unlogged ones are in the copy.
  if (status.ok()) status = FlushAll();
  if (!status.ok()) return status;
  CheckpointCut cut;
  OptionsDocument options;
  status = Cut(&cut, &options);
  // Options that the engine lacks are in the database's own file.
  if (status.ok() && !core_.IsOfCatalog()) {
    const MutexLock alone(&options_files_mutex_);
    status = options_files_.GetText(options, &cut.options);
    cut.options_number = std::max<uint64_t>(1, options_files_.newest());
  }
  if (status.ok()) status = builder.Build(cut);
  EndCut(cut);
  Log(LogLevel::kInfo, &core_.log, "checkpoint %s: %s", directory.c_str(),
      status.ToString().c_str());
  return status;
}

namespace {

class DbCheckpoint final : public Checkpoint {
 public:
  explicit DbCheckpoint(DB* db) : db_(db) {}
  Status CreateCheckpoint(const std::string& directory) override {
    return db_->CreateCheckpoint(directory);
  }
  Status ExportColumnFamily(ColumnFamilyHandle* family,
                            const std::string& directory,
                            ExportImportFilesMetaData** metadata) override {
    return ExportFamily(db_, family, directory, metadata);
  }

 private:
  DB* const db_;
};

}  // namespace

Status Checkpoint::Create(DB* db, std::unique_ptr<Checkpoint>* checkpoint) {
  checkpoint->reset();
  if (db == nullptr) return Status::InvalidArgument("db is null");
  *checkpoint = std::make_unique<DbCheckpoint>(db);
  return Status::OK();
}

}  // namespace varve
