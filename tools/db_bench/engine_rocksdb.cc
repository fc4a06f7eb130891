// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/engine_lsm.h"
#include "tools/db_bench/peer_rocksdb_open.h"
#include "tools/db_bench/peer_rocksdb_version.h"
#include "varve/options.h"

namespace varve {

namespace {

struct RocksApi {
  using DB = rocksdb::DB;
  using Iterator = rocksdb::Iterator;
  using ReadOptions = rocksdb::ReadOptions;
  using WriteOptions = rocksdb::WriteOptions;
  using WriteBatch = rocksdb::WriteBatch;
  using Value = rocksdb::PinnableSlice;
  using Status = rocksdb::Status;
  using Family = rocksdb::ColumnFamilyHandle*;

  class Keys {
   public:
    const rocksdb::Slice* From(const std::vector<Slice>& keys) {
      if (keys_.size() < keys.size()) keys_.resize(keys.size());
      for (size_t i = 0; i < keys.size(); ++i) keys_[i] = ToSlice(keys[i]);
      return keys_.data();
    }

   private:
    std::vector<rocksdb::Slice> keys_;
  };

  static rocksdb::Slice ToSlice(const Slice& slice) {
    return rocksdb::Slice(slice.data(), slice.size());
  }
  static Slice FromSlice(const rocksdb::Slice& slice) {
    return Slice(slice.data(), slice.size());
  }
  static varve::Status FromStatus(const Status& status) {
    if (status.ok()) return varve::Status::OK();
    if (status.IsNotSupported()) {
      return varve::Status::NotSupported(status.ToString());
    }
    return varve::Status::IOError("rocksdb: " + status.ToString());
  }
  static std::unique_ptr<Iterator> NewIterator(DB* db,
                                               const ReadOptions& options,
                                               Family family) {
    return std::unique_ptr<Iterator>(db->NewIterator(options, family));
  }
  static Status Get(DB* db, const ReadOptions& options, Family family,
                    const rocksdb::Slice& key, Value* value) {
    return db->Get(options, family, key, value);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       const rocksdb::Slice* keys, Value* values,
                       Status* statuses) {
    db->MultiGet(options, db->DefaultColumnFamily(), count, keys, values,
                 statuses);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       Family* families, const rocksdb::Slice* keys,
                       Value* values, Status* statuses) {
    db->MultiGet(options, count, families, keys, values, statuses);
  }
  static void Clear(Value* value) { value->Reset(); }
  // An update of a batch in memory fails only where Write does as well.
  static void Put(WriteBatch* batch, Family family, const rocksdb::Slice& key,
                  const rocksdb::Slice& value) {
    batch->Put(family, key, value).PermitUncheckedError();
  }
  static void Delete(WriteBatch* batch, Family family,
                     const rocksdb::Slice& key) {
    batch->Delete(family, key).PermitUncheckedError();
  }
  static void SingleDelete(WriteBatch* batch, Family family,
                           const rocksdb::Slice& key) {
    batch->SingleDelete(family, key).PermitUncheckedError();
  }
  static void DeleteRange(WriteBatch* batch, Family family,
                          const rocksdb::Slice& begin,
                          const rocksdb::Slice& end) {
    batch->DeleteRange(family, begin, end).PermitUncheckedError();
  }
  static Status ApproximateSize(DB* db, Family family,
                                const rocksdb::Slice& begin,
                                const rocksdb::Slice& end, uint64_t* bytes) {
    const rocksdb::Range range(begin, end);
    return db->GetApproximateSizes(rocksdb::SizeApproximationOptions(), family,
                                   &range, 1, bytes);
  }
  static void Merge(WriteBatch* batch, Family family, const rocksdb::Slice& key,
                    const rocksdb::Slice& operand) {
    batch->Merge(family, key, operand).PermitUncheckedError();
  }
};

using RocksSession = LsmMultiGetSession<RocksApi>;

// A type has the same number here and there, that in files.
Status ParseCompression(const std::string& name,
                        rocksdb::CompressionType* type) {
  Options options;
  const Status status = SetOption("compression", name, &options);
  *type = static_cast<rocksdb::CompressionType>(options.compression);
  return status;
}

// Sets all options against many deletions that this version has: a table with
// many of them is compacted, and an iterator that skips many entries of the
// memtable has it flushed.
template <typename RocksOptions>
void SetDeletionOptions(RocksOptions* options) {
  constexpr size_t kWindow = 128;
  constexpr size_t kDeletions = 64;
  constexpr double kRatio = 0.5;
  options->table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kWindow, kDeletions,
                                                    kRatio));
  if constexpr (requires { options->memtable_op_scan_flush_trigger; }) {
    options->memtable_op_scan_flush_trigger = 1000;
  }
  if constexpr (requires { options->memtable_avg_op_scan_flush_trigger; }) {
    options->memtable_avg_op_scan_flush_trigger = 100;
  }
}

class StderrLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1024];
    vsnprintf(line, sizeof(line), format, arguments);
    fprintf(stderr, "%s\n", line);
  }
};

class DropKeys final : public rocksdb::CompactionFilter {
 public:
  explicit DropKeys(std::function<bool(const Slice& key)> drops)
      : drops_(std::move(drops)) {}
  bool Filter(int /*level*/, const rocksdb::Slice& key,
              const rocksdb::Slice& /*value*/, std::string* /*new_value*/,
              bool* /*value_changed*/) const override {
    return drops_(RocksApi::FromSlice(key));
  }
  const char* Name() const override { return "DropKeys"; }

 private:
  const std::function<bool(const Slice& key)> drops_;
};

// Sets *merge_operator to null if `name` is empty.
Status ParseMergeOperator(
    const std::string& name,
    std::shared_ptr<rocksdb::MergeOperator>* merge_operator) {
  if (name.empty()) return Status::OK();
  const rocksdb::Status status = rocksdb::MergeOperator::CreateFromString(
      rocksdb::ConfigOptions(), name, merge_operator);
  if (status.ok() && *merge_operator != nullptr) return Status::OK();
  return Status::InvalidArgument("merge_operator", "rocksdb has no " + name);
}

// Sets options by name, of the database or of its tables.
Status SetByName(
    const std::vector<std::pair<std::string, std::string>>& changes,
    rocksdb::Options* options, rocksdb::BlockBasedTableOptions* table) {
  rocksdb::ConfigOptions config;
  for (const auto& [name, text] : changes) {
    if (name == "rate_limiter") {
      options->rate_limiter.reset(
          rocksdb::NewGenericRateLimiter(strtoll(text.c_str(), nullptr, 10)));
      continue;
    }
    rocksdb::Options changed;
    if (rocksdb::GetOptionsFromString(config, *options, name + "=" + text,
                                      &changed)
            .ok()) {
      *options = changed;
      continue;
    }
    rocksdb::BlockBasedTableOptions changed_table;
    const rocksdb::Status status = rocksdb::GetBlockBasedTableOptionsFromString(
        config, *table, name + "=" + text, &changed_table);
    if (!status.ok()) {
      return Status::InvalidArgument("rocksdb: --" + name, status.ToString());
    }
    *table = changed_table;
  }
  return Status::OK();
}

class RocksEngine final : public Engine {
 public:
  std::string Version() const override { return DescribeRocksDb(); }

  Status Check(const EngineConfig& config) const override {
    rocksdb::CompressionType type;
    std::shared_ptr<rocksdb::MergeOperator> merge_operator;
    const Status status =
        ParseMergeOperator(config.merge_operator, &merge_operator);
    if (!status.ok()) return status;
    if (!config.options_file.empty() ||
        config.transactions != TransactionKind::kNone) {
      return Status::NotSupported(
          "--options_file and transactions are for --engine=varve only");
    }
    rocksdb::Options options;
    rocksdb::BlockBasedTableOptions table;
    const Status known = ParseCompression(config.compression, &type);
    return known.ok() ? SetByName(config.options, &options, &table) : known;
  }

  std::string IoPath() override {
    return direct_reads_ ? "pread, O_DIRECT" : "pread";
  }

  Status Destroy(const EngineConfig& config) override {
    return RocksApi::FromStatus(
        rocksdb::DestroyDB(config.path, rocksdb::Options()));
  }

  Status Open(const EngineConfig& config) override {
    rocksdb::BlockBasedTableOptions table;
    table.format_version = 5;
    table.block_size = config.block_bytes;
    table.cache_index_and_filter_blocks = config.cache_metadata;
    if (config.partition_metadata) {
      table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
      table.partition_filters = true;
    }
    table.metadata_block_size = config.metadata_block_bytes;
    if (config.cache_bytes > 0) {
      table.block_cache = rocksdb::NewLRUCache(config.cache_bytes);
    } else {
      table.no_block_cache = true;
    }
    if (config.bloom_bits >= 1) {
      table.filter_policy.reset(
          rocksdb::NewBloomFilterPolicy(config.bloom_bits));
    }

    rocksdb::Options options;
    options.create_if_missing = config.create_if_missing;
    options.write_buffer_size = config.write_buffer_bytes;
    options.max_write_buffer_number = config.max_write_buffers;
    options.max_subcompactions = static_cast<uint32_t>(config.subcompactions);
    options.max_open_files = config.open_files;
    options.target_file_size_base = config.target_file_bytes;
    options.use_direct_reads = config.use_direct_reads;
    options.allow_mmap_reads = config.mmap_read;
    options.manual_wal_flush = config.manual_wal_flush;
    options.allow_mmap_writes = config.mmap_write;
    options.max_background_jobs = config.max_background_jobs;
    if (config.deletion_options) SetDeletionOptions(&options);
    Status known = ParseCompression(config.compression, &options.compression);
    if (known.ok()) {
      known =
          ParseMergeOperator(config.merge_operator, &options.merge_operator);
    }
    if (known.ok()) known = SetByName(config.options, &options, &table);
    if (!known.ok()) return known;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (config.log_to_stderr) {
      options.info_log = std::make_shared<StderrLogger>();
    }
    filter_.reset();
    if (config.drops != nullptr) {
      filter_ = std::make_unique<DropKeys>(config.drops);
      options.compaction_filter = filter_.get();
    }
    if (config.all_write_buffers_bytes > 0 || config.charge_write_buffers) {
      options.write_buffer_manager =
          std::make_shared<rocksdb::WriteBufferManager>(
              config.all_write_buffers_bytes,
              config.charge_write_buffers ? table.block_cache : nullptr);
    }
    config_ = config;
    if (config.statistics) {
      if (statistics_ == nullptr) {
        statistics_ = rocksdb::CreateDBStatistics();
      }
      options.statistics = statistics_;
    }
    direct_reads_ = config.use_direct_reads;
    read_options_.verify_checksums = config.verify_checksums;
    read_options_.readahead_size = config.readahead_bytes;
    read_options_.total_order_seek = config.total_order_seek;
    read_options_.prefix_same_as_start = config.prefix_same_as_start;
    read_options_.auto_prefix_mode = config.auto_prefix_mode;
    read_options_.tailing = config.tailing;
    write_options_.sync = config.sync;
    write_options_.disableWAL = config.disable_wal;
    options.create_missing_column_families = config.create_if_missing;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (uint32_t i = 0; i < config.column_families; ++i) {
      families.emplace_back(FamilyName(i), options);
    }
    return RocksApi::FromStatus(
        config.read_only
            ? OpenRocksForReadOnly(&db_, options, config.path, families,
                                   &families_)
            : OpenRocks(&db_, options, config.path, families, &families_));
  }

  Status Close() override {
    ReleaseSnapshot();
    for (rocksdb::ColumnFamilyHandle* const family : families_) delete family;
    families_.clear();
    const rocksdb::Status status = db_->Close();
    db_.reset();
    return RocksApi::FromStatus(status);
  }

  uint32_t CountFamilies(const EngineConfig& config) override {
    std::vector<std::string> names;
    const rocksdb::Status status = rocksdb::DB::ListColumnFamilies(
        rocksdb::DBOptions(), config.path, &names);
    uint32_t count = 1;
    while (status.ok() && std::find(names.begin(), names.end(),
                                    FamilyName(count)) != names.end()) {
      ++count;
    }
    return count;
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<RocksSession>(db_.get(), read_options_,
                                          write_options_, families_);
  }

  std::unique_ptr<Engine> NewSame() const override {
    return std::make_unique<RocksEngine>();
  }

  Status WriteTable(const std::string& path, const NextEntry& next) override {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db_->GetOptions());
    rocksdb::Status status = writer.Open(path);
    Slice key;
    Slice value;
    while (status.ok() && next(&key, &value)) {
      status = writer.Put(RocksApi::ToSlice(key), RocksApi::ToSlice(value));
    }
    return RocksApi::FromStatus(status.ok() ? writer.Finish() : status);
  }
  Status IngestTables(const std::vector<std::string>& paths) override {
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    return RocksApi::FromStatus(db_->IngestExternalFile(paths, options));
  }

  Status Backup() override {
    rocksdb::BackupEngineOptions options(config_.backup_dir);
    options.destroy_old_data = true;
    options.backup_rate_limit = config_.backup_bytes_per_second;
    rocksdb::BackupEngine* opened = nullptr;
    rocksdb::Status status =
        rocksdb::BackupEngine::Open(rocksdb::Env::Default(), options, &opened);
    const std::unique_ptr<rocksdb::BackupEngine> backups(opened);
    if (status.ok()) status = backups->CreateNewBackup(db_.get());
    return RocksApi::FromStatus(status);
  }
  Status Restore() override {
    rocksdb::BackupEngineOptions options(config_.backup_dir);
    options.restore_rate_limit = config_.restore_bytes_per_second;
    rocksdb::BackupEngineReadOnly* opened = nullptr;
    rocksdb::Status status = rocksdb::BackupEngineReadOnly::Open(
        rocksdb::Env::Default(), options, &opened);
    const std::unique_ptr<rocksdb::BackupEngineReadOnly> backups(opened);
    if (status.ok()) {
      status = backups->RestoreDBFromLatestBackup(config_.restore_dir,
                                                  config_.restore_dir);
    }
    return RocksApi::FromStatus(status);
  }

  Status ResetStatistics() override {
    if (statistics_ != nullptr) {
      statistics_->Reset().PermitUncheckedError();
    }
    return RocksApi::FromStatus(db_->ResetStats());
  }

  Status TakeSnapshot() override {
    ReleaseSnapshot();
    snapshot_ = db_->GetSnapshot();
    return Status::OK();
  }
  void ReleaseSnapshot() override {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }

  Status Flush() override {
    return RocksApi::FromStatus(db_->Flush(rocksdb::FlushOptions(), families_));
  }
  Status Compact() override {
    rocksdb::Status status;
    for (rocksdb::ColumnFamilyHandle* const family : families_) {
      status = db_->CompactRange(rocksdb::CompactRangeOptions(), family,
                                 nullptr, nullptr);
      if (!status.ok()) break;
    }
    return RocksApi::FromStatus(status);
  }

  Status WaitForCompaction() override {
    // Not every version has a call that waits.
    while (HasWork()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status::OK();
  }

  Status VerifyChecksum() override {
    return RocksApi::FromStatus(db_->VerifyChecksum(read_options_));
  }

  bool Property(const std::string& name, std::string* value) override {
    return db_->GetProperty("rocksdb." + name, value);
  }
  std::string StatisticsText() override {
    return statistics_ == nullptr ? "" : statistics_->ToString();
  }

 private:
  bool HasWork() {
    for (const char* name :
         {"rocksdb.mem-table-flush-pending", "rocksdb.compaction-pending",
          "rocksdb.num-running-flushes", "rocksdb.num-running-compactions"}) {
      for (rocksdb::ColumnFamilyHandle* const family : families_) {
        uint64_t value = 0;
        if (db_->GetIntProperty(family, name, &value) && value != 0) {
          return true;
        }
      }
    }
    return false;
  }

  std::unique_ptr<DropKeys> filter_;
  EngineConfig config_;
  bool direct_reads_ = false;
  rocksdb::ReadOptions read_options_;
  rocksdb::WriteOptions write_options_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
};

}  // namespace

std::unique_ptr<Engine> NewRocksDBEngine() {
  return std::make_unique<RocksEngine>();
}

}  // namespace varve
