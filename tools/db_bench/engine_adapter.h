// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The interface between db_bench and a storage engine. The same loops drive
// each engine. Engines are configured as alike as possible: the same block
// size, filter, cache, compression, write buffers and threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experimental/ablation.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

enum class TransactionKind : uint8_t { kNone, kLocking, kOptimistic };

struct EngineConfig {
  // The database's directory.
  std::string path;
  bool create_if_missing = true;

  // The approximate data to be stored.
  uint64_t entries = 0;
  size_t key_bytes = 0;
  size_t value_bytes = 0;

  // The number of column families; see FamilyName.
  uint32_t column_families = 1;

  // none, snappy, lz4, lz4hc or zstd.
  std::string compression = "snappy";
  size_t cache_bytes = 0;
  size_t block_bytes = 0;
  // Bits per key of the Bloom filter. Below 1 there is no filter.
  int bloom_bits = -1;
  int open_files = -1;
  uint64_t target_file_bytes = uint64_t{64} << 20;
  size_t write_buffer_bytes = 0;
  // Includes the one being filled.
  int max_write_buffers = 2;
  int max_background_jobs = 2;
  // The maximum number of parallel parts of one compaction.
  int subcompactions = 1;
  // The maximum number of threads that read at the same time.
  int threads = 1;
  // Syncs every write.
  bool sync = false;
  bool disable_wal = false;
  bool manual_wal_flush = false;
  bool mmap_write = false;
  std::string wal_write = "auto";
  bool use_direct_reads = false;
  bool mmap_read = false;  // LevelDB and LMDB always map.
  // Of indexes and filters: whether the cache has them, and whether they are
  // cut into partitions of about that size. Varve and RocksDB only.
  bool cache_metadata = false;
  bool partition_metadata = false;
  size_t metadata_block_bytes = 4096;
  bool verify_checksums = true;
  // Varve only.
  bool case_insensitive_keys = false;
  // RocksDB only: its options that compact or flush because of deletions.
  bool deletion_options = false;
  // The name of a built-in merge operator, or "put", or empty for none.
  std::string merge_operator;
  // An OPTIONS file whose options are the base of the others, if not empty.
  // Varve only, as `transactions`.
  std::string options_file;
  // Engine options by RocksDB's names, with their text. They replace what else
  // this struct says. Varve and RocksDB only, as the next fields.
  std::vector<std::pair<std::string, std::string>> options;
  // Opens the database for reading only.
  bool read_only = false;
  // Of iterators; the number is in bytes.
  size_t readahead_bytes = 0;
  bool total_order_seek = false;
  bool prefix_same_as_start = false;
  bool auto_prefix_mode = false;
  bool tailing = false;
  // Opens the database with transactions of that kind.
  TransactionKind transactions = TransactionKind::kNone;
  int64_t lock_timeout_ms = 100;
  // Says which keys compactions drop, if it is not null.
  std::function<bool(const Slice& key)> drops;
  // The most bytes of all memtables together, if not 0, and whether the block
  // cache is charged with them.
  uint64_t all_write_buffers_bytes = 0;
  bool charge_write_buffers = false;
  // Writes the database's log of events to stderr. Varve and RocksDB only.
  bool log_to_stderr = false;
  // The directories of Backup and Restore, and the most bytes per second that
  // each writes; 0: no limit.
  std::string backup_dir;
  std::string restore_dir;
  uint64_t backup_bytes_per_second = 0;
  uint64_t restore_bytes_per_second = 0;
  // Counts and prints events, if the engine can.
  bool statistics = false;
  // The detail of Varve's measurements: a StatsLevel.
  int stats_level = 3;
  // Varve's ablations, already checked.
  AblationOptions ablation;
};

// Returns the name of column family number `number`, which is the one that
// RocksDB's db_bench uses.
std::string FamilyName(uint32_t number);

// Returns whether a compaction filter that drops half of the keys drops this
// one. The keys of consecutive numbers are dropped in turn.
inline bool DropsKey(const Slice& key) {
  char sum = 0;
  for (size_t i = 0; i < key.size(); ++i) sum ^= key[i];
  return (sum & 1) != 0;
}

// An iterator. Each move returns whether the cursor is on an entry.
class EngineCursor {
 public:
  virtual ~EngineCursor() = default;

  // Selects the column family of Renew. The first one is selected at first.
  void SelectFamily(uint32_t number) { family_ = number; }
  // Limits the iterators of later Renews to the keys from `lower` to before
  // `upper`. Null: no limit. The keys must live as long as the iterators.
  // Returns false if the engine has no limits.
  virtual bool SetBounds(const Slice* lower, const Slice* upper) {
    return lower == nullptr && upper == nullptr;
  }
  // Creates a new iterator of the engine, over the current contents.
  virtual void Renew() = 0;
  virtual bool SeekToFirst() = 0;
  virtual bool SeekToLast() = 0;
  virtual bool Seek(const Slice& key) = 0;
  virtual bool Next() = 0;
  virtual bool Prev() = 0;
  virtual Status status() const = 0;

  // The current entry. Valid until the next move.
  Slice key;
  Slice value;

 protected:
  uint32_t family_ = 0;
};

enum class Lookup : uint8_t { kFound, kMissing, kError };

// One thread's access, with objects that it reuses between calls.
// Thread-safety: owned by one thread. Lifetime: destroy it before Close.
class EngineSession {
 public:
  virtual ~EngineSession() = default;

  // Selects the column family of the calls that take keys. The first one is
  // selected at first.
  void SelectFamily(uint32_t number) { family_ = number; }

  // *value is valid until the next call. For kError see error().
  virtual Lookup Get(const Slice& key, Slice* value) = 0;
  // Looks up all keys at once. Sets *found to the number of keys found, and
  // *value_bytes to the total size of their values. Returns false on an error.
  virtual bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                        uint64_t* value_bytes) = 0;
  // Looks up keys[i] in column family families[i].
  virtual bool MultiGet(const std::vector<uint32_t>& /*families*/,
                        const std::vector<Slice>& keys, size_t* found,
                        uint64_t* value_bytes) {
    return MultiGet(keys, found, value_bytes);
  }
  // Looks up all keys as of one moment, in the selected family. Sets values[i]
  // to the value of keys[i], empty if it has none. Returns false on an error,
  // and by default.
  virtual bool GetAtOnce(const std::vector<Slice>& /*keys*/,
                         std::vector<std::string>* /*values*/) {
    error_ = Status::NotSupported("reads of several keys as of one moment");
    return false;
  }
  // Calls visit for the key's merge operands, from its value on.
  virtual Lookup GetOperands(
      const Slice& /*key*/,
      const std::function<void(const Slice& operand)>& /*visit*/) {
    error_ = Status::NotSupported("reads of merge operands");
    return Lookup::kError;
  }
  // Sets *bytes to about the size of the keys in [begin, end).
  virtual Status ApproximateSize(const Slice& /*begin*/, const Slice& /*end*/,
                                 uint64_t* /*bytes*/) {
    return Status::NotSupported("estimates of sizes");
  }
  virtual std::unique_ptr<EngineCursor> NewCursor() = 0;

  // Adds `increment` to the numbers that the values of the keys are, as text,
  // in one transaction of EngineConfig::transactions. Calls `pause` between
  // the read and the write of a key. Returns Busy, TimedOut or Aborted if it
  // failed because of another one.
  virtual Status AddToEach(const std::vector<std::string>& /*keys*/,
                           uint64_t /*increment*/, bool /*set_snapshot*/,
                           const std::function<void()>& /*pause*/) {
    return Status::NotSupported("transactions");
  }

  // Collects updates. Commit writes them atomically.
  virtual void Put(const Slice& key, const Slice& value) = 0;
  virtual void Delete(const Slice& key) = 0;
  // Deletes a key that was put once since its last deletion. Returns false, and
  // collects nothing, if the engine has no such operation.
  virtual bool SingleDelete(const Slice& /*key*/) { return false; }
  // Deletes the keys in [begin, end). Returns false, and collects nothing, if
  // the engine has no such operation.
  virtual bool DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) {
    return false;
  }
  // Adds an operand for EngineConfig::merge_operator. Returns false, and
  // collects nothing, if the engine has no such operation.
  virtual bool Merge(const Slice& /*key*/, const Slice& /*operand*/) {
    return false;
  }
  virtual Status Commit() = 0;

  // Keeps a snapshot until the session ends. Returns false if the engine has
  // none.
  virtual bool HoldSnapshot() { return false; }

  // Looks up a database of the catalog, and releases it.
  virtual Lookup FindDatabase(const Slice& /*name*/) {
    error_ = Status::NotSupported("catalogs");
    return Lookup::kError;
  }

  // The error of Get, MultiGet or FindDatabase.
  const Status& error() const { return error_; }

 protected:
  // Implements MultiGet with one get(key, &value) per key.
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
  uint32_t family_ = 0;
};

// Thread-safety: thread-safe once open.
class Engine {
 public:
  virtual ~Engine() = default;

  // Returns the version of the linked library, with properties that distort its
  // figures.
  virtual std::string Version() const = 0;
  // Returns InvalidArgument or NotSupported if the engine cannot run with
  // `config`. Touches no file.
  virtual Status Check(const EngineConfig& config) const = 0;
  // Returns the settings of `config` that mean something else for this engine,
  // or an empty string.
  virtual std::string Remarks(const EngineConfig& /*config*/) const {
    return "";
  }
  // Returns how the engine reads its files.
  virtual std::string IoPath() = 0;

  // Removes the database, if it exists. REQUIRES: not open.
  virtual Status Destroy(const EngineConfig& config) = 0;
  // REQUIRES: not open.
  virtual Status Open(const EngineConfig& config) = 0;
  virtual Status Close() = 0;

  virtual std::unique_ptr<EngineSession> NewSession() = 0;

  // Returns another object of this class, or null if its databases cannot be
  // compared.
  virtual std::unique_ptr<Engine> NewSame() const { return nullptr; }

  // Writes a table file with the entries of `next`, which returns false after
  // the last one. The slices live until the next call.
  using NextEntry = std::function<bool(Slice* key, Slice* value)>;
  virtual Status WriteTable(const std::string& /*path*/,
                            const NextEntry& /*next*/) {
    return Status::NotSupported("the engine ingests no files");
  }
  // Moves such files into the first family, all at once.
  virtual Status IngestTables(const std::vector<std::string>& /*paths*/) {
    return Status::NotSupported("the engine ingests no files");
  }
  // Opens a catalog next to the database, with databases of these names, for
  // the sessions that are created later. Close closes it.
  virtual Status OpenCatalog(const EngineConfig& /*config*/,
                             const std::vector<std::string>& /*names*/) {
    return Status::NotSupported("the engine has no catalogs");
  }

  // Takes a snapshot, at most one at a time, which no session reads from.
  // ReleaseSnapshot releases it, and does nothing if there is none.
  virtual Status TakeSnapshot() {
    return Status::NotSupported("the engine has no snapshots");
  }
  virtual void ReleaseSnapshot() {}

  // Returns NotSupported if the engine has no such operation.
  virtual Status Flush() = 0;
  virtual Status Compact() = 0;
  virtual Status WaitForCompaction() = 0;
  virtual Status VerifyChecksum() = 0;
  // Compacts level 0 into the next level that has tables.
  virtual Status CompactLevel0() {
    return Status::NotSupported("the engine has no such compaction");
  }
  // Compacts that level into the one below.
  virtual Status CompactLevel1() {
    return Status::NotSupported("the engine has no such compaction");
  }

  // Copies the database to EngineConfig::backup_dir, in which nothing else is
  // kept. Restore copies the newest backup to EngineConfig::restore_dir.
  virtual Status Backup() {
    return Status::NotSupported("the engine has no backups");
  }
  virtual Status Restore() {
    return Status::NotSupported("the engine has no backups");
  }
  // Lets StatisticsText, and the lines of "stats" that RocksDB has, too, count
  // from now on.
  virtual Status ResetStatistics() {
    return Status::NotSupported("the engine has no statistics");
  }

  // Returns the number of families of an existing database that have the names
  // of FamilyName; at least 1. REQUIRES: not open.
  virtual uint32_t CountFamilies(const EngineConfig& /*config*/) { return 1; }

  // `name` is "stats", "levelstats", "sstables" or "memstats". Returns false if
  // the engine has no such property.
  virtual bool Property(const std::string& name, std::string* value) = 0;
  // Returns the counts of EngineConfig::statistics, or an empty string.
  virtual std::string StatisticsText() { return ""; }
};

// Returns the names of all engines, built in or not.
std::vector<std::string> EngineNames();

// Returns InvalidArgument for an unknown name. Returns NotSupported for an
// engine that is not built in, since its library was not installed when
// db_bench was configured.
Status NewEngine(const std::string& name, std::unique_ptr<Engine>* engine);

// Each exists only if its source is compiled in.
std::unique_ptr<Engine> NewVarveEngine();
std::unique_ptr<Engine> NewRocksDBEngine();
std::unique_ptr<Engine> NewLevelDBEngine();
std::unique_ptr<Engine> NewLMDBEngine();

}  // namespace varve
