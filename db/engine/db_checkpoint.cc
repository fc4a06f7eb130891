// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/recovery/checkpoint_builder.h"
#include "varve/checkpoint.h"

namespace varve {

// Finds the files that are the database now, and takes a reference to its
// version. May release the mutex and reacquire it.
Status DBImpl::Cut(CheckpointCut* cut) {
  // No thread writes a log while this thread leads the queue, and no thread
  // writes the MANIFEST after FindManifest.
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  obsolete_.HoldLocked();
  Status status = control_.error();
  // Unlogged updates would be missing from the copy, although it has later
  // updates.
  if (status.ok() && families_.HasUnloggedLocked())
    status = flusher_.FlushAllLocked();
  if (status.ok()) status = flusher_.FlushLogLocked(false);
  while (status.ok() &&
         !versions_->FindManifest(&cut->manifest_number, &cut->manifest_size)) {
    // Nothing was written since the database was opened.
    VersionEdit edit;
    status = versions_->LogAndApply(family_.versions(), &edit);
    if (!status.ok()) {
      // A failed sync of the directory is sticky until Resume.
      control_.SetErrorLocked(status, "writing the MANIFEST");
      events_.DeliverLocked();
    }
  }
  if (!status.ok()) return status;
  for (const ColumnFamily* family : families_.live()) {
    Version* const version = family->version();
    version->RefLocked();
    cut->versions.push_back(version);
    for (int level = 0; level < kNumLevels; ++level) {
      for (const FileMetaData* file : version->files(level)) {
        cut->tables.emplace_back(file->number, file->file_size);
      }
    }
  }
  cut->wals = wals_.SizesFromLocked(versions_->FirstLogNumberLocked());
  return status;
}

Status DBImpl::CreateCheckpoint(const std::string& directory) {
  if (read_only_) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  // Two concurrent calls might build under one name.
  MutexLock checkpoint_lock(&checkpoint_mutex_);
  CheckpointBuilder builder(env_, db_directory_.path(), directory);
  Status status = builder.Begin();
  // Logged updates then need no replay, and unlogged ones are in the copy.
  // A family that is dropped in the meantime is not part of the copy.
  for (bool again = status.ok(); again;) {
    std::vector<ColumnFamily*> families;
    {
      MutexLock lock(&mutex_);
      families = families_.RefLiveLocked();
    }
    status = FlushFamilies(FlushOptions(), families);
    again = false;
    MutexLock lock(&mutex_);
    for (const ColumnFamily* family : families) {
      again |= !status.ok() && family->is_dropped();
    }
    families_.UnrefLocked(families);
    jobs_.PurgeLaterLocked();
  }
  if (!status.ok()) return status;
  CheckpointCut cut;
  status = Cut(&cut);
  if (status.ok()) status = builder.Build(cut);
  MutexLock lock(&mutex_);
  obsolete_.LetGoLocked();
  for (Version* const version : cut.versions) {
    versions_->UnrefVersionLocked(version);
  }
  jobs_.PurgeLocked();
  Log(LogLevel::kInfo, &log_, "checkpoint %s: %s", directory.c_str(),
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
