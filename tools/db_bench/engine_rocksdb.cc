// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/peer_rocksdb_version.h"
#include "varve/options.h"

namespace varve {

namespace {

rocksdb::Slice ToRocks(const Slice& slice) {
  return rocksdb::Slice(slice.data(), slice.size());
}
Slice FromRocks(const rocksdb::Slice& slice) {
  return Slice(slice.data(), slice.size());
}
Status FromRocks(const rocksdb::Status& status) {
  if (status.ok()) return Status::OK();
  if (status.IsNotSupported()) return Status::NotSupported(status.ToString());
  return Status::IOError("rocksdb: " + status.ToString());
}

// A type has the same number here and there, that in files.
Status ParseCompression(const std::string& name,
                        rocksdb::CompressionType* type) {
  Options options;
  const Status status = SetOption("compression", name, &options);
  *type = static_cast<rocksdb::CompressionType>(options.compression);
  return status;
}

// Hands out a unique_ptr, or before RocksDB 11 a plain one.
template <typename Owner>
rocksdb::Status OpenRocks(const rocksdb::Options& options,
                          const std::string& path, Owner* db) {
  if constexpr (requires { rocksdb::DB::Open(options, path, db); }) {
    return rocksdb::DB::Open(options, path, db);
  } else {
    typename Owner::pointer opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, path, &opened);
    db->reset(opened);
    return status;
  }
}

class RocksCursor final : public EngineCursor {
 public:
  RocksCursor(rocksdb::DB* db, const rocksdb::ReadOptions& options)
      : db_(db), options_(options) {}

  void Renew() override { iterator_.reset(db_->NewIterator(options_)); }
  bool SeekToFirst() override {
    iterator_->SeekToFirst();
    return Arrive();
  }
  bool SeekToLast() override {
    iterator_->SeekToLast();
    return Arrive();
  }
  bool Seek(const Slice& target) override {
    iterator_->Seek(ToRocks(target));
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
  Status status() const override { return FromRocks(iterator_->status()); }

 private:
  bool Arrive() {
    if (!iterator_->Valid()) return false;
    key = FromRocks(iterator_->key());
    value = FromRocks(iterator_->value());
    return true;
  }

  rocksdb::DB* db_;
  rocksdb::ReadOptions options_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksSession final : public EngineSession {
 public:
  RocksSession(rocksdb::DB* db, const rocksdb::ReadOptions& read_options,
               const rocksdb::WriteOptions& write_options)
      : db_(db), read_options_(read_options), write_options_(write_options) {}

  Lookup Get(const Slice& key, Slice* value) override {
    value_.Reset();
    const rocksdb::Status status = db_->Get(
        read_options_, db_->DefaultColumnFamily(), ToRocks(key), &value_);
    if (status.ok()) {
      *value = FromRocks(value_);
      return Lookup::kFound;
    }
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = FromRocks(status);
    return Lookup::kError;
  }

  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    if (values_.size() < keys.size()) {
      values_ = std::vector<rocksdb::PinnableSlice>(keys.size());
      statuses_.resize(keys.size());
      keys_.resize(keys.size());
    }
    for (size_t i = 0; i < keys.size(); ++i) keys_[i] = ToRocks(keys[i]);
    db_->MultiGet(read_options_, db_->DefaultColumnFamily(), keys.size(),
                  keys_.data(), values_.data(), statuses_.data());
    *found = 0;
    *value_bytes = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses_[i].ok()) {
        ++*found;
        *value_bytes += values_[i].size();
      } else if (!statuses_[i].IsNotFound()) {
        error_ = FromRocks(statuses_[i]);
        return false;
      }
      values_[i].Reset();
    }
    return true;
  }

  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<RocksCursor>(db_, read_options_);
  }

  // An update of a batch in memory fails only where Write does as well.
  void Put(const Slice& key, const Slice& value) override {
    batch_.Put(ToRocks(key), ToRocks(value)).PermitUncheckedError();
  }
  void Delete(const Slice& key) override {
    batch_.Delete(ToRocks(key)).PermitUncheckedError();
  }
  Status Commit() override {
    const rocksdb::Status status = db_->Write(write_options_, &batch_);
    batch_.Clear();
    return FromRocks(status);
  }

 private:
  rocksdb::DB* db_;
  rocksdb::ReadOptions read_options_;
  rocksdb::WriteOptions write_options_;
  rocksdb::PinnableSlice value_;
  std::vector<rocksdb::Slice> keys_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  rocksdb::WriteBatch batch_;
};

class RocksEngine final : public Engine {
 public:
  std::string Version() const override { return DescribeRocksDb(); }

  Status Check(const EngineConfig& config) const override {
    rocksdb::CompressionType type;
    return ParseCompression(config.compression, &type);
  }

  std::string IoPath() override {
    return direct_reads_ ? "pread, O_DIRECT" : "pread";
  }

  Status Destroy(const EngineConfig& config) override {
    return FromRocks(rocksdb::DestroyDB(config.path, rocksdb::Options()));
  }

  Status Open(const EngineConfig& config) override {
    rocksdb::BlockBasedTableOptions table;
    table.format_version = 5;
    table.block_size = config.block_bytes;
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
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    options.create_if_missing = config.create_if_missing;
    options.write_buffer_size = config.write_buffer_bytes;
    options.max_write_buffer_number = config.max_write_buffers;
    options.max_subcompactions = static_cast<uint32_t>(config.subcompactions);
    options.max_open_files = config.open_files;
    options.target_file_size_base = config.target_file_bytes;
    options.use_direct_reads = config.use_direct_reads;
    options.manual_wal_flush = config.manual_wal_flush;
    options.allow_mmap_writes = config.mmap_write;
    options.max_background_jobs = config.max_background_jobs;
    const Status known =
        ParseCompression(config.compression, &options.compression);
    if (!known.ok()) return known;
    if (config.statistics) {
      if (statistics_ == nullptr) {
        statistics_ = rocksdb::CreateDBStatistics();
      }
      options.statistics = statistics_;
    }
    direct_reads_ = config.use_direct_reads;
    read_options_.verify_checksums = config.verify_checksums;
    write_options_.sync = config.sync;
    write_options_.disableWAL = config.disable_wal;
    return FromRocks(OpenRocks(options, config.path, &db_));
  }

  Status Close() override {
    const rocksdb::Status status = db_->Close();
    db_.reset();
    return FromRocks(status);
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<RocksSession>(db_.get(), read_options_,
                                          write_options_);
  }

  Status Flush() override {
    return FromRocks(db_->Flush(rocksdb::FlushOptions()));
  }
  Status Compact() override {
    return FromRocks(
        db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  }

  Status WaitForCompaction() override {
    // Not every version has a call that waits.
    while (HasWork()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status::OK();
  }

  Status VerifyChecksum() override {
    return FromRocks(db_->VerifyChecksum(read_options_));
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
      uint64_t value = 0;
      if (db_->GetIntProperty(name, &value) && value != 0) return true;
    }
    return false;
  }

  bool direct_reads_ = false;
  rocksdb::ReadOptions read_options_;
  rocksdb::WriteOptions write_options_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

std::unique_ptr<Engine> NewRocksDBEngine() {
  return std::make_unique<RocksEngine>();
}

}  // namespace varve
