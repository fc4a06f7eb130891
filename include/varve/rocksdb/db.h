// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's DB, and the functions on databases; see varve/rocksdb.h.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "varve/checkpoint.h"
#include "varve/db.h"
#include "varve/rocksdb/convert.h"
#include "varve/rocksdb/external_files.h"
#include "varve/rocksdb/files.h"
#include "varve/rocksdb/names.h"
#include "varve/rocksdb/options.h"
#include "varve/rocksdb/write_batch.h"

namespace VARVE_ROCKSDB_NAMESPACE {

// The name of a property. Constant text that can be used as a string, so that
// no object is made when a program starts.
class PropertyName {
 public:
  constexpr explicit PropertyName(const char* text) : text_(text) {}
  // Implicit, as a std::string would be used.
  operator std::string() const { return text_; }   // NOLINT
  operator Slice() const { return Slice(text_); }  // NOLINT
  friend std::string operator+(PropertyName name, const std::string& more) {
    return name.text_ + more;
  }

 private:
  const char* text_;
};

class DB {
 public:
  // Names of properties.
  struct Properties {
    static constexpr PropertyName kNumFilesAtLevelPrefix{
        "rocksdb.num-files-at-level"};
    static constexpr PropertyName kCompressionRatioAtLevelPrefix{
        "rocksdb.compression-ratio-at-level"};
    static constexpr PropertyName kStats{"rocksdb.stats"};
    static constexpr PropertyName kSSTables{"rocksdb.sstables"};
    static constexpr PropertyName kCFStats{"rocksdb.cfstats"};
    static constexpr PropertyName kDBStats{"rocksdb.dbstats"};
    static constexpr PropertyName kLevelStats{"rocksdb.levelstats"};
    static constexpr PropertyName kNumImmutableMemTable{
        "rocksdb.num-immutable-mem-table"};
    static constexpr PropertyName kMemTableFlushPending{
        "rocksdb.mem-table-flush-pending"};
    static constexpr PropertyName kNumRunningFlushes{
        "rocksdb.num-running-flushes"};
    static constexpr PropertyName kCompactionPending{
        "rocksdb.compaction-pending"};
    static constexpr PropertyName kNumRunningCompactions{
        "rocksdb.num-running-compactions"};
    static constexpr PropertyName kBackgroundErrors{
        "rocksdb.background-errors"};
    static constexpr PropertyName kCurSizeActiveMemTable{
        "rocksdb.cur-size-active-mem-table"};
    static constexpr PropertyName kCurSizeAllMemTables{
        "rocksdb.cur-size-all-mem-tables"};
    static constexpr PropertyName kSizeAllMemTables{
        "rocksdb.size-all-mem-tables"};
    static constexpr PropertyName kNumEntriesActiveMemTable{
        "rocksdb.num-entries-active-mem-table"};
    static constexpr PropertyName kNumEntriesImmMemTables{
        "rocksdb.num-entries-imm-mem-tables"};
    static constexpr PropertyName kEstimateNumKeys{"rocksdb.estimate-num-keys"};
    static constexpr PropertyName kEstimateTableReadersMem{
        "rocksdb.estimate-table-readers-mem"};
    static constexpr PropertyName kNumSnapshots{"rocksdb.num-snapshots"};
    static constexpr PropertyName kOldestSnapshotTime{
        "rocksdb.oldest-snapshot-time"};
    static constexpr PropertyName kNumLiveVersions{"rocksdb.num-live-versions"};
    static constexpr PropertyName kEstimateLiveDataSize{
        "rocksdb.estimate-live-data-size"};
    static constexpr PropertyName kTotalSstFilesSize{
        "rocksdb.total-sst-files-size"};
    static constexpr PropertyName kLiveSstFilesSize{
        "rocksdb.live-sst-files-size"};
    static constexpr PropertyName kBaseLevel{"rocksdb.base-level"};
    static constexpr PropertyName kEstimatePendingCompactionBytes{
        "rocksdb.estimate-pending-compaction-bytes"};
    static constexpr PropertyName kActualDelayedWriteRate{
        "rocksdb.actual-delayed-write-rate"};
    static constexpr PropertyName kIsWriteStopped{"rocksdb.is-write-stopped"};
    static constexpr PropertyName kBlockCacheCapacity{
        "rocksdb.block-cache-capacity"};
    static constexpr PropertyName kBlockCacheUsage{"rocksdb.block-cache-usage"};
    static constexpr PropertyName kBlockCachePinnedUsage{
        "rocksdb.block-cache-pinned-usage"};
  };

  // Both forms: a raw pointer, which the caller owns, or a std::unique_ptr.
  static Status Open(const Options& options, const std::string& name,
                     std::unique_ptr<DB>* db) {
    return OpenDefault(&varve::DB::Open, options, name, db);
  }
  static Status Open(const Options& options, const std::string& name, DB** db) {
    return ToPointer(db,
                     [&](auto* owner) { return Open(options, name, owner); });
  }
  static Status Open(const DBOptions& options, const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<DB>* db) {
    return OpenFamilies(&varve::DB::Open, options, name, families, handles, db);
  }
  static Status Open(const DBOptions& options, const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles, DB** db) {
    return ToPointer(db, [&](auto* owner) {
      return Open(options, name, families, handles, owner);
    });
  }
  static Status OpenForReadOnly(const Options& options, const std::string& name,
                                std::unique_ptr<DB>* db) {
    return OpenDefault(&varve::DB::OpenForReadOnly, options, name, db);
  }
  static Status OpenForReadOnly(const Options& options, const std::string& name,
                                DB** db) {
    return ToPointer(
        db, [&](auto* owner) { return OpenForReadOnly(options, name, owner); });
  }
  static Status OpenForReadOnly(
      const DBOptions& options, const std::string& name,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
    return OpenFamilies(&varve::DB::OpenForReadOnly, options, name, families,
                        handles, db);
  }
  static Status OpenForReadOnly(
      const DBOptions& options, const std::string& name,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, DB** db) {
    return ToPointer(db, [&](auto* owner) {
      return OpenForReadOnly(options, name, families, handles, owner);
    });
  }
  static Status OpenAsSecondary(const Options& options, const std::string& name,
                                const std::string& secondary_path,
                                std::unique_ptr<DB>* db) {
    const ColumnFamilyOptions& family_options = options;
    return Wrap(options, name, db, [&](const auto& converted, auto* opened) {
      return varve::DB::OpenAsSecondary(
          {converted, internal::ToVarve(family_options)}, name, secondary_path,
          opened);
    });
  }
  static Status OpenAsSecondary(const Options& options, const std::string& name,
                                const std::string& secondary_path, DB** db) {
    return ToPointer(db, [&](auto* owner) {
      return OpenAsSecondary(options, name, secondary_path, owner);
    });
  }
  static Status OpenAsSecondary(
      const DBOptions& options, const std::string& name,
      const std::string& secondary_path,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
    return Wrap(options, name, db, [&](const auto& converted, auto* opened) {
      return varve::DB::OpenAsSecondary(converted, name, secondary_path,
                                        ToVarve(families), handles, opened);
    });
  }
  static Status OpenAsSecondary(
      const DBOptions& options, const std::string& name,
      const std::string& secondary_path,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, DB** db) {
    return ToPointer(db, [&](auto* owner) {
      return OpenAsSecondary(options, name, secondary_path, families, handles,
                             owner);
    });
  }
  static Status ListColumnFamilies(const DBOptions& options,
                                   const std::string& name,
                                   std::vector<std::string>* families) {
    return varve::DB::ListColumnFamilies(options, name, families);
  }

  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  virtual ~DB() = default;

  // Returns Varve's database, for its other calls.
  varve::DB* GetVarve() const { return db_.get(); }

  const std::string& GetName() const { return name_; }
  Env* GetEnv() const { return env_; }
  Status Close() { return db_->Close(); }
  ColumnFamilyHandle* DefaultColumnFamily() const {
    return db_->DefaultColumnFamily();
  }

  // ---- Writes ----

  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) {
    return db_->Put(options, key, value);
  }
  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) {
    return db_->Put(options, family, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) {
    return db_->Delete(options, key);
  }
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                const Slice& key) {
    return db_->Delete(options, family, key);
  }
  Status SingleDelete(const WriteOptions& options, const Slice& key) {
    return db_->SingleDelete(options, key);
  }
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family,
                      const Slice& key) {
    return db_->SingleDelete(options, family, key);
  }
  Status Merge(const WriteOptions& options, const Slice& key,
               const Slice& operand) {
    return db_->Merge(options, key, operand);
  }
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
               const Slice& key, const Slice& operand) {
    return db_->Merge(options, family, key, operand);
  }
  Status DeleteRange(const WriteOptions& options, const Slice& begin,
                     const Slice& end) {
    return db_->DeleteRange(options, begin, end);
  }
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& begin, const Slice& end) {
    return db_->DeleteRange(options, family, begin, end);
  }
  Status Write(const WriteOptions& options, WriteBatch* updates) {
    return db_->Write(options, updates);
  }

  // ---- Reads ----

  Status Get(const ReadOptions& options, const Slice& key, std::string* value) {
    return db_->Get(options, key, value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) {
    return db_->Get(options, key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) {
    return db_->Get(options, family, key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) {
    return db_->Get(options, family, key, value);
  }
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values) {
    return db_->MultiGet(options, keys, values);
  }
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<ColumnFamilyHandle*>& families,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values) {
    return db_->MultiGet(options, families, keys, values);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t num_keys, const Slice* keys, PinnableSlice* values,
                Status* statuses, bool /*sorted_input*/ = false) {
    db_->MultiGet(options, family, num_keys, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t num_keys,
                ColumnFamilyHandle** families, const Slice* keys,
                PinnableSlice* values, Status* statuses,
                bool /*sorted_input*/ = false) {
    db_->MultiGet(options, num_keys, families, keys, values, statuses);
  }
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* family,
                   const Slice& key, std::string* value,
                   bool* value_found = nullptr) {
    return db_->KeyMayExist(options, family, key, value, value_found);
  }
  bool KeyMayExist(const ReadOptions& options, const Slice& key,
                   std::string* value, bool* value_found = nullptr) {
    return KeyMayExist(options, nullptr, key, value, value_found);
  }
  Status GetMergeOperands(const ReadOptions& options,
                          ColumnFamilyHandle* family, const Slice& key,
                          PinnableSlice* operands,
                          GetMergeOperandsOptions* limits, int* count) {
    return db_->GetMergeOperands(options, family, key, operands, limits, count);
  }
  // The caller owns the iterators, and deletes them before the DB.
  Iterator* NewIterator(const ReadOptions& options) {
    return db_->NewIterator(options).release();
  }
  Iterator* NewIterator(const ReadOptions& options,
                        ColumnFamilyHandle* family) {
    return db_->NewIterator(options, family).release();
  }
  Status NewIterators(const ReadOptions& options,
                      const std::vector<ColumnFamilyHandle*>& families,
                      std::vector<Iterator*>* iterators) {
    std::vector<std::unique_ptr<Iterator>> owners;
    Status status = db_->NewIterators(options, families, &owners);
    iterators->clear();
    for (auto& owner : owners) iterators->push_back(owner.release());
    return status;
  }
  const Snapshot* GetSnapshot() { return db_->GetSnapshot(); }
  void ReleaseSnapshot(const Snapshot* snapshot) {
    db_->ReleaseSnapshot(snapshot);
  }

  // ---- Tables from outside ----

  Status IngestExternalFile(const std::vector<std::string>& files,
                            const IngestExternalFileOptions& options) {
    return db_->IngestExternalFile(files, options);
  }
  Status IngestExternalFile(ColumnFamilyHandle* family,
                            const std::vector<std::string>& files,
                            const IngestExternalFileOptions& options) {
    return db_->IngestExternalFile(family, files, options);
  }
  Status IngestExternalFiles(
      const std::vector<IngestExternalFileArg>& arguments) {
    return db_->IngestExternalFiles(arguments);
  }
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& family_options,
                                      const std::string& name,
                                      const ImportColumnFamilyOptions& options,
                                      const ExportImportFilesMetaData& metadata,
                                      ColumnFamilyHandle** handle) {
    return db_->CreateColumnFamilyWithImport(internal::ToVarve(family_options),
                                             name, options, metadata, handle);
  }

  // ---- Column families ----

  Status CreateColumnFamily(const ColumnFamilyOptions& options,
                            const std::string& name,
                            ColumnFamilyHandle** handle) {
    return db_->CreateColumnFamily(internal::ToVarve(options), name, handle);
  }
  Status CreateColumnFamilies(const ColumnFamilyOptions& options,
                              const std::vector<std::string>& names,
                              std::vector<ColumnFamilyHandle*>* handles) {
    return db_->CreateColumnFamilies(internal::ToVarve(options), names,
                                     handles);
  }
  Status CreateColumnFamilies(
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles) {
    return db_->CreateColumnFamilies(ToVarve(families), handles);
  }
  Status DropColumnFamily(ColumnFamilyHandle* family) {
    return db_->DropColumnFamily(family);
  }
  Status DropColumnFamilies(const std::vector<ColumnFamilyHandle*>& families) {
    return db_->DropColumnFamilies(families);
  }
  Status DestroyColumnFamilyHandle(ColumnFamilyHandle* family) {
    return db_->DestroyColumnFamilyHandle(family);
  }

  // ---- Maintenance ----

  Status Flush(const FlushOptions& options) { return db_->Flush(options); }
  Status Flush(const FlushOptions& options, ColumnFamilyHandle* family) {
    return db_->Flush(options, family);
  }
  Status Flush(const FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& families) {
    return db_->Flush(options, families);
  }
  Status SyncWAL() { return db_->SyncWAL(); }
  Status FlushWAL(bool sync) { return db_->FlushWAL(sync); }
  Status Resume() { return db_->Resume(); }
  Status VerifyChecksum() { return db_->VerifyChecksum(); }
  Status TryCatchUpWithPrimary() { return db_->TryCatchUpWithPrimary(); }
  // Not RocksDB's: takes a dead primary's place.
  Status Promote() { return db_->Promote(); }
  Status CompactRange(const CompactRangeOptions& options, const Slice* begin,
                      const Slice* end) {
    return db_->CompactRange(options, begin, end);
  }
  Status CompactRange(const CompactRangeOptions& options,
                      ColumnFamilyHandle* family, const Slice* begin,
                      const Slice* end) {
    return db_->CompactRange(options, family, begin, end);
  }
  Status SetOptions(
      const std::unordered_map<std::string, std::string>& changes) {
    return db_->SetOptions({changes.begin(), changes.end()});
  }
  Status SetOptions(
      ColumnFamilyHandle* family,
      const std::unordered_map<std::string, std::string>& changes) {
    return db_->SetOptions(family, {changes.begin(), changes.end()});
  }
  Status SetDBOptions(
      const std::unordered_map<std::string, std::string>& changes) {
    return db_->SetDBOptions({changes.begin(), changes.end()});
  }
  // The options that are no objects, and those that have an effect.
  Options GetOptions(ColumnFamilyHandle* family) const {
    Options options(GetDBOptions(), ColumnFamilyOptions());
    internal::FromVarve(
        static_cast<const varve::ColumnFamilyOptions&>(db_->GetOptions(family)),
        static_cast<ColumnFamilyOptions*>(&options));
    return options;
  }
  Options GetOptions() const { return GetOptions(nullptr); }
  DBOptions GetDBOptions() const {
    DBOptions options;
    internal::FromVarve(db_->GetDBOptions(), &options);
    return options;
  }
  Status EnableAutoCompaction(
      const std::vector<ColumnFamilyHandle*>& families) {
    for (ColumnFamilyHandle* const family : families) {
      Status status =
          db_->SetOptions(family, {{"disable_auto_compactions", "false"}});
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  // ---- Observation ----

  bool GetProperty(const Slice& property, std::string* value) {
    return db_->GetProperty(property, value);
  }
  bool GetProperty(ColumnFamilyHandle* family, const Slice& property,
                   std::string* value) {
    return db_->GetProperty(family, property, value);
  }
  bool GetIntProperty(const Slice& property, uint64_t* value) {
    return db_->GetIntProperty(property, value);
  }
  bool GetIntProperty(ColumnFamilyHandle* family, const Slice& property,
                      uint64_t* value) {
    return db_->GetIntProperty(family, property, value);
  }
  bool GetMapProperty(const Slice& property,
                      std::map<std::string, std::string>* value) {
    return db_->GetMapProperty(property, value);
  }
  bool GetMapProperty(ColumnFamilyHandle* family, const Slice& property,
                      std::map<std::string, std::string>* value) {
    return db_->GetMapProperty(family, property, value);
  }
  bool GetAggregatedIntProperty(const Slice& property, uint64_t* value) {
    return db_->GetAggregatedIntProperty(property, value);
  }
  Status GetApproximateSizes(const Range* ranges, int count, uint64_t* sizes) {
    return GetApproximateSizes(nullptr, ranges, count, sizes);
  }
  Status GetApproximateSizes(ColumnFamilyHandle* family, const Range* ranges,
                             int count, uint64_t* sizes) {
    std::vector<varve::Range> converted;
    for (int i = 0; i < count; ++i) {
      converted.push_back({ranges[i].start, ranges[i].limit});
    }
    return db_->GetApproximateSizes(family, converted.data(), converted.size(),
                                    sizes);
  }
  SequenceNumber GetLatestSequenceNumber() const {
    return db_->GetLatestSequenceNumber();
  }

  // ---- Live files and single tables ----

  Status DisableFileDeletions() { return db_->DisableFileDeletions(); }
  // `force` undoes no more than one call.
  Status EnableFileDeletions(bool /*force*/ = false) {
    return db_->EnableFileDeletions();
  }
  Status GetLiveFiles(std::vector<std::string>& files,
                      uint64_t* manifest_file_size, bool flush = true) {
    return db_->GetLiveFiles(&files, manifest_file_size, flush);
  }
  Status GetLiveFilesStorageInfo(const LiveFilesStorageInfoOptions& options,
                                 std::vector<LiveFileStorageInfo>* files) {
    return db_->GetLiveFilesStorageInfo(options, files);
  }
  void GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata) {
    db_->GetLiveFilesMetaData(metadata);
  }
  void GetColumnFamilyMetaData(ColumnFamilyHandle* family,
                               ColumnFamilyMetaData* metadata) {
    db_->GetColumnFamilyMetaData(family, metadata);
  }
  void GetColumnFamilyMetaData(ColumnFamilyMetaData* metadata) {
    db_->GetColumnFamilyMetaData(nullptr, metadata);
  }
  Status GetSortedWalFiles(VectorWalPtr& files) {
    return db_->GetSortedWalFiles(&files);
  }
  Status GetUpdatesSince(
      SequenceNumber sequence,
      std::unique_ptr<TransactionLogIterator>* iterator,
      const TransactionLogIterator::ReadOptions& options = {}) {
    return db_->GetUpdatesSince(sequence, iterator, options);
  }
  Status GetCurrentWalFile(std::unique_ptr<WalFile>* file) {
    return db_->GetCurrentWalFile(file);
  }
  Status GetCreationTimeOfOldestFile(uint64_t* creation_time) {
    return db_->GetCreationTimeOfOldestFile(creation_time);
  }
  Status GetPropertiesOfAllTables(ColumnFamilyHandle* family,
                                  TablePropertiesCollection* result) {
    return db_->GetPropertiesOfAllTables(family, result);
  }
  Status GetPropertiesOfAllTables(TablePropertiesCollection* result) {
    return db_->GetPropertiesOfAllTables(nullptr, result);
  }
  Status GetPropertiesOfTablesInRange(ColumnFamilyHandle* family,
                                      const Range* ranges, size_t count,
                                      TablePropertiesCollection* result) {
    std::vector<varve::Range> converted;
    for (size_t i = 0; i < count; ++i) {
      converted.push_back({ranges[i].start, ranges[i].limit});
    }
    return db_->GetPropertiesOfTablesInRange(family, converted.data(), count,
                                             result);
  }
  Status CompactFiles(const CompactionOptions& options,
                      ColumnFamilyHandle* family,
                      const std::vector<std::string>& inputs, int output_level,
                      int /*output_path_id*/ = -1,
                      std::vector<std::string>* outputs = nullptr) {
    varve::CompactionOptions converted;
    if (options.compression != kDisableCompressionOption) {
      converted.compression =
          static_cast<varve::CompressionType>(options.compression);
    }
    converted.output_file_size_limit = options.output_file_size_limit;
    return db_->CompactFiles(converted, family, inputs, output_level, outputs);
  }
  Status CompactFiles(const CompactionOptions& options,
                      const std::vector<std::string>& inputs, int output_level,
                      int output_path_id = -1,
                      std::vector<std::string>* outputs = nullptr) {
    return CompactFiles(options, nullptr, inputs, output_level, output_path_id,
                        outputs);
  }
  Status SuggestCompactRange(ColumnFamilyHandle* family, const Slice* begin,
                             const Slice* end) {
    return db_->SuggestCompactRange(family, begin, end);
  }
  Status PromoteL0(ColumnFamilyHandle* family, int target_level) {
    return db_->PromoteL0(family, target_level);
  }

 protected:
  // For this class and those derived from it.

  DB(std::string name, Env* env) : name_(std::move(name)), env_(env) {}

  static std::vector<varve::ColumnFamilyDescriptor> ToVarve(
      const std::vector<ColumnFamilyDescriptor>& families) {
    std::vector<varve::ColumnFamilyDescriptor> out;
    for (const ColumnFamilyDescriptor& family : families) {
      out.emplace_back(family.name, internal::ToVarve(family.options));
    }
    return out;
  }

  template <typename Class, typename Opener>
  static Status ToPointer(Class** db, const Opener& open) {
    std::unique_ptr<Class> owner;
    Status status = open(&owner);
    *db = owner.release();
    return status;
  }

  // Calls open(options, &db) and makes a DB, or an object of a derived class,
  // of the result.
  template <typename Class, typename Opener>
  static Status Wrap(const DBOptions& options, const std::string& name,
                     std::unique_ptr<Class>* db, const Opener& open) {
    std::unique_ptr<Class> opened(new Class(name, options.env));
    std::vector<std::shared_ptr<internal::ListenerAdapter>> adapters;
    std::unique_ptr<varve::DB> rep;
    Status status = open(internal::ToVarve(options, &adapters), &rep);
    db->reset();
    if (!status.ok()) return status;
    opened->db_ = std::move(rep);
    for (const auto& adapter : adapters) adapter->SetDb(opened.get());
    *db = std::move(opened);
    return status;
  }

 private:
  friend class TransactionDB;  // Is two DBs.

  using Open1 = Status (*)(const varve::Options&, const std::string&,
                           std::unique_ptr<varve::DB>*);
  static Status OpenDefault(Open1 open, const Options& options,
                            const std::string& name, std::unique_ptr<DB>* db) {
    const ColumnFamilyOptions& family_options = options;
    return Wrap(options, name, db, [&](const auto& converted, auto* opened) {
      return open({converted, internal::ToVarve(family_options)}, name, opened);
    });
  }
  using OpenN = Status (*)(const varve::DBOptions&, const std::string&,
                           const std::vector<varve::ColumnFamilyDescriptor>&,
                           std::vector<ColumnFamilyHandle*>*,
                           std::unique_ptr<varve::DB>*);
  static Status OpenFamilies(
      OpenN open, const DBOptions& options, const std::string& name,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
    return Wrap(options, name, db, [&](const auto& converted, auto* opened) {
      return open(converted, name, ToVarve(families), handles, opened);
    });
  }

  const std::string name_;
  Env* const env_;
  std::shared_ptr<varve::DB> db_;
};

// Releases its snapshot at its end.
class ManagedSnapshot {
 public:
  explicit ManagedSnapshot(DB* db) : ManagedSnapshot(db, db->GetSnapshot()) {}
  ManagedSnapshot(DB* db, const Snapshot* snapshot)
      : db_(db), snapshot_(snapshot) {}
  ManagedSnapshot(const ManagedSnapshot&) = delete;
  ManagedSnapshot& operator=(const ManagedSnapshot&) = delete;
  ~ManagedSnapshot() { db_->ReleaseSnapshot(snapshot_); }

  const Snapshot* snapshot() const { return snapshot_; }

 private:
  DB* const db_;
  const Snapshot* const snapshot_;
};

class Checkpoint {
 public:
  // The caller owns *checkpoint.
  static Status Create(DB* db, Checkpoint** checkpoint) {
    *checkpoint = new Checkpoint(db);
    return Status::OK();
  }
  Status CreateCheckpoint(const std::string& directory,
                          uint64_t /*log_size_for_flush*/ = 0) {
    return db_->GetVarve()->CreateCheckpoint(directory);
  }

 private:
  explicit Checkpoint(DB* db) : db_(db) {}
  DB* const db_;
};

// Removes all families, also those that are not given.
inline Status DestroyDB(
    const std::string& name, const Options& options,
    const std::vector<ColumnFamilyDescriptor>& /*families*/ = {}) {
  return varve::DestroyDB(name, internal::ToVarve(options));
}
inline Status RepairDB(const std::string& name, const Options& options) {
  return varve::RepairDB(name, internal::ToVarve(options));
}
inline Status DeleteFilesInRanges(DB* db, ColumnFamilyHandle* family,
                                  const RangePtr* ranges, size_t count,
                                  bool include_end = true) {
  return db->GetVarve()->DeleteFilesInRanges(family, ranges, count,
                                             include_end);
}
inline Status DeleteFilesInRange(DB* db, ColumnFamilyHandle* family,
                                 const Slice* begin, const Slice* end,
                                 bool include_end = true) {
  const RangePtr range{begin, end};
  return DeleteFilesInRanges(db, family, &range, 1, include_end);
}
namespace experimental {
inline Status SuggestCompactRange(DB* db, ColumnFamilyHandle* family,
                                  const Slice* begin, const Slice* end) {
  return db->SuggestCompactRange(family, begin, end);
}
inline Status SuggestCompactRange(DB* db, const Slice* begin,
                                  const Slice* end) {
  return db->SuggestCompactRange(nullptr, begin, end);
}
inline Status PromoteL0(DB* db, ColumnFamilyHandle* family,
                        int target_level = 1) {
  return db->PromoteL0(family, target_level);
}
}  // namespace experimental
inline void CancelAllBackgroundWork(DB* db, bool wait = false) {
  db->GetVarve()->CancelAllBackgroundWork(wait);
}

}  // namespace VARVE_ROCKSDB_NAMESPACE
