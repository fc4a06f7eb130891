// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Opening: the parts of a DB are made, what is on disk is recovered, and the
// first edits are written.

#include <algorithm>
#include <set>
#include <span>

#include "db/engine/db_impl.h"
#include "db/folding/folding_db.h"
#include "db/folding/key_case.h"
#include "db/options/options_check.h"
#include "db/parts/common_errors.h"
#include "db/parts/job_events.h"
#include "db/parts/leftovers.h"
#include "db/recovery/unlocked_recovery.h"
#include "db/version/manifest_reader.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "util/base/experiment.h"
#include "util/threads/memory_account.h"

namespace varve {

namespace {

// At least this many updates must be possible in a writable database.
constexpr SequenceNumber kSpareSequences = uint64_t{1} << 40;

// A database is quiet when nothing was written for this time.
constexpr uint64_t kQuietUs = 5 * 1000 * 1000;

Options Sanitize(const Options& given) {
  Options options = given;
  RaiseNumbers(&options);
  MakeSharedParts(&options);
  return options;
}

FileOptions TableFileOptions(const Options& options) {
  FileOptions file_options;
  file_options.use_direct_reads = options.use_direct_reads;
  file_options.uncached_open = ExperimentFlagsOf(options).opens_uncached;
  return file_options;
}

// Opens a database with the default family's options in `options`.
Status OpenDb(const Options& options, const std::string& path, bool read_only,
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
      std::make_unique<DBImpl>(options, path, read_only, nullptr, others);
  status = opened->Open();
  if (!status.ok()) return status;
  if (impl != nullptr) *impl = opened.get();
  *db = WithFolding(std::move(opened), options);
  return status;
}

Status OpenFamilies(const DBOptions& options, const std::string& path,
                    bool read_only,
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
  Status status = OpenDb(Options(options, default_family->options), path,
                         read_only, others, db, &impl);
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
                          std::set<std::string> foreign) {
  LiveFiles live;
  for (const FamilyVersions* family : versions->families()) {
    for (int level = 0; level < kNumLevels; ++level) {
      for (const FileMetaData* file : family->current()->files(level)) {
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
    if (place.env()->FileExists(path).ok()) {
      // Named by the date.
      const std::string old =
          OldInfoLogFileName(place.path(), place.env()->NowMicros());
      // Losing an old log is no reason to refuse a database.
      place.env()->RenameFile(path, old).IgnoreError();
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
  Log(LogLevel::kInfo, log, "tables are read by %s",
      place.env()->IoPath().c_str());
}

}  // namespace

Status DB::Open(const Options& options, const std::string& path,
                std::unique_ptr<DB>* db) {
  return OpenDb(options, path, false, {}, db, nullptr);
}

Status DB::OpenForReadOnly(const Options& options, const std::string& path,
                           std::unique_ptr<DB>* db) {
  return OpenDb(options, path, true, {}, db, nullptr);
}

Status DB::Open(const DBOptions& options, const std::string& path,
                const std::vector<ColumnFamilyDescriptor>& families,
                std::vector<ColumnFamilyHandle*>* handles,
                std::unique_ptr<DB>* db) {
  return OpenFamilies(options, path, false, families, handles, db);
}

Status DB::OpenForReadOnly(const DBOptions& options, const std::string& path,
                           const std::vector<ColumnFamilyDescriptor>& families,
                           std::vector<ColumnFamilyHandle*>* handles,
                           std::unique_ptr<DB>* db) {
  return OpenFamilies(options, path, true, families, handles, db);
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
               FilePool* file_pool,
               const std::vector<ColumnFamilyDescriptor>& others)
    : options_(Sanitize(options)),
      read_only_(read_only),
      renews_arenas_(ExperimentFlagsOf(options).renews_arenas),
      ignores_waste_(ExperimentFlagsOf(options).ignores_waste),
      db_directory_(options_.env, path),
      env_(db_directory_.env()),
      stats_(StatisticsImpl::Of(options_.statistics.get())),
      own_file_pool_(
          file_pool != nullptr
              ? nullptr
              : std::make_unique<FilePool>(env_, TableFileOptions(options_),
                                           options_.max_open_files, stats_)),
      file_pool_(file_pool != nullptr ? file_pool : own_file_pool_.get()),
      wals_(&db_directory_, &options_, stats_, &mutex_),
      scheduler_(env_, &mutex_),
      events_(options_.listeners, &mutex_),
      family_(kDefaultColumnFamilyName, &options_, SharedParts(nullptr)),
      families_(&family_),
      handles_(std::make_shared<FamilyHandles>(
          &mutex_,
          [this](ColumnFamily* family) VARVE_NO_THREAD_SAFETY_ANALYSIS {
            families_.UnrefLocked(family);
            FreeLaterLocked();
          })),
      default_handle_(
          std::make_unique<FamilyHandle>(&family_, handles_, false)),
      obsolete_({&db_directory_, &wals_, &families_, &events_, &scheduler_,
                 stats_, &mutex_}),
      table_jobs_({&db_directory_, family_.snapshots(), &events_, &scheduler_,
                   &log_, stats_, &mutex_}),
      auto_resume_(
          env_, &mutex_, &scheduler_, &obsolete_,
          [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
            return IsTransientError(background_error_) ||
                   !compaction_gate_.error.ok();
          },
          [this] { TryToResume(); }),
      quiet_watch_(env_, &mutex_, &scheduler_, kQuietUs,
                   {[this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
                      return WatchesQuietLocked();
                    },
                    [this] { return versions_->LastSequence(); },
                    [this] { FlushInQuiet(); }}) {
  options_.env = env_;
  if (ExperimentFlagsOf(options_).counts_memory_atomically) {
    SetMemoryAccountingAtomic(true);
  }
  SetClockMode(ExperimentFlagsOf(options_).trace_clock);
  TraceCollector::Get().SetCollectMode(
      ExperimentFlagsOf(options_).trace_collect);
  versions_ = std::make_unique<VersionSet>(db_directory_.path(), env_, &mutex_);
  obsolete_.SetTables(versions_.get());
  table_jobs_.SetTables(versions_.get());
  MakeTables(&family_);
  for (const ColumnFamilyDescriptor& other : others) {
    unopened_.push_back(NewFamily(other.name, other.options));
  }
  if (read_only_) family_.table_cache()->ExpectOtherWriters();
}

ColumnFamily::Shared DBImpl::SharedParts(SnapshotRegistry* snapshots) {
  return {env_,
          stats_,
          &mutex_,
          &write_queue_,
          [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS { FreeLaterLocked(); },
          [this] { return versions_->LastSequence(); },
          [this] { WakeCleaner(); },
          [this](ColumnFamily* family) { RequestSwitch(family); },
          snapshots};
}

void DBImpl::MakeTables(ColumnFamily* family) {
  family->MakeTables(db_directory_.path(), TableFileOptions(family->options()),
                     file_pool_, &log_, versions_.get());
}

std::unique_ptr<ColumnFamily> DBImpl::NewFamily(
    const std::string& name, const ColumnFamilyOptions& options) {
  auto family_options = std::make_unique<Options>(options_, options);
  if (family_options->block_cache == nullptr) {
    family_options->block_cache = options_.block_cache;
  }
  RaiseNumbers(family_options.get());
  auto family = std::make_unique<ColumnFamily>(
      name, std::move(family_options), SharedParts(family_.snapshots()));
  MakeTables(family.get());
  return family;
}

ColumnFamilyHandle* DBImpl::NewHandle(const std::string& name) {
  ColumnFamily* family = nullptr;
  {
    MutexLock lock(&mutex_);
    family = families_.Find(name);
  }
  return new FamilyHandle(family, handles_, true);
}

// Returns the families that Open is to open, the default one first.
std::vector<ColumnFamily*> DBImpl::FamiliesToOpen() {
  std::vector<ColumnFamily*> families = {&family_};
  for (const auto& family : unopened_) families.push_back(family.get());
  return families;
}

Status DBImpl::Open(bool name_is_safe) {
  const RequestSpan span("DB::Open");
  std::unique_ptr<RecoveredState> state;
  std::vector<RecoveryFlush::Family> flushed;
  for (ColumnFamily* const family : FamiliesToOpen()) {
    flushed.push_back({family->output_context(), family->versions()});
  }
  RecoveryFlush flush(std::move(flushed), versions_.get());
  Status status;
  if (!read_only_) {
    status = db_directory_.Open(name_is_safe, options_.create_if_missing);
  } else {
    db_directory_.OpenForReading();
  }
  if (status.ok()) status = Recover(&state, &flush);
  if (status.ok()) {
    if (state->logs_incomplete) RecordTick(stats_, Ticker::kLogsIncomplete);
    has_options_files_ = state->has_options_files;
    OpenInfoLog(options_, db_directory_, read_only_, &log_,
                &state->old_info_logs);
    Log(LogLevel::kInfo, &log_, "statistics: %s",
        stats_ != nullptr ? stats_->Path().c_str() : "none");
    status = InstallRecovered(state.get(), &flush);
  }
  if (status.ok()) return status;
  flush.Abandon();  // While the directory is locked.
  mutex_.Lock();
  closed_ = true;
  // An error may have started the thread that resumes.
  scheduler_.StopLocked();
  scheduler_.DropQueuedLocked();
  WaitForBackgroundLocked();
  mutex_.Unlock();
  db_directory_.Unlock().IgnoreError();  // Open failed already.
  return status;
}

// Reads the database. Memtables that the logs fill go to `flush`.
Status DBImpl::Recover(std::unique_ptr<RecoveredState>* recovered,
                       RecoveryFlush* flush) {
  std::vector<RecoveryFamily> families;
  for (const ColumnFamily* family : FamiliesToOpen()) {
    families.push_back({family->name(), &family->options(),
                        &family->comparator(), family->table_cache()});
  }
  if (read_only_) {
    Status status = RecoverUnlocked(options_, db_directory_.path(), families,
                                    &log_, recovered);
    if (!status.ok()) return status;
    return CheckFound(**recovered, options_, db_directory_.path(), read_only_);
  }
  *recovered = std::make_unique<RecoveredState>();
  RecoveredState* const state = recovered->get();
  Recovery recovery(options_, db_directory_.path(), families, &log_);
  Status status = recovery.ReadTables(state);
  if (status.ok()) {
    status = CheckFound(*state, options_, db_directory_.path(), read_only_);
  }
  if (status.ok()) status = db_directory_.LoadIdentity(state->manifest.db_id);
  if (!status.ok()) return status;
  InitializeVersions(state);
  const std::string session = NewSessionIdentity();
  for (ColumnFamily* const family : FamiliesToOpen()) {
    family->SetOutputContext(db_directory_.path(), db_directory_.identity(),
                             session);
  }
  flush->SetLeftovers(state->temporary_files);
  status = recovery.ReplayLogs(state, [flush](size_t family, MemTable* full) {
    return flush->Add(family, full);
  });
  if (status.ok() &&
      std::max(state->last_sequence, state->manifest.last_sequence) >
          kMaxSequenceNumber - kSpareSequences) {
    return Status::Corruption(db_directory_.path(),
                              "its sequence numbers are used up");
  }
  return status;
}

void DBImpl::InitializeVersions(RecoveredState* state) {
  MutexLock lock(&mutex_);
  if (!state->exists) {
    state->manifest.key_folding = KeyFoldingName(options_.key_case);
    state->families[0].manifest = &state->manifest.default_family();
  }
  versions_->Initialize(&state->manifest, db_directory_.directory());
  versions_->MarkFileNumberUsed(state->largest_file_number);
  const std::vector<ColumnFamily*> families = FamiliesToOpen();
  for (size_t i = 0; i < families.size(); ++i) {
    if (state->families[i].manifest == nullptr) continue;
    versions_->AddFamilyLocked(families[i]->versions(),
                               state->families[i].manifest);
  }
}

// Moves the families that the database has from unopened_ to families_.
void DBImpl::ListFamiliesLocked(RecoveredState* state) {
  for (size_t i = 1; i < state->families.size(); ++i) {
    if (state->families[i].manifest == nullptr) continue;
    families_.AddLocked(std::move(unopened_[i - 1]));
  }
  std::erase(unopened_, nullptr);
}

void DBImpl::InstallReadOnlyLocked(RecoveredState* state) {
  const std::vector<ColumnFamily*> families = FamiliesToOpen();
  family_.table_cache()->ExpectRemovals();
  for (size_t i = 0; i < families.size(); ++i) {
    families[i]->table_cache()->ExpectRemovals();
    families[i]->BeginLocked(families[i]->NewMemTable(0),
                             std::exchange(state->families[i].memtables, {}));
  }
  ListFamiliesLocked(state);
  for (ColumnFamily* const family : families) InstallSuperVersionLocked(family);
}

// Writes the edits of an open: the tables that were made of the logs, and the
// new log.
Status DBImpl::ApplyRecoveredLocked(RecoveredState* state, RecoveryFlush* flush,
                                    uint64_t wal_number) {
  const std::vector<ColumnFamily*> families = FamiliesToOpen();
  std::vector<VersionEdit> edits(families.size());
  if (!state->exists) {
    edits[0].SetComparatorName(options_.comparator->Name());
  }
  Status status = flush->Publish(edits);
  if (!status.ok()) return status;
  flush->Commit();
  family_.CountFlushesLocked(edits[0], flush->flush_count(), flush->micros());
  for (const VersionEdit& edit : edits) {
    AddTablesCreated(&events_, db_directory_.path(), edit, status);
  }
  if (state->is_clean) return status;
  std::vector<VersionSet::FamilyEdit> applied;
  for (size_t i = 0; i < families.size(); ++i) {
    if (state->families[i].manifest == nullptr) continue;
    edits[i].SetLogNumber(wal_number);
    applied.push_back({families[i]->versions(), &edits[i]});
  }
  // Syncs the directory with the new log and tables in it: the first edit
  // goes to a new MANIFEST.
  status = versions_->LogAndApply(applied);
  if (status.ok()) wals_.SetDirectorySyncedLocked();
  return status;
}

Status DBImpl::InstallRecovered(RecoveredState* state, RecoveryFlush* flush) {
  const LocalSpan span("install");
  if (read_only_) InitializeVersions(state);
  MutexLock lock(&mutex_);
  Status status;
  const uint64_t next_file_number = state->manifest.next_file_number;
  versions_->SetLastSequence(
      std::max(state->last_sequence, versions_->LastSequence()));
  if (read_only_) {
    InstallReadOnlyLocked(state);
    return status;
  }
  // A database that was closed with nothing left to do is opened without a
  // write. There is no edit and so no new MANIFEST, and the empty log is
  // restarted. Nothing is removed before the next edit is durable in a new
  // MANIFEST, since an unsynced edit of the last process may still be lost.
  const bool writes = !state->is_clean;
  if (!db_directory_.identity_is_stored()) {
    status = db_directory_.StoreIdentity(
        TempFileName(db_directory_.path(), versions_->NewFileNumber()));
  }
  versions_->SetDbId(db_directory_.identity());
  for (size_t i = 0; i < state->families.size(); ++i) {
    std::vector<MemTable*>& memtables = state->families[i].memtables;
    if (!status.ok() || memtables.empty()) continue;
    MemTable* const last = memtables.back();
    memtables.pop_back();
    status = flush->Add(i, last);
  }
  CountDrops(stats_, flush->drops());
  WalSet::Wal wal;
  const uint64_t wal_number =
      writes ? versions_->NewFileNumber() : state->manifest.FirstLogNumber();
  if (status.ok()) status = wals_.Create(wal_number, gate_.HasError(), &wal);
  if (status.ok()) wals_.AddLocked(std::move(wal));
  if (status.ok() && !state->exists) {
    // While this file exists the database is not clean, so that no open relies
    // on a CURRENT whose name may not be durable. It is removed with the
    // leftovers.
    status = WriteStringToFile(env_, "", TempFileName(db_directory_.path(), 0),
                               false);
  }
  if (!status.ok()) return status;
  status = ApplyRecoveredLocked(state, flush, wal_number);
  if (!status.ok()) {
    // Tables that no Open may find.
    PurgeObsoleteLocked();
    return status;
  }
  ListFamiliesLocked(state);
  for (ColumnFamily* const family : families_.live()) {
    family->versions()->SkipLogsLocked(wal_number);
    family->BeginLocked(family->NewMemTable(wal_number), {});
    InstallSuperVersionLocked(family);
  }
  UpdateLogLimitLocked();
  while (!unopened_.empty()) {
    std::unique_ptr<ColumnFamily> created = std::move(unopened_.front());
    unopened_.erase(unopened_.begin());
    status = AddFamilyLocked(std::move(created));
    if (!status.ok()) return status;  // The rest is closed with the DB.
  }
  LiveFiles live;
  if (writes) {
    live = LiveFilesLocked(versions_.get(), next_file_number,
                           std::move(state->foreign_files));
    // RemoveLeftovers finds them in the directory.
    versions_->obsolete_manifests()->clear();
  }
  mutex_.Unlock();
  if (writes) {
    std::vector<TableCache*> caches;
    for (const ColumnFamily* family : families_.live()) {
      caches.push_back(family->table_cache());
    }
    RemoveLeftovers(db_directory_, caches, &log_, live);
  }
  RemoveOldInfoLogs(db_directory_, std::move(state->old_info_logs));
  mutex_.Lock();
  for (const auto priority : {Env::Priority::kLow, Env::Priority::kMedium}) {
    env_->RaiseBackgroundThreads(
        MaxCompactions(options_) * options_.max_subcompactions, priority);
  }
  // Flushes have their own threads, so that no compaction delays them. Two more
  // threads remove files, and examine what readers walked over.
  env_->RaiseBackgroundThreads(2 + MaxFlushes(options_), Env::Priority::kHigh);
  MaybeScheduleLocked();
  events_.DeliverLocked();
  for (ColumnFamily* const family : families_.live()) family->JoinBudget();
  return status;
}

}  // namespace varve
