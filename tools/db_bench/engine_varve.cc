// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "experimental/ablation.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/engine_lsm.h"
#include "varve/catalog.h"
#include "varve/compaction_filter.h"
#include "varve/db.h"
#include "varve/merge_operator.h"
#include "varve/statistics.h"
#include "varve/version.h"

namespace varve {

namespace {

struct VarveApi {
  using DB = varve::DB;
  using Iterator = varve::Iterator;
  using ReadOptions = varve::ReadOptions;
  using WriteOptions = varve::WriteOptions;
  using WriteBatch = varve::WriteBatch;
  using Value = PinnableSlice;
  using Status = varve::Status;
  using Family = ColumnFamilyHandle*;

  struct Keys {
    static const Slice* From(const std::vector<Slice>& keys) {
      return keys.data();
    }
  };

  static const Slice& ToSlice(const Slice& slice) { return slice; }
  static Slice FromSlice(const Slice& slice) { return slice; }
  static const Status& FromStatus(const Status& status) { return status; }
  static std::unique_ptr<Iterator> NewIterator(DB* db,
                                               const ReadOptions& options,
                                               Family family) {
    return family == nullptr ? db->NewIterator(options)
                             : db->NewIterator(options, family);
  }
  static Status Get(DB* db, const ReadOptions& options, Family family,
                    const Slice& key, Value* value) {
    return family == nullptr ? db->Get(options, key, value)
                             : db->Get(options, family, key, value);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       const Slice* keys, Value* values, Status* statuses) {
    db->MultiGet(options, count, keys, values, statuses);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       const Family* families, const Slice* keys, Value* values,
                       Status* statuses) {
    db->MultiGet(options, count, families, keys, values, statuses);
  }
  static void Clear(Value* value) { value->Reset(); }
  static void Put(WriteBatch* batch, Family family, const Slice& key,
                  const Slice& value) {
    if (family == nullptr) {
      batch->Put(key, value);
    } else {
      batch->Put(family, key, value);
    }
  }
  static void Delete(WriteBatch* batch, Family family, const Slice& key) {
    if (family == nullptr) {
      batch->Delete(key);
    } else {
      batch->Delete(family, key);
    }
  }
  static void DeleteRange(WriteBatch* batch, Family family, const Slice& begin,
                          const Slice& end) {
    batch->DeleteRange(family, begin, end);
  }
  static void Merge(WriteBatch* batch, Family family, const Slice& key,
                    const Slice& operand) {
    if (family == nullptr) {
      batch->Merge(key, operand);
    } else {
      batch->Merge(family, key, operand);
    }
  }
};

class VarveSession final : public LsmMultiGetSession<VarveApi> {
 public:
  // `catalog` may be null.
  VarveSession(DB* db, Catalog* catalog, const ReadOptions& read_options,
               const WriteOptions& write_options,
               const std::vector<ColumnFamilyHandle*>& families)
      : LsmMultiGetSession(db, read_options, write_options, families),
        catalog_(catalog) {}

  Lookup FindDatabase(const Slice& name) override {
    if (catalog_ == nullptr) return EngineSession::FindDatabase(name);
    DatabaseRef ref;
    Status status = catalog_->Find(name, &ref);
    if (status.ok()) return Lookup::kFound;
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = std::move(status);
    return Lookup::kError;
  }

 private:
  Catalog* const catalog_;
};

class DropHalf final : public CompactionFilter {
 public:
  bool Filter(int /*level*/, const Slice& key, const Slice& /*value*/,
              std::string* /*new_value*/,
              bool* /*value_changed*/) const override {
    return DropsKey(key.data(), key.size());
  }
  const char* Name() const override { return "DropHalf"; }
};

class VarveEngine final : public Engine {
 public:
  std::string Version() const override { return VersionString(); }

  Status Check(const EngineConfig& config) const override {
    Options options;
    if (!config.merge_operator.empty() &&
        FindMergeOperator(config.merge_operator) == nullptr) {
      return Status::InvalidArgument("merge_operator",
                                     "varve has no " + config.merge_operator);
    }
    return SetOption("compression", config.compression, &options);
  }

  std::string IoPath() override {
    std::string value;
    return db_->GetProperty("varve.io-path", &value) ? value : "pread";
  }

  Status Destroy(const EngineConfig& config) override {
    return DestroyDB(config.path, Options());
  }

  Status Open(const EngineConfig& config) override {
    Options options;
    options.create_if_missing = config.create_if_missing;
    options.write_buffer_size = config.write_buffer_bytes;
    options.max_write_buffer_number = config.max_write_buffers;
    options.max_subcompactions = config.subcompactions;
    CacheOptions cache_options;
    cache_options.capacity_bytes = config.cache_bytes;
    options.block_cache =
        NewBlockCache(config.ablation.block_cache, cache_options);
    options.stats_level = static_cast<StatsLevel>(config.stats_level);
    options.experiment = NewExperiment(config.ablation);
    if (config.case_insensitive_keys) options.key_case = KeyCase::kInsensitive;
    options.max_open_files = config.open_files;
    options.target_file_size_base = config.target_file_bytes;
    options.use_direct_reads = config.use_direct_reads;
    options.allow_mmap_reads = config.mmap_read;
    options.cache_index_and_filter_blocks = config.cache_metadata;
    if (config.partition_metadata) {
      options.index_type = IndexType::kTwoLevelIndexSearch;
      options.partition_filters = true;
    }
    options.metadata_block_size = config.metadata_block_bytes;
    options.manual_wal_flush = config.manual_wal_flush;
    options.block_size = config.block_bytes;
    options.max_background_jobs = config.max_background_jobs;
    for (const auto& [name, text] :
         {std::pair("compression", config.compression),
          std::pair("wal_write", config.wal_write)}) {
      const Status known = SetOption(name, text, &options);
      if (!known.ok()) return known;
    }
    options.merge_operator = FindMergeOperator(config.merge_operator);
    if (config.drop_half) options.compaction_filter = &drop_half_;
    if (config.bloom_bits >= 1) {
      options.filter_policy = NewBloomFilterPolicy(config.bloom_bits);
    }
    if (config.statistics) {
      if (statistics_ == nullptr) {
        statistics_ = CreateDBStatistics(
            config.ablation.statistics,
            {.level = static_cast<StatsLevel>(config.stats_level)});
      }
      options.statistics = statistics_;
    }
    read_options_.verify_checksums = config.verify_checksums;
    write_options_.sync = config.sync;
    write_options_.disable_wal = config.disable_wal;
    if (config.column_families <= 1) {
      return DB::Open(options, config.path, &db_);
    }
    options.create_missing_column_families = config.create_if_missing;
    std::vector<ColumnFamilyDescriptor> families;
    for (uint32_t i = 0; i < config.column_families; ++i) {
      families.emplace_back(FamilyName(i), options);
    }
    return DB::Open(options, config.path, families, &families_, &db_);
  }

  Status OpenCatalog(const EngineConfig& config,
                     const std::vector<std::string>& names) override {
    if (catalog_ != nullptr) return Status::OK();
    CatalogOptions options;
    options.create_if_missing = true;
    options.options.experiment = NewExperiment(config.ablation);
    Status status = Catalog::Open(options, config.path + "_catalog", &catalog_);
    std::vector<std::string> there;
    if (status.ok()) catalog_->List(&there);
    for (const std::string& name : names) {
      const bool known =
          std::find(there.begin(), there.end(), name) != there.end();
      if (status.ok() && !known) status = catalog_->Create(name);
    }
    return status;
  }

  Status Close() override {
    ReleaseSnapshot();
    catalog_.reset();
    for (ColumnFamilyHandle* const family : families_) delete family;
    families_.clear();
    Status status = db_->Close();
    db_.reset();
    return status;
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<VarveSession>(
        db_.get(), catalog_.get(), read_options_, write_options_, families_);
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
    return families_.empty() ? db_->Flush(FlushOptions())
                             : db_->Flush(FlushOptions(), families_);
  }
  Status Compact() override {
    Status status;
    for (size_t i = 0; i < std::max<size_t>(1, families_.size()); ++i) {
      if (!status.ok()) break;
      status = db_->CompactRange(CompactRangeOptions(),
                                 families_.empty() ? nullptr : families_[i],
                                 nullptr, nullptr);
    }
    return status;
  }
  Status WaitForCompaction() override { return db_->WaitForCompact(); }
  Status VerifyChecksum() override { return db_->VerifyChecksum(); }

  bool Property(const std::string& name, std::string* value) override {
    return db_->GetProperty("varve." + name, value);
  }
  std::string StatisticsText() override {
    return statistics_ == nullptr ? "" : statistics_->ToString();
  }

 private:
  const DropHalf drop_half_;
  ReadOptions read_options_;
  WriteOptions write_options_;
  std::shared_ptr<Statistics> statistics_;
  std::unique_ptr<DB> db_;
  // Empty if there is only the default one.
  std::vector<ColumnFamilyHandle*> families_;
  std::unique_ptr<Catalog> catalog_;
  const Snapshot* snapshot_ = nullptr;
};

}  // namespace

std::unique_ptr<Engine> NewVarveEngine() {
  return std::make_unique<VarveEngine>();
}

}  // namespace varve
