// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/follower/follower.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "db/follower/moment.h"
#include "db/recovery/foreign_files.h"
#include "db/version/table_preload.h"
#include "db/wal/wal_predecessor.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "table/reader/file_pool.h"
#include "util/bytes/hash.h"

namespace varve {

namespace {

// A primary that is faster than all of these attempts cannot be followed.
constexpr int kMaxAttempts = 200;
// The first attempts go on from where the follower was, later ones read the
// whole database.
constexpr int kShortAttempts = 4;
// The same error this often, with waits of a quarter of a second together, is
// no race with the primary.
constexpr int kMaxSameErrors = 8;
constexpr uint64_t kErrorWaitUs = 1000;

bool MayBeRace(const Status& status) {
  return status.IsNotFound() || status.IsCorruption() ||
         FilePool::IsRemovedError(status);
}

// Returns whether both ids are known, and differ.
bool AreOfTwo(const std::string& a, const std::string& b) {
  return !a.empty() && !b.empty() && a != b;
}

Status MissingLog(const std::string& path, uint64_t number) {
  return Status::NotFound(WalFileName(path, number),
                          "is missing, and the MANIFEST needs it");
}

}  // namespace

Follower::Follower(DbCore& core) : core_(core), path_(core.directory.path()) {}

Follower::~Follower() = default;

void Follower::Close() {
  const MutexLock serial(&serial_);
  manifest_.reset();
  log_.reset();
}

Status Follower::CatchUp() {
  const LocalSpan span("catch up");
  const MutexLock serial(&serial_);
  Status status = CatchUpLocked();
  Free();
  return status;
}

Status Follower::CatchUpToEnd() {
  const MutexLock serial(&serial_);
  is_alone_ = true;
  Status status = CatchUpLocked();
  is_alone_ = false;
  Free();
  if (!status.ok()) return status;
  std::string unopened;
  for (const auto& [id, family] : view_.families()) {
    if (family.opened != nullptr) continue;
    unopened += (unopened.empty() ? "" : ", ") + family.name;
  }
  if (unopened.empty()) return status;
  return Status::InvalidArgument("Column families not opened: " + unopened,
                                 path_);
}

Status Follower::CatchUpLocked() {
  std::string last_error;
  int same_errors = 0;
  Status status;
  for (int attempt = 1; attempt <= kMaxAttempts; ++attempt) {
    status = TryOnce(/*restarts=*/attempt > kShortAttempts);
    if (status.ok() || !MayBeRace(status)) return status;
    // The next attempt opens tables of the same numbers. If these were freed
    // after it, they would close its tables.
    Free();
    std::string error = status.ToString();
    same_errors = error == last_error ? same_errors + 1 : 1;
    last_error = std::move(error);
    if (same_errors == kMaxSameErrors) {
      return status.IsNotFound() ? Status::Corruption(last_error) : status;
    }
    if (same_errors > 1) {
      core_.env->SleepForMicroseconds(kErrorWaitUs << same_errors);
    }
    varve::Log(LogLevel::kInfo, &core_.log,
               "follows again, since it changed: %s", last_error.c_str());
  }
  return Status::Busy(path_,
                      "the primary changes it faster than it can be read: " +
                          status.ToString());
}

Status Follower::TryOnce(bool restarts) {
  Attempt attempt;
  attempt.current_id = CurrentId();
  attempt.restarts =
      restarts || must_restart_ || attempt.current_id != current_id_;
  if (manifest_ != nullptr) manifest_->Return(manifest_end_);
  if (log_ != nullptr) log_->Return(logs_.back().end);
  attempt.next_sequence = next_sequence_;
  Status status = Read(&attempt);
  if (status.ok()) status = MakeVersions(&attempt);
  if (status.ok()) status = Show(&attempt);
  if (status.ok()) Commit(&attempt);
  if (!attempt.versions.empty()) {
    MutexLock lock(core_.mutex());
    for (const auto& [family, version] : attempt.versions) {
      core_.versions->UnrefVersionLocked(version);
    }
  }
  return status;
}

// ---- Reading ----------------------------------------------------------------

// CURRENT is replaced when another MANIFEST begins.
std::optional<FileId> Follower::CurrentId() const {
  FileId id;
  const Status status = core_.env->GetFileId(CurrentFileName(path_), &id);
  if (status.ok()) return id;
  std::string name;
  if (!status.IsNotSupported() ||
      !ReadCurrentFile(core_.env, path_, &name).ok()) {
    return std::nullopt;
  }
  id.number = PreviewXxh3(name);
  return id;
}

// Returns the text of IDENTITY, or "" if there is none.
std::string Follower::ReadIdentity() const {
  std::string text;
  if (!ReadFileToString(core_.env, IdentityFileName(path_), &text).ok()) {
    text.clear();
  }
  return text;
}

Status Follower::Read(Attempt* attempt) {
  Status status;
  if (attempt->restarts) {
    status = ReadWholeManifest(attempt);
    if (status.ok()) {
      status = attempt->updates.MoveToMemTables(*attempt->view, {});
    }
  }
  for (bool first = true; status.ok(); first = false) {
    bool moved = false;
    status = ReadManifest(attempt, &moved);
    if (!status.ok() || (!first && !moved)) break;
    const bool must_list =
        first || attempt->listed.empty() ||
        ViewOf(*attempt).NewestNamedLog() > attempt->listed.back();
    if (must_list) status = ListLogs(attempt);
    if (status.ok() && first) status = CheckNewestLog(attempt);
    if (status.ok()) status = ReadLogs(attempt);
  }
  if (status.ok()) status = CheckComplete(*attempt);
  if (status.ok() && CurrentId() != attempt->current_id) {
    status = Status::NotFound(path_, "the MANIFEST was replaced");
  }
  return status;
}

Status Follower::ReadWholeManifest(Attempt* attempt) {
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(core_.mutex());
    families = core_.families.live();
  }
  ManifestState state;
  Status status = varve::ReadManifest(
      core_.env, path_,
      [&families](const std::string& name) -> const InternalKeyComparator* {
        for (const ColumnFamily* family : families) {
          if (family->name() == name) return &family->comparator();
        }
        return nullptr;
      },
      &state);
  if (!status.ok()) return status;
  bool knows_sequences = true;
  state.ForEachFile([&knows_sequences](const FileMetaData* file) {
    knows_sequences = knows_sequences && !file->sequences_unknown;
  });
  if (!knows_sequences) return ManifestView::LevelDbError();
  // Not every MANIFEST has the id.
  std::string identity = ReadIdentity();
  if (AreOfTwo(state.db_id, view_.db_id) || AreOfTwo(identity, identity_)) {
    return Status::InvalidArgument(
        path_, "another database has replaced the one that is followed");
  }
  if (identity_.empty()) identity_ = std::move(identity);
  attempt->view.emplace();
  attempt->view->Assign(state);
  for (ColumnFamily* const family : families) {
    FamilyManifest* const found = state.FindFamily(family->name());
    // A family that was created again is another one.
    if (found == nullptr || found->id != family->id()) continue;
    ManifestView::Family& mine =
        attempt->view->mutable_families()->at(family->id());
    mine.opened = family;
    VersionEdit edit;
    const Version& version = *family->version();
    for (int level = 0; level < kNumLevels; ++level) {
      const auto& now = found->levels[static_cast<size_t>(level)];
      const auto& before = version.files(level);
      const auto contains = [](const auto& files, const FileMetaData& file) {
        return std::any_of(files.begin(), files.end(),
                           [&file](const FileMetaData* other) {
                             return other->number == file.number &&
                                    other->Identity() == file.Identity();
                           });
      };
      for (const FileMetaData* file : before) {
        if (!contains(now, *file)) edit.RemoveFile(level, file->number);
      }
      for (const FileMetaData* file : now) {
        if (!contains(before, *file)) edit.AddFile(level, *file);
      }
    }
    if (!edit.new_files().empty() || !edit.deleted_files().empty()) {
      mine.edits.push_back(std::move(edit));
    }
  }
  status =
      LogTail::Open(core_.env, ManifestFileName(path_, state.manifest_number),
                    state.manifest_number, &attempt->manifest);
  if (status.ok()) attempt->manifest->Return(state.manifest_end);
  return status;
}

Status Follower::ReadManifest(Attempt* attempt, bool* moved) {
  *moved = false;
  LogTail* const tail =
      attempt->restarts ? attempt->manifest.get() : manifest_.get();
  for (Slice record;;) {
    switch (tail->Read(/*waits=*/!is_alone_, &record)) {
      case LogTail::Next::kEnd:
      case LogTail::Next::kTorn:
        return Status::OK();
      case LogTail::Next::kError:
        return tail->status();
      case LogTail::Next::kRecord:
        break;
    }
    *moved = true;
    if (!attempt->view) attempt->view = view_;
    Status status = attempt->view->Add(record);
    if (!status.ok()) {
      return status.Annotate(ManifestFileName(path_, tail->number()));
    }
  }
}

Status Follower::ListLogs(Attempt* attempt) const {
  attempt->listed.clear();
  std::vector<std::string> names;
  Status status = core_.env->GetChildren(path_, &names);
  if (!status.ok()) return status;
  const ManifestView& view = ViewOf(*attempt);
  const uint64_t first = view.FirstLog();
  const uint64_t known = log_ != nullptr && !attempt->restarts
                             ? log_->number()
                             : view.NewestNamedLog();
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(name, &number, &type) || type != FileKind::kWal ||
        number < first) {
      continue;
    }
    // A file of another program may have such a name.
    if (number > known && number > view.next_file_number &&
        IsForeignFile(core_.env, path_ + "/" + name, type, number,
                      view.next_file_number)) {
      continue;
    }
    attempt->listed.push_back(number);
  }
  std::sort(attempt->listed.begin(), attempt->listed.end());
  return status;
}

// An Open of a closed database without updates in its log creates the log anew,
// and changes no other file.
Status Follower::CheckNewestLog(Attempt* attempt) {
  if (attempt->restarts || log_ == nullptr ||
      log_->number() < ViewOf(*attempt).FirstLog()) {
    return Status::OK();
  }
  bool same = false;
  Status status = log_->IsSameFile(&same);
  if (!status.ok() || same) return status;
  if (log_has_updates_) {
    must_restart_ = true;
    return Status::NotFound(WalFileName(path_, log_->number()),
                            "it was replaced");
  }
  const uint64_t number = log_->number();
  log_.reset();
  status = LogTail::Open(core_.env, WalFileName(path_, number), number, &log_);
  if (status.ok()) {
    logs_.back().end = 0;
  } else {
    must_restart_ = true;
  }
  return status;
}

LogTail* Follower::FindTail(Attempt* attempt, uint64_t number, Status* status) {
  if (!attempt->restarts && log_ != nullptr && log_->number() == number) {
    return log_.get();
  }
  for (const auto& tail : attempt->tails) {
    if (tail->number() == number) return tail.get();
  }
  std::unique_ptr<LogTail> tail;
  *status = LogTail::Open(core_.env, WalFileName(path_, number), number, &tail);
  if (!status->ok()) return nullptr;
  attempt->tails.push_back(std::move(tail));
  return attempt->tails.back().get();
}

Status Follower::ReadLogs(Attempt* attempt) {
  uint64_t from = ViewOf(*attempt).FirstLog();
  // The newest one that was read may have grown since.
  if (!attempt->logs.empty()) {
    from = std::max(from, attempt->logs.back().number);
  } else if (!attempt->restarts && log_ != nullptr) {
    from = std::max(from, log_->number());
  }
  const std::vector<uint64_t> listed = attempt->listed;
  for (const uint64_t number : listed) {
    if (number < from) continue;
    Status status;
    LogTail* const tail = FindTail(attempt, number, &status);
    if (status.ok()) status = ReadLog(attempt, tail, number == listed.back());
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status Follower::ReadLog(Attempt* attempt, LogTail* tail, bool is_newest) {
  if (attempt->logs.empty() || attempt->logs.back().number != tail->number()) {
    attempt->newest_has_updates = tail == log_.get() && log_has_updates_;
  }
  bool first = tail->end() == 0;
  bool torn = false;
  for (Slice record;;) {
    const LogTail::Next next =
        tail->Read(/*waits=*/is_newest && !is_alone_, &record);
    if (next == LogTail::Next::kError) return tail->status();
    torn = next == LogTail::Next::kTorn;
    if (next != LogTail::Next::kRecord) break;
    Status status = TakeRecord(attempt, *tail, record, first);
    if (!status.ok())
      return status.Annotate(WalFileName(path_, tail->number()));
    first = false;
  }
  if (!first) attempt->is_torn = torn;
  if (attempt->logs.empty() || attempt->logs.back().number != tail->number()) {
    attempt->logs.push_back({tail->number(), tail->end()});
  }
  attempt->logs.back().end = tail->end();
  if (torn && is_alone_ &&
      core_.options.wal_recovery_mode ==
          WalRecoveryMode::kAbsoluteConsistency) {
    return tail->status();
  }
  return Status::OK();
}

Status Follower::TakeRecord(Attempt* attempt, const LogTail& tail,
                            const Slice& record, bool first) {
  BatchReader batch;
  Status status = batch.Init(record);
  if (status.ok() && first) status = CheckContinues(*attempt, tail, record);
  if (!status.ok()) return status;
  if (first) attempt->is_torn = false;
  const ManifestView& view = ViewOf(*attempt);
  bool updates = false;
  status = CheckRecord(record, tail.number(), view, &updates);
  if (!status.ok()) return status;
  attempt->newest_has_updates = attempt->newest_has_updates || updates;
  attempt->next_sequence =
      std::max(attempt->next_sequence, batch.sequence() + batch.count());
  return attempt->updates.Add(record, tail.number(), view, core_.prepared);
}

Status Follower::CheckContinues(const Attempt& attempt, const LogTail& tail,
                                const Slice& record) const {
  Log before = {0, 0};
  // The log itself may be among them, without a record.
  const auto find_before = [&](const std::vector<Log>& logs) {
    for (const Log& log : logs) {
      if (log.number < tail.number()) before = log;
    }
  };
  if (!attempt.restarts) find_before(logs_);
  find_before(attempt.logs);
  const uint64_t first_log = ViewOf(attempt).FirstLog();
  const auto note = WalPredecessor::Decode(record);
  if (note) {
    if (note->log != 0 && note->log != tail.number()) {
      return Status::Corruption("it is a copy of log " +
                                std::to_string(note->log));
    }
    // A log whose updates are all in tables need not exist.
    if (note->number < first_log) return Status::OK();
    if (note->number == before.number && note->size <= before.end) {
      return Status::OK();
    }
    return Status::Corruption("it does not follow the log before it: log " +
                              std::to_string(note->number) + " had " +
                              std::to_string(note->size) + " bytes");
  }
  BatchReader batch;
  Status status = batch.Init(record);
  if (!status.ok() || before.number < first_log) return status;
  const bool joins = batch.sequence() == attempt.next_sequence;
  if (attempt.is_torn && !joins) {
    return Status::Corruption("it does not go on where log " +
                              std::to_string(before.number) +
                              " ends, which is damaged");
  }
  if (joins) return status;
  // A log that was created while the directory was listed may be missing in
  // the list although later ones are there.
  Attempt again;
  again.restarts = attempt.restarts;
  again.view = ViewOf(attempt);
  status = ListLogs(&again);
  if (!status.ok()) return status;
  const auto missed = std::find_if(
      again.listed.begin(), again.listed.end(), [&](uint64_t number) {
        return number > before.number && number < tail.number();
      });
  return missed == again.listed.end()
             ? status
             : Status::NotFound("log " + std::to_string(*missed),
                                "was not in the listing");
}

Status Follower::CheckComplete(const Attempt& attempt) const {
  const ManifestView& view = ViewOf(attempt);
  if (!view.logs_are_files) return Status::OK();  // RocksDB names others.
  const uint64_t first = view.FirstLog();
  const uint64_t newest = view.NewestNamedLog();
  for (const uint64_t number : {first, newest}) {
    if (number == 0 || number == UINT64_MAX) continue;
    if (attempt.listed.empty() || attempt.listed.back() < number ||
        (number == first && !std::binary_search(attempt.listed.begin(),
                                                attempt.listed.end(), first))) {
      return MissingLog(path_, number);
    }
  }
  // The database was closed.
  if (view.logs_end.value_or(0) >= attempt.next_sequence &&
      view.logs_end.value_or(0) > 0) {
    return Status::Corruption(path_, "its logs end before update " +
                                         std::to_string(*view.logs_end) +
                                         ", with which it was closed");
  }
  return Status::OK();
}

// ---- Showing ----------------------------------------------------------------

Status Follower::MakeVersions(Attempt* attempt) {
  if (!attempt->view) return Status::OK();
  Status status;
  std::vector<std::pair<ColumnFamily*, Version*>> before;
  {
    MutexLock lock(core_.mutex());
    for (auto& [id, family] : *attempt->view->mutable_families()) {
      if (family.opened == nullptr || family.edits.empty() || !status.ok()) {
        continue;
      }
      Version* version = nullptr;
      status = core_.versions->BuildFollowedLocked(
          *family.opened->versions(), std::exchange(family.edits, {}),
          &version);
      if (!status.ok()) {
        status = status.Annotate("column family " + family.name);
        break;
      }
      before.emplace_back(family.opened, family.opened->version());
      attempt->versions.emplace_back(family.opened, version);
    }
  }
  for (size_t i = 0; i < before.size() && status.ok(); ++i) {
    status = HoldTables(before[i].first, *before[i].second,
                        *attempt->versions[i].second);
  }
  return status;
}

// Opens the tables that are new, so that the primary may remove them.
Status Follower::HoldTables(ColumnFamily* family, const Version& before,
                            const Version& after) {
  std::unordered_set<const FileMetaData*> known;
  for (const auto& files : before.levels()) {
    known.insert(files.begin(), files.end());
  }
  std::vector<FileMetaData*> added;
  for (const auto& files : after.levels()) {
    for (FileMetaData* const file : files) {
      if (!known.contains(file)) added.push_back(file);
    }
  }
  TableCache* const cache = family->table_cache();
  if (core_.options.paranoid_checks) return PreloadTables(cache, added);
  for (const FileMetaData* const file : added) {
    std::shared_ptr<Table> table;
    Status status = cache->FindDescription(file->table_file(), &table);
    // Reads report a damaged table.
    if (FilePool::IsRemovedError(status)) return status;
  }
  return Status::OK();
}

Status Follower::Show(Attempt* attempt) {
  StagedUpdates& updates = attempt->updates;
  const ManifestView& view = ViewOf(*attempt);
  const bool has_new_log =
      !attempt->logs.empty() &&
      (log_ == nullptr || attempt->logs.back().number != log_->number());
  const bool grows = !updates.empty() && !updates.in_memtables() &&
                     log_ != nullptr && updates.OnlyLog() == log_->number() &&
                     !(attempt->view && view.brings_entries());
  Status status;
  if (grows) {
    PreparedSet prepared = core_.prepared;
    // By the numbers of the present versions.
    status = updates.AddToCurrent(view_, &prepared);
    MutexLock lock(core_.mutex());
    core_.prepared = std::move(prepared);
    if (!status.ok()) {
      must_restart_ = true;
      return status;
    }
    core_.versions->SetLastSequence(
        std::max(core_.versions->LastSequence(), updates.last_sequence()));
  } else if (!updates.empty()) {
    status = updates.MoveToMemTables(view, core_.prepared);
    if (!status.ok()) return status;
  }
  if (attempt->view || has_new_log || (!grows && !updates.empty())) {
    MutexLock lock(core_.mutex());
    TurnLocked(attempt);
  }
  return status;
}

void Follower::DropFamiliesLocked(const ManifestView& view) {
  const std::vector<ColumnFamily*> families = core_.families.live();
  for (ColumnFamily* const family : families) {
    const auto found = view.families().find(family->id());
    if (found != view.families().end() && found->second.opened == family) {
      continue;
    }
    if (family == &core_.default_family) continue;
    varve::Log(LogLevel::kInfo, &core_.log,
               "column family %s, id %u, was dropped", family->name().c_str(),
               family->id());
    family->SetDroppedLocked();
    core_.versions->FollowDropLocked(family->versions());
    core_.families.DropLocked(family);
  }
}

std::vector<MemTable*> Follower::ReplaceMemTablesLocked(
    ColumnFamily* family, uint64_t log_number,
    const std::vector<MemTable*>& added, bool restarts, uint64_t newest) {
  FamilyMemtables& memtables = family->memtables();
  MemTable* const current = memtables.current();
  std::vector<MemTable*> kept;
  if (!restarts) {
    kept = memtables.immutable();
    kept.push_back(current);
    std::erase_if(kept, [log_number](const MemTable* memtable) {
      return memtable->empty() || memtable->wal_number() < log_number;
    });
  }
  for (MemTable* const memtable : added) {
    if (memtable->wal_number() >= log_number) {
      kept.push_back(memtable);
    } else if (memtable->Unref()) {
      delete memtable;  // A later edit says that tables have it.
    }
  }
  MemTable* next = nullptr;
  if (!kept.empty() && kept.back()->wal_number() == newest) {
    next = kept.back();
    kept.pop_back();
  } else if (current->empty()) {
    next = current;
    next->SetWalNumber(newest);
  } else {
    next = memtables.New(newest, core_.families.live().size());
  }
  return memtables.ReplaceLocked(next, std::move(kept));
}

void Follower::TurnLocked(Attempt* attempt) {
  const ManifestView& view = ViewOf(*attempt);
  const bool restarts = attempt->restarts;
  const uint64_t newest = !attempt->logs.empty() ? attempt->logs.back().number
                          : log_ != nullptr      ? log_->number()
                                                 : 0;
  if (attempt->view) DropFamiliesLocked(view);
  StagedUpdates::MemTables added = attempt->updates.TakeMemTables();
  const std::vector<ColumnFamily*> families = core_.families.live();
  std::vector<std::pair<ColumnFamily*, std::vector<MemTable*>>> dropped;
  std::unordered_set<ColumnFamily*> changed;
  for (ColumnFamily* const family : families) {
    const ManifestView::Family& followed = view.families().at(family->id());
    const MemTable* const current = family->memtable();
    const size_t count = family->memtables().immutable().size();
    dropped.emplace_back(
        family, ReplaceMemTablesLocked(family, followed.log_number,
                                       added[family->id()], restarts, newest));
    added.erase(family->id());
    if (family->memtable() != current || !dropped.back().second.empty() ||
        family->memtables().immutable().size() != count) {
      changed.insert(family);
    }
    Version* version = nullptr;
    for (const auto& [other, its_version] : attempt->versions) {
      if (other == family) version = its_version;
    }
    if (version != nullptr) changed.insert(family);
    core_.versions->FollowLocked(family->versions(), version,
                                 followed.log_number, followed.tables_end);
  }
  for (const auto& [id, memtables] : added) {
    for (MemTable* const memtable : memtables) {
      if (memtable->Unref()) delete memtable;  // Of a family that was dropped.
    }
  }
  if (attempt->updates.in_memtables()) {
    core_.prepared = std::move(*attempt->updates.prepared());
  }
  core_.prepared.Forget(view.FirstLog());
  core_.versions->FollowCountersLocked(view);
  // A restart may lead to a state that lacks the last updates, if the primary
  // has lost them.
  SequenceNumber last =
      std::max(view.last_sequence, attempt->updates.last_sequence());
  if (!restarts) last = std::max(last, core_.versions->LastSequence());
  core_.versions->SetLastSequence(last);
  if (changed.empty()) return;
  for (ColumnFamily* const family : families) {
    if (family != &core_.default_family && changed.contains(family)) {
      family->InstallSuperVersionLocked(/*closed=*/false);
    }
  }
  // Last, since it has the others.
  core_.default_family.InstallSuperVersionLocked(
      /*closed=*/false, NewMomentLocked(&core_.families));
  for (const auto& [family, memtables] : dropped) {
    family->memtables().RetireLocked(memtables);
  }
}

void Follower::Commit(Attempt* attempt) {
  if (attempt->view) {
    view_ = std::move(*attempt->view);
    view_.ForgetEdits();
  }
  if (attempt->restarts) {
    manifest_ = std::move(attempt->manifest);
    log_.reset();
    logs_.clear();
  }
  manifest_end_ = manifest_->end();
  current_id_ = attempt->current_id;
  must_restart_ = false;
  next_sequence_ = attempt->next_sequence;
  if (!attempt->logs.empty()) {
    const uint64_t newest = attempt->logs.back().number;
    if (log_ == nullptr || log_->number() != newest) {
      for (auto& tail : attempt->tails) {
        if (tail->number() == newest) log_ = std::move(tail);
      }
    }
    log_has_updates_ = attempt->newest_has_updates;
    std::erase_if(logs_, [attempt](const Log& log) {
      return log.number >= attempt->logs.front().number;
    });
    logs_.insert(logs_.end(), attempt->logs.begin(), attempt->logs.end());
  }
  const uint64_t first = view_.FirstLog();
  // The newest one stays: the next one names it.
  while (logs_.size() > 1 && logs_.front().number < first) {
    logs_.erase(logs_.begin());
  }
}

void Follower::Free() {
  std::vector<VersionSet::ObsoleteTable> tables;
  std::vector<std::unique_ptr<ColumnFamily>> families;
  std::vector<MemTable*> memtables;
  {
    MutexLock lock(core_.mutex());
    families = core_.families.TakeDeadLocked();
  }
  for (const auto& family : families) family->Close();
  {
    MutexLock lock(core_.mutex());
    for (const auto& family : families) {
      core_.versions->RemoveFamilyLocked(family->versions());
    }
    tables.swap(*core_.versions->obsolete_files());
    memtables = core_.obsolete.TakeMemTablesLocked();
  }
  for (MemTable* const memtable : memtables) delete memtable;
  for (const auto& [file, table_cache] : tables) {
    if (table_cache != nullptr) table_cache->Evict(file->number);
    delete file;
  }
}

}  // namespace varve
