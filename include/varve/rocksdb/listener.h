// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's listeners; see varve/rocksdb.h.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/listener.h"
#include "varve/rocksdb/files.h"
#include "varve/rocksdb/names.h"

namespace VARVE_ROCKSDB_NAMESPACE {

class DB;

using varve::ExternalFileIngestionInfo;
using varve::WriteStallCondition;

struct FlushJobInfo {
  uint32_t cf_id = 0;
  std::string cf_name;
  std::string file_path;  // Empty before the table is created.
  uint64_t file_number = 0;
  TableProperties table_properties;
};

struct CompactionJobInfo {
  uint32_t cf_id = 0;
  std::string cf_name;
  Status status;
  int base_input_level = 0;
  int output_level = 0;
  std::vector<std::string> input_files;   // Paths.
  std::vector<std::string> output_files;  // At the end only.
  TablePropertiesCollection table_properties;
  struct Stats {
    uint64_t elapsed_micros = 0;
    uint64_t total_input_bytes = 0;
    uint64_t total_output_bytes = 0;
    size_t num_input_files = 0;
    size_t num_output_files = 0;
  } stats;
};

struct TableFileCreationInfo {
  std::string db_name;
  std::string file_path;
  uint64_t file_size = 0;
  Status status;
  TableProperties table_properties;
};

struct TableFileDeletionInfo {
  std::string db_name;
  std::string file_path;
  Status status;
};

struct WriteStallInfo {
  std::string cf_name;
  struct {
    WriteStallCondition cur = WriteStallCondition::kNormal;
    WriteStallCondition prev = WriteStallCondition::kNormal;
  } condition;
};

enum class BackgroundErrorReason { kFlush, kCompaction, kWriteCallback };

// As varve::EventListener. `db` is null in the jobs of an Open that has not
// returned yet.
class EventListener {
 public:
  virtual ~EventListener() = default;
  virtual void OnFlushBegin(DB* /*db*/, const FlushJobInfo& /*info*/) {}
  virtual void OnFlushCompleted(DB* /*db*/, const FlushJobInfo& /*info*/) {}
  virtual void OnCompactionBegin(DB* /*db*/,
                                 const CompactionJobInfo& /*info*/) {}
  virtual void OnCompactionCompleted(DB* /*db*/,
                                     const CompactionJobInfo& /*info*/) {}
  virtual void OnTableFileCreated(const TableFileCreationInfo& /*info*/) {}
  virtual void OnTableFileDeleted(const TableFileDeletionInfo& /*info*/) {}
  virtual void OnExternalFileIngested(
      DB* /*db*/, const ExternalFileIngestionInfo& /*info*/) {}
  virtual void OnStallConditionsChanged(const WriteStallInfo& /*info*/) {}
  // Changes of *status have no effect. The reason is kWriteCallback for all
  // that is no flush or compaction.
  virtual void OnBackgroundError(BackgroundErrorReason /*reason*/,
                                 Status* /*status*/) {}
};

namespace internal {

// A program's listener as Varve's, for one database.
class ListenerAdapter final : public varve::EventListener {
 public:
  explicit ListenerAdapter(
      std::shared_ptr<VARVE_ROCKSDB_NAMESPACE::EventListener> target)
      : target_(std::move(target)) {}

  // Pairs with db().
  void SetDb(DB* db) { db_.store(db, std::memory_order_release); }

  void OnFlushBegin(const varve::FlushJobInfo& info) override {
    target_->OnFlushBegin(db(), Convert(info));
  }
  void OnFlushCompleted(const varve::FlushJobInfo& info) override {
    // RocksDB reports flushes that succeeded.
    if (info.status.ok()) target_->OnFlushCompleted(db(), Convert(info));
  }
  void OnCompactionBegin(const varve::CompactionJobInfo& info) override {
    target_->OnCompactionBegin(db(), Convert(info));
  }
  void OnCompactionCompleted(const varve::CompactionJobInfo& info) override {
    target_->OnCompactionCompleted(db(), Convert(info));
  }
  void OnTableFileCreated(const varve::TableFileInfo& info) override {
    target_->OnTableFileCreated(
        {info.db_path, info.file_path, info.file_bytes, info.status,
         info.table_properties != nullptr ? *info.table_properties
                                          : TableProperties()});
  }
  void OnTableFileDeleted(const varve::TableFileInfo& info) override {
    target_->OnTableFileDeleted({info.db_path, info.file_path, info.status});
  }
  void OnExternalFileIngested(const ExternalFileIngestionInfo& info) override {
    target_->OnExternalFileIngested(db(), info);
  }
  void OnStallConditionsChanged(const varve::WriteStallInfo& info) override {
    target_->OnStallConditionsChanged(
        {info.cf_name, {info.current, info.previous}});
  }
  void OnBackgroundError(const std::string& where,
                         const Status& status) override {
    Status copy = status;
    target_->OnBackgroundError(
        where == "a flush"        ? BackgroundErrorReason::kFlush
        : where == "a compaction" ? BackgroundErrorReason::kCompaction
                                  : BackgroundErrorReason::kWriteCallback,
        &copy);
  }

 private:
  // Pairs with SetDb, so that a job sees the whole object.
  DB* db() const { return db_.load(std::memory_order_acquire); }

  static std::string TablePath(const std::string& directory, uint64_t number) {
    std::string name = std::to_string(number);
    if (name.size() < 6) name.insert(0, 6 - name.size(), '0');
    return directory + "/" + name + ".sst";
  }
  static FlushJobInfo Convert(const varve::FlushJobInfo& info) {
    return {info.cf_id, info.cf_name,
            info.file_number == 0 ? std::string()
                                  : TablePath(info.db_path, info.file_number),
            info.file_number, info.table_properties};
  }
  static CompactionJobInfo Convert(const varve::CompactionJobInfo& info) {
    CompactionJobInfo out;
    out.cf_id = info.cf_id;
    out.cf_name = info.cf_name;
    out.status = info.status;
    out.base_input_level = info.base_input_level;
    out.output_level = info.output_level;
    for (const uint64_t number : info.input_files) {
      out.input_files.push_back(TablePath(info.db_path, number));
    }
    for (const uint64_t number : info.output_files) {
      out.output_files.push_back(TablePath(info.db_path, number));
    }
    out.table_properties = info.table_properties;
    out.stats = {info.micros, info.input_bytes, info.output_bytes,
                 info.input_files.size(), info.output_files.size()};
    return out;
  }

  const std::shared_ptr<VARVE_ROCKSDB_NAMESPACE::EventListener> target_;
  std::atomic<DB*> db_{nullptr};
};

}  // namespace internal

}  // namespace VARVE_ROCKSDB_NAMESPACE
