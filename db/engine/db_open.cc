// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Opening: the parts of a DB are made, what is on disk is recovered, and the
// first edits are written.

#include <algorithm>
#include <set>
#include <utility>

#include "db/engine/db_impl.h"
#include "db/engine/db_open.h"
#include "db/family/common_errors.h"
#include "db/folding/folding_db.h"
#include "db/folding/key_case.h"
#include "db/follower/follower.h"
#include "db/jobs/job_events.h"
#include "db/options/options_check.h"
#include "db/recovery/leftovers.h"
#include "db/recovery/leveldb_guard.h"
#include "db/recovery/unlocked_recovery.h"
#include "db/version/edit_rules.h"
#include "db/version/manifest_reader.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "util/base/experiment.h"
#include "util/threads/memory_account.h"

namespace varve {

namespace {

// A database is quiet when nothing was written for this time.
constexpr uint64_t kQuietUs = 5 * 1000 * 1000;

// The wall clock is looked at this often.
constexpr uint64_t kAgeStepUs = uint64_t{10} * 60 * 1000 * 1000;

Options Sanitize(const Options& given) {
  Options options = given;
  RaiseNumbers(&options);
  MakeSharedParts(&options);
  return options;
}

enum class OpenMode : uint8_t { kWrite, kRead, kFollow };

// Opens a database with the default family's options in `options`.
Status OpenDb(const Options& options, const std::string& path, OpenMode mode,
              const std::vector<ColumnFamilyDescriptor>& others,
              std::unique_ptr<DB>* db, DBImpl** impl) {
  db->reset();
  Status status = CheckOptions(options);
  for (const ColumnFamilyDescriptor& other : others) {
    if (!status.ok()) break;
    status = CheckOptions(Options(options, other.options));
    if (!status.ok()) status = status.Annotate("column family " + other.name);
  }
  if (!status.ok()) return status;
  auto opened =
      std::make_unique<DBImpl>(options, path, mode != OpenMode::kWrite);
  if (mode == OpenMode::kFollow) opened->Follow();
  status = opened->Open(/*name_is_safe=*/false, others);
  if (!status.ok()) return status;
  if (impl != nullptr) *impl = opened.get();
  *db = WithFolding(std::move(opened), options);
  return status;
}

Status OpenFamilies(const DBOptions& options, const std::string& path,
                    OpenMode mode,
                    const std::vector<ColumnFamilyDescriptor>& families,
                    std::vector<ColumnFamilyHandle*>* handles,
                    std::unique_ptr<DB>* db) {
  db->reset();
  handles->clear();
  const ColumnFamilyDescriptor* default_family = nullptr;
  std::vector<ColumnFamilyDescriptor> others;
  std::set<std::string> names;
  for (const ColumnFamilyDescriptor& family : families) {
    if (!names.insert(family.name).second) {
      return Status::InvalidArgument("column family " + family.name,
                                     "is given twice");
    }
    if (family.name == kDefaultColumnFamilyName) {
      default_family = &family;
    } else if (family.name.empty()) {
      return Status::InvalidArgument("a column family has no name");
    } else {
      others.push_back(family);
    }
  }
  if (default_family == nullptr) {
    return Status::InvalidArgument("Default column family not specified");
  }
  DBImpl* impl = nullptr;
  Status status = OpenDb(Options(options, default_family->options), path, mode,
                         others, db, &impl);
  if (!status.ok()) return status;
  for (const ColumnFamilyDescriptor& family : families) {
    handles->push_back(impl->NewHandle(family.name));
  }
  return status;
}

// Returns an error if no database may be opened, or written to, here.
Status CheckFound(const RecoveredState& state, const Options& options,
                  const std::string& path, bool read_only) {
  if (!state.exists) {
    if (!options.create_if_missing || read_only)
      return NoDatabase(path, read_only);
  } else if (options.error_if_exists) {
    return Status::InvalidArgument(path,
                                   "exists already (error_if_exists is true)");
  }
  if (!read_only &&
      std::max(state.largest_file_number, state.manifest.next_file_number) >
          kMaxFileNumber - kSpareFileNumbers) {
    return Status::Corruption(path, "its file numbers are used up");
  }
  return Status::OK();
}

// Returns the files that the database needs. All others of its kind may be
// removed.
LiveFiles LiveFilesLocked(VersionSet* versions, uint64_t next_file_number,
                          std::set<std::string> foreign)
    VARVE_REQUIRES(kDbMutex) {
  LiveFiles live;
  for (const FamilyVersions* family : versions->families()) {
    for (const auto& files : family->current()->levels()) {
      for (const FileMetaData* file : files) {
        live.tables.push_back(file->number);
      }
    }
  }
  std::sort(live.tables.begin(), live.tables.end());
  live.manifest_number = versions->manifest_number();
  live.log_number = versions->FirstLogNumberLocked();
  live.next_file_number = next_file_number;
  live.foreign = std::move(foreign);
  return live;
}

// Directs the info log to the target in the options. Adds the old name of an
// existing file LOG to `old_logs`.
void OpenInfoLog(const Options& options, const DbDirectory& place,
                 bool read_only, BufferingLogger* log,
                 std::vector<std::string>* old_logs) {
  std::shared_ptr<Logger> target = options.info_log;
  if (target == nullptr && !read_only) {
    const std::string path = InfoLogFileName(place.path());
    // Named by the date.
    const std::string old =
        OldInfoLogFileName(place.path(), place.env()->NowMicros());
    // Losing an old log is no reason to refuse a database.
    if (place.env()->RenameFile(path, old).ok()) {
      old_logs->push_back(old.substr(old.rfind('/') + 1));
    }
    // Nor is the lack of a new one.
    place.env()->NewLogger(path, &target).IgnoreError();
  }
  log->SetTarget(std::move(target));
  Log(LogLevel::kInfo, log, "Varve opened %s", place.path().c_str());
  if (place.LockCaveat() != nullptr) {
    Log(LogLevel::kWarn, log, "LOCK is %s", place.LockCaveat());
  }
}

// Returns the options with an info log in that directory, unless they have one.
DBOptions WithSecondaryLog(const DBOptions& options,
                           const std::string& secondary_path) {
  DBOptions mine = options;
  if (mine.info_log != nullptr || mine.env == nullptr ||
      secondary_path.empty()) {
    return mine;
  }
  // The lack of an info log is no reason to refuse a database.
  mine.env->CreateDirIfMissing(secondary_path).IgnoreError();
  // Named by the date.
  const std::string old =
      OldInfoLogFileName(secondary_path, mine.env->NowMicros());
  mine.env->RenameFile(InfoLogFileName(secondary_path), old).IgnoreError();
  mine.env->NewLogger(InfoLogFileName(secondary_path), &mine.info_log)
      .IgnoreError();
  return mine;
}

std::vector<RecoveryFlush::Family> FlushedFamilies(
    const std::vector<ColumnFamily*>& families) {
  std::vector<RecoveryFlush::Family> flushed;
  for (ColumnFamily* const family : families) {
    flushed.push_back({family->output_context(), family->versions()});
  }
  return flushed;
}

}  // namespace

Status DB::Open(const Options& options, const std::string& path,
                std::unique_ptr<DB>* db) {
  return OpenDb(options, path, OpenMode::kWrite, {}, db, nullptr);
}

Status DB::OpenForReadOnly(const Options& options, const std::string& path,
                           std::unique_ptr<DB>* db) {
  return OpenDb(options, path, OpenMode::kRead, {}, db, nullptr);
}

Status DB::Open(const DBOptions& options, const std::string& path,
                const std::vector<ColumnFamilyDescriptor>& families,
                std::vector<ColumnFamilyHandle*>* handles,
                std::unique_ptr<DB>* db) {
  return OpenFamilies(options, path, OpenMode::kWrite, families, handles, db);
}

Status DB::OpenForReadOnly(const DBOptions& options, const std::string& path,
                           const std::vector<ColumnFamilyDescriptor>& families,
                           std::vector<ColumnFamilyHandle*>* handles,
                           std::unique_ptr<DB>* db) {
  return OpenFamilies(options, path, OpenMode::kRead, families, handles, db);
}

Status DB::OpenAsSecondary(const Options& options, const std::string& path,
                           const std::string& secondary_path,
                           std::unique_ptr<DB>* db) {
  const Options mine(WithSecondaryLog(options, secondary_path), options);
  Status status = OpenDb(mine, path, OpenMode::kFollow, {}, db, nullptr);
  if (status.ok()) status = (*db)->TryCatchUpWithPrimary();
  if (!status.ok()) db->reset();
  return status;
}

Status DB::OpenAsSecondary(const DBOptions& options, const std::string& path,
                           const std::string& secondary_path,
                           const std::vector<ColumnFamilyDescriptor>& families,
                           std::vector<ColumnFamilyHandle*>* handles,
                           std::unique_ptr<DB>* db) {
  Status status = OpenFamilies(WithSecondaryLog(options, secondary_path), path,
                               OpenMode::kFollow, families, handles, db);
  if (!status.ok()) return status;
  status = (*db)->TryCatchUpWithPrimary();
  if (status.ok()) return status;
  for (ColumnFamilyHandle* const handle : *handles) delete handle;
  handles->clear();
  db->reset();
  return status;
}

Status DB::ListColumnFamilies(const DBOptions& options, const std::string& path,
                              std::vector<std::string>* names) {
  names->clear();
  if (options.env == nullptr) return Status::InvalidArgument("env is null");
  // A writer may replace the MANIFEST in the meantime.
  constexpr int kTries = 10;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    if (!options.env->FileExists(CurrentFileName(path)).ok()) {
      return NoDatabase(path, /*read_only=*/true);
    }
    ManifestState state;
    status = ReadManifest(options.env, path, ForAllFamilies(nullptr), &state);
    if (!status.ok()) continue;
    for (const auto& family : state.families) names->push_back(family->name);
    return status;
  }
  return status;
}

std::unique_ptr<FilePool> DBImpl::NewFilePool(const Options& options) {
  const Options sane = Sanitize(options);
  return std::make_unique<FilePool>(sane.env, TableFileOptions(sane),
                                    sane.max_open_files,
                                    StatisticsImpl::Of(sane.statistics.get()));
}

DBImpl::DBImpl(const Options& options, const std::string& path, bool read_only,
               FilePool* file_pool)
    : core_(Sanitize(options), path, read_only, file_pool,
            {[this] { flusher_.RunJob(); }, [this] { compactor_.RunJob(); },
             [this] { cleanup_.RunJob(); },
             [this](ColumnFamily* family) { flusher_.RequestSwitch(family); },
             [this] { TryToResume(); }, [this] { return Resume(); },
             [this]() VARVE_REQUIRES(kDbMutex) { TakeOverLocked(true); },
             [this]() VARVE_REQUIRES(kDbMutex) {
               if (WatchesQuietLocked()) quiet_watch_.StartLocked();
             }}),
      handles_(std::make_shared<FamilyHandles>(this, &core_)),
      default_handle_(std::make_unique<FamilyHandle>(&core_.default_family,
                                                     handles_, false)),
      flusher_(core_),
      admission_(core_, flusher_),
      compactor_(core_),
      reader_(core_),
      cleanup_(core_, flusher_, reader_),
      quiet_watch_(
          core_.env, core_.mutex(), &core_.scheduler, kQuietUs,
          {[this]() VARVE_REQUIRES(kDbMutex) { return WatchesQuietLocked(); },
           [this] { return core_.versions->LastSequence(); },
           [this] { FlushInQuiet(); }}),
      age_watch_(
          core_.env, core_.mutex(), &core_.scheduler, kAgeStepUs,
          {[this]() VARVE_REQUIRES(kDbMutex) { return ShortestAgeLocked(); },
           [this]() VARVE_REQUIRES(kDbMutex) {
             return std::min(core_.picker.NextDueTimeLocked(),
                             core_.archive.next_due_s());
           },
           [this]() VARVE_REQUIRES(kDbMutex) {
             core_.jobs.StartDueLocked();
             core_.jobs.PurgeLaterLocked();
           }}),
      options_files_(core_.env, core_.directory.path()) {
  const ExperimentFlags& flags = ExperimentFlagsOf(core_.options);
  if (flags.counts_memory_atomically) SetMemoryAccountingAtomic(true);
  SetClockMode(flags.trace_clock);
  TraceCollector::Get().SetCollectMode(flags.trace_collect);
}

ColumnFamilyHandle* DBImpl::NewHandle(const std::string& name) {
  ColumnFamily* family = nullptr;
  {
    MutexLock lock(core_.mutex());
    family = core_.families.Find(name);
  }
  return new FamilyHandle(family, handles_, true);
}

ColumnFamilyHandle* DBImpl::NewHandle(uint32_t id) {
  ColumnFamily* family = nullptr;
  {
    MutexLock lock(core_.mutex());
    family = core_.families.Find(id);
    if (family == nullptr) return nullptr;
    family->Ref();  // Another thread may drop it.
  }
  auto* const handle = new FamilyHandle(family, handles_, true);
  MutexLock lock(core_.mutex());
  core_.families.UnrefLocked(family);
  return handle;
}

Status DBImpl::Open(bool name_is_safe,
                    const std::vector<ColumnFamilyDescriptor>& others) {
  const RequestSpan span("DB::Open");
  std::vector<std::unique_ptr<ColumnFamily>> families;
  for (const ColumnFamilyDescriptor& other : others) {
    families.push_back(core_.NewFamily(other.name, other.options));
  }
  DbOpening opening(core_, std::move(families));
  Status status;
  if (!core_.is_read_only) {
    status =
        core_.directory.Open(name_is_safe, core_.options.create_if_missing);
  } else {
    core_.directory.OpenForReading();
  }
  if (status.ok()) status = opening.Recover();
  if (status.ok()) {
    {
      const MutexLock alone(&options_files_mutex_);
      options_files_.Found(opening.TakeOptionsFiles());
    }
    const LocalSpan install("install");
    MutexLock lock(core_.mutex());
    status = opening.InstallLocked();
    if (status.ok() && !core_.is_read_only) status = BeginLocked(&opening);
  }
  if (status.ok()) return status;
  opening.Abandon();  // While the directory is locked.
  core_.mutex()->Lock();
  core_.control.SetClosingLocked();
  // An error may have started the thread that resumes.
  StopJobsLocked();
  core_.scheduler.DropQueuedLocked();
  WaitForBackgroundLocked();
  core_.mutex()->Unlock();
  core_.directory.Unlock().IgnoreError();  // Open failed already.
  return status;
}

// Begins the work of a database that was opened for writing. May release the
// mutex and reacquire it.
Status DBImpl::BeginLocked(DbOpening* opening) {
  auto missing = opening->TakeMissing();
  if (!missing.empty()) {
    Status status = AddFamiliesLocked(std::move(missing));
    if (!status.ok()) return status;
  }
  opening->RemoveLeftoversLocked();
  core_.mutex()->Unlock();
  UpdateOptionsFile();
  core_.mutex()->Lock();
  StartBackgroundLocked();
  return Status::OK();
}

void DBImpl::StartBackgroundLocked() {
  RaiseThreadsLocked();
  age_watch_.StartLocked();
  core_.jobs.StartDueLocked();
  core_.events.DeliverLocked();
  for (ColumnFamily* const family : core_.families.live())
    family->memtables().JoinBudget();
}

void DBImpl::RaiseThreadsLocked() {
  for (const auto priority : {Env::Priority::kLow, Env::Priority::kMedium}) {
    core_.env->RaiseBackgroundThreads(
        MaxCompactions(core_.options) * core_.options.max_subcompactions,
        priority);
  }
  // Flushes have their own threads, so that no compaction delays them. Two more
  // threads remove files, and examine what readers walked over.
  core_.env->RaiseBackgroundThreads(2 + MaxFlushes(core_.options),
                                    Env::Priority::kHigh);
}

// ---- DbOpening --------------------------------------------------------------

DbOpening::DbOpening(DbCore& core,
                     std::vector<std::unique_ptr<ColumnFamily>> others)
    : core_(core),
      others_(std::move(others)),
      flush_(FlushedFamilies(All()), core.versions.get()) {}

DbOpening::~DbOpening() {
  state_.reset();  // Its memtables point to the families.
  for (const auto& family : others_) family->Close();
  MutexLock lock(core_.mutex());
  for (const auto& family : others_) {
    core_.versions->RemoveFamilyLocked(family->versions());
  }
}

// Returns the families, the default one first.
std::vector<ColumnFamily*> DbOpening::All() const {
  std::vector<ColumnFamily*> families = {&core_.default_family};
  for (const auto& family : others_) families.push_back(family.get());
  return families;
}

Status DbOpening::Recover() {
  Status status = ReadFiles();
  if (!status.ok()) return status;
  if (state_->logs_incomplete) {
    RecordTick(core_.stats, Ticker::kLogsIncomplete);
  }
  OpenInfoLog(core_.options, core_.directory, core_.is_read_only, &core_.log,
              &state_->old_info_logs);
  Log(LogLevel::kInfo, &core_.log, "statistics: %s",
      core_.stats != nullptr ? core_.stats->Path().c_str() : "none");
  return status;
}

// Reads the database. Memtables that the logs fill go to flush_.
Status DbOpening::ReadFiles() {
  std::vector<RecoveryFamily> families;
  for (const ColumnFamily* family : All()) {
    families.push_back({family->name(), &family->options(),
                        &family->comparator(), family->table_cache()});
  }
  if (core_.is_read_only) {
    Status status = RecoverUnlocked(core_.options, core_.directory.path(),
                                    families, &core_.log, &state_,
                                    /*with_logs=*/!core_.follows);
    if (!status.ok()) return status;
    return CheckFound(*state_, core_.options, core_.directory.path(),
                      core_.is_read_only);
  }
  state_ = std::make_unique<RecoveredState>();
  RecoveredState* const state = state_.get();
  Recovery recovery(core_.options, core_.directory.path(), families,
                    &core_.log);
  Status status = recovery.ReadTables(state);
  if (status.ok()) {
    status = CheckFound(*state, core_.options, core_.directory.path(),
                        core_.is_read_only);
  }
  if (status.ok()) status = core_.directory.LoadIdentity(state->manifest.db_id);
  if (!status.ok()) return status;
  {
    MutexLock lock(core_.mutex());
    InitializeVersionsLocked();
  }
  const std::string session = NewSessionIdentity();
  for (ColumnFamily* const family : All()) {
    family->SetOutputContext(core_.directory.path(), core_.directory.identity(),
                             session);
  }
  flush_.SetLeftovers(state->temporary_files);
  status = recovery.ReplayLogs(state, [this](size_t family, MemTable* full) {
    return flush_.Add(family, full);
  });
  if (status.ok() &&
      std::max(state->last_sequence, state->manifest.last_sequence) >
          kMaxSequenceNumber - kSpareSequences) {
    return Status::Corruption(core_.directory.path(),
                              "its sequence numbers are used up");
  }
  return status;
}

void DbOpening::InitializeVersionsLocked() {
  RecoveredState* const state = state_.get();
  if (!state->exists) {
    state->manifest.key_folding = KeyFoldingName(core_.options.key_case);
    state->families[0].manifest = &state->manifest.default_family();
  }
  core_.versions->Initialize(&state->manifest, core_.directory.directory());
  core_.versions->MarkFileNumberUsed(state->largest_file_number);
  const std::vector<ColumnFamily*> families = All();
  for (size_t i = 0; i < families.size(); ++i) {
    if (state->families[i].manifest == nullptr) continue;
    core_.versions->AddFamilyLocked(families[i]->versions(),
                                    state->families[i].manifest);
  }
}

// Gives the families that the database has to FamilySet.
void DbOpening::ListFamiliesLocked() {
  for (size_t i = 1; i < state_->families.size(); ++i) {
    if (state_->families[i].manifest == nullptr) continue;
    core_.families.AddLocked(std::move(others_[i - 1]));
  }
  std::erase(others_, nullptr);
}

void DbOpening::InstallReadOnlyLocked() {
  const std::vector<ColumnFamily*> families = All();
  for (size_t i = 0; i < families.size(); ++i) {
    families[i]->table_cache()->ExpectRemovals();
    families[i]->memtables().BeginLocked(
        families[i]->memtables().New(0),
        std::exchange(state_->families[i].memtables, {}));
  }
  ListFamiliesLocked();
  for (ColumnFamily* const family : families)
    core_.control.InstallSuperVersionLocked(family);
}

// Writes the edits of an open: the tables that were made of the logs, and the
// new log.
Status DbOpening::ApplyLocked(uint64_t wal_number) {
  const RecoveredState* const state = state_.get();
  const std::vector<ColumnFamily*> families = All();
  std::vector<VersionEdit> edits(families.size());
  if (!state->exists) {
    edits[0].SetComparatorName(core_.options.comparator->Name());
  }
  Status status = flush_.Publish(edits);
  if (!status.ok()) return status;
  flush_.Commit();
  core_.default_family.CountFlushesLocked(edits[0], flush_.flush_count(),
                                          flush_.micros());
  for (const VersionEdit& edit : edits) {
    AddTablesCreated(&core_.events, core_.directory.path(), edit, status);
  }
  if (state->is_clean) return status;
  std::vector<VersionSet::FamilyEdit> applied;
  for (size_t i = 0; i < families.size(); ++i) {
    if (state->families[i].manifest == nullptr) continue;
    edits[i].SetLogNumber(wal_number);
    // Not more than all that was found.
    edits[i].SetTablesEnd(core_.versions->LastSequence());
    applied.push_back({families[i]->versions(), &edits[i]});
  }
  // Syncs the directory with the new log and tables in it: the first edit
  // goes to a new MANIFEST.
  status = core_.versions->LogAndApply(applied);
  if (status.ok()) core_.wals.SetDirectorySyncedLocked();
  return status;
}

// Keeps what the logs hold beside what was replayed.
Status DbOpening::KeepUnusedLogs() const {
  const UnusedLogs& unused = state_->unused_logs;
  for (const auto& [number, name] : unused.files) {
    Log(LogLevel::kError, &core_.log,
        "log %llu is kept in lost/: it was replayed only to update number %llu",
        static_cast<unsigned long long>(number),
        static_cast<unsigned long long>(unused.after));
  }
  return unused.files.empty()
             ? Status::OK()
             : varve::KeepUnusedLogs(core_.env, core_.directory.path(), unused);
}

// Makes the logs durable that are to be archived: after the first edit, nothing
// else needs them.
Status DbOpening::SyncArchivedLogs() const {
  if (!core_.archive.keeps_logs()) return Status::OK();
  for (const uint64_t number : state_->wal_numbers) {
    if (!state_->manifest.ReplaysLog(number)) continue;
    Status status =
        core_.env->SyncFile(WalFileName(core_.directory.path(), number));
    if (!status.ok() && !status.IsNotSupported()) return status;
  }
  return Status::OK();
}

// Copies the prepared sections of the old logs to the new one. May release the
// mutex and reacquire it.
Status DbOpening::KeepPreparedLocked() {
  if (core_.prepared.empty()) return Status::OK();
  for (const auto& [name, held] : core_.prepared.sections()) {
    Log(LogLevel::kWarn, &core_.log,
        "transaction %s (hexadecimal) is prepared, and is kept until it is "
        "committed or rolled back",
        Slice(name).ToString(true).c_str());
  }
  // The sections are found twice if the process dies before the first edit.
  // Recovery then has to see that the new log continues the old ones.
  const SequenceNumber next = core_.versions->LastSequence() + 1;
  Status status = core_.wals.AppendPredecessor(state_->last_log,
                                               state_->last_log_end, next);
  if (status.ok()) {
    status =
        core_.prepared.CopyTo(next, [this](const std::vector<Slice>& parts) {
          return core_.wals.Append(parts);
        });
  }
  if (status.ok()) status = core_.wals.SyncLocked();
  if (status.ok()) core_.prepared.SetLog(core_.wals.NewestLocked());
  return status;
}

Status DbOpening::InstallLocked() {
  RecoveredState* const state = state_.get();
  Status status;
  if (core_.is_read_only) InitializeVersionsLocked();
  core_.versions->SetLastSequence(
      std::max(state->last_sequence, core_.versions->LastSequence()));
  core_.prepared = std::move(state->prepared);
  if (core_.is_read_only) {
    InstallReadOnlyLocked();
    return status;
  }
  // A database that was closed with nothing left to do is opened without a
  // write. There is no edit and so no new MANIFEST, and the empty log is
  // restarted. Nothing is removed before the next edit is durable in a new
  // MANIFEST, since an unsynced edit of the last process may still be lost.
  const bool writes = !state->is_clean;
  if (!core_.directory.identity_is_stored()) {
    status = core_.directory.StoreIdentity(
        TempFileName(core_.directory.path(), core_.versions->NewFileNumber()));
  }
  core_.versions->SetDbId(core_.directory.identity());
  for (size_t i = 0; i < state->families.size(); ++i) {
    std::vector<MemTable*>& memtables = state->families[i].memtables;
    if (!status.ok() || memtables.empty()) continue;
    MemTable* const last = memtables.back();
    memtables.pop_back();
    status = flush_.Add(i, last);
  }
  CountDrops(core_.stats, flush_.drops());
  WalSet::Wal wal;
  const uint64_t wal_number = writes ? core_.versions->NewFileNumber()
                                     : state->manifest.FirstLogNumber();
  if (status.ok())
    status =
        core_.wals.Create(wal_number, core_.control.gate().HasError(), &wal);
  if (status.ok()) core_.wals.AddLocked(std::move(wal));
  if (status.ok() && !state->exists) {
    // While this file exists the database is not clean, so that no open relies
    // on a CURRENT whose name may not be durable. It is removed with the
    // leftovers.
    status = WriteStringToFile(core_.env, "",
                               TempFileName(core_.directory.path(), 0), false);
  }
  // The first edit makes the logs obsolete.
  if (status.ok()) status = KeepPreparedLocked();
  if (status.ok() && core_.archive.keeps_logs() && core_.prepared.empty() &&
      state->last_log != 0 && writes) {
    // Which updates of the archived logs count.
    status = core_.wals.AppendPredecessor(state->last_log, state->last_log_end,
                                          core_.versions->LastSequence() + 1);
  }
  if (status.ok()) status = KeepUnusedLogs();
  if (status.ok() && writes) status = SyncArchivedLogs();
  if (!status.ok()) return status;
  status = ApplyLocked(wal_number);
  if (!status.ok()) {
    // Tables that no Open may find.
    core_.jobs.PurgeLocked();
    return status;
  }
  if (state->is_leveldb) {
    // From here on, LevelDB cannot read the database.
    const Status guarded = AddLevelDbGuard(core_.env, core_.directory.path());
    if (!guarded.ok()) {
      Log(LogLevel::kWarn, &core_.log,
          "without a guard against a repair by LevelDB: %s",
          guarded.ToString().c_str());
    }
  }
  ListFamiliesLocked();
  for (ColumnFamily* const family : core_.families.live()) {
    family->versions()->SkipLogsLocked(wal_number);
    family->memtables().BeginLocked(
        family->memtables().New(wal_number, core_.families.live().size()), {});
    core_.control.InstallSuperVersionLocked(family);
  }
  core_.log_bound.UpdateLogSizeLocked();
  return status;
}

void DbOpening::RemoveLeftoversLocked() {
  const bool writes = !state_->is_clean;
  LiveFiles live;
  if (writes) {
    // An edit that was cut off may have named a table with any number.
    live = LiveFilesLocked(
        core_.versions.get(),
        state_->manifest.torn_tail ? 0 : state_->manifest.next_file_number,
        std::move(state_->foreign_files));
    if (core_.archive.keeps_logs()) live.archive = &core_.archive;
    // Those before the first one are in tables.
    const uint64_t first = state_->manifest.FirstLogNumber();
    live.last_replayed_log =
        std::max(state_->last_log, first > 0 ? first - 1 : 0);
    // RemoveLeftovers finds them in the directory.
    core_.versions->obsolete_manifests()->clear();
  }
  core_.mutex()->Unlock();
  if (writes) {
    std::vector<TableCache*> caches;
    for (const ColumnFamily* family : core_.families.live()) {
      caches.push_back(family->table_cache());
    }
    RemoveLeftovers(core_.directory, caches, &core_.log, live);
  }
  RemoveOldInfoLogs(core_.directory, std::move(state_->old_info_logs));
  core_.mutex()->Lock();
  core_.archive.MakeDueLocked();
  core_.jobs.PurgeLaterLocked();
}

}  // namespace varve
