// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/engine_adapter.h"
#include "varve/catalog.h"
#include "varve/db.h"
#include "varve/statistics.h"
#include "varve/version.h"

namespace varve {

namespace {

class VarveCursor final : public EngineCursor {
 public:
  VarveCursor(DB* db, const ReadOptions& options)
      : db_(db), options_(options) {}

  void Renew() override { iterator_ = db_->NewIterator(options_); }
  bool SeekToFirst() override {
    iterator_->SeekToFirst();
    return Arrive();
  }
  bool SeekToLast() override {
    iterator_->SeekToLast();
    return Arrive();
  }
  bool Seek(const Slice& target) override {
    iterator_->Seek(target);
    return Arrive();
  }
  bool Next() override {
    iterator_->Next();
    return Arrive();
  }
  bool Prev() override {
    iterator_->Prev();
    return Arrive();
  }
  Status status() const override { return iterator_->status(); }

 private:
  bool Arrive() {
    if (!iterator_->Valid()) return false;
    key = iterator_->key();
    value = iterator_->value();
    return true;
  }

  DB* db_;
  ReadOptions options_;
  std::unique_ptr<Iterator> iterator_;
};

class VarveSession final : public EngineSession {
 public:
  // `catalog` may be null.
  VarveSession(DB* db, Catalog* catalog, const ReadOptions& read_options,
               const WriteOptions& write_options)
      : db_(db),
        catalog_(catalog),
        read_options_(read_options),
        write_options_(write_options) {}

  Lookup FindDatabase(const Slice& name) override {
    if (catalog_ == nullptr) return EngineSession::FindDatabase(name);
    DatabaseRef ref;
    Status status = catalog_->Find(name, &ref);
    if (status.ok()) return Lookup::kFound;
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = std::move(status);
    return Lookup::kError;
  }

  Lookup Get(const Slice& key, Slice* value) override {
    value_.Reset();
    Status status = db_->Get(read_options_, key, &value_);
    if (status.ok()) {
      *value = value_;
      return Lookup::kFound;
    }
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = std::move(status);
    return Lookup::kError;
  }

  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    if (values_.size() < keys.size()) {
      values_ = std::vector<PinnableSlice>(keys.size());
      statuses_.resize(keys.size());
    }
    db_->MultiGet(read_options_, keys.size(), keys.data(), values_.data(),
                  statuses_.data());
    *found = 0;
    *value_bytes = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses_[i].ok()) {
        ++*found;
        *value_bytes += values_[i].size();
      } else if (!statuses_[i].IsNotFound()) {
        error_ = statuses_[i];
        return false;
      }
      values_[i].Reset();
    }
    return true;
  }

  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<VarveCursor>(db_, read_options_);
  }

  void Put(const Slice& key, const Slice& value) override {
    batch_.Put(key, value);
  }
  void Delete(const Slice& key) override { batch_.Delete(key); }
  Status Commit() override {
    Status status = db_->Write(write_options_, &batch_);
    batch_.Clear();
    return status;
  }

 private:
  DB* db_;
  Catalog* catalog_;
  ReadOptions read_options_;
  WriteOptions write_options_;
  PinnableSlice value_;
  std::vector<PinnableSlice> values_;
  std::vector<Status> statuses_;
  WriteBatch batch_;
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
    cache_options.mode = config.ablation.block_cache;
    options.block_cache = NewBlockCache(cache_options);
    options.stats_level = static_cast<StatsLevel>(config.stats_level);
    options.ablation = config.ablation;
    if (config.case_insensitive_keys) options.key_case = KeyCase::kInsensitive;
    options.max_open_files = config.open_files;
    options.target_file_size_base = config.target_file_bytes;
    options.use_direct_reads = config.use_direct_reads;
    options.manual_wal_flush = config.manual_wal_flush;
    options.use_mmap_writes = config.mmap_write;
    options.block_size = config.block_bytes;
    options.max_background_jobs = config.max_background_jobs;
    const Status known = SetOption("compression", config.compression, &options);
    if (!known.ok()) return known;
    if (config.bloom_bits >= 1) {
      options.filter_policy = NewBloomFilterPolicy(config.bloom_bits);
    }
    if (config.statistics) {
      if (statistics_ == nullptr) {
        statistics_ = CreateDBStatistics(
            {.level = static_cast<StatsLevel>(config.stats_level),
             .mode = config.ablation.statistics});
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
    options.options.ablation = config.ablation;
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
    catalog_.reset();
    Status status = db_->Close();
    db_.reset();
    return status;
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<VarveSession>(db_.get(), catalog_.get(),
                                          read_options_, write_options_);
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
};

}  // namespace

std::unique_ptr<Engine> NewVarveEngine() {
  return std::make_unique<VarveEngine>();
}

}  // namespace varve
