// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/db.h"
#include "varve/export.h"

namespace varve {

// Forwards each call to another DB. Derive a class from it and override some
// calls, for example to count operations, or to check or change keys. The class
// can be used wherever a DB is used:
//
//   class Counting : public varve::StackableDB {
//    public:
//     using StackableDB::StackableDB;
//     using StackableDB::Get;
//     Status Get(const ReadOptions& options, const Slice& key,
//                std::string* value) override {
//       ++gets;
//       return StackableDB::Get(options, key, value);
//     }
//     std::atomic<uint64_t> gets{0};
//   };
//
// No call is implemented by other calls of the same object. A class that
// changes keys must override both forms of Get and MultiGet, and each call that
// writes. Snapshots belong to the DB below and can be passed on unchanged. A
// read transaction on this object reads by its Get, MultiGet and NewIterator.
//
// Thread-safety: as DB's. Lifetime: as DB's. If others share the DB below, end
// all read transactions on this object before you destroy it.
class VARVE_EXPORT StackableDB : public DB {
 public:
  // Wraps `db`, which is destroyed with this object unless it is shared.
  // REQUIRES: `db` is not null.
  explicit StackableDB(std::shared_ptr<DB> db) : db_(std::move(db)) {}
  ~StackableDB() override = default;

  // Returns the DB that calls are forwarded to. It is valid as long as this
  // object, or longer if it is shared. Calls of it pass by this object.
  DB* GetBaseDB() const { return db_.get(); }
  DB* GetRootDB() override { return db_->GetRootDB(); }

  Status Close() override { return db_->Close(); }
  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override {
    return db_->Put(options, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override {
    return db_->Delete(options, key);
  }
  Status SingleDelete(const WriteOptions& options, const Slice& key) override {
    return db_->SingleDelete(options, key);
  }
  Status Merge(const WriteOptions& options, const Slice& key,
               const Slice& operand) override {
    return db_->Merge(options, key, operand);
  }
  Status DeleteRange(const WriteOptions& options, const Slice& begin,
                     const Slice& end) override {
    return db_->DeleteRange(options, begin, end);
  }
  Status Write(const WriteOptions& options, WriteBatch* batch) override {
    return db_->Write(options, batch);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override {
    return db_->Get(options, key, value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override {
    return db_->Get(options, key, value);
  }
  using DB::MultiGet;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    db_->MultiGet(options, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) override {
    db_->MultiGet(options, count, keys, values, statuses);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    return db_->NewIterator(options);
  }
  const Snapshot* GetSnapshot() override { return db_->GetSnapshot(); }
  void ReleaseSnapshot(const Snapshot* snapshot) override {
    db_->ReleaseSnapshot(snapshot);
  }
  PinnedSnapshot* BeginReadTransaction() override {
    return db_->BeginReadTransaction();
  }
  Status CreateColumnFamily(const ColumnFamilyOptions& options,
                            const std::string& name,
                            ColumnFamilyHandle** handle) override {
    return db_->CreateColumnFamily(options, name, handle);
  }
  Status DropColumnFamily(ColumnFamilyHandle* family) override {
    return db_->DropColumnFamily(family);
  }
  using DB::CreateColumnFamilies;
  Status CreateColumnFamilies(
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles) override {
    return db_->CreateColumnFamilies(families, handles);
  }
  Status DropColumnFamilies(
      const std::vector<ColumnFamilyHandle*>& families) override {
    return db_->DropColumnFamilies(families);
  }
  ColumnFamilyHandle* DefaultColumnFamily() const override {
    return db_->DefaultColumnFamily();
  }
  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) override {
    return db_->Put(options, family, key, value);
  }
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                const Slice& key) override {
    return db_->Delete(options, family, key);
  }
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family,
                      const Slice& key) override {
    return db_->SingleDelete(options, family, key);
  }
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
               const Slice& key, const Slice& operand) override {
    return db_->Merge(options, family, key, operand);
  }
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& begin, const Slice& end) override {
    return db_->DeleteRange(options, family, begin, end);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override {
    return db_->Get(options, family, key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override {
    return db_->Get(options, family, key, value);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override {
    db_->MultiGet(options, family, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, std::string* values,
                Status* statuses) override {
    db_->MultiGet(options, family, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    db_->MultiGet(options, count, families, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                std::string* values, Status* statuses) override {
    db_->MultiGet(options, count, families, keys, values, statuses);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override {
    return db_->NewIterator(options, family);
  }
  Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) override {
    return db_->NewIterators(options, families, iterators);
  }
  bool GetProperty(ColumnFamilyHandle* family, const Slice& property,
                   std::string* value) override {
    return db_->GetProperty(family, property, value);
  }
  bool GetIntProperty(ColumnFamilyHandle* family, const Slice& property,
                      uint64_t* value) override {
    return db_->GetIntProperty(family, property, value);
  }
  Status GetApproximateSizes(ColumnFamilyHandle* family, const Range* ranges,
                             size_t count, uint64_t* sizes) override {
    return db_->GetApproximateSizes(family, ranges, count, sizes);
  }
  Status Flush(const FlushOptions& options,
               ColumnFamilyHandle* family) override {
    return db_->Flush(options, family);
  }
  Status Flush(const FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& families) override {
    return db_->Flush(options, families);
  }
  Status CompactRange(const CompactRangeOptions& options,
                      ColumnFamilyHandle* family, const Slice* begin,
                      const Slice* end) override {
    return db_->CompactRange(options, family, begin, end);
  }
  Status SetOptions(
      ColumnFamilyHandle* family,
      const std::map<std::string, std::string>& changes) override {
    return db_->SetOptions(family, changes);
  }
  bool GetProperty(const Slice& property, std::string* value) override {
    return db_->GetProperty(property, value);
  }
  bool GetIntProperty(const Slice& property, uint64_t* value) override {
    return db_->GetIntProperty(property, value);
  }
  Status GetApproximateSizes(const Range* ranges, size_t count,
                             uint64_t* sizes) override {
    return db_->GetApproximateSizes(ranges, count, sizes);
  }
  Status Flush(const FlushOptions& options) override {
    return db_->Flush(options);
  }
  Status SyncWAL() override { return db_->SyncWAL(); }
  Status FlushWAL(bool sync) override { return db_->FlushWAL(sync); }
  Status Resume() override { return db_->Resume(); }
  Status CompactRange(const CompactRangeOptions& options, const Slice* begin,
                      const Slice* end) override {
    return db_->CompactRange(options, begin, end);
  }
  Status SetOptions(
      const std::map<std::string, std::string>& changes) override {
    return db_->SetOptions(changes);
  }
  void CancelAllBackgroundWork(bool wait) override {
    db_->CancelAllBackgroundWork(wait);
  }
  Status CreateCheckpoint(const std::string& directory) override {
    return db_->CreateCheckpoint(directory);
  }
  Status WaitForCompact() override { return db_->WaitForCompact(); }
  Status VerifyChecksum() override { return db_->VerifyChecksum(); }
  Status TryCatchUpWithPrimary() override {
    return db_->TryCatchUpWithPrimary();
  }
  Status Promote() override { return db_->Promote(); }
  uint64_t GetLatestSequenceNumber() const override {
    return db_->GetLatestSequenceNumber();
  }
  Status IngestExternalFiles(
      const std::vector<IngestExternalFileArg>& arguments) override {
    return db_->IngestExternalFiles(arguments);
  }
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& family_options,
                                      const std::string& name,
                                      const ImportColumnFamilyOptions& options,
                                      const ExportImportFilesMetaData& metadata,
                                      ColumnFamilyHandle** handle) override {
    return db_->CreateColumnFamilyWithImport(family_options, name, options,
                                             metadata, handle);
  }
  Status DisableFileDeletions() override { return db_->DisableFileDeletions(); }
  Status EnableFileDeletions() override { return db_->EnableFileDeletions(); }
  Status GetLiveFiles(std::vector<std::string>* files,
                      uint64_t* manifest_file_size, bool flush) override {
    return db_->GetLiveFiles(files, manifest_file_size, flush);
  }
  Status GetLiveFilesStorageInfo(
      const LiveFilesStorageInfoOptions& options,
      std::vector<LiveFileStorageInfo>* files) override {
    return db_->GetLiveFilesStorageInfo(options, files);
  }
  void GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata) override {
    db_->GetLiveFilesMetaData(metadata);
  }
  void GetColumnFamilyMetaData(ColumnFamilyHandle* family,
                               ColumnFamilyMetaData* metadata) override {
    db_->GetColumnFamilyMetaData(family, metadata);
  }
  Status GetSortedWalFiles(VectorWalPtr* files) override {
    return db_->GetSortedWalFiles(files);
  }
  Status GetUpdatesSince(
      uint64_t sequence, std::unique_ptr<TransactionLogIterator>* iterator,
      const TransactionLogIterator::ReadOptions& options = {}) override {
    return db_->GetUpdatesSince(sequence, iterator, options);
  }
  Status GetCurrentWalFile(std::unique_ptr<WalFile>* file) override {
    return db_->GetCurrentWalFile(file);
  }
  Status GetCreationTimeOfOldestFile(uint64_t* creation_time) override {
    return db_->GetCreationTimeOfOldestFile(creation_time);
  }
  Status DeleteFilesInRanges(ColumnFamilyHandle* family, const RangePtr* ranges,
                             size_t count, bool include_end) override {
    return db_->DeleteFilesInRanges(family, ranges, count, include_end);
  }
  Status CompactFiles(const CompactionOptions& options,
                      ColumnFamilyHandle* family,
                      const std::vector<std::string>& inputs, int output_level,
                      std::vector<std::string>* outputs) override {
    return db_->CompactFiles(options, family, inputs, output_level, outputs);
  }
  Status SuggestCompactRange(ColumnFamilyHandle* family, const Slice* begin,
                             const Slice* end) override {
    return db_->SuggestCompactRange(family, begin, end);
  }
  Status PromoteL0(ColumnFamilyHandle* family, int target_level) override {
    return db_->PromoteL0(family, target_level);
  }
  Status GetPropertiesOfAllTables(ColumnFamilyHandle* family,
                                  TablePropertiesCollection* result) override {
    return db_->GetPropertiesOfAllTables(family, result);
  }
  Status GetPropertiesOfTablesInRange(
      ColumnFamilyHandle* family, const Range* ranges, size_t count,
      TablePropertiesCollection* result) override {
    return db_->GetPropertiesOfTablesInRange(family, ranges, count, result);
  }
  using DB::GetMapProperty;
  bool GetMapProperty(ColumnFamilyHandle* family, const Slice& property,
                      std::map<std::string, std::string>* value) override {
    return db_->GetMapProperty(family, property, value);
  }
  bool GetAggregatedIntProperty(const Slice& property,
                                uint64_t* value) override {
    return db_->GetAggregatedIntProperty(property, value);
  }
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* family,
                   const Slice& key, std::string* value,
                   bool* value_found) override {
    return db_->KeyMayExist(options, family, key, value, value_found);
  }
  Status GetMergeOperands(const ReadOptions& options,
                          ColumnFamilyHandle* family, const Slice& key,
                          PinnableSlice* operands,
                          GetMergeOperandsOptions* limits,
                          int* count) override {
    return db_->GetMergeOperands(options, family, key, operands, limits, count);
  }
  const std::string& GetName() const override { return db_->GetName(); }
  Env* GetEnv() const override { return db_->GetEnv(); }
  Options GetOptions(ColumnFamilyHandle* family) const override {
    return db_->GetOptions(family);
  }
  DBOptions GetDBOptions() const override { return db_->GetDBOptions(); }
  Status SetDBOptions(
      const std::map<std::string, std::string>& changes) override {
    return db_->SetDBOptions(changes);
  }

 private:
  const std::shared_ptr<DB> db_;
};

}  // namespace varve
