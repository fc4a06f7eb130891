// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/engine_lsm.h"

namespace varve {

namespace {

// It has no "all of them": more than it can ever need here.
constexpr int kAllFiles = 50000;

struct LevelApi {
  using DB = leveldb::DB;
  using Iterator = leveldb::Iterator;
  using ReadOptions = leveldb::ReadOptions;
  using WriteOptions = leveldb::WriteOptions;
  using WriteBatch = leveldb::WriteBatch;
  using Value = std::string;
  // There are none.
  using Family = const void*;

  static leveldb::Slice ToSlice(const Slice& slice) {
    return leveldb::Slice(slice.data(), slice.size());
  }
  static Slice FromSlice(const leveldb::Slice& slice) {
    return Slice(slice.data(), slice.size());
  }
  static Status FromStatus(const leveldb::Status& status) {
    if (status.ok()) return Status::OK();
    return Status::IOError("leveldb: " + status.ToString());
  }
  static std::unique_ptr<Iterator> NewIterator(DB* db,
                                               const ReadOptions& options,
                                               Family /*family*/) {
    return std::unique_ptr<Iterator>(db->NewIterator(options));
  }
  static leveldb::Status Get(DB* db, const ReadOptions& options,
                             Family /*family*/, const leveldb::Slice& key,
                             Value* value) {
    return db->Get(options, key, value);
  }
  // Get replaces it.
  static void Clear(Value* /*value*/) {}
  static void Put(WriteBatch* batch, Family /*family*/,
                  const leveldb::Slice& key, const leveldb::Slice& value) {
    batch->Put(key, value);
  }
  static void Delete(WriteBatch* batch, Family /*family*/,
                     const leveldb::Slice& key) {
    batch->Delete(key);
  }
};

class LevelSession final : public LsmSession<LevelApi> {
 public:
  using LsmSession::LsmSession;

  // It has no such call.
  using EngineSession::MultiGet;
  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    return GetEach(
        keys, found, value_bytes,
        [this](const Slice& key, Slice* value) { return Get(key, value); });
  }
};

class LevelEngine final : public Engine {
 public:
  std::string Version() const override {
    return std::to_string(leveldb::kMajorVersion) + "." +
           std::to_string(leveldb::kMinorVersion);
  }

  Status Check(const EngineConfig& config) const override {
    if (config.compression != "snappy" && config.compression != "none") {
      return Status::NotSupported("compression " + config.compression +
                                  ": leveldb has snappy and none");
    }
    if (!config.merge_operator.empty() || config.drops != nullptr) {
      return Status::NotSupported(
          "merge_operator, compaction_filter: leveldb has neither");
    }
    if (config.disable_wal) {
      return Status::NotSupported("disable_wal: leveldb always writes its log");
    }
    if (config.all_write_buffers_bytes > 0 || config.charge_write_buffers) {
      return Status::NotSupported(
          "db_write_buffer_size, cost_write_buffer_to_cache: leveldb has "
          "neither");
    }
    if (config.manual_wal_flush || config.mmap_write) {
      return Status::NotSupported(
          "manual_wal_flush, mmap_write: leveldb has neither");
    }
    if (config.use_direct_reads) {
      return Status::NotSupported("use_direct_reads: leveldb has none");
    }
    if (config.column_families > 1) {
      return Status::NotSupported(
          "num_column_families: leveldb has no column families");
    }
    return Status::OK();
  }

  std::string Remarks(const EngineConfig& config) const override {
    std::string remarks =
        "two write buffers, one background thread; multireadrandom is one Get "
        "after the other";
    if (config.bloom_bits >= 1) {
      remarks += "; its Bloom filter is one for each 2 KiB of data";
    }
    return remarks;
  }

  std::string IoPath() override { return "mmap of 1000 tables, else pread"; }

  Status Destroy(const EngineConfig& config) override {
    return LevelApi::FromStatus(
        leveldb::DestroyDB(config.path, leveldb::Options()));
  }

  Status Open(const EngineConfig& config) override {
    cache_.reset(leveldb::NewLRUCache(config.cache_bytes));
    leveldb::Options options;
    options.create_if_missing = config.create_if_missing;
    options.write_buffer_size = config.write_buffer_bytes;
    options.block_cache = cache_.get();
    options.block_size = config.block_bytes;
    options.max_file_size = config.target_file_bytes;
    options.max_open_files =
        config.open_files < 0 ? kAllFiles : config.open_files;
    options.compression = config.compression == "none"
                              ? leveldb::kNoCompression
                              : leveldb::kSnappyCompression;
    if (config.bloom_bits >= 1) {
      filter_.reset(leveldb::NewBloomFilterPolicy(config.bloom_bits));
      options.filter_policy = filter_.get();
    }
    read_options_.verify_checksums = config.verify_checksums;
    write_options_.sync = config.sync;
    leveldb::DB* db = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, config.path, &db);
    db_.reset(db);
    return LevelApi::FromStatus(status);
  }

  Status Close() override {
    ReleaseSnapshot();
    db_.reset();
    return Status::OK();
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<LevelSession>(db_.get(), read_options_,
                                          write_options_);
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
    return Status::NotSupported("leveldb cannot be told to flush");
  }
  Status Compact() override {
    db_->CompactRange(nullptr, nullptr);
    return Status::OK();
  }
  Status WaitForCompaction() override {
    return Status::NotSupported("leveldb does not say what it is doing");
  }
  Status VerifyChecksum() override {
    return Status::NotSupported("leveldb verifies when it reads only");
  }

  bool Property(const std::string& name, std::string* value) override {
    // Its statistics are a table of the levels.
    return (name == "stats" || name == "levelstats") &&
           db_->GetProperty("leveldb.stats", value);
  }

 private:
  leveldb::ReadOptions read_options_;
  leveldb::WriteOptions write_options_;
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;
  const leveldb::Snapshot* snapshot_ = nullptr;
};

}  // namespace

std::unique_ptr<Engine> NewLevelDBEngine() {
  return std::make_unique<LevelEngine>();
}

}  // namespace varve
