// Varve: a key-value storage engine. MIT licence, see LICENSE.

// The calls that a class derived from DB need not have.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "varve/db.h"

namespace varve {

namespace {

Status Missing() { return Status::NotSupported("this DB lacks the call"); }

}  // namespace

Status DB::IngestExternalFiles(
    const std::vector<IngestExternalFileArg>& /*arguments*/) {
  return Missing();
}

Status DB::IngestExternalFile(ColumnFamilyHandle* family,
                              const std::vector<std::string>& files,
                              const IngestExternalFileOptions& options) {
  return IngestExternalFiles({{family, files, options}});
}

Status DB::CreateColumnFamilyWithImport(
    const ColumnFamilyOptions& /*family_options*/, const std::string& /*name*/,
    const ImportColumnFamilyOptions& /*options*/,
    const ExportImportFilesMetaData& /*metadata*/,
    ColumnFamilyHandle** handle) {
  *handle = nullptr;
  return Missing();
}

Status DB::TryCatchUpWithPrimary() {
  return Status::NotSupported("the database was not opened as a secondary");
}

Status DB::Promote() {
  return Status::NotSupported("the database was not opened as a secondary");
}

Status DB::DisableFileDeletions() { return Missing(); }

Status DB::EnableFileDeletions() { return Missing(); }

Status DB::GetLiveFiles(std::vector<std::string>* files,
                        uint64_t* manifest_file_size, bool /*flush*/) {
  files->clear();
  *manifest_file_size = 0;
  return Missing();
}

Status DB::GetLiveFilesStorageInfo(
    const LiveFilesStorageInfoOptions& /*options*/,
    std::vector<LiveFileStorageInfo>* files) {
  files->clear();
  return Missing();
}

void DB::GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata) {
  metadata->clear();
}

void DB::GetColumnFamilyMetaData(ColumnFamilyHandle* /*family*/,
                                 ColumnFamilyMetaData* metadata) {
  *metadata = ColumnFamilyMetaData();
}

Status DB::GetUpdatesSince(
    uint64_t /*sequence*/, std::unique_ptr<TransactionLogIterator>* iterator,
    const TransactionLogIterator::ReadOptions& /*options*/) {
  iterator->reset();
  return Missing();
}

Status DB::GetSortedWalFiles(VectorWalPtr* files) {
  files->clear();
  return Missing();
}

Status DB::GetCurrentWalFile(std::unique_ptr<WalFile>* file) {
  file->reset();
  return Missing();
}

Status DB::GetCreationTimeOfOldestFile(uint64_t* creation_time) {
  *creation_time = 0;
  return Missing();
}

Status DB::DeleteFilesInRanges(ColumnFamilyHandle* /*family*/,
                               const RangePtr* /*ranges*/, size_t /*count*/,
                               bool /*include_end*/) {
  return Missing();
}

Status DB::CompactFiles(const CompactionOptions& /*options*/,
                        ColumnFamilyHandle* /*family*/,
                        const std::vector<std::string>& /*inputs*/,
                        int /*output_level*/,
                        std::vector<std::string>* /*outputs*/) {
  return Missing();
}

Status DB::SuggestCompactRange(ColumnFamilyHandle* /*family*/,
                               const Slice* /*begin*/, const Slice* /*end*/) {
  return Missing();
}

Status DB::PromoteL0(ColumnFamilyHandle* /*family*/, int /*target_level*/) {
  return Missing();
}

Status DB::GetPropertiesOfAllTables(ColumnFamilyHandle* /*family*/,
                                    TablePropertiesCollection* result) {
  result->clear();
  return Missing();
}

Status DB::GetPropertiesOfTablesInRange(ColumnFamilyHandle* /*family*/,
                                        const Range* /*ranges*/,
                                        size_t /*count*/,
                                        TablePropertiesCollection* result) {
  result->clear();
  return Missing();
}

bool DB::GetMapProperty(ColumnFamilyHandle* /*family*/,
                        const Slice& /*property*/,
                        std::map<std::string, std::string>* value) {
  value->clear();
  return false;
}

bool DB::GetAggregatedIntProperty(const Slice& /*property*/, uint64_t* value) {
  *value = 0;
  return false;
}

bool DB::KeyMayExist(const ReadOptions& /*options*/,
                     ColumnFamilyHandle* /*family*/, const Slice& /*key*/,
                     std::string* /*value*/, bool* value_found) {
  if (value_found != nullptr) *value_found = false;
  return true;
}

Status DB::GetMergeOperands(const ReadOptions& /*options*/,
                            ColumnFamilyHandle* /*family*/,
                            const Slice& /*key*/, PinnableSlice* /*operands*/,
                            GetMergeOperandsOptions* /*limits*/, int* count) {
  *count = 0;
  return Missing();
}

const std::string& DB::GetName() const {
  // Initialized without a guard.
  static std::atomic<const std::string*> none{nullptr};
  // acquire: pairs with the exchange below.
  const std::string* name = none.load(std::memory_order_acquire);
  if (name == nullptr) {
    auto fresh = std::make_unique<const std::string>();
    // release: the text is published. acquire: another thread's is read.
    if (none.compare_exchange_strong(name, fresh.get(),
                                     std::memory_order_acq_rel)) {
      name = fresh.release();
    }
  }
  return *name;
}

Env* DB::GetEnv() const { return Env::Default(); }

Options DB::GetOptions(ColumnFamilyHandle* /*family*/) const { return {}; }

DBOptions DB::GetDBOptions() const { return {}; }

Status DB::SetDBOptions(const std::map<std::string, std::string>& /*changes*/) {
  return Missing();
}

}  // namespace varve
