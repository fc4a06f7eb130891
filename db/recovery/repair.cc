// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/folding/key_case.h"
#include "db/recovery/foreign_files.h"
#include "db/recovery/leveldb_guard.h"
#include "db/recovery/repair_families.h"
#include "db/recovery/unused_logs.h"
#include "db/version/best_effort_manifest.h"
#include "db/version/version_set.h"
#include "db/wal/unsupported_wal.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/wal/wal_writer.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "env/held_directory.h"
#include "table/cache/block_cache.h"
#include "table/reader/table_opener.h"
#include "varve/db.h"

namespace varve {

namespace {

// Rebuilds a database from its tables and logs. Levels may be lost with the
// MANIFEST, so all readable entries of a column family are merged into new
// tables of level 1: internal keys tell which version is the newest. The rest
// of the MANIFEST tells which files are obsolete. Their entries live on in
// other files, perhaps without sequence numbers, and would seem newer in the
// obsolete ones. Steps: lock, list, read what is left of the MANIFEST, find the
// column families (RepairFamilies), salvage each damaged table and each log,
// merge; give the old files a second name in lost/, remove the first names of
// obsolete tables, write a MANIFEST, and remove the other first names. Foreign
// files stay where they are.
class Repairer {
 public:
  Repairer(const RepairOptions& options, std::string path)
      : options_(options),
        path_(std::move(path)),
        lost_path_(LostDirectory(path_)),
        env_(options.db.env),
        logger_(options.db.info_log.get()),
        block_cache_(NewBlockCache(kCacheBytes)),
        pool_(env_, FileOptions(), kMaxOpenFiles, nullptr) {
    context_.path = path_;
    context_.env = env_;
    context_.block_cache = static_cast<BlockCache*>(block_cache_.get());
    context_.pool = &pool_;
    context_.session_identity = NewSessionIdentity();
    context_.next_number = &next_number_;
    context_.bound_memtables = [this] { return families_->BoundMemTables(); };
  }

  Status Run() {
    Status status = List();  // Before any file is created.
    if (status.ok()) status = env_->LockFile(LockFileName(path_), &lock_);
    if (status.ok()) status = env_->NewDirectory(path_, &directory_);
    if (status.ok()) status = MoveBackFromLost(env_, path_);
    if (status.ok()) status = List();
    if (status.ok()) RemoveTemporaryFiles();
    if (status.ok()) status = FindFamilies();
    if (status.ok()) status = CheckUnsupportedWal();
    if (status.ok()) status = SalvageTables();
    if (status.ok()) status = SalvageLogs();
    if (status.ok()) status = SalvageStrayTables();
    if (status.ok()) status = families_->Merge(&last_sequence_);
    // With their temporary files.
    if (families_ != nullptr) families_->RemoveInputs();
    if (status.ok()) status = KeepOldFiles();
    if (!status.ok() && families_ != nullptr) families_->RemoveOutputs();
    if (status.ok()) status = RemoveObsoleteTables();
    if (status.ok()) status = WriteManifest();
    if (status.ok()) ForgetUnusedLogs(env_, path_);
    if (status.ok()) status = RemoveOldNames();
    const Status unlock_status =
        lock_ == nullptr ? Status::OK() : env_->UnlockFile(std::move(lock_));
    return status.ok() ? unlock_status : status;
  }

 private:
  static constexpr size_t kCacheBytes = 8 << 20;
  static constexpr int kMaxOpenFiles = 256;

  struct OldFile {
    std::string name;
    uint64_t number;
    FileKind type;
    std::string lost_name;  // The path in lost/.
    bool has_lost_name = false;
    bool is_gone = false;  // The name was removed.
  };

  static bool IsTable(FileKind type) {
    return type == FileKind::kTable || type == FileKind::kLevelDbTable;
  }

  Status List() {
    std::vector<std::string> names;
    Status status = env_->GetChildren(path_, &names);
    if (!status.ok() && !status.IsNotFound()) return status;
    old_files_.clear();
    temporary_files_.clear();
    manifest_ = BestEffortManifest();
    ReadBestEffortManifest(env_, path_, names, &manifest_);
    for (const std::string& name : names) {
      OldFile file{name, 0, FileKind::kTemp, "", false, false};
      if (!ParseFileName(name, &file.number, &file.type) ||
          IsLevelDbGuard(env_, path_, name)) {
        continue;
      }
      // The number of an old info log is a time.
      if (file.type == FileKind::kInfoLog) continue;
      if (IsForeign(file)) {
        // New files do not get its number, unless it is too far to be reached.
        if (!IsFar(file)) {
          next_number_ = std::max(next_number_, file.number + 1);
        }
        continue;
      }
      if (file.type == FileKind::kBlob) {
        return Status::NotSupported(path_ + "/" + name, "blob files");
      }
      status = NoteNumber(file);
      if (!status.ok()) return status;
      // Files of an interrupted repair or recovery.
      if (file.type == FileKind::kTemp && file.number != 0 &&
          path_ + "/" + name == TempFileName(path_, file.number)) {
        temporary_files_.push_back(name);
      }
      if (file.type == FileKind::kOptions) {
        options_number_ = std::max(options_number_, file.number);
      }
      if (IsTable(file.type) || file.type == FileKind::kWal ||
          file.type == FileKind::kManifest || file.type == FileKind::kCurrent) {
        old_files_.push_back(std::move(file));
      }
    }
    if (old_files_.empty()) {
      return Status::InvalidArgument(path_, "no files of a database are here");
    }
    std::sort(
        old_files_.begin(), old_files_.end(),
        [](const OldFile& a, const OldFile& b) { return a.number < b.number; });
    // Names that an earlier repair has created there must not be reused.
    names.clear();
    // It often does not exist.
    env_->GetChildren(lost_path_, &names).IgnoreError();
    for (const std::string& name : names) {
      OldFile file{name, 0, FileKind::kTemp, "", false, false};
      if (ParseFileName(name, &file.number, &file.type)) {
        NoteNumber(file).IgnoreError();
      }
    }
    return status;
  }

  // New ones may need their space.
  void RemoveTemporaryFiles() {
    for (const std::string& name : temporary_files_) {
      // The next Open removes a file that stays.
      env_->RemoveFile(path_ + "/" + name).IgnoreError();
    }
  }

  bool IsFar(const OldFile& file) const {
    return file.number > kMaxFileNumber - kSpareFileNumbers ||
           file.number >= manifest_.next_file_number + kFarFileNumbers;
  }

  // Such a file is not moved. Without a MANIFEST that tells the next number, a
  // damaged table may have any number.
  bool IsForeign(const OldFile& file) const {
    const std::string path = path_ + "/" + file.name;
    uint64_t next = manifest_.next_file_number;
    uint64_t size = 0;
    if (next == 0 && IsTable(file.type) &&
        env_->GetFileSize(path, &size).ok() && size > 0) {
      next = kMaxFileNumber;
    }
    return !manifest_.Names(file.type, file.number) &&
           IsForeignFile(env_, path, file.type, file.number, next);
  }

  Status NoteNumber(const OldFile& file) {
    if (file.number > kMaxFileNumber - kSpareFileNumbers) {
      return Status::Corruption(path_ + "/" + file.name,
                                "no database has a file of that number");
    }
    next_number_ = std::max(next_number_, file.number + 1);
    return Status::OK();
  }

  // Finds the column families by the MANIFEST and by what tables say.
  Status FindFamilies() {
    families_ = std::make_unique<RepairFamilies>(options_, context_, manifest_);
    for (const OldFile& old : old_files_) {
      if (!IsTable(old.type) || manifest_.removed.contains(old.number)) {
        continue;
      }
      PropertiesBlock properties;
      Status status = ReadProperties(old, &properties);
      // A damaged one may not show its properties.
      if (status.ok()) families_->NoteTable(old.number, properties);
    }
    Status status = families_->Resolve();
    if (!status.ok()) return status.Annotate(path_);
    // Where RocksDB has written it is forgotten, and may be set again.
    return manifest_.key_folding.empty()
               ? Status::OK()
               : CheckKeyFolding(manifest_.key_folding, options_.Default());
  }

  Status ReadProperties(const OldFile& old, PropertiesBlock* properties) {
    TableReaderOptions options;
    options.file_name = path_ + "/" + old.name;
    std::unique_ptr<RandomAccessFile> file;
    Status status = env_->GetFileSize(options.file_name, &options.file_size);
    if (status.ok()) {
      status =
          env_->NewRandomAccessFile(options.file_name, FileOptions(), &file);
    }
    if (!status.ok()) return status;
    return ReadPropertiesOf(options, std::move(file), properties);
  }

  // Refuses logs in another directory, since a repair would make them obsolete.
  Status CheckUnsupportedWal() {
    return options_number_ == 0
               ? Status::OK()
               : CheckLogDirectory(env_, path_, options_number_,
                                   manifest_.first_log_number);
  }

  Status SalvageLogs() {
    const uint64_t first = manifest_.first_log_number;
    // The tables of families that need that log have these updates.
    for (const auto& [id, family] : manifest_.families) {
      if (family.log_number <= first) NotePosition(family.tables_end);
    }
    tables_end_ = position_;
    for (const OldFile& old : old_files_) {
      if (old.type != FileKind::kWal || manifest_.IsObsoleteLog(old.number)) {
        continue;
      }
      Status status = SalvageLog(old.number, path_ + "/" + old.name);
      if (!status.ok()) return status;
    }
    if (last_log_ == 0) ReportFamiliesAhead(first);
    return SalvageUnusedLogs();
  }

  // Adds the logs that an Open has put into lost/. After further updates, what
  // they hold may be older than what has lost its sequence number since.
  Status SalvageUnusedLogs() {
    const UnusedLogs unused = ReadUnusedLogs(env_, path_);
    const bool is_used = manifest_.last_sequence <= unused.end &&
                         manifest_.last_sequence != 0 &&
                         logs_end_ <= unused.end;
    for (const auto& [number, name] : unused.files) {
      const std::string path = lost_path_ + "/" + name;
      if (!is_used) {
        Log(LogLevel::kWarn, logger_,
            "%s is left out: the database was written to since it was put "
            "there",
            path.c_str());
        continue;
      }
      Log(LogLevel::kWarn, logger_, "the updates in %s are added",
          path.c_str());
      unused_after_ = unused.after;
      Status status = SalvageLog(number, path);
      if (!status.ok() && !status.IsNotFound()) return status;
    }
    return Status::OK();
  }

  Status SalvageLog(uint64_t number, const std::string& path) {
    std::unique_ptr<SequentialFile> file;
    Status status = env_->NewSequentialFile(path, FileOptions(), &file);
    if (!status.ok()) return status;
    wal::Reader reader(std::move(file), path, number);
    Slice record;
    // An unused log is obsolete by its number.
    families_->BeginLog(unused_after_ ? UINT64_MAX : number);
    bool first = true;
    wal::ReadOutcome outcome;
    do {
      while ((outcome = reader.ReadRecord(&record)) ==
             wal::ReadOutcome::kRecord) {
        if (std::exchange(first, false) && !unused_after_) {
          NoteBeginning(record, number);
        }
        if (IsInDatabase(record)) continue;
        // Updates before damage inside a batch are kept.
        SequenceNumber next = 0;
        status = families_->AddRecord(record, &next);
        NoteEnd(next);
        if (status.IsCorruption()) status = Status::OK();
        if (!status.ok()) return status.Annotate(path);
      }
      if (outcome != wal::ReadOutcome::kEnd) ReportFamiliesAhead(number);
    } while (reader.SkipDamage());
    if (outcome == wal::ReadOutcome::kNotSupported) return reader.status();
    if (!unused_after_) {
      last_log_ = number;
      last_log_end_ = reader.RecordEnd();
    }
    return families_->EndLog();
  }

  // Looks at the first record of a log: at the number that the log once had, if
  // it is a copy, and at the log before it.
  void NoteBeginning(const Slice& record, uint64_t number) {
    const auto note = WalPredecessor::Decode(record);
    BatchReader batch;
    if (!note && batch.Init(record).ok() && batch.count() > 0 &&
        batch.sequence() <= tables_end_) {
      families_->BeginLog(0);  // An obsolete one.
      ReportFamiliesAhead(last_log_);
    }
    if (!note) return;
    if (note->log != 0 && note->log != number) {
      families_->BeginLog(note->log);
      ReportFamiliesAhead(last_log_);
    } else if (note->number >= manifest_.first_log_number &&
               (note->number != last_log_ || note->size > last_log_end_)) {
      ReportFamiliesAhead(last_log_);
    }
  }

  // Returns true if a record of a log in lost/ is in the database already.
  bool IsInDatabase(const Slice& record) const {
    BatchReader batch;
    return unused_after_ && batch.Init(record).ok() &&
           batch.sequence() <= *unused_after_;
  }

  // Notes the sequence number after a record's last update.
  void NoteEnd(SequenceNumber next) {
    if (unused_after_ || next == 0) return;
    logs_end_ = std::max(logs_end_, next - 1);
    if (!is_gap_known_) NotePosition(logs_end_);
  }

  void NotePosition(SequenceNumber end) {
    position_ = std::max(position_, end);
  }

  // At the first place where updates are missing in the logs, names the
  // families that have later ones in tables.
  void ReportFamiliesAhead(uint64_t log) {
    log = std::max(log, manifest_.first_log_number);
    if (std::exchange(is_gap_known_, true)) return;
    for (const auto& [id, family] : manifest_.families) {
      if (family.log_number <= log || family.tables_end <= position_) continue;
      Log(LogLevel::kWarn, logger_,
          "column family %s is ahead: its tables have updates to number %llu, "
          "and in log %llu updates after number %llu are missing",
          family.name.c_str(),
          static_cast<unsigned long long>(family.tables_end),
          static_cast<unsigned long long>(log),
          static_cast<unsigned long long>(position_));
    }
  }

  // Finds the tables that can be read to the end, and copies the readable
  // entries of the others.
  Status SalvageTables() {
    for (const OldFile& old : old_files_) {
      if (!IsTable(old.type) || manifest_.removed.contains(old.number)) {
        continue;
      }
      const auto family = families_->FamilyOfTable(old.number);
      if (!family) {
        // Its sequence numbers are the default family's if no other turns up.
        strays_.emplace_back(&old, families_->default_family()->NewRank());
        continue;
      }
      if (*family == nullptr) continue;  // Dropped, or left out.
      Status status = SalvageTable(old, *family, std::nullopt);
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  // Tables that do not say whose they are, and that no MANIFEST names. Other
  // families than the default one exist if anything else is of them.
  Status SalvageStrayTables() {
    for (const auto& [old, rank] : strays_) {
      RepairFamily* family = nullptr;
      std::optional<uint64_t> its_rank;
      if (families_->IsOnlyDefault()) {
        family = families_->default_family();
        its_rank = rank;
      } else {
        Status status = families_->AddForTable(old->number, &family);
        if (!status.ok()) return status;
        if (family == nullptr) continue;
      }
      Status status = SalvageTable(*old, family, its_rank);
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  Status SalvageTable(const OldFile& old, RepairFamily* family,
                      std::optional<uint64_t> rank) {
    TableFile table{old.number, 0, 0, 0};
    const auto known = manifest_.tables.find(old.number);
    const FileMetaData* const metadata =
        known == manifest_.tables.end() ? nullptr : &known->second.file;
    if (metadata != nullptr)
      table.largest_sequence = metadata->largest_sequence;
    const std::string path = path_ + "/" + old.name;
    Status status = env_->GetFileSize(path, &table.size);
    if (!status.ok()) return status;
    if (!rank && family->TakeWhole(path, table, NamedUpTo(), metadata)) {
      return status;
    }
    return family->CopyReadable(path, table,
                                old.type == FileKind::kLevelDbTable,
                                rank ? *rank : family->NewRank());
  }

  // Returns the newest sequence number in the tables that the MANIFEST names if
  // all of them are there. Otherwise returns 0: the MANIFEST has lost edits,
  // and a table that it does not name may be all that is left of others.
  SequenceNumber NamedUpTo() const {
    if (!manifest_.has_all_families) return 0;
    std::set<uint64_t> numbers;
    for (const OldFile& old : old_files_) {
      if (IsTable(old.type)) numbers.insert(old.number);
    }
    SequenceNumber newest = 0;
    for (const auto& [number, table] : manifest_.tables) {
      if (!numbers.contains(number)) return 0;
      newest = std::max(newest, table.file.largest_sequence);
    }
    return newest;
  }

  // Writes a log of the prepared transactions.
  Status WriteLog(uint64_t number) {
    std::unique_ptr<WritableFile> file;
    Status status =
        env_->NewWritableFile(WalFileName(path_, number), FileOptions(), &file);
    if (!status.ok()) return status;
    wal::Writer log(std::move(file), number);
    status = families_->prepared().CopyTo(
        last_sequence_ + 1, [&log](const std::vector<Slice>& parts) {
          return log.AddRecord(parts);
        });
    if (status.ok()) status = log.Sync();
    return status.ok() ? log.Close() : status;
  }

  Status WriteManifest() {
    // That it is there shows that the MANIFEST has not lost its end.
    const uint64_t log_number = next_number_++;
    Status status = WriteLog(log_number);
    if (status.ok()) status = directory_->Sync();
    if (!status.ok()) return status;
    // A cache reads no table here. It only shows which family a version is of.
    // Both lists outlive `versions`, which refers to them.
    std::vector<std::unique_ptr<TableCache>> caches;
    std::vector<std::unique_ptr<FamilyVersions>> families;
    std::vector<VersionSet::FamilyEdit> edits;
    LoneDbMutex mutex;
    VersionSet versions(path_, env_, mutex.lockable());
    ManifestState empty;
    empty.next_file_number = next_number_;
    empty.last_sequence = last_sequence_;
    empty.max_column_family = families_->max_id();
    empty.key_folding = KeyFoldingName(options_.db.key_case);
    MutexLock lock(mutex.lockable());
    versions.Initialize(&empty, directory_.get());
    families_->ForEach([&](uint32_t id,
                           RepairFamily* family) VARVE_REQUIRES(kDbMutex) {
      caches.push_back(std::make_unique<TableCache>(
          path_, env_, FileOptions(), TableReaderOptions(), kMaxOpenFiles,
          false, &pool_));
      families.push_back(std::make_unique<FamilyVersions>(
          family->name(), &family->comparator(), caches.back().get(), true));
      FamilyManifest state;
      state.id = id;
      versions.AddFamilyLocked(families.back().get(), &state);
      VersionEdit* const edit = family->edit();
      edit->SetComparatorName(family->comparator().user_comparator()->Name());
      edit->SetLogNumber(log_number);
      edits.push_back({families.back().get(), edit});
    });
    if (!manifest_.db_id.empty()) edits[0].edit->SetDbId(manifest_.db_id);
    return versions.LogAndApply(edits);
  }

  // From the new MANIFEST on, an Open may remove the old files. So they get
  // their place in lost/ before, as a second name where that can be.
  Status KeepOldFiles() {
    Status status = env_->CreateDirIfMissing(lost_path_);
    std::unique_ptr<Directory> lost;
    if (status.ok()) status = env_->NewDirectory(lost_path_, &lost);
    for (OldFile& old : old_files_) {
      if (!status.ok()) return status;
      old.lost_name = FreeLostName(env_, path_, old.name);
      const std::string path = path_ + "/" + old.name;
      status = env_->LinkFile(path, old.lost_name);
      old.has_lost_name = status.ok();
      if (!status.IsNotSupported()) continue;
      // Nothing of CURRENT's kind may stand in the way of the new one.
      status = old.type == FileKind::kCurrent
                   ? env_->RenameFile(path, old.lost_name)
                   : Status::OK();
    }
    return status.ok() ? lost->Sync() : status;
  }

  // Removes tables that the old MANIFEST named as obsolete. The new MANIFEST
  // does not name them. If this repair is interrupted, another one would treat
  // them as lost tables.
  Status RemoveObsoleteTables() {
    Status status;
    for (OldFile& old : old_files_) {
      if (!IsTable(old.type) || !manifest_.removed.contains(old.number))
        continue;
      status = RemoveOldName(old);
      if (!status.ok()) return status;
      old.is_gone = true;
    }
    return status;  // WriteManifest syncs the directory first.
  }

  Status RemoveOldNames() {
    Status status;
    for (const OldFile& old : old_files_) {
      if (!status.ok()) return status;
      if (old.type == FileKind::kCurrent) continue;  // It is a new one.
      if (!old.is_gone) status = RemoveOldName(old);
    }
    if (status.ok()) status = directory_->Sync();
    return status;
  }
  Status RemoveOldName(const OldFile& old) {
    const std::string path = path_ + "/" + old.name;
    return old.has_lost_name ? env_->RemoveFile(path)
                             : env_->RenameFile(path, old.lost_name);
  }

  const RepairOptions& options_;
  const std::string path_;
  const std::string lost_path_;
  Env* const env_;
  Logger* const logger_;
  std::shared_ptr<Cache> block_cache_;
  FilePool pool_;
  RepairContext context_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Directory> directory_;
  std::vector<OldFile> old_files_;
  // The updates that the logs have up to where the first ones are missing, and
  // that the tables of all families have.
  SequenceNumber position_ = 0;
  bool is_gap_known_ = false;  // Updates are missing.
  // The last update in tables of the families that need the first log.
  SequenceNumber tables_end_ = 0;
  SequenceNumber logs_end_ = 0;  // The last update in the logs.
  uint64_t last_log_ = 0;        // The last log that was read, and
  uint64_t last_log_end_ = 0;    // the end of its last record.
  // Set while logs of lost/ are read: their updates up to it are in tables.
  std::optional<SequenceNumber> unused_after_;
  uint64_t options_number_ = 0;  // The number of RocksDB's newest options file.
  BestEffortManifest manifest_;
  std::vector<std::string> temporary_files_;
  std::unique_ptr<RepairFamilies> families_;
  // Tables of an unknown family, with their ranks in the default one.
  std::vector<std::pair<const OldFile*, uint64_t>> strays_;
  uint64_t next_number_ = 1;
  SequenceNumber last_sequence_ = 0;
};

Status Repair(RepairOptions options, const std::string& path) {
  Status status = options.Check();
  if (!status.ok()) return status;
  const HeldDirectory directory(options.db.env, path);
  options.db.env = directory.env();
  return Repairer(options, directory.path()).Run();
}

}  // namespace

Status RepairDB(const std::string& path, const Options& options) {
  RepairOptions all;
  all.db = options;
  all.families.emplace_back(kDefaultColumnFamilyName, options);
  all.unknown_families = options;
  return Repair(std::move(all), path);
}

Status RepairDB(const std::string& path, const DBOptions& options,
                const std::vector<ColumnFamilyDescriptor>& families) {
  RepairOptions all;
  all.db = options;
  all.families = families;
  return Repair(std::move(all), path);
}

Status RepairDB(const std::string& path, const DBOptions& options,
                const std::vector<ColumnFamilyDescriptor>& families,
                const ColumnFamilyOptions& unknown_families) {
  RepairOptions all;
  all.db = options;
  all.families = families;
  all.unknown_families = unknown_families;
  return Repair(std::move(all), path);
}

}  // namespace varve
