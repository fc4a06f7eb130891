// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <atomic>
#include <optional>

#include "db/compaction_job.h"
#include "db/flush_job.h"
#include "db/key_case.h"
#include "db/options_check.h"
#include "db/tombstone_collector.h"
#include "db/tombstone_survivors.h"
#include "db/version_set.h"
#include "db/wal_reader.h"
#include "db/write_batch_internal.h"
#include "env/file_names.h"
#include "table/block_cache.h"
#include "table/merging_iterator.h"

namespace varve {

namespace {

// Rebuilds a database from its tables and logs alone. Levels are lost with
// the MANIFEST, so all readable entries are merged into new tables of level 1:
// internal keys say themselves which version is the newest.
// Steps: lock, list, salvage each log into a table and each damaged table
// into a copy of its readable entries, merge, write a MANIFEST, move the old
// files to lost/.
class Repairer {
 public:
  Repairer(const Options& options, std::string path)
      : options_(options),
        path_(std::move(path)),
        env_(options.env),
        comparator_(options.comparator),
        block_cache_(NewBlockCache(kCacheBytes)),
        tombstones_(&comparator_) {
    context_ = {path_, env_, &options_, &comparator_, ""};
    TableReaderOptions table_options;
    table_options.comparator = &comparator_;
    table_options.filter_policy = options_.filter_policy;
    table_options.block_cache = static_cast<BlockCache*>(block_cache_.get());
    table_cache_ = std::make_unique<TableCache>(path_, env_, FileOptions(),
                                                table_options, kMaxOpenFiles);
  }

  Status Run() {
    Status status = env_->LockFile(LockFileName(path_), &lock_);
    if (status.ok()) status = env_->NewDirectory(path_, &directory_);
    if (status.ok()) status = List();
    if (status.ok()) status = SalvageLogs();
    if (status.ok()) status = SalvageTables();
    if (status.ok()) status = Merge();
    if (status.ok()) status = WriteManifest();
    if (status.ok()) status = MoveOldFiles();
    for (MemTable* memtable : memtables_) {
      if (memtable->Unref()) delete memtable;
    }
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
  };

  Status List() {
    std::vector<std::string> names;
    Status status = env_->GetChildren(path_, &names);
    if (!status.ok()) return status;
    for (const std::string& name : names) {
      OldFile file{name, 0, FileType::kTemp};
      if (!ParseFileName(name, &file.number, &file.type)) continue;
      next_number_ = std::max(next_number_, file.number + 1);
      old_files_.push_back(std::move(file));
    }
    std::sort(
        old_files_.begin(), old_files_.end(),
        [](const OldFile& a, const OldFile& b) { return a.number < b.number; });
    return status;
  }

  Status SalvageLogs() {
    for (const OldFile& old : old_files_) {
      if (old.type != FileType::kWal) continue;
      const std::string path = path_ + "/" + old.name;
      std::unique_ptr<SequentialFile> file;
      Status status = env_->NewSequentialFile(path, FileOptions(), &file);
      if (!status.ok()) continue;  // It goes to lost/ as it is.
      wal::Reader reader(std::move(file), path, old.number);
      Slice record;
      while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
        if (memtables_.empty() || memtables_.back()->ApproximateMemoryUsage() >
                                      options_.write_buffer_size) {
          memtables_.push_back(new MemTable(&comparator_, 0,
                                            options_.write_buffer_size,
                                            options_.ablation.memtable));
        }
        // What stands before damage inside a batch is kept.
        InsertBatchInto(record, memtables_.back()).IgnoreError();
      }
    }
    return Status::OK();
  }

  // Finds the tables that can be read to the end, and copies the readable
  // entries of the others.
  Status SalvageTables() {
    for (const OldFile& old : old_files_) {
      if (old.type != FileType::kTable && old.type != FileType::kLevelDbTable) {
        continue;
      }
      TableFile table{old.number, 0, 0};
      Status status = env_->GetFileSize(path_ + "/" + old.name, &table.size);
      if (!status.ok()) continue;
      ReadOptions read_options;
      read_options.fill_cache = false;
      auto iterator = table_cache_->NewIterator(read_options, table);
      bool any = false;
      bool in_order = true;
      std::string last;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        const Slice key = iterator->key();
        if (any && comparator_.Compare(last, key) >= 0) in_order = false;
        any = true;
        last.assign(key.data(), key.size());
        Track(ExtractSequence(key));
      }
      any |= SalvageRangeDeletions(table);
      if (iterator->status().ok() && in_order) {
        if (any) tables_.push_back(table);
        continue;
      }
      if (any) {
        status = CopyReadable(table);
        if (!status.ok()) return status;
      }
    }
    return Status::OK();
  }

  // Whether the table has any. Those of a damaged one are as good.
  bool SalvageRangeDeletions(const TableFile& file) {
    std::shared_ptr<Table> table;
    if (!table_cache_->Find(file, &table).ok()) return false;
    const RangeTombstones* const tombstones = table->tombstones();
    if (tombstones == nullptr) return false;
    for (size_t i = 0; i < tombstones->size(); ++i) {
      Track(tombstones->at(i).sequence);
    }
    tombstones_.AddTable(std::move(table));
    return true;
  }

  // The entries before the first damage of a table, and those behind it that
  // a seek reaches.
  Status CopyReadable(const TableFile& table) {
    auto* memtable = new MemTable(&comparator_, 0, options_.write_buffer_size,
                                  options_.ablation.memtable);
    memtables_.push_back(memtable);
    ReadOptions read_options;
    read_options.fill_cache = false;
    auto iterator = table_cache_->NewIterator(read_options, table);
    iterator->SeekToFirst();
    while (iterator->Valid()) {
      CopyEntry(*iterator, memtable);
      iterator->Next();
    }
    std::string last;
    if (memtable->EntryCount() > 0) last = LastKey(*memtable);
    iterator = table_cache_->NewIterator(read_options, table);
    for (iterator->SeekToLast();
         iterator->Valid() &&
         (last.empty() || comparator_.Compare(iterator->key(), last) > 0);
         iterator->Prev()) {
      CopyEntry(*iterator, memtable);
    }
    return Status::OK();
  }

  void CopyEntry(const InternalIterator& iterator, MemTable* memtable) {
    const Slice key = iterator.key();
    Track(ExtractSequence(key));
    memtable->Add(ExtractSequence(key), ExtractValueType(key),
                  ExtractUserKey(key), iterator.value());
  }

  static std::string LastKey(const MemTable& memtable) {
    const auto iterator = memtable.NewIterator();
    iterator->SeekToLast();
    return iterator->key().ToString();
  }

  void Track(SequenceNumber sequence) {
    last_sequence_ = std::max(last_sequence_, sequence);
  }

  Status Merge() {
    ReadOptions read_options;
    read_options.fill_cache = false;
    std::vector<std::unique_ptr<InternalIterator>> children;
    for (const MemTable* memtable : memtables_) {
      children.push_back(memtable->NewIterator());
      tombstones_.AddMemTable(*memtable);
    }
    const auto tombstones = tombstones_.Build();
    if (tombstones != nullptr) Track(tombstones->at(0).sequence);
    const TombstoneSurvivors survivors(tombstones.get(), {}, nullptr);
    for (const TableFile& table : tables_) {
      children.push_back(table_cache_->NewIterator(read_options, table));
    }
    const auto input = NewMergingIterator(&comparator_, std::move(children));
    std::unique_ptr<TableOutput> output;
    std::string last_key;
    std::optional<std::string> begin;  // Of the output, but for the first.
    const auto open = [&] {
      output = std::make_unique<TableOutput>(context_, next_number_++,
                                             options_.compression,
                                             RateLimiter::Priority::kHigh);
      return output->Open();
    };
    const auto finish = [&](const std::optional<Slice>& end) {
      survivors.AddTo(begin, end, output.get());
      if (end) begin = end->ToString();
      Status finished = output->Finish();
      if (finished.ok()) edit_.AddFile(1, output->metadata());
      return finished;
    };
    Status status;
    for (input->SeekToFirst(); status.ok() && input->Valid(); input->Next()) {
      const Slice key = input->key();
      // The same update may be in a log and in a table.
      if (!last_key.empty() && Slice(last_key) == key) continue;
      Track(ExtractSequence(key));
      if (output != nullptr &&
          output->EstimatedFileSize() >= options_.target_file_size_base &&
          comparator_.CompareUser(ExtractUserKey(last_key),
                                  ExtractUserKey(key)) != 0) {
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
    if (status.ok() && output == nullptr && !survivors.empty()) {
      status = open();
    }
    if (status.ok() && output != nullptr) status = finish({});
    if (!status.ok() && output != nullptr) output->Abandon();
    return status;
  }

  Status WriteManifest() {
    Status status = directory_->Sync();
    if (!status.ok()) return status;
    Mutex mutex;
    VersionSet versions(path_, env_, &comparator_, table_cache_.get(), true,
                        &mutex);
    ManifestState empty;
    empty.next_file_number = next_number_;
    empty.last_sequence = last_sequence_;
    empty.key_folding = KeyFoldingName(options_.key_case);
    MutexLock lock(&mutex);
    versions.Initialize(&empty, directory_.get());
    edit_.SetComparatorName(options_.comparator->Name());
    edit_.SetLogNumber(next_number_);
    return versions.LogAndApply(&edit_);
  }

  Status MoveOldFiles() {
    const std::string lost = path_ + "/lost";
    Status status = env_->CreateDirIfMissing(lost);
    for (const OldFile& old : old_files_) {
      if (!status.ok()) return status;
      if (old.type != FileType::kTable && old.type != FileType::kLevelDbTable &&
          old.type != FileType::kWal && old.type != FileType::kManifest) {
        continue;
      }
      table_cache_->Evict(old.number);
      status = env_->RenameFile(path_ + "/" + old.name, lost + "/" + old.name);
    }
    if (status.ok()) status = directory_->Sync();
    return status;
  }

  const Options options_;
  const std::string path_;
  Env* const env_;
  const InternalKeyComparator comparator_;
  std::shared_ptr<Cache> block_cache_;
  std::unique_ptr<TableCache> table_cache_;
  TableOutputContext context_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Directory> directory_;
  std::vector<OldFile> old_files_;
  std::vector<MemTable*> memtables_;
  std::vector<TableFile> tables_;  // Readable to the end.
  TombstoneCollector tombstones_;
  VersionEdit edit_;
  uint64_t next_number_ = 1;
  SequenceNumber last_sequence_ = 0;
};

}  // namespace

Status RepairDB(const std::string& path, const Options& options) {
  Status status = CheckOptions(options);
  if (!status.ok()) return status;
  return Repairer(options, path).Run();
}

}  // namespace varve
