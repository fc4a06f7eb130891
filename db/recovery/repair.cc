// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <atomic>
#include <optional>

#include "db/compaction/compaction_job.h"
#include "db/compaction/flush_job.h"
#include "db/compaction/surviving_range_tombstones.h"
#include "db/folding/key_case.h"
#include "db/options/options_check.h"
#include "db/recovery/foreign_files.h"
#include "db/recovery/repair_inputs.h"
#include "db/version/best_effort_manifest.h"
#include "db/version/range_tombstone_collector.h"
#include "db/version/version_set.h"
#include "db/wal/unsupported_wal.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "env/held_directory.h"
#include "table/block/comparator_mismatch.h"
#include "table/build/table_salvage.h"
#include "table/cache/block_cache.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

// Rebuilds a database from its tables and logs. Levels may be lost with the
// MANIFEST, so all readable entries are merged into new tables of level 1:
// internal keys tell which version is the newest. The rest of the MANIFEST
// tells which files are obsolete. Their entries live on in other files, perhaps
// without sequence numbers, and would seem newer in the obsolete ones. Steps:
// lock, list, read what is left of the MANIFEST, salvage each damaged table and
// each log (RepairInputs), merge; give the old files a second name in lost/,
// remove the first names of obsolete tables, write a MANIFEST, and remove the
// other first names. Foreign files stay where they are.
class Repairer {
 public:
  Repairer(const Options& options, std::string path)
      : options_(options),
        path_(std::move(path)),
        lost_path_(path_ + "/lost"),
        env_(options.env),
        comparator_(options.comparator),
        block_cache_(NewBlockCache(kCacheBytes)),
        deletions_(&comparator_, 0, 64 << 10, MemTableOrderOf(options)) {
    context_.db_path = path_;
    context_.env = env_;
    context_.options = &options_;
    context_.comparator = &comparator_;
    context_.session_identity = NewSessionIdentity();
    table_options_.comparator = &comparator_;
    table_options_.filter_policy = options_.filter_policy;
    table_options_.block_cache = static_cast<BlockCache*>(block_cache_.get());
    table_cache_ = std::make_unique<TableCache>(path_, env_, FileOptions(),
                                                table_options_, kMaxOpenFiles);
    inputs_ =
        std::make_unique<RepairInputs>(context_, table_options_, &next_number_);
  }

  Status Run() {
    Status status = List();  // Before any file is created.
    if (status.ok()) status = env_->LockFile(LockFileName(path_), &lock_);
    if (status.ok()) status = env_->NewDirectory(path_, &directory_);
    if (status.ok()) status = List();
    if (status.ok()) RemoveTemporaryFiles();
    if (status.ok()) status = CheckManifest();
    if (status.ok()) status = CheckUnsupportedWal();
    if (status.ok()) status = SalvageTables();
    if (status.ok()) status = SalvageLogs();
    if (status.ok()) status = Merge();
    inputs_.reset();  // With its temporary files.
    if (status.ok()) status = KeepOldFiles();
    if (!status.ok()) RemoveOutputs();
    if (status.ok()) status = RemoveObsoleteTables();
    if (status.ok()) status = WriteManifest();
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
    FileType type;
    std::string lost_name;  // The path in lost/.
    bool has_lost_name = false;
    bool is_gone = false;  // The name was removed.
  };

  static bool IsTable(FileType type) {
    return type == FileType::kTable || type == FileType::kLevelDbTable;
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
      OldFile file{name, 0, FileType::kTemp, "", false, false};
      if (!ParseFileName(name, &file.number, &file.type)) continue;
      // The number of an old info log is a time.
      if (file.type == FileType::kInfoLog) continue;
      if (IsForeign(file)) {
        // New files do not get its number, unless it is too far to be reached.
        if (!IsFar(file)) {
          next_number_ = std::max(next_number_, file.number + 1);
        }
        continue;
      }
      if (file.type == FileType::kBlob) {
        return Status::NotSupported(path_ + "/" + name, "blob files");
      }
      status = NoteNumber(file);
      if (!status.ok()) return status;
      // Files of an interrupted repair or recovery.
      if (file.type == FileType::kTemp && file.number != 0 &&
          path_ + "/" + name == TempFileName(path_, file.number)) {
        temporary_files_.push_back(name);
      }
      if (file.type == FileType::kOptions) {
        options_number_ = std::max(options_number_, file.number);
      }
      if (IsTable(file.type) || file.type == FileType::kWal ||
          file.type == FileType::kManifest || file.type == FileType::kCurrent) {
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
      OldFile file{name, 0, FileType::kTemp, "", false, false};
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

  Status CheckManifest() {
    if (!manifest_.families.empty()) {
      return Status::NotSupported(
          path_,
          "column families (" + manifest_.families.begin()->second + ")");
    }
    const char* const comparator = options_.comparator->Name();
    if (!manifest_.comparator.empty() && manifest_.comparator != comparator) {
      const std::string feature =
          FeatureOfComparator(manifest_.comparator, comparator);
      if (!feature.empty()) return Status::NotSupported(path_, feature);
      return Status::InvalidArgument(
          "comparator: the database was written with " + manifest_.comparator +
          ", Options::comparator is " + comparator);
    }
    // Where RocksDB has written it is forgotten, and may be set again.
    return manifest_.key_folding.empty()
               ? Status::OK()
               : CheckKeyFolding(manifest_.key_folding, options_);
  }

  // Refuses logs in another directory, since a repair would make them obsolete.
  Status CheckUnsupportedWal() {
    Status status = options_number_ == 0
                        ? Status::OK()
                        : CheckLogDirectory(env_, path_, options_number_,
                                            manifest_.first_log_number);
    for (const OldFile& old : old_files_) {
      if (!status.ok()) return status;
      if (old.type == FileType::kWal && manifest_.IsObsoleteLog(old.number) &&
          manifest_.min_log_number_to_keep != 0 &&
          old.number >= manifest_.min_log_number_to_keep) {
        status = CheckForPreparedTransactions(env_, path_, old.number);
      }
    }
    return status;
  }

  std::unique_ptr<MemTable> NewMemTable() const {
    return std::make_unique<MemTable>(&comparator_, 0,
                                      RepairInputs::kMemTableBytes,
                                      MemTableOrderOf(options_));
  }

  // Takes what was salvaged.
  Status AddMemTable(std::unique_ptr<MemTable> memtable, uint64_t rank) {
    for (const auto& set : memtable->tombstones().Sets()) AddDeletions(*set);
    return inputs_->AddMemTable(std::move(memtable), rank);
  }

  void AddDeletions(const RangeTombstoneSet& set) {
    for (size_t i = 0; i < set.size(); ++i) {
      const RangeTombstone deletion = set.at(i);
      deletions_.Add(deletion.sequence, ValueType::kRangeDeletion,
                     deletion.begin, deletion.end);
    }
  }

  Status SalvageLogs() {
    for (const OldFile& old : old_files_) {
      if (old.type != FileType::kWal || manifest_.IsObsoleteLog(old.number)) {
        continue;
      }
      Status status = SalvageLog(old);
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  // A newer log's updates have a memtable of their own: should one number have
  // been given out twice, the newer log is right.
  Status SalvageLog(const OldFile& old) {
    const std::string path = path_ + "/" + old.name;
    std::unique_ptr<SequentialFile> file;
    Status status = env_->NewSequentialFile(path, FileOptions(), &file);
    if (!status.ok()) return status;
    wal::Reader reader(std::move(file), path, old.number);
    Slice record;
    auto memtable = NewMemTable();
    wal::ReadOutcome outcome;
    do {
      while ((outcome = reader.ReadRecord(&record)) ==
             wal::ReadOutcome::kRecord) {
        if (memtable->ApproximateMemoryUsage() > RepairInputs::kMemTableBytes) {
          status = AddMemTable(std::exchange(memtable, NewMemTable()),
                               inputs_->NewRank());
          if (!status.ok()) return status;
        }
        // Updates before damage inside a batch are kept.
        status = InsertBatchInto(record, memtable.get());
        if (status.IsNotSupported()) return status.Annotate(path);
      }
    } while (reader.SkipDamage());
    if (outcome == wal::ReadOutcome::kNotSupported) return reader.status();
    return AddMemTable(std::move(memtable), inputs_->NewRank());
  }

  // Finds the tables that can be read to the end, and copies the readable
  // entries of the others.
  Status SalvageTables() {
    for (const OldFile& old : old_files_) {
      if (!IsTable(old.type) || manifest_.removed.count(old.number) != 0)
        continue;
      TableFile table{old.number, 0, 0, 0};
      const auto known = manifest_.tables.find(old.number);
      if (known != manifest_.tables.end()) {
        table.largest_sequence = known->second.largest_sequence;
      }
      const std::string path = path_ + "/" + old.name;
      Status status = env_->GetFileSize(path, &table.size);
      if (!status.ok()) return status;
      if (TakeWhole(path, table)) continue;
      status = CopyReadable(table, old);
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  // Adds the table if it can be read to the end. False if it cannot.
  bool TakeWhole(const std::string& path, const TableFile& file) {
    std::shared_ptr<Table> table;
    if (!inputs_->OpenTable(path, file, &table).ok()) return false;
    ReadOptions read_options;
    read_options.fill_cache = false;
    const auto iterator = table->NewIterator(read_options);
    std::string first;
    std::string last;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      const Slice key = iterator->key();
      if (last.empty()) {
        first.assign(key.data(), key.size());
      } else if (comparator_.Compare(last, key) >= 0) {
        return false;
      }
      last.assign(key.data(), key.size());
    }
    if (!iterator->status().ok() || !TakeRangeTombstones(file, *table)) {
      return false;
    }
    if (last.empty()) return true;
    inputs_->AddTable(path, file, inputs_->NewRank(), std::move(first),
                      std::move(last));
    return true;
  }

  bool TakeRangeTombstones(const TableFile& file, const Table& table) {
    const RangeTombstoneSet* const tombstones = table.tombstones();
    if (tombstones == nullptr) return true;
    const auto known = manifest_.tables.find(file.number);
    if (known == manifest_.tables.end()) {
      AddDeletions(*tombstones);
      return true;
    }
    // Foreign writers' deletions may reach beyond what the MANIFEST gives to
    // the table, to keys that have lost their sequence numbers.
    FileMetaData metadata = known->second;
    metadata.file_size = file.size;
    metadata.tail_size = 0;
    RangeTombstoneCollector collector(&comparator_);
    if (!collector.AddFile(table_cache_.get(), metadata).ok()) return false;
    const auto clipped = collector.Build();
    table_cache_->Evict(file.number);  // Frees the metadata.
    if (clipped != nullptr) AddDeletions(*clipped);
    return true;
  }

  Status CopyReadable(const TableFile& table, const OldFile& old) {
    const std::string path = path_ + "/" + old.name;
    std::unique_ptr<RandomAccessFile> file;
    Status status = env_->NewRandomAccessFile(path, FileOptions(), &file);
    if (!status.ok()) return status;
    TableReaderOptions table_options = table_options_;
    table_options.block_cache = nullptr;
    table_options.file_name = path;
    table_options.file_size = table.size;
    table_options.manifest_largest_sequence = table.largest_sequence;
    auto memtable = NewMemTable();
    // The first one of two entries with the same key counts.
    uint64_t rank = inputs_->NewRank();
    std::string last;
    const auto take = [&](const Slice& key, const Slice& value) {
      if (!status.ok()) return;
      // A crafted table may be in disorder, and have keys twice.
      if (!last.empty() && comparator_.Compare(last, key) >= 0) {
        const auto same = memtable->NewIterator();
        same->Seek(key);
        if (same->Valid() && same->key() == key) return;
      } else {
        last.assign(key.data(), key.size());
      }
      memtable->Add(ExtractSequence(key), ExtractValueType(key),
                    ExtractUserKey(key), value);
      if (memtable->ApproximateMemoryUsage() > RepairInputs::kMemTableBytes) {
        status = AddMemTable(std::exchange(memtable, NewMemTable()), rank--);
      }
    };
    const Status salvaged =
        SalvageTable(table_options, std::move(file),
                     old.type == FileType::kLevelDbTable, take);
    if (status.ok()) status = salvaged;
    return status.ok() ? AddMemTable(std::move(memtable), rank) : status;
  }

  void Track(SequenceNumber sequence) {
    last_sequence_ = std::max(last_sequence_, sequence);
  }

  Status Merge() {
    RangeTombstoneCollector collector(&comparator_);
    collector.AddMemTable(deletions_);
    const auto tombstones = collector.Build();
    if (tombstones != nullptr) Track(tombstones->at(0).sequence);
    const KeyFolding folding = KeyFoldingOf(options_);
    const SurvivingRangeTombstones surviving(tombstones.get(), {}, nullptr);
    const auto input = inputs_->NewIterator();
    std::unique_ptr<TableOutput> output;
    std::string last_key;
    std::optional<std::string> begin;  // For outputs after the first.
    const auto open = [&] {
      output = std::make_unique<TableOutput>(context_, next_number_++,
                                             options_.compression,
                                             RateLimiter::Priority::kHigh);
      return output->Open();
    };
    const auto finish = [&](const std::optional<Slice>& end) {
      surviving.AddTo(begin, end, output.get());
      if (end) begin = end->ToString();
      Status finished = output->Finish();
      if (finished.ok()) edit_.AddFile(1, output->metadata());
      return finished;
    };
    Status status;
    for (input->SeekToFirst(); status.ok() && input->Valid(); input->Next()) {
      const Slice key = input->key();
      Track(ExtractSequence(key));
      const bool newest =
          last_key.empty() || comparator_.CompareUser(ExtractUserKey(last_key),
                                                      ExtractUserKey(key)) != 0;
      // Only what is folded is found again.
      if (folding != KeyFolding::kNone && newest &&
          IsLive(key, tombstones.get())) {
        status = CheckIsFolded(ExtractUserKey(key), folding);
        if (!status.ok()) break;
      }
      if (output != nullptr && newest &&
          output->EstimatedFileSize() >= options_.target_file_size_base) {
        status = finish(ExtractUserKey(key));
        output.reset();
        if (!status.ok()) break;
      }
      if (output == nullptr) {
        status = open();
      }
      if (status.ok()) status = output->Add(key, input->value());
      last_key.assign(key.data(), key.size());
    }
    if (status.ok()) status = input->status();
    if (status.ok() && output == nullptr && !surviving.empty()) {
      status = open();
    }
    if (status.ok() && output != nullptr) status = finish({});
    if (!status.ok() && output != nullptr) output->Abandon();
    return status;
  }

  // Returns true if a key's newest version is visible to readers.
  static bool IsLive(const Slice& key, const RangeTombstoneSet* tombstones) {
    if (ExtractValueType(key) != ValueType::kValue) return false;
    return tombstones == nullptr ||
           tombstones->MaxCovering(ExtractUserKey(key), kMaxSequenceNumber) <=
               ExtractSequence(key);
  }

  // An Open that found them would take them for what the MANIFEST has lost.
  void RemoveOutputs() {
    for (const auto& [level, file] : edit_.new_files()) {
      env_->RemoveFile(TableFileName(path_, file.number)).IgnoreError();
    }
  }

  Status WriteManifest() {
    // Empty. That it is there shows that the MANIFEST has not lost its end.
    const uint64_t log_number = next_number_++;
    Status status =
        WriteStringToFile(env_, "", WalFileName(path_, log_number), true);
    if (status.ok()) status = directory_->Sync();
    if (!status.ok()) return status;
    Mutex mutex;
    FamilyVersions family("default", &comparator_, table_cache_.get(), true);
    VersionSet versions(path_, env_, &mutex);
    ManifestState empty;
    empty.next_file_number = next_number_;
    empty.last_sequence = last_sequence_;
    empty.key_folding = KeyFoldingName(options_.key_case);
    MutexLock lock(&mutex);
    versions.Initialize(&empty, directory_.get());
    versions.AddFamilyLocked(&family, &empty.default_family());
    edit_.SetComparatorName(options_.comparator->Name());
    edit_.SetLogNumber(log_number);
    if (!manifest_.db_id.empty()) edit_.SetDbId(manifest_.db_id);
    return versions.LogAndApply(&family, &edit_);
  }

  // From the new MANIFEST on, an Open may remove the old files. So they get
  // their place in lost/ before, as a second name where that can be.
  Status KeepOldFiles() {
    Status status = env_->CreateDirIfMissing(lost_path_);
    std::unique_ptr<Directory> lost;
    if (status.ok()) status = env_->NewDirectory(lost_path_, &lost);
    for (OldFile& old : old_files_) {
      if (!status.ok()) return status;
      old.lost_name = lost_path_ + "/" + old.name;
      for (int i = 1; env_->FileExists(old.lost_name).ok(); ++i) {
        old.lost_name = lost_path_ + "/" + old.name + "." + std::to_string(i);
      }
      const std::string path = path_ + "/" + old.name;
      status = env_->LinkFile(path, old.lost_name);
      old.has_lost_name = status.ok();
      if (!status.IsNotSupported()) continue;
      // Nothing of CURRENT's kind may stand in the way of the new one.
      status = old.type == FileType::kCurrent
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
      if (old.type == FileType::kCurrent) continue;  // It is a new one.
      if (!old.is_gone) status = RemoveOldName(old);
    }
    if (status.ok()) status = directory_->Sync();
    return status;
  }
  Status RemoveOldName(const OldFile& old) {
    const std::string path = path_ + "/" + old.name;
    if (IsTable(old.type)) table_cache_->Evict(old.number);
    return old.has_lost_name ? env_->RemoveFile(path)
                             : env_->RenameFile(path, old.lost_name);
  }

  const Options options_;
  const std::string path_;
  const std::string lost_path_;
  Env* const env_;
  const InternalKeyComparator comparator_;
  std::shared_ptr<Cache> block_cache_;
  TableReaderOptions table_options_;
  std::unique_ptr<TableCache> table_cache_;
  TableOutputContext context_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Directory> directory_;
  std::vector<OldFile> old_files_;
  uint64_t options_number_ = 0;  // The number of RocksDB's newest options file.
  BestEffortManifest manifest_;
  std::vector<std::string> temporary_files_;
  // Tables, then logs, each the oldest first. For two entries with the same
  // internal key, the newest log's counts, or else the entry of the table with
  // the highest number. A compaction that removed sequence numbers may have
  // left its inputs, in which older entries have none either.
  std::unique_ptr<RepairInputs> inputs_;
  MemTable deletions_;  // All range deletions that were found.
  VersionEdit edit_;
  uint64_t next_number_ = 1;
  SequenceNumber last_sequence_ = 0;
};

}  // namespace

Status RepairDB(const std::string& path, const Options& options) {
  Status status = CheckOptions(options);
  if (!status.ok()) return status;
  Options sane = options;
  RaiseNumbers(&sane);
  const HeldDirectory directory(options.env, path);
  sane.env = directory.env();
  return Repairer(sane, directory.path()).Run();
}

}  // namespace varve
