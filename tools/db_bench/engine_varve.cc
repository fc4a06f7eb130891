// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/engine_lsm.h"
#include "varve/catalog.h"
#include "varve/db.h"
#include "varve/experimental.h"
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

  struct Keys {
    static const Slice* From(const std::vector<Slice>& keys) {
      return keys.data();
    }
  };

  static const Slice& ToSlice(const Slice& slice) { return slice; }
  static Slice FromSlice(const Slice& slice) { return slice; }
  static const Status& FromStatus(const Status& status) { return status; }
  static std::unique_ptr<Iterator> NewIterator(DB* db,
                                               const ReadOptions& options) {
    return db->NewIterator(options);
  }
  static Status Get(DB* db, const ReadOptions& options, const Slice& key,
                    Value* value) {
    return db->Get(options, key, value);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       const Slice* keys, Value* values, Status* statuses) {
    db->MultiGet(options, count, keys, values, statuses);
  }
  static void Clear(Value* value) { value->Reset(); }
  static void Put(WriteBatch* batch, const Slice& key, const Slice& value) {
    batch->Put(key, value);
  }
  static void Delete(WriteBatch* batch, const Slice& key) {
    batch->Delete(key);
  }
  static void DeleteRange(WriteBatch* batch, const Slice& begin,
                          const Slice& end) {
    batch->DeleteRange(begin, end);
  }
};

class VarveSession final : public LsmMultiGetSession<VarveApi> {
 public:
  // `catalog` may be null.
  VarveSession(DB* db, Catalog* catalog, const ReadOptions& read_options,
               const WriteOptions& write_options)
      : LsmMultiGetSession(db, read_options, write_options),
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

class VarveEngine final : public Engine {
 public:
  std::string Version() const override { return VersionString(); }

  Status Check(const EngineConfig& config) const override {
    Options options;
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
    options.manual_wal_flush = config.manual_wal_flush;
    options.block_size = config.block_bytes;
    options.max_background_jobs = config.max_background_jobs;
    for (const auto& [name, text] :
         {std::pair("compression", config.compression),
          std::pair("wal_write", config.wal_write)}) {
      const Status known = SetOption(name, text, &options);
      if (!known.ok()) return known;
    }
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
    return DB::Open(options, config.path, &db_);
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
    Status status = db_->Close();
    db_.reset();
    return status;
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<VarveSession>(db_.get(), catalog_.get(),
                                          read_options_, write_options_);
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

  Status Flush() override { return db_->Flush(FlushOptions()); }
  Status Compact() override {
    return db_->CompactRange(CompactRangeOptions(), nullptr, nullptr);
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
  ReadOptions read_options_;
  WriteOptions write_options_;
  std::shared_ptr<Statistics> statistics_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<Catalog> catalog_;
  const Snapshot* snapshot_ = nullptr;
};

}  // namespace

std::unique_ptr<Engine> NewVarveEngine() {
  return std::make_unique<VarveEngine>();
}

}  // namespace varve
