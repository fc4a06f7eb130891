// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/version_set.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "db/version/edit_rules.h"
#include "db/version/logs_end_note.h"
#include "db/version/version_builder.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "table/block/comparator_mismatch.h"

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

// Not InvalidArgument: a job whose family is dropped has not failed.
Status FamilyDropped(const std::string& name) {
  return Status::ShutdownInProgress("column family " + name + " was dropped");
}

}  // namespace

VersionSet::VersionSet(std::string db_path, Env* env, Mutex* db_mutex)
    : db_path_(std::move(db_path)), env_(env), mutex_(db_mutex) {}

VersionSet::~VersionSet() {
  while (!families_.empty()) RemoveFamilyLocked(families_.back());
  for (const ObsoleteTable& table : obsolete_files_) delete table.file;
  for (const ObsoleteTable& table : doubtful_files_) delete table.file;
}

void VersionSet::Initialize(ManifestState* state, Directory* directory) {
  mutex()->AssertHeld();
  directory_ = directory;
  if (state->next_file_number == 0) state->next_file_number = 1;
  // relaxed: no other thread has the object yet.
  next_file_number_.store(state->next_file_number, std::memory_order_relaxed);
  SetLastSequence(state->last_sequence);
  min_log_number_to_keep_ = state->min_log_number_to_keep;
  max_column_family_ = state->max_column_family;
  manifest_number_ = state->manifest_number;
  db_id_ = state->db_id;
  key_folding_ = state->key_folding;
}

void VersionSet::AddFamilyLocked(FamilyVersions* family,
                                 FamilyManifest* state) {
  mutex()->AssertHeld();
  family->id_ = state->id;
  family->log_number_ = state->log_number;
  // RocksDB does not write it.
  family->tables_end_ = state->tables_end.value_or(LastSequence());
  const auto place = std::lower_bound(
      families_.begin(), families_.end(), family->id_,
      [](const FamilyVersions* f, uint32_t id) { return f->id_ < id; });
  families_.insert(place, family);
  for (const auto& level : state->levels) {
    for (const FileMetaData* const file : level) CountInSpace(*file);
  }
  InstallLocked(family,
                new Version(family->comparator_, family->table_cache_,
                            family->prefixes_, std::move(state->levels)));
}

void VersionSet::CountInSpace(const FileMetaData& file) {
  if (space_ != nullptr) space_->Add(file.number, file.file_size);
}

void VersionSet::RemoveFamilyLocked(FamilyVersions* family) {
  std::erase(families_, family);
  Version* const current = std::exchange(family->current_, nullptr);
  if (current != nullptr) UnrefVersionLocked(current);
  for (auto* list : {&obsolete_files_, &doubtful_files_}) {
    for (ObsoleteTable& table : *list) {
      if (table.table_cache == family->table_cache_) {
        table.table_cache = nullptr;
      }
    }
  }
}

void VersionSet::InstallLocked(FamilyVersions* family, Version* version) {
  version->RefLocked();
  version->FindMarkedLocked();
  live_versions_.push_back(version);
  Version* const old = std::exchange(family->current_, version);
  if (old != nullptr) UnrefVersionLocked(old);
}

void VersionSet::CloseLocked() {
  mutex()->AssertHeld();
  while (writing_) writing_done_.Wait(mutex());
  is_closed_ = true;
  manifest_.reset();
}

void VersionSet::EmptyFamilyLocked(FamilyVersions* family) {
  InstallLocked(family, new Version(family->comparator_, family->table_cache_,
                                    family->prefixes_, LevelFiles()));
}

void VersionSet::UnrefVersionLocked(Version* version) {
  UnrefLocked(version, is_closed_ ? &doubtful_files_ : &obsolete_files_);
}

void VersionSet::UnrefLocked(Version* version,
                             std::vector<ObsoleteTable>* unused) {
  const auto place =
      std::find(live_versions_.begin(), live_versions_.end(), version);
  TableCache* const table_cache = version->table_cache();
  std::vector<FileMetaData*> files;
  if (!version->UnrefLocked(&files)) return;
  if (place != live_versions_.end()) live_versions_.erase(place);
  for (FileMetaData* file : files) unused->push_back({file, table_cache});
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

bool VersionSet::SnapshotIsCheaperThan(size_t edit_count) const {
  // A new MANIFEST takes these syncs: of its file, of the file that becomes
  // CURRENT, and of the directory after each of them.
  constexpr size_t kSyncs = 4;
  // A sync takes as long as writing at least this many bytes.
  constexpr uint64_t kSyncBytes = 128 << 10;
  // About the sizes of the records of a family, and of a table without its
  // keys.
  constexpr uint64_t kFamilyBytes = 128;
  constexpr uint64_t kTableBytes = 64;
  if (edit_count <= kSyncs) return false;
  const uint64_t limit = (edit_count - kSyncs) * kSyncBytes;
  uint64_t bytes = 0;
  for (const FamilyVersions* family : families_) {
    bytes += kFamilyBytes;
    for (const auto& files : family->current_->levels()) {
      for (const FileMetaData* file : files) {
        bytes += kTableBytes + file->smallest.size() + file->largest.size();
        if (bytes > limit) return false;
      }
    }
  }
  return bytes <= limit;
}

Status VersionSet::LogAndApply(FamilyVersions* family, VersionEdit* edit) {
  const FamilyEdit one{family, edit};
  return LogAndApply(std::span(&one, 1));
}

uint64_t VersionSet::FirstLogAfter(std::span<const FamilyEdit> edits) const {
  uint64_t first_log = UINT64_MAX;
  for (const FamilyVersions* family : families_) {
    uint64_t log_number = family->log_number_;
    for (const FamilyEdit& part : edits) {
      if (part.family != family) continue;
      if (part.edit->drops_column_family()) log_number = UINT64_MAX;
      log_number = std::max(log_number, part.edit->log_number().value_or(0));
    }
    first_log = std::min(first_log, log_number);
  }
  return prepared_ != nullptr ? prepared_->FirstLog(first_log) : first_log;
}

uint64_t VersionSet::FirstLogToNameLocked(std::span<const FamilyEdit> edits,
                                          bool syncs_directory) {
  const uint64_t first_log = FirstLogAfter(edits);
  if (first_log <= min_log_number_to_keep_) return min_log_number_to_keep_;
  if (syncs_directory) return first_log;
  // A flush has synced the directory after its log was created.
  const bool is_flush =
      std::any_of(edits.begin(), edits.end(), [](const FamilyEdit& part) {
        return part.edit->log_number() && !part.edit->new_files().empty();
      });
  if (is_flush) return first_log;
  mutex()->Unlock();
  // Without it the edit is right, too. A later one names the log.
  const bool is_synced = directory_->Sync().ok();
  mutex()->Lock();
  return is_synced ? first_log : min_log_number_to_keep_;
}

// The counters must not decrease from one record to the next, and each must be
// true even if the records after it are lost. So only the last edit raises the
// first log to keep.
void VersionSet::CompleteEdits(std::span<const FamilyEdit> edits,
                               uint64_t first_log) {
  // relaxed: this thread numbered the edits' own files before.
  const uint64_t next_file_number =
      next_file_number_.load(std::memory_order_relaxed);
  const SequenceNumber last_sequence = LastSequence();
  for (const FamilyEdit& part : edits) {
    if (!part.edit->log_number()) continue;
    part.edit->SetLogNumber(
        std::max(*part.edit->log_number(), part.family->log_number_));
  }
  for (size_t i = 0; i < edits.size(); ++i) {
    VersionEdit* const edit = edits[i].edit;
    const bool is_last = i + 1 == edits.size();
    edit->SetColumnFamily(edits[i].family->id_);
    edit->SetPrevLogNumber(0);
    edit->SetNextFileNumber(next_file_number);
    // An ingestion has the number that it is about to make visible.
    edit->SetLastSequence(
        std::max(last_sequence, edit->last_sequence().value_or(0)));
    if (is_last && first_log > min_log_number_to_keep_) {
      edit->SetMinLogNumberToKeep(first_log);
    }
    if (edits.size() > 1) {
      edit->SetAtomicGroupRemaining(
          static_cast<uint32_t>(edits.size() - i - 1));
    }
  }
}

Status VersionSet::LogAndApply(std::span<const FamilyEdit> edits) {
  mutex()->AssertHeld();
  const LocalSpan span("MANIFEST");
  while (writing_) writing_done_.Wait(mutex());
  for (const FamilyEdit& part : edits) {
    if (part.family->is_dropped_) return FamilyDropped(part.family->name_);
  }
  writing_ = true;
  const bool only_removes = std::all_of(
      edits.begin(), edits.end(),
      [](const FamilyEdit& part) { return part.edit->OnlyRemoves(); });
  // A new MANIFEST takes space, which such edits may be about to free.
  const bool must_be_fresh =
      manifest_ == nullptr || (!only_removes && EditsOutgrowSnapshot());
  // A new MANIFEST is named after a sync of the directory.
  const uint64_t first_log = FirstLogToNameLocked(edits, must_be_fresh);
  bool fresh = must_be_fresh || SnapshotIsCheaperThan(edits.size());
  uint64_t number = fresh ? NewFileNumber() : manifest_number_;
  CompleteEdits(edits, first_log);

  std::vector<std::string> records(edits.size());
  for (size_t i = 0; i < edits.size(); ++i)
    edits[i].edit->EncodeTo(&records[i]);
  std::vector<Version*> versions;  // Parallel to the edits.
  bool in_doubt = false;
  Status status = CheckEdits(edits, records);
  for (const FamilyEdit& part : edits) {
    if (!status.ok()) break;
    LevelFiles levels;
    VersionBuilder builder(part.family->comparator_, part.family->current_);
    status = builder.Apply(*part.edit);
    if (status.ok()) status = builder.Finish(&levels);
    if (!status.ok()) break;
    versions.push_back(new Version(part.family->comparator_,
                                   part.family->table_cache_,
                                   part.family->prefixes_, std::move(levels)));
    versions.back()->RefLocked();
  }
  if (status.ok()) {
    std::vector<std::string> snapshot;
    if (fresh) snapshot = EncodeCurrent(*edits[0].edit->last_sequence());
    mutex()->Unlock();
    if (fresh) status = CreateManifest(number, snapshot, records, &in_doubt);
    if (fresh && !must_be_fresh && status.IsNoSpace() && !in_doubt) {
      fresh = false;
      env_->RemoveFile(ManifestFileName(db_path_, number)).IgnoreError();
      number = manifest_number_;
    }
    if (!fresh) status = AppendEdits(records, only_removes, &in_doubt);
    if (!status.ok()) {
      status = status.Annotate("writing " + ManifestFileName(db_path_, number));
    }
    mutex()->Lock();
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
  } else if (!status.ok() && fresh && versions.size() == edits.size()) {
    // The edits could be applied, so the file may have been created.
    (in_doubt ? doubtful_manifests_ : obsolete_manifests_).push_back(number);
  }
  FinishEdit(edits, versions, status, in_doubt);
  writing_ = false;
  writing_done_.SignalAll();
  return status;
}

Status VersionSet::AppendLastLocked(FamilyVersions* family, VersionEdit* edit) {
  mutex()->AssertHeld();
  while (writing_) writing_done_.Wait(mutex());
  if (manifest_ == nullptr) {
    writing_ = true;
    mutex()->Unlock();
    Status status = WriteLogsEndNote(env_, db_path_, manifest_number_,
                                     edit->logs_end().value_or(0));
    mutex()->Lock();
    writing_ = false;
    writing_done_.SignalAll();
    return status;
  }
  const FamilyEdit one{family, edit};
  CompleteEdits(std::span(&one, 1), min_log_number_to_keep_);
  std::string record;
  edit->EncodeTo(&record);
  Status status = CheckEdits(std::span(&one, 1), {record});
  if (!status.ok()) return status;
  writing_ = true;
  mutex()->Unlock();
  status = manifest_->AddRecord(record, true);
  mutex()->Lock();
  if (manifest_->failed()) manifest_.reset();  // The file's content is unknown.
  writing_ = false;
  writing_done_.SignalAll();
  return status;
}

Status VersionSet::CheckEdits(std::span<const FamilyEdit> edits,
                              const std::vector<std::string>& records) const {
  // The ids and names of live families, if the group changes them.
  std::set<uint32_t> ids;
  std::set<std::string> names;
  std::set<const FamilyVersions*> added;  // By the group.
  const bool changes =
      std::any_of(edits.begin(), edits.end(), [](const FamilyEdit& part) {
        return part.edit->adds_column_family() ||
               part.edit->drops_column_family();
      });
  if (changes) {
    for (const FamilyVersions* const live : families_) {
      ids.insert(live->id_);
      names.insert(live->name_);
    }
  }
  for (size_t i = 0; i < edits.size(); ++i) {
    const FamilyVersions* const family = edits[i].family;
    const VersionEdit& edit = *edits[i].edit;
    const bool adds = edit.adds_column_family();
    // An object of another VersionSet may have an id of this one.
    const bool is_live =
        added.contains(family) || (std::find(families_.begin(), families_.end(),
                                             family) != families_.end() &&
                                   (!changes || ids.contains(family->id_)));
    Status status = CheckFamilyOf(
        edit, {adds ? ids.contains(family->id_) : is_live,
               adds && names.contains(edit.column_family_name()), ids.size()});
    if (status.ok() && adds) {
      added.insert(family);
      ids.insert(family->id_);
      names.insert(edit.column_family_name());
    } else if (status.ok() && edit.drops_column_family()) {
      ids.erase(family->id_);
      names.erase(family->name_);
    }
    const char* const comparator =
        family->comparator_->user_comparator()->Name();
    if (status.ok() && edit.comparator().value_or(comparator) != comparator) {
      status = ComparatorMismatch(*edit.comparator(), comparator);
    }
    if (status.ok()) status = CheckFamilyId(family->id_);
    if (status.ok())
      status = CheckFamilyId(edit.max_column_family().value_or(0));
    if (status.ok()) status = CheckFileNumber(LargestFileNumber(edit));
    if (status.ok()) status = VersionEdit().DecodeFrom(records[i]);
    if (!status.ok()) {
      return status.Annotate("column family " + family->name_ +
                             ": an edit that cannot be read");
    }
  }
  return CheckNewFiles(edits);
}

Status VersionSet::CheckNewFiles(std::span<const FamilyEdit> edits) const {
  std::vector<std::pair<uint64_t, const FamilyVersions*>> added;
  for (const FamilyEdit& part : edits) {
    for (const auto& [level, file] : part.edit->new_files()) {
      added.emplace_back(file.number, part.family);
    }
  }
  if (families_.size() < 2 || added.empty()) return Status::OK();
  std::sort(added.begin(), added.end());
  const auto twice = [](uint64_t number) {
    return Status::Corruption("table " + std::to_string(number) +
                              " is in two column families");
  };
  for (size_t i = 1; i < added.size(); ++i) {
    if (added[i].first == added[i - 1].first) return twice(added[i].first);
  }
  for (const FamilyVersions* const family : families_) {
    for (const auto& files : family->current_->levels()) {
      for (const FileMetaData* const file : files) {
        const auto place =
            std::lower_bound(added.begin(), added.end(), file->number,
                             [](const auto& one, uint64_t number) {
                               return one.first < number;
                             });
        if (place != added.end() && place->first == file->number &&
            place->second != family) {
          return twice(file->number);
        }
      }
    }
  }
  return Status::OK();
}

void VersionSet::FinishEdit(std::span<const FamilyEdit> edits,
                            const std::vector<Version*>& versions,
                            const Status& status, bool in_doubt) {
  for (size_t i = 0; i < versions.size(); ++i) {
    if (status.ok()) {
      FamilyVersions* const family = edits[i].family;
      const VersionEdit& edit = *edits[i].edit;
      if (edit.log_number()) family->SkipLogsLocked(*edit.log_number());
      family->tables_end_ =
          std::max(family->tables_end_, edit.tables_end().value_or(0));
      min_log_number_to_keep_ = std::max(
          min_log_number_to_keep_, edit.min_log_number_to_keep().value_or(0));
      for (const auto& [level, file] : edit.new_files()) CountInSpace(file);
      InstallLocked(family, versions[i]);
      // It is not the last reference.
      UnrefVersionLocked(versions[i]);
    } else {
      UnrefLocked(versions[i], in_doubt ? &doubtful_files_ : &obsolete_files_);
    }
  }
}

Status VersionSet::CreateFamiliesLocked(
    std::span<FamilyVersions* const> families, uint64_t log_number,
    VersionEdit* tables) {
  mutex()->AssertHeld();
  while (writing_) writing_done_.Wait(mutex());
  // No MANIFEST with a larger id can be read.
  if (families.size() > kMaxColumnFamilyId - max_column_family_) {
    return Status::NotSupported("all ids of column families are used up",
                                db_path_);
  }
  std::vector<VersionEdit> edits(families.size());
  std::vector<FamilyEdit> parts;
  for (FamilyVersions* const family : families) {
    // RocksDB expects the files of a family in later edits than the one that
    // adds it, so this edit has none.
    FamilyManifest state;
    state.id = ++max_column_family_;
    state.log_number = log_number;
    VersionEdit& edit = edits[parts.size()];
    edit.AddColumnFamily(family->name());
    edit.SetComparatorName(family->comparator_->user_comparator()->Name());
    edit.SetLogNumber(log_number);
    edit.SetMaxColumnFamily(max_column_family_);
    parts.push_back({family, &edit});
    // A MANIFEST that begins with this edit must not have the family before it.
    family->id_ = state.id;
    family->log_number_ = log_number;
    family->current_ = new Version(family->comparator_, family->table_cache_,
                                   family->prefixes_, std::move(state.levels));
    family->current_->RefLocked();
    live_versions_.push_back(family->current_);
  }
  if (tables != nullptr) {
    // The counters must not decrease from one edit to the next.
    for (VersionEdit& edit : edits) {
      edit.SetLastSequence(tables->last_sequence().value_or(0));
    }
    parts.push_back({families.back(), tables});
  }
  Status status = LogAndApply(parts);
  if (status.ok()) {
    families_.insert(families_.end(), families.begin(), families.end());
  }
  return status;
}

Status VersionSet::DropFamiliesLocked(
    std::span<FamilyVersions* const> families) {
  mutex()->AssertHeld();
  std::vector<VersionEdit> edits(families.size());
  std::vector<FamilyEdit> parts;
  for (FamilyVersions* const family : families) {
    VersionEdit& edit = edits[parts.size()];
    edit.DropColumnFamily();
    edit.SetMaxColumnFamily(max_column_family_);
    parts.push_back({family, &edit});
  }
  Status status = LogAndApply(parts);
  if (!status.ok()) return status;
  for (FamilyVersions* const family : families) family->is_dropped_ = true;
  std::erase_if(families_,
                [](const FamilyVersions* f) { return f->is_dropped_; });
  return status;
}

// ---- For a follower ---------------------------------------------------------

Status VersionSet::BuildFollowedLocked(const FamilyVersions& family,
                                       std::vector<VersionEdit> edits,
                                       Version** version) {
  mutex()->AssertHeld();
  LevelFiles levels;
  VersionBuilder builder(family.comparator_, family.current_);
  Status status;
  for (VersionEdit& edit : edits) {
    if (status.ok()) status = builder.Apply(std::move(edit));
  }
  if (status.ok()) status = builder.Finish(&levels);
  if (!status.ok()) return status;
  *version = new Version(family.comparator_, family.table_cache_,
                         family.prefixes_, std::move(levels));
  (*version)->RefLocked();
  return status;
}

void VersionSet::FollowLocked(FamilyVersions* family, Version* version,
                              uint64_t log_number, SequenceNumber tables_end) {
  if (version != nullptr) InstallLocked(family, version);
  family->log_number_ = log_number;
  family->tables_end_ = tables_end;
}

void VersionSet::FollowDropLocked(FamilyVersions* family) {
  family->is_dropped_ = true;
  std::erase(families_, family);
}

void VersionSet::FollowCountersLocked(const ManifestCounters& counters) {
  MarkFileNumberUsed(counters.next_file_number - 1);
  MarkFileNumberUsed(counters.manifest_number);
  manifest_number_ = counters.manifest_number;
  min_log_number_to_keep_ = counters.min_log_number_to_keep;
  max_column_family_ = std::max(max_column_family_, counters.max_column_family);
  SetDbId(counters.db_id);
}

void VersionSet::TakeOverLocked(Directory* directory, TableSpace* space) {
  directory_ = directory;
  SetSpace(space);
  for (const FamilyVersions* const family : families_) {
    for (const auto& level : family->current_->levels()) {
      for (const FileMetaData* const file : level) CountInSpace(*file);
    }
  }
}

size_t VersionSet::CountVersionsLocked(const FamilyVersions& family) const {
  return static_cast<size_t>(
      std::count_if(live_versions_.begin(), live_versions_.end(),
                    [&family](const Version* version) {
                      return version->table_cache() == family.table_cache();
                    }));
}

uint64_t VersionSet::TotalTableBytesLocked(const FamilyVersions& family) const {
  std::unordered_set<const FileMetaData*> files;
  for (const auto* list : {&obsolete_files_, &doubtful_files_}) {
    for (const ObsoleteTable& table : *list) {
      if (table.table_cache == family.table_cache()) files.insert(table.file);
    }
  }
  for (const Version* version : live_versions_) {
    if (version->table_cache() != family.table_cache()) continue;
    for (const auto& level : version->levels()) {
      files.insert(level.begin(), level.end());
    }
  }
  uint64_t bytes = 0;
  for (const FileMetaData* file : files) bytes += file->file_size;
  return bytes;
}

bool VersionSet::FindManifest(uint64_t* number, uint64_t* size) {
  mutex()->AssertHeld();
  while (writing_) writing_done_.Wait(mutex());
  if (manifest_ == nullptr) return false;
  *number = manifest_number_;
  *size = manifest_->Size();
  return true;
}

Status VersionSet::AppendEdits(const std::vector<std::string>& records,
                               bool only_removes, bool* in_doubt) {
  Status status;
  size_t written = 0;
  while (status.ok() && written < records.size()) {
    status = manifest_->AddRecord(records[written], only_removes);
    // A power failure damages unsynced records independently of each other. So
    // only the last one is unsynced at any time. A damaged one that others
    // follow would count as damage of an edit that was synced.
    if (status.ok()) status = manifest_->Sync();
    if (status.ok()) ++written;
  }
  *in_doubt = manifest_->failed() || (!status.ok() && written > 0);
  if (*in_doubt) manifest_.reset();  // The file's content is unknown.
  return status;
}

Status VersionSet::CreateManifest(uint64_t number,
                                  const std::vector<std::string>& snapshot,
                                  const std::vector<std::string>& records,
                                  bool* in_doubt) {
  *in_doubt = false;  // CURRENT has the old name.
  std::unique_ptr<WritableFile> file;
  Status status = env_->NewWritableFile(ManifestFileName(db_path_, number),
                                        FileOptions(), &file);
  if (!status.ok()) return status;
  auto manifest = std::make_unique<wal::Writer>(
      std::move(file), number,
      wal::WriterOptions{.allocate_bytes = kManifestPieceBytes,
                         .reserve_bytes = kManifestReserveBytes});
  for (const std::string& record : snapshot) {
    if (status.ok()) status = manifest->AddRecord(record, true);
  }
  const uint64_t snapshot_bytes = manifest->Size();
  for (const std::string& record : records) {
    if (status.ok()) status = manifest->AddRecord(record, true);
  }
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

std::vector<std::string> VersionSet::EncodeCurrent(
    SequenceNumber last_sequence) const {
  std::vector<std::string> records;
  for (const FamilyVersions* family : families_) {
    VersionEdit edit;
    if (family->id_ == 0) {
      edit.SetDbId(db_id_);
      edit.SetKeyFolding(key_folding_);
      edit.SetLogsAreFiles();
      edit.SetPrevLogNumber(0);
      edit.SetMinLogNumberToKeep(min_log_number_to_keep_);
      // relaxed: the next record has the numbers that count.
      edit.SetNextFileNumber(next_file_number_.load(std::memory_order_relaxed));
      // RocksDB requires that it does not decrease from one edit to the next.
      // Writers may have continued since the edit was created.
      edit.SetLastSequence(last_sequence);
      if (max_column_family_ != 0) edit.SetMaxColumnFamily(max_column_family_);
    } else {
      // RocksDB ignores the tables of the edit that adds a family.
      VersionEdit add;
      add.SetColumnFamily(family->id_);
      add.AddColumnFamily(family->name_);
      add.SetComparatorName(family->comparator_->user_comparator()->Name());
      add.SetLogNumber(family->log_number_);
      add.EncodeTo(&records.emplace_back());
      edit.SetColumnFamily(family->id_);
    }
    edit.SetComparatorName(family->comparator_->user_comparator()->Name());
    edit.SetLogNumber(family->log_number_);
    edit.SetTablesEnd(family->tables_end_);
    for (int level = 0; level <= family->current_->DeepestLevel(); ++level) {
      for (const FileMetaData* f : family->current_->files(level)) {
        edit.AddFile(level, *f);
      }
    }
    edit.EncodeTo(&records.emplace_back());
  }
  return records;
}

}  // namespace varve
