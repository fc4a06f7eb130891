// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What db_bench asks of a storage engine, so that the same loops drive each of
// them. An engine is configured as alike to the others as it can be: the same
// block size, filter, cache, compression, write buffers and threads.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/experimental.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

struct EngineConfig {
  // The database's directory.
  std::string path;
  bool create_if_missing = true;

  // What will be stored, about.
  uint64_t entries = 0;
  size_t key_bytes = 0;
  size_t value_bytes = 0;

  // none, snappy, lz4, lz4hc or zstd.
  std::string compression = "snappy";
  size_t cache_bytes = 0;
  size_t block_bytes = 0;
  // Bits a key of the Bloom filter; below 1 there is none.
  int bloom_bits = -1;
  int open_files = -1;
  uint64_t target_file_bytes = uint64_t{64} << 20;
  size_t write_buffer_bytes = 0;
  // The one being filled included.
  int max_write_buffers = 2;
  int max_background_jobs = 2;
  // Parts of one compaction that run at the same time, at most.
  int subcompactions = 1;
  // Threads that will read at the same time, at most.
  int threads = 1;
  // Every write waits for the device.
  bool sync = false;
  bool disable_wal = false;
  bool manual_wal_flush = false;
  bool mmap_write = false;
  bool use_direct_reads = false;
  bool verify_checksums = true;
  // Varve only.
  bool case_insensitive_keys = false;
  // Count events, if the engine can, to print them.
  bool statistics = false;
  // How much Varve measures: a StatsLevel.
  int stats_level = 3;
  // What Varve switches back; checked before.
  AblationOptions ablation;
};

// A walk over the entries. Each move tells whether it stands on an entry.
class EngineCursor {
 public:
  virtual ~EngineCursor() = default;

  // Makes a new iterator of the engine, over what is stored now.
  virtual void Renew() = 0;
  virtual bool SeekToFirst() = 0;
  virtual bool SeekToLast() = 0;
  virtual bool Seek(const Slice& key) = 0;
  virtual bool Next() = 0;
  virtual bool Prev() = 0;
  virtual Status status() const = 0;

  // Of the entry it stands on; valid until it moves.
  Slice key;
  Slice value;
};

enum class Lookup : uint8_t { kFound, kMissing, kError };

// One thread's access, with what it reuses from call to call.
// Thread-safety: owned by one thread. Lifetime: destroy it before Close.
class EngineSession {
 public:
  virtual ~EngineSession() = default;

  // *value is valid until the next call. For kError see error().
  virtual Lookup Get(const Slice& key, Slice* value) = 0;
  // Gets all keys at once; *found of them are there, with values of
  // *value_bytes bytes together. False is an error.
  virtual bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                        uint64_t* value_bytes) = 0;
  virtual std::unique_ptr<EngineCursor> NewCursor() = 0;

  // Collects updates; Commit writes them as one.
  virtual void Put(const Slice& key, const Slice& value) = 0;
  virtual void Delete(const Slice& key) = 0;
  virtual Status Commit() = 0;

  // Finds a database of the catalog, and lets go of it.
  virtual Lookup FindDatabase(const Slice& /*name*/) {
    error_ = Status::NotSupported("catalogs");
    return Lookup::kError;
  }

  // Why Get, MultiGet or FindDatabase failed.
  const Status& error() const { return error_; }

 protected:
  // MultiGet by one get(key, &value) after the other.
  template <typename Get>
  static bool GetEach(const std::vector<Slice>& keys, size_t* found,
                      uint64_t* value_bytes, Get get) {
    *found = 0;
    *value_bytes = 0;
    for (const Slice& key : keys) {
      Slice value;
      const Lookup lookup = get(key, &value);
      if (lookup == Lookup::kError) return false;
      if (lookup == Lookup::kMissing) continue;
      ++*found;
      *value_bytes += value.size();
    }
    return true;
  }

  Status error_;
};

// Thread-safety: thread-safe once open.
class Engine {
 public:
  virtual ~Engine() = default;

  // Of the library linked, with what distorts its figures.
  virtual std::string Version() const = 0;
  // InvalidArgument or NotSupported if it cannot be as `config` says. Touches
  // no file.
  virtual Status Check(const EngineConfig& config) const = 0;
  // What of `config` means something else here; empty if nothing.
  virtual std::string Remarks(const EngineConfig& /*config*/) const {
    return "";
  }
  // How it reads its files.
  virtual std::string IoPath() = 0;

  // Removes the database, if there is one. REQUIRES: not open.
  virtual Status Destroy(const EngineConfig& config) = 0;
  // REQUIRES: not open.
  virtual Status Open(const EngineConfig& config) = 0;
  virtual Status Close() = 0;

  virtual std::unique_ptr<EngineSession> NewSession() = 0;

  // Opens a catalog beside the database, with databases of these names, for
  // the sessions that are made from now on. Close closes it.
  virtual Status OpenCatalog(const EngineConfig& /*config*/,
                             const std::vector<std::string>& /*names*/) {
    return Status::NotSupported("the engine has no catalogs");
  }

  // NotSupported where the engine has no such thing.
  virtual Status Flush() = 0;
  virtual Status Compact() = 0;
  virtual Status WaitForCompaction() = 0;
  virtual Status VerifyChecksum() = 0;

  // "stats" or "levelstats"; false if the engine has none.
  virtual bool Property(const std::string& name, std::string* value) = 0;
  // What EngineConfig::statistics counted; empty if nothing.
  virtual std::string StatisticsText() { return ""; }
};

// The names of all engines, built in or not.
std::vector<std::string> EngineNames();

// InvalidArgument for an unknown name; NotSupported for an engine that is not
// built in: its library was not installed when db_bench was configured.
Status NewEngine(const std::string& name, std::unique_ptr<Engine>* engine);

// Each is there only where its source is compiled in.
std::unique_ptr<Engine> NewVarveEngine();
std::unique_ptr<Engine> NewRocksDBEngine();
std::unique_ptr<Engine> NewLevelDBEngine();
std::unique_ptr<Engine> NewLMDBEngine();

}  // namespace varve
