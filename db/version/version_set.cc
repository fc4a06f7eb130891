// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/version_set.h"

#include <algorithm>
#include <unordered_set>

#include "db/version/version_builder.h"
#include "env/file_names.h"
#include "monitoring/span.h"

namespace varve {

namespace {

// A MANIFEST is replaced when its edits are larger than this and larger than
// the version's snapshot at its beginning. So snapshots never take more bytes
// than edits, for any number of tables and length of keys.
constexpr uint64_t kMinEditBytes = 64 << 20;

// A MANIFEST's space is allocated in pieces of this size, before it is written.
// So an edit without space is refused before any of it is in the file.
constexpr uint64_t kManifestPieceBytes = 16 << 10;
// This much is kept for edits that only remove tables, because on a full device
// such an edit is what frees space.
constexpr uint64_t kManifestReserveBytes = 16 << 10;

}  // namespace

VersionSet::VersionSet(std::string db_path, Env* env,
                       const InternalKeyComparator* comparator,
                       TableCache* table_cache, bool prefixes, Mutex* db_mutex)
    : db_path_(std::move(db_path)),
      env_(env),
      comparator_(comparator),
      table_cache_(table_cache),
      prefixes_(prefixes),
      mutex_(db_mutex) {}

VersionSet::~VersionSet() {
  if (current_ != nullptr) UnrefVersionLocked(current_);
  for (FileMetaData* file : obsolete_files_) delete file;
  for (FileMetaData* file : doubtful_files_) delete file;
}

void VersionSet::Initialize(ManifestState* state, Directory* directory) {
  mutex_->AssertHeld();
  directory_ = directory;
  if (state->next_file_number == 0) state->next_file_number = 1;
  // relaxed: no other thread has the object yet.
  next_file_number_.store(state->next_file_number, std::memory_order_relaxed);
  SetLastSequence(state->last_sequence);
  log_number_ = state->log_number;
  min_log_number_to_keep_ = state->min_log_number_to_keep;
  max_column_family_ = state->max_column_family;
  manifest_number_ = state->manifest_number;
  db_id_ = state->db_id;
  key_folding_ = state->key_folding;
  InstallLocked(
      new Version(comparator_, table_cache_, prefixes_, state->levels));
}

void VersionSet::InstallLocked(Version* version) {
  version->RefLocked();
  live_versions_.push_back(version);
  Version* const old = current_;
  current_ = version;
  if (old != nullptr) UnrefVersionLocked(old);
}

void VersionSet::UnrefVersionLocked(Version* version) {
  const auto place =
      std::find(live_versions_.begin(), live_versions_.end(), version);
  if (version->UnrefLocked(&obsolete_files_)) live_versions_.erase(place);
}

void VersionSet::MarkFileNumberUsed(uint64_t number) {
  // relaxed: see NewFileNumber.
  uint64_t next = next_file_number_.load(std::memory_order_relaxed);
  while (next <= number && !next_file_number_.compare_exchange_weak(
                               next, number + 1, std::memory_order_relaxed)) {
  }
}

bool VersionSet::EditsOutgrowSnapshot() const {
  const uint64_t edit_bytes = manifest_->Size() - snapshot_bytes_;
  return edit_bytes > std::max(kMinEditBytes, snapshot_bytes_);
}

Status VersionSet::LogAndApply(VersionEdit* edit) {
  mutex_->AssertHeld();
  const LocalSpan span("MANIFEST");
  while (writing_) writing_done_.Wait(mutex_);
  writing_ = true;

  if (edit->log_number()) {
    if (*edit->log_number() < log_number_) {
      edit->SetLogNumber(log_number_);
    }
    edit->SetMinLogNumberToKeep(*edit->log_number());
  }
  const bool only_removes = edit->OnlyRemovesFiles();
  // A new MANIFEST takes space, which such an edit may be about to free.
  const bool fresh =
      manifest_ == nullptr || (!only_removes && EditsOutgrowSnapshot());
  const uint64_t number = fresh ? NewFileNumber() : manifest_number_;
  edit->SetPrevLogNumber(0);
  // relaxed: this thread numbered the edit's own files before.
  edit->SetNextFileNumber(next_file_number_.load(std::memory_order_relaxed));
  const SequenceNumber last_sequence = LastSequence();
  edit->SetLastSequence(last_sequence);

  std::vector<FileMetaData*> levels[kNumLevels];
  Version* version = nullptr;
  bool in_doubt = false;
  Status status;
  {
    VersionBuilder builder(comparator_, current_);
    status = builder.Apply(*edit);
    if (status.ok()) status = builder.Finish(levels);
    if (status.ok()) {
      version = new Version(comparator_, table_cache_, prefixes_, levels);
      version->RefLocked();
    }
  }
  if (status.ok()) {
    std::string record, snapshot;
    edit->EncodeTo(&record);
    if (fresh) snapshot = EncodeCurrent(last_sequence);
    mutex_->Unlock();
    status = fresh ? CreateManifest(number, snapshot, record, &in_doubt)
                   : AppendEdit(record, only_removes, &in_doubt);
    if (!status.ok()) {
      status = status.Annotate("writing " + ManifestFileName(db_path_, number));
    }
    mutex_->Lock();
  }
  if (status.ok() && fresh) {
    if (manifest_number_ != 0) obsolete_manifests_.push_back(manifest_number_);
    manifest_number_ = number;
    // The new MANIFEST does not have the edits in doubt.
    obsolete_manifests_.insert(obsolete_manifests_.end(),
                               doubtful_manifests_.begin(),
                               doubtful_manifests_.end());
    obsolete_files_.insert(obsolete_files_.end(), doubtful_files_.begin(),
                           doubtful_files_.end());
    doubtful_manifests_.clear();
    doubtful_files_.clear();
  }
  if (status.ok()) {
    if (edit->log_number()) {
      log_number_ = *edit->log_number();
      min_log_number_to_keep_ = log_number_;
    }
    InstallLocked(version);
    // It is not the last reference.
    (void)version->UnrefLocked(&obsolete_files_);
  } else if (version != nullptr) {
    (void)version->UnrefLocked(in_doubt ? &doubtful_files_ : &obsolete_files_);
    if (fresh) {
      (in_doubt ? doubtful_manifests_ : obsolete_manifests_).push_back(number);
    }
  }
  writing_ = false;
  writing_done_.SignalAll();
  return status;
}

uint64_t VersionSet::TotalTableBytesLocked() const {
  std::unordered_set<const FileMetaData*> files;
  for (const auto* list : {&obsolete_files_, &doubtful_files_}) {
    files.insert(list->begin(), list->end());
  }
  for (const Version* version : live_versions_) {
    for (int level = 0; level < kNumLevels; ++level) {
      files.insert(version->files(level).begin(), version->files(level).end());
    }
  }
  uint64_t bytes = 0;
  for (const FileMetaData* file : files) bytes += file->file_size;
  return bytes;
}

bool VersionSet::FindManifest(uint64_t* number, uint64_t* size) {
  mutex_->AssertHeld();
  while (writing_) writing_done_.Wait(mutex_);
  if (manifest_ == nullptr) return false;
  *number = manifest_number_;
  *size = manifest_->Size();
  return true;
}

Status VersionSet::AppendEdit(const std::string& record, bool only_removes,
                              bool* in_doubt) {
  Status status = manifest_->AddRecord(record, only_removes);
  if (status.ok()) status = manifest_->Sync();
  *in_doubt = manifest_->failed();
  if (*in_doubt) manifest_.reset();  // The file's content is unknown.
  return status;
}

Status VersionSet::CreateManifest(uint64_t number, const std::string& snapshot,
                                  const std::string& record, bool* in_doubt) {
  *in_doubt = false;  // CURRENT has the old name.
  std::unique_ptr<WritableFile> file;
  Status status = env_->NewWritableFile(ManifestFileName(db_path_, number),
                                        FileOptions(), &file);
  if (!status.ok()) return status;
  auto manifest = std::make_unique<wal::Writer>(
      std::move(file), number,
      wal::WriterOptions{.allocate_bytes = kManifestPieceBytes,
                         .reserve_bytes = kManifestReserveBytes});
  status = manifest->AddRecord(snapshot, true);
  const uint64_t snapshot_bytes = manifest->Size();
  if (status.ok()) status = manifest->AddRecord(record, true);
  if (status.ok()) status = manifest->Sync();
  // Sync the names of the MANIFEST and of its files before CURRENT is renamed.
  // After a power loss, the later of two unsynced names may be present without
  // the earlier one.
  if (status.ok()) status = directory_->Sync();
  if (!status.ok()) return status;
  status = SetCurrentFile(env_, db_path_, directory_, number, in_doubt);
  if (!status.ok() && !*in_doubt) return status;
  // An edit that is in doubt must not be followed by others in either file.
  manifest_ = status.ok() ? std::move(manifest) : nullptr;
  snapshot_bytes_ = snapshot_bytes;
  return status;
}

std::string VersionSet::EncodeCurrent(SequenceNumber last_sequence) const {
  VersionEdit snapshot;
  snapshot.SetDbId(db_id_);
  snapshot.SetKeyFolding(key_folding_);
  snapshot.SetComparatorName(comparator_->user_comparator()->Name());
  snapshot.SetLogsAreFiles();
  snapshot.SetLogNumber(log_number_);
  snapshot.SetPrevLogNumber(0);
  snapshot.SetMinLogNumberToKeep(min_log_number_to_keep_);
  // relaxed: the next record has the numbers that count.
  snapshot.SetNextFileNumber(next_file_number_.load(std::memory_order_relaxed));
  // RocksDB requires that it does not decrease from one edit to the next.
  // Writers may have continued since the edit was created.
  snapshot.SetLastSequence(last_sequence);
  if (max_column_family_ != 0) snapshot.SetMaxColumnFamily(max_column_family_);
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileMetaData* f : current_->files(level)) {
      snapshot.AddFile(level, *f);
    }
  }
  std::string record;
  snapshot.EncodeTo(&record);
  return record;
}

}  // namespace varve
