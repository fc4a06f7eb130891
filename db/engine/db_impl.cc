// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/db_impl.h"

#include <algorithm>

#include "db/folding/folding_db.h"
#include "db/folding/key_case.h"
#include "db/options/options_check.h"
#include "db/parts/common_errors.h"
#include "db/parts/job_events.h"
#include "db/parts/leftovers.h"
#include "db/recovery/unlocked_recovery.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "util/base/experiment.h"
#include "util/base/probe.h"
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

Status OpenDb(const Options& options, const std::string& path, bool read_only,
              std::unique_ptr<DB>* db) {
  db->reset();
  Status status = CheckOptions(options);
  if (!status.ok()) return status;
  auto impl = std::make_unique<DBImpl>(options, path, read_only);
  status = impl->Open();
  if (status.ok()) *db = WithFolding(std::move(impl), options);
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
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileMetaData* file : versions->current()->files(level)) {
      live.tables.push_back(file->number);
    }
  }
  std::sort(live.tables.begin(), live.tables.end());
  live.manifest_number = versions->manifest_number();
  live.log_number = versions->log_number();
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
  return OpenDb(options, path, false, db);
}

Status DB::OpenForReadOnly(const Options& options, const std::string& path,
                           std::unique_ptr<DB>* db) {
  return OpenDb(options, path, true, db);
}

std::unique_ptr<FilePool> DBImpl::NewFilePool(const Options& options) {
  const Options sane = Sanitize(options);
  return std::make_unique<FilePool>(sane.env, TableFileOptions(sane),
                                    sane.max_open_files,
                                    StatisticsImpl::Of(sane.statistics.get()));
}

DBImpl::DBImpl(const Options& options, const std::string& path, bool read_only,
               FilePool* file_pool)
    : options_(Sanitize(options)),
      read_only_(read_only),
      renews_arenas_(ExperimentFlagsOf(options).renews_arenas),
      ignores_waste_(ExperimentFlagsOf(options).ignores_waste),
      db_directory_(options_.env, path),
      env_(db_directory_.env()),
      stats_(StatisticsImpl::Of(options_.statistics.get())),
      comparator_(options_.comparator),
      dead_walks_(
          &comparator_, &write_queue_, stats_,
          ExperimentFlagsOf(options).cleans_always,
          [this] { return versions_->LastSequence(); },
          [this] { WakeCleaner(); }),
      wals_(&db_directory_, &options_, stats_, &mutex_),
      scheduler_(env_, &mutex_),
      events_(options_.listeners, &mutex_),
      family_(&options_, &comparator_, env_, stats_, &mutex_,
              [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS { FreeLaterLocked(); }),
      obsolete_({&db_directory_, &wals_, &family_, &events_, &scheduler_,
                 stats_, &mutex_}),
      table_jobs_({&db_directory_, &family_, &events_, &scheduler_, &log_,
                   stats_, &mutex_}),
      cleaner_(&options_, &comparator_,
               ExperimentFlagsOf(options).cleans_always),
      auto_resume_(
          env_, &mutex_, &scheduler_, &obsolete_,
          [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
            return IsTransientError(background_error_) ||
                   !family_.compactions().error.ok();
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
  TableReaderOptions table_options;
  table_options.comparator = &comparator_;
  table_options.filter_policy = options_.filter_policy;
  table_options.block_cache =
      static_cast<BlockCache*>(options_.block_cache.get());
  table_options.statistics = stats_;
  table_options.info_log = &log_;
  table_options.binary_search = ExperimentFlagsOf(options_).searches_binary;
  table_cache_ = std::make_unique<TableCache>(
      db_directory_.path(), env_, TableFileOptions(options_), table_options,
      options_.max_open_files, options_.cache_index_and_filter_blocks,
      file_pool);
  if (read_only_) table_cache_->ExpectOtherWriters();
  versions_ = std::make_unique<VersionSet>(
      db_directory_.path(), env_, &comparator_, table_cache_.get(),
      !table_options.binary_search, &mutex_);
  family_.SetVersions(versions_.get());
  obsolete_.SetTables(versions_.get(), table_cache_.get());
  table_jobs_.SetTables(versions_.get(), table_cache_.get());
}

DBImpl::~DBImpl() {
  mutex_.Lock();
  if (!closed_) CloseLocked().IgnoreError();  // A destructor has no status.
  const bool is_abandoned = inheritance_.is_abandoned();
  mutex_.Unlock();
  if (is_abandoned) {
    KeepAbandoned();
    return;
  }
  family_.Close();
  mutex_.Lock();
  versions_.reset();
  mutex_.Unlock();
  FreeRetired();  // The blocks of its tables, for one.
}

Status DBImpl::Open(bool name_is_safe) {
  const RequestSpan span("DB::Open");
  std::unique_ptr<RecoveredState> state;
  RecoveryFlush flush(table_jobs_.output_context(), versions_.get());
  Status status;
  if (!read_only_) {
    status = db_directory_.Open(name_is_safe, options_.create_if_missing);
  } else {
    db_directory_.OpenForReading();
  }
  if (status.ok()) status = Recover(&state, &flush);
  if (status.ok()) {
    if (state->logs_incomplete) RecordTick(stats_, Ticker::kLogsIncomplete);
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
  mutex_.Unlock();
  db_directory_.Unlock().IgnoreError();  // Open failed already.
  return status;
}

// Reads the database. Memtables that the logs fill go to `flush`.
Status DBImpl::Recover(std::unique_ptr<RecoveredState>* recovered,
                       RecoveryFlush* flush) {
  if (read_only_) {
    Status status =
        RecoverUnlocked(options_, db_directory_.path(), &comparator_,
                        table_cache_.get(), &log_, recovered);
    if (!status.ok()) return status;
    return CheckFound(**recovered, options_, db_directory_.path(), read_only_);
  }
  *recovered = std::make_unique<RecoveredState>();
  RecoveredState* const state = recovered->get();
  Recovery recovery(options_, db_directory_.path(), &comparator_,
                    table_cache_.get(), &log_);
  Status status = recovery.ReadTables(state);
  if (status.ok()) {
    status = CheckFound(*state, options_, db_directory_.path(), read_only_);
  }
  if (status.ok()) status = db_directory_.LoadIdentity(state->manifest.db_id);
  if (!status.ok()) return status;
  InitializeVersions(state);
  *table_jobs_.output_context() = {db_directory_.path(),
                                   env_,
                                   &options_,
                                   &comparator_,
                                   db_directory_.identity(),
                                   NewSessionIdentity()};
  flush->SetLeftovers(state->temporary_files);
  status = recovery.ReplayLogs(
      state, [flush](MemTable* memtable) { return flush->Add(memtable); });
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
  }
  versions_->Initialize(&state->manifest, db_directory_.directory());
  versions_->MarkFileNumberUsed(state->largest_file_number);
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
    table_cache_->ExpectRemovals();
    family_.BeginLocked(family_.NewMemTable(0),
                        std::exchange(state->memtables, {}));
    InstallSuperVersionLocked();
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
  if (status.ok() && !state->memtables.empty()) {
    MemTable* const last = state->memtables.back();
    state->memtables.pop_back();
    status = flush->Add(last);
  }
  CountDrops(stats_, flush->drops());
  VersionEdit edit;
  WalSet::Wal wal;
  const uint64_t wal_number =
      writes ? versions_->NewFileNumber() : versions_->log_number();
  if (status.ok())
    status = wals_.Create(wal_number, family_.StallStateHasError(), &wal);
  if (status.ok()) wals_.AddLocked(std::move(wal));
  if (status.ok() && !state->exists) {
    // While this file exists the database is not clean, so that no open relies
    // on a CURRENT whose name may not be durable. It is removed with the
    // leftovers.
    status = WriteStringToFile(env_, "", TempFileName(db_directory_.path(), 0),
                               false);
    edit.SetComparatorName(options_.comparator->Name());
  }
  if (status.ok()) status = flush->Publish(&edit);
  if (!status.ok()) return status;
  flush->Commit();
  family_.CountFlushesLocked(edit, flush->flush_count(), flush->micros());
  AddTablesCreated(&events_, db_directory_.path(), edit, status);
  if (writes) {
    edit.SetLogNumber(wal_number);
    // Syncs the directory with the new log and tables in it: the first edit
    // goes to a new MANIFEST.
    status = versions_->LogAndApply(&edit);
    if (status.ok()) wals_.SetDirectorySyncedLocked();
  }
  if (!status.ok()) {
    // Tables that no Open may find.
    PurgeObsoleteLocked();
    return status;
  }
  family_.BeginLocked(family_.NewMemTable(wal_number), {});
  InstallSuperVersionLocked();
  LiveFiles live;
  if (writes) {
    live = LiveFilesLocked(versions_.get(), next_file_number,
                           std::move(state->foreign_files));
    // RemoveLeftovers finds them in the directory.
    versions_->obsolete_manifests()->clear();
  }
  mutex_.Unlock();
  if (writes) RemoveLeftovers(db_directory_, table_cache_.get(), &log_, live);
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
  return status;
}

bool DBImpl::IsClosedLocked() const { return closed_ && wals_.EmptyLocked(); }

bool DBImpl::IsClosed() {
  MutexLock lock(&mutex_);
  return IsClosedLocked();
}

bool DBImpl::IsEndingLocked() const {
  return closed_ || scheduler_.is_stopping();
}

Status DBImpl::Close() {
  MutexLock lock(&mutex_);
  if (closed_) return close_status_;
  if (AbandonInheritedLocked()) return Status::OK();
  // relaxed: calls of other threads have returned.
  if (live_iterators_.load(std::memory_order_relaxed) > 0) {
    return Status::Busy(
        "iterators are still out",
        std::to_string(live_iterators_.load(std::memory_order_relaxed)));
  }
  const size_t snapshots = family_.snapshots()->CountLocked();
  if (snapshots > 0) {
    return Status::Busy("snapshots or read transactions are still out",
                        std::to_string(snapshots));
  }
  close_status_ = CloseLocked();
  return close_status_;
}

Status DBImpl::CloseLocked() {
  if (AbandonInheritedLocked()) return Status::OK();
  closed_ = true;
  scheduler_.SignalLocked();  // See Resume.
  Status status;
  if (!read_only_ && family_.HasBegunLocked()) {
    if (family_.HasUnloggedLocked() && !options_.avoid_flush_during_shutdown) {
      scheduler_.GoOnLocked();
      MaybeScheduleLocked();  // Memtables may wait for a flush.
      mutex_.Unlock();
      status = Flush(FlushOptions());
      mutex_.Lock();
    }
    mutex_.Unlock();
    const Status sync_status = SyncLogAtClose();
    mutex_.Lock();
    if (status.ok()) status = sync_status;
  }
  scheduler_.StopLocked();
  scheduler_.DropQueuedLocked();
  WaitForBackgroundLocked();
  if (status.ok()) NoteLogsEndLocked();
  const Status wals_status = wals_.CloseLocked();
  if (status.ok()) status = wals_status;
  UpdateStallStateLocked();
  if (family_.HasBegunLocked()) family_.InstallSuperVersionLocked(true);
  PurgeObsoleteLocked();
  events_.FinishLocked();
  Log(LogLevel::kInfo, &log_, "closed: %s", status.ToString().c_str());
  const Status unlock_status = db_directory_.Unlock();
  if (status.ok()) status = unlock_status;
  return status;
}

void DBImpl::WaitForBackgroundLocked() {
  while (WorkRunsLocked() || auto_resume_.is_running() ||
         quiet_watch_.is_running()) {
    scheduler_.WaitLocked();
  }
}

// Returns whether a job, a call of CompactRange or a removal of files runs.
bool DBImpl::WorkRunsLocked() const {
  return scheduler_.JobsLocked() > 0 ||
         family_.compactions().manual_count > 0 || obsolete_.running() > 0;
}

void DBImpl::InstallSuperVersionLocked() {
  VARVE_PROBE(super_version_install, family_.immutable().size());
  family_.InstallSuperVersionLocked(IsClosedLocked());
  UpdateStallLocked();
  scheduler_.SignalLocked();
}

Status DBImpl::GetApproximateSizes(const Range* ranges, size_t count,
                                   uint64_t* sizes) {
  if (IsClosed()) return ClosedError();
  SuperVersion* const super_version = family_.super_versions().Reference();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t start = super_version->version->ApproximateOffsetOf(
        MakeInternalKey(ranges[i].start, SeekTrailer(kMaxSequenceNumber)));
    const uint64_t limit = super_version->version->ApproximateOffsetOf(
        MakeInternalKey(ranges[i].limit, SeekTrailer(kMaxSequenceNumber)));
    sizes[i] = limit > start ? limit - start : 0;
  }
  family_.super_versions().Release(super_version);
  return Status::OK();
}

DbProperties DBImpl::Properties() {
  return DbProperties(
      {options_, env_, stats_, family_, *versions_, *table_cache_, wals_,
       scheduler_, cleaner_, dead_walks_.ranges(), mutex_,
       [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
         DbProperties::Facts facts;
         facts.background_errors = background_error_count_;
         facts.is_read_only = read_only_ || !background_error_.ok();
         facts.deletes_files = !obsolete_.is_held();
         facts.compaction_is_due = CompactionDueLocked();
         return facts;
       }});
}

bool DBImpl::GetProperty(const Slice& property, std::string* value) {
  value->clear();
  return !IsClosed() && Properties().Get(property, value);
}

bool DBImpl::GetIntProperty(const Slice& property, uint64_t* value) {
  return !IsClosed() && Properties().GetInt(property, value);
}

Status DBImpl::VerifyChecksum() {
  if (IsClosed()) return ClosedError();
  SuperVersion* const super_version = family_.super_versions().Reference();
  Status status;
  for (int level = 0; level < kNumLevels && status.ok(); ++level) {
    for (const FileMetaData* file : super_version->version->files(level)) {
      std::shared_ptr<Table> table;
      status = table_cache_->Find(file->table_file(), &table);
      if (status.ok()) status = table->VerifyChecksum();
      if (!status.ok()) break;
    }
  }
  family_.super_versions().Release(super_version);
  return status;
}

uint64_t DBImpl::GetLatestSequenceNumber() const {
  return versions_->LastSequence();
}

}  // namespace varve
