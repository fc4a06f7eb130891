// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The database that a closed handle refers to.

#include "capi/lifetime.h"
#include "util/base/process_wide.h"
#include "varve/iterator.h"

namespace varve::capi {

namespace {

class Closed final : public DB {
 public:
  Status Close() override { return Error(); }
  Status Put(const WriteOptions& /*options*/, const Slice& /*key*/,
             const Slice& /*value*/) override {
    return Error();
  }
  Status Delete(const WriteOptions& /*options*/,
                const Slice& /*key*/) override {
    return Error();
  }
  Status SingleDelete(const WriteOptions& /*options*/,
                      const Slice& /*key*/) override {
    return Error();
  }
  Status Merge(const WriteOptions& /*options*/, const Slice& /*key*/,
               const Slice& /*operand*/) override {
    return Error();
  }
  Status DeleteRange(const WriteOptions& /*options*/, const Slice& /*begin*/,
                     const Slice& /*end*/) override {
    return Error();
  }
  Status Write(const WriteOptions& /*options*/,
               WriteBatch* /*batch*/) override {
    return Error();
  }
  Status Get(const ReadOptions& /*options*/, const Slice& /*key*/,
             PinnableSlice* value) override {
    value->Reset();
    return Error();
  }
  Status Get(const ReadOptions& /*options*/, const Slice& /*key*/,
             std::string* value) override {
    value->clear();
    return Error();
  }
  void MultiGet(const ReadOptions& /*options*/, size_t count,
                const Slice* /*keys*/, PinnableSlice* values,
                Status* statuses) override {
    for (size_t i = 0; i < count; ++i) {
      values[i].Reset();
      statuses[i] = Error();
    }
  }
  void MultiGet(const ReadOptions& /*options*/, size_t count,
                const Slice* /*keys*/, std::string* values,
                Status* statuses) override {
    for (size_t i = 0; i < count; ++i) {
      values[i].clear();
      statuses[i] = Error();
    }
  }
  std::unique_ptr<Iterator> NewIterator(
      const ReadOptions& /*options*/) override {
    return NewErrorIterator(Error());
  }
  // This DB creates none.
  const Snapshot* GetSnapshot() override { return nullptr; }
  void ReleaseSnapshot(const Snapshot* /*snapshot*/) override {}
  Status CreateColumnFamily(const ColumnFamilyOptions& /*options*/,
                            const std::string& /*name*/,
                            ColumnFamilyHandle** handle) override {
    *handle = nullptr;
    return Error();
  }
  Status IngestExternalFiles(
      const std::vector<IngestExternalFileArg>& /*arguments*/) override {
    return Error();
  }
  Status CreateColumnFamilyWithImport(
      const ColumnFamilyOptions& /*family_options*/,
      const std::string& /*name*/, const ImportColumnFamilyOptions& /*options*/,
      const ExportImportFilesMetaData& /*metadata*/,
      ColumnFamilyHandle** handle) override {
    *handle = nullptr;
    return Error();
  }
  Status DropColumnFamily(ColumnFamilyHandle* /*family*/) override {
    return Error();
  }
  ColumnFamilyHandle* DefaultColumnFamily() const override { return nullptr; }
  Status Put(const WriteOptions& options, ColumnFamilyHandle* /*family*/,
             const Slice& key, const Slice& value) override {
    return Put(options, key, value);
  }
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* /*family*/,
                const Slice& key) override {
    return Delete(options, key);
  }
  Status SingleDelete(const WriteOptions& options,
                      ColumnFamilyHandle* /*family*/,
                      const Slice& key) override {
    return SingleDelete(options, key);
  }
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* /*family*/,
               const Slice& key, const Slice& operand) override {
    return Merge(options, key, operand);
  }
  Status DeleteRange(const WriteOptions& options,
                     ColumnFamilyHandle* /*family*/, const Slice& begin,
                     const Slice& end) override {
    return DeleteRange(options, begin, end);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* /*family*/,
             const Slice& key, PinnableSlice* value) override {
    return Get(options, key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* /*family*/,
             const Slice& key, std::string* value) override {
    return Get(options, key, value);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* /*family*/,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override {
    MultiGet(options, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* /*family*/,
                size_t count, const Slice* keys, std::string* values,
                Status* statuses) override {
    MultiGet(options, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* /*families*/, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    MultiGet(options, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* /*families*/, const Slice* keys,
                std::string* values, Status* statuses) override {
    MultiGet(options, count, keys, values, statuses);
  }
  std::unique_ptr<Iterator> NewIterator(
      const ReadOptions& options, ColumnFamilyHandle* /*family*/) override {
    return NewIterator(options);
  }
  Status NewIterators(
      const ReadOptions& /*options*/,
      const std::vector<ColumnFamilyHandle*>& /*families*/,
      std::vector<std::unique_ptr<Iterator>>* iterators) override {
    iterators->clear();
    return Error();
  }
  bool GetProperty(ColumnFamilyHandle* /*family*/, const Slice& property,
                   std::string* value) override {
    return GetProperty(property, value);
  }
  bool GetIntProperty(ColumnFamilyHandle* /*family*/, const Slice& property,
                      uint64_t* value) override {
    return GetIntProperty(property, value);
  }
  Status GetApproximateSizes(ColumnFamilyHandle* /*family*/,
                             const Range* ranges, size_t count,
                             uint64_t* sizes) override {
    return GetApproximateSizes(ranges, count, sizes);
  }
  Status Flush(const FlushOptions& options,
               ColumnFamilyHandle* /*family*/) override {
    return Flush(options);
  }
  Status Flush(const FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& /*families*/) override {
    return Flush(options);
  }
  Status CompactRange(const CompactRangeOptions& options,
                      ColumnFamilyHandle* /*family*/, const Slice* begin,
                      const Slice* end) override {
    return CompactRange(options, begin, end);
  }
  Status SetOptions(
      ColumnFamilyHandle* /*family*/,
      const std::map<std::string, std::string>& changes) override {
    return SetOptions(changes);
  }
  // The calls that return what there is of files return nothing.
  Status GetUpdatesSince(
      uint64_t /*sequence*/, std::unique_ptr<TransactionLogIterator>* iterator,
      const TransactionLogIterator::ReadOptions& /*options*/) override {
    iterator->reset();
    return Error();
  }
  Status DisableFileDeletions() override { return Error(); }
  Status EnableFileDeletions() override { return Error(); }
  Status GetLiveFilesStorageInfo(
      const LiveFilesStorageInfoOptions& /*options*/,
      std::vector<LiveFileStorageInfo>* files) override {
    files->clear();
    return Error();
  }
  Status DeleteFilesInRanges(ColumnFamilyHandle* /*family*/,
                             const RangePtr* /*ranges*/, size_t /*count*/,
                             bool /*include_end*/) override {
    return Error();
  }
  Status SuggestCompactRange(ColumnFamilyHandle* /*family*/,
                             const Slice* /*begin*/,
                             const Slice* /*end*/) override {
    return Error();
  }
  bool GetProperty(const Slice& /*property*/, std::string* value) override {
    value->clear();
    return false;
  }
  bool GetIntProperty(const Slice& /*property*/, uint64_t* value) override {
    *value = 0;
    return false;
  }
  Status GetApproximateSizes(const Range* /*ranges*/, size_t /*count*/,
                             uint64_t* /*sizes*/) override {
    return Error();
  }
  Status Flush(const FlushOptions& /*options*/) override { return Error(); }
  Status SyncWAL() override { return Error(); }
  Status FlushWAL(bool /*sync*/) override { return Error(); }
  Status Resume() override { return Error(); }
  Status CompactRange(const CompactRangeOptions& /*options*/,
                      const Slice* /*begin*/, const Slice* /*end*/) override {
    return Error();
  }
  Status SetOptions(
      const std::map<std::string, std::string>& /*changes*/) override {
    return Error();
  }
  Status SetDBOptions(
      const std::map<std::string, std::string>& /*changes*/) override {
    return Error();
  }
  void CancelAllBackgroundWork(bool /*wait*/) override {}
  Status CreateCheckpoint(const std::string& /*directory*/) override {
    return Error();
  }
  Status WaitForCompact() override { return Error(); }
  Status VerifyChecksum() override { return Error(); }
  uint64_t GetLatestSequenceNumber() const override { return 0; }
  PinnedSnapshot* BeginReadTransaction() override { return nullptr; }

 private:
  static Status Error() {
    return Status::ShutdownInProgress("the database was closed");
  }
};

}  // namespace

DB* ClosedDb() {
  static constinit ProcessWide<Closed> closed;
  return &closed.Get();
}

}  // namespace varve::capi
