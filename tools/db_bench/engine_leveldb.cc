// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/engine_adapter.h"

namespace varve {

namespace {

// It has no "all of them": more than it can ever need here.
constexpr int kAllFiles = 50000;

leveldb::Slice ToLevel(const Slice& slice) {
  return leveldb::Slice(slice.data(), slice.size());
}
Slice FromLevel(const leveldb::Slice& slice) {
  return Slice(slice.data(), slice.size());
}
Status FromLevel(const leveldb::Status& status) {
  if (status.ok()) return Status::OK();
  return Status::IOError("leveldb: " + status.ToString());
}

class LevelCursor final : public EngineCursor {
 public:
  LevelCursor(leveldb::DB* db, const leveldb::ReadOptions& options)
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
    iterator_->Seek(ToLevel(target));
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
  Status status() const override { return FromLevel(iterator_->status()); }

 private:
  bool Arrive() {
    if (!iterator_->Valid()) return false;
    key = FromLevel(iterator_->key());
    value = FromLevel(iterator_->value());
    return true;
  }

  leveldb::DB* db_;
  leveldb::ReadOptions options_;
  std::unique_ptr<leveldb::Iterator> iterator_;
};

class LevelSession final : public EngineSession {
 public:
  LevelSession(leveldb::DB* db, const leveldb::ReadOptions& read_options,
               const leveldb::WriteOptions& write_options)
      : db_(db), read_options_(read_options), write_options_(write_options) {}

  Lookup Get(const Slice& key, Slice* value) override {
    const leveldb::Status status =
        db_->Get(read_options_, ToLevel(key), &value_);
    if (status.ok()) {
      *value = value_;
      return Lookup::kFound;
    }
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = FromLevel(status);
    return Lookup::kError;
  }

  // It has no such call: one Get after the other.
  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    *found = 0;
    *value_bytes = 0;
    for (const Slice& key : keys) {
      Slice value;
      const Lookup lookup = Get(key, &value);
      if (lookup == Lookup::kError) return false;
      if (lookup == Lookup::kMissing) continue;
      ++*found;
      *value_bytes += value.size();
    }
    return true;
  }

  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<LevelCursor>(db_, read_options_);
  }

  void Put(const Slice& key, const Slice& value) override {
    batch_.Put(ToLevel(key), ToLevel(value));
  }
  void Delete(const Slice& key) override { batch_.Delete(ToLevel(key)); }
  Status Commit() override {
    const leveldb::Status status = db_->Write(write_options_, &batch_);
    batch_.Clear();
    return FromLevel(status);
  }

 private:
  leveldb::DB* db_;
  leveldb::ReadOptions read_options_;
  leveldb::WriteOptions write_options_;
  std::string value_;
  leveldb::WriteBatch batch_;
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
    if (config.disable_wal) {
      return Status::NotSupported("disable_wal: leveldb always writes its log");
    }
    if (config.manual_wal_flush || config.mmap_write) {
      return Status::NotSupported(
          "manual_wal_flush, mmap_write: leveldb has neither");
    }
    if (config.use_direct_reads) {
      return Status::NotSupported("use_direct_reads: leveldb has none");
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
    return FromLevel(leveldb::DestroyDB(config.path, leveldb::Options()));
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
    return FromLevel(status);
  }

  Status Close() override {
    db_.reset();
    return Status::OK();
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<LevelSession>(db_.get(), read_options_,
                                          write_options_);
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
};

}  // namespace

std::unique_ptr<Engine> NewLevelDBEngine() {
  return std::make_unique<LevelEngine>();
}

}  // namespace varve
