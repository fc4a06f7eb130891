// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// All options of the engine, each with its unit, bounds and default. An option
// that RocksDB also has keeps RocksDB's name.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "varve/cache.h"
#include "varve/comparator.h"
#include "varve/compression_type.h"
#include "varve/env.h"
#include "varve/export.h"
#include "varve/filter_policy.h"
#include "varve/slice.h"
#include "varve/statistics.h"
#include "varve/status.h"

namespace varve {

class CompactionFilter;
class CompactionFilterFactory;
class EventListener;
struct Experiment;
class MergeOperator;
class RateLimiter;
class SliceTransform;
class Snapshot;
class SstFileManager;
class TablePropertiesCollectorFactory;
class WriteBufferManager;

// How recovery treats a damaged write-ahead log.
enum class WalRecoveryMode : uint8_t {
  // Any damage makes Open return Corruption.
  kAbsoluteConsistency,
  // Replay the logs up to the first damaged record, and keep the rest in lost/.
  // The database is then in a state that it once had. If a column family has
  // later updates in tables, Open returns Corruption. The default.
  kPointInTime,
};

// When two keys are considered equal.
enum class KeyCase : uint8_t {
  // When their bytes are equal. The default.
  kSensitive,
  // When they differ only in case. Keys must be UTF-8; other keys are
  // InvalidArgument. Every call folds its keys first, by Unicode's full case
  // folding and normalization form C. The database stores folded keys, orders
  // them by their bytes, and returns them from iterators. A folded key can be
  // longer than the original.
  kInsensitive,
};

// The form of a table's index.
enum class IndexType : uint8_t {
  // One sorted block. The default.
  kBinarySearch = 0,
  // As kBinarySearch. RocksDB adds a hash table of prefixes.
  kHashSearch = 1,
  // Partitions, and a block that names them.
  kTwoLevelIndexSearch = 2,
};

// Where a read may look.
enum class ReadTier : uint8_t {
  // In memory and in files. The default.
  kReadAllTier = 0,
  // In memory only. The read returns Incomplete if a file has to be read.
  kBlockCacheTier = 1,
  // In all updates but those in memtables that no log has.
  kPersistedTier = 2,
};

// Options of a database as a whole.
struct VARVE_USES_CONTAINERS DBOptions {
  // ---- Behavior ----

  // Create the database if it does not exist. Its parent directory must exist.
  // Without this option, Open returns InvalidArgument for a missing database.
  // Default: false.
  bool create_if_missing = false;

  // Create the column families that the call of Open names and the database
  // does not have. Without this option, Open returns InvalidArgument for them.
  // Default: false.
  bool create_missing_column_families = false;

  // Return InvalidArgument from Open if the database already exists.
  // Default: false.
  bool error_if_exists = false;

  // Check the size of every table in Open, and the checksums of its properties
  // and index. Filters are checked at their first use. Without this option the
  // rest is checked at its first use, too. Default: true.
  bool paranoid_checks = true;

  // Whether keys are case-sensitive. The database records this setting when it
  // is created. Opening it with another value returns InvalidArgument. RocksDB
  // can read a case-insensitive database and sees the folded keys. If RocksDB
  // writes to it, the recorded setting is lost, and the database can only be
  // opened as kSensitive from then on. Default: kSensitive.
  KeyCase key_case = KeyCase::kSensitive;

  // Provides files, clock and threads. Must outlive the DB.
  // Default: the operating system's.
  Env* env = Env::Default();

  // Receives the informational log. If null, the DB writes a file LOG in its
  // directory and keeps the ten newest earlier ones as LOG.old.<time>.
  // Default: null.
  std::shared_ptr<Logger> info_log;

  // How recovery treats a damaged log. Default: kPointInTime.
  WalRecoveryMode wal_recovery_mode = WalRecoveryMode::kPointInTime;

  // Do not flush memtables in Close. Updates that were written with disable_wal
  // and are still in a memtable are then lost. Can be changed while the DB is
  // open. Default: false.
  bool avoid_flush_during_shutdown = false;

  // Flush the memtables of all column families together, and name their tables
  // in one step. After a crash, either all of them are there or none, so
  // updates that were written with disable_wal are kept or lost for all
  // families as of one moment. Updates in the log are kept together without
  // this option. Default: false.
  bool atomic_flush = false;

  // ---- Memory ----

  // Bounds the memory of memtables. Any number of DBs, column families and
  // catalogs can share one; see varve/write_buffer_manager.h. If null, only
  // write_buffer_size and max_write_buffer_number bound it. Default: null.
  std::shared_ptr<WriteBufferManager> write_buffer_manager;

  // ---- Files ----

  // Maximum number of table files that are open at the same time. -1 allows as
  // many as half of the process's descriptor limit. Values from 0 to 15 are
  // raised to 16. [-1, 4 Mi]. Can be changed while the DB is open. Default: -1.
  int max_open_files = -1;

  // Read tables with O_DIRECT, which bypasses the page cache. Default: false.
  bool use_direct_reads = false;

  // Map tables into memory. A block that the block cache does not have is then
  // read from the page cache without a system call or a copy, but through page
  // faults. A mapped table keeps no descriptor, so max_open_files does not
  // count it. If the device fails, or anything truncates the file, the read
  // raises SIGBUS, which ends the process; otherwise it would return an error.
  // docs/tuning.md says when to use it. Not with use_direct_reads.
  // Default: false.
  bool allow_mmap_reads = false;

  // While a table is being written, start writeback to the device every this
  // many bytes, so that the final sync has little left to do. 0 leaves
  // writeback to the kernel. Can be changed while the DB is open.
  // Default: 1 MiB.
  uint64_t bytes_per_sync = 1 << 20;

  // Buffer the log in the process, and write it to the operating system only
  // when the buffer of 64 KiB is full, in FlushWAL, or for a write that is
  // synced or has at least 64 KiB. This saves system calls. If the process
  // dies, the newest writes are lost, at most 128 KiB of them.
  // Default: false.
  bool manual_wal_flush = false;

  // How writes reach the log. By each method, a write that has returned
  // survives the death of the process. With kMap, and with kAuto while writes
  // are frequent, a write is a copy in memory without a system call. The log's
  // file can then end in up to 128 KiB of zeros until it is closed. With
  // manual_wal_flush it is always kCall. `varve.wal-path` tells which is in
  // use. docs/trust.md says what a failing device does. Default: kAuto.
  WriteMethod wal_write = WriteMethod::kAuto;

  // Like bytes_per_sync, but for logs. Can be changed while the DB is open.
  // Default: 0.
  uint64_t wal_bytes_per_sync = 0;

  // Bound for the total size of the logs in bytes. When the logs approach it,
  // the column families that need the oldest ones are flushed, even if their
  // memtables are small, so that a family which is seldom written to cannot
  // keep the logs of the others. While such a flush runs and the bound is
  // reached, writers wait. 0 selects the larger of the sum of the families'
  // write_buffer_size, and four times the largest family's write_buffer_size
  // times its max_write_buffer_number. With one family, its memtables bound the
  // logs. The property varve.oldest-log tells which family needs the oldest
  // log. Can be changed while the DB is open. Default: 0.
  uint64_t max_total_wal_size = 0;

  // If this or WAL_size_limit_MB is not 0, an obsolete log is not removed. It
  // moves to the folder archive/ of the database's directory, where
  // DB::GetUpdatesSince still reads it, and RocksDB too. It is removed this
  // many seconds after its last write, so a program that reads updates must not
  // stay away for longer. 0: its age does not matter. Default: 0.
  uint64_t WAL_ttl_seconds = 0;

  // Remove the oldest archived logs as long as all of them together have more
  // than this many MiB, so that updates which nobody reads do not fill the
  // device. 0: their size does not matter. Default: 0.
  uint64_t WAL_size_limit_MB = 0;

  // Bounds the space of tables, and the rate at which obsolete ones are
  // removed; see varve/sst_file_manager.h. If null, neither is bounded.
  // Default: null.
  std::shared_ptr<SstFileManager> sst_file_manager;

  // ---- Flush and compaction ----

  // Maximum number of concurrent flushes and compactions. The threads are
  // shared by all DBs of an Env. [1, 64]. Can be changed while the DB is open.
  // Default: 2.
  int max_background_jobs = 2;

  // Maximum number of key ranges into which a large compaction of level 0, or a
  // large manual compaction, is split. The ranges are compacted concurrently,
  // in threads that do not count against max_background_jobs.
  // [1, 64]. Can be changed while the DB is open. Default: 1.
  int max_subcompactions = 1;

  // Limits the rate at which flushes and compactions write. DBs can share one.
  // If null, there is no limit. Default: null.
  std::shared_ptr<RateLimiter> rate_limiter;

  // ---- Observation ----

  // Collects counters and histograms. DBs can share one. If null, the DB has
  // its own, which the property varve.stats shows. Default: null.
  std::shared_ptr<Statistics> statistics;

  // The level of detail of the DB's own statistics. With kDisableAll the DB has
  // none. Default: kExceptDetailedTimers.
  StatsLevel stats_level = StatsLevel::kExceptDetailedTimers;

  // Notified of flushes, compactions, stalls, errors and table files.
  // Default: none.
  std::vector<std::shared_ptr<EventListener>> listeners;

  // ---- Measurement ----

  // Used by Varve's own measurements in its build tree. Default: null.
  std::shared_ptr<const Experiment> experiment;
};

// Options of one column family (varve/column_family.h). A database that is
// opened without naming families has one, the default family.
struct VARVE_USES_CONTAINERS ColumnFamilyOptions {
  // Defines the order of keys. Must be the comparator that the family was
  // created with. Must outlive the DB. Default: bytewise order.
  const Comparator* comparator = BytewiseComparator();

  // Applies the operands of DB::Merge; see varve/merge_operator.h. A database
  // with operands can be opened without it, but reads of their keys then return
  // InvalidArgument. Default: null.
  std::shared_ptr<MergeOperator> merge_operator;

  // Maximum number of operands of a key in a row in the memtable. With this
  // many, DB::Merge applies all of them at once and writes the result as a
  // value, so that reads need not. Writes of the group then wait for the
  // operator. 0 means no limit. Can be changed while the DB is open.
  // Default: 0.
  size_t max_successive_merges = 0;

  // Decides which entries compactions keep; see varve/compaction_filter.h. The
  // filter must outlive the DB, and is used instead of the factory.
  // Defaults: null.
  const CompactionFilter* compaction_filter = nullptr;
  std::shared_ptr<CompactionFilterFactory> compaction_filter_factory;

  // ---- Memory ----

  // Size of a memtable in bytes. A memtable that reaches this size is flushed
  // to a table. A larger memtable makes fewer and larger tables, and makes
  // recovery take longer. Values below 64 KiB are raised to 64 KiB. At most
  // 64 GiB, but a memtable of 8 GiB is flushed in any case. Can be changed
  // while the DB is open. Default: 64 MiB.
  size_t write_buffer_size = 64 << 20;

  // Maximum number of memtables, including the active one. When all are full,
  // writers wait for a flush. Values below 2 are raised to 2. At most 64. Can
  // be changed while the DB is open. Default: 2.
  int max_write_buffer_number = 2;

  // Cache for uncompressed blocks. DBs and column families can share one. If
  // null, the default family has its own cache of 32 MiB, or 1/8 of
  // MemoryLimit() if that is less. Others use that cache. Default: null.
  std::shared_ptr<Cache> block_cache;

  // Charge the metadata of tables, mainly index and filter, to the block cache.
  // If it takes more than half of the cache, the metadata of the least recently
  // used tables is evicted and read again when it is needed. A lookup then
  // takes a mutex for each table that it searches. If false, all metadata stays
  // in memory and does not count against the cache. Default: false.
  bool cache_index_and_filter_blocks = false;

  // ---- Tables ----

  // Approximate size of a data block in bytes, before compression.
  // [1, 16 MiB]. Default: 4 KiB.
  size_t block_size = 4 << 10;

  // Number of entries from one restart point of a block to the next. The key at
  // a restart point is stored in full. A smaller value makes reads faster and
  // blocks larger. [1, 1024]. Default: 16.
  int block_restart_interval = 16;

  // Compression of blocks. A block that would not become at least an eighth
  // smaller is stored uncompressed. Default: Snappy, or what DefaultCompression
  // returns if the library was built without it.
  CompressionType compression = DefaultCompression();

  // Compression for each level. The first entry is for level 0, the second for
  // the base level (the level that level 0 is compacted into), and so on. The
  // last entry applies to all deeper levels. If empty, `compression` applies to
  // all levels. Default: empty.
  std::vector<CompressionType> compression_per_level;

  // Compression of tables on the deepest level of their key range, which hold
  // most of a large database. If not set, these tables are compressed like the
  // others. Default: not set.
  std::optional<CompressionType> bottommost_compression;

  // Compression level for tables that use `compression`: 1 to 12 for LZ4HC, 1
  // to 9 for Zlib, -7 to 22 for ZSTD. 0 selects the compression library's
  // default. Default: 0.
  int compression_level = 0;

  // The form of the index of new tables. With kTwoLevelIndexSearch it is cut
  // into partitions. With cache_index_and_filter_blocks, partitions are read
  // and evicted one by one, so a database much larger than memory needs only
  // one small block of each table in memory; see docs/large_databases.md.
  // Default: kBinarySearch.
  IndexType index_type = IndexType::kBinarySearch;

  // Approximate size of a partition of an index or a filter, in bytes.
  // [1, 1 GiB]. Default: 4 KiB.
  uint64_t metadata_block_size = 4 << 10;

  // Cut filters into partitions, too, at the same keys as the index. Only with
  // kTwoLevelIndexSearch, and for Bloom filters. Default: false.
  bool partition_filters = false;

  // Maps keys to the prefixes by which filters and seeks work. See
  // varve/slice_transform.h and docs/prefixes.md. The built-in ones have texts,
  // such as `fixed:8`. Can be changed from one Open to the next. Can be changed
  // while the DB is open. Default: null.
  std::shared_ptr<const SliceTransform> prefix_extractor;

  // Add whole keys to filters. If false, and there is a prefix_extractor,
  // filters have prefixes only, and take less space. Default: true.
  bool whole_key_filtering = true;

  // Size of a filter of prefixes for each memtable, as a part of
  // write_buffer_size. [0, 0.25]. 0 means none. Can be changed while the DB is
  // open. Default: 0.
  double memtable_prefix_bloom_size_ratio = 0;

  // Collect facts about new tables; see varve/table_properties.h.
  // Default: none.
  std::vector<std::shared_ptr<TablePropertiesCollectorFactory>>
      table_properties_collector_factories;

  // Keep the last level for IngestExternalFileOptions::ingest_behind:
  // compactions do not write to it, and drop no deletions. Excludes `ttl`.
  // Default: false.
  bool allow_ingest_behind = false;

  // Creates the filters in tables. A Bloom filter with 10 bits per key saves
  // almost all table reads for absent keys. If null, tables have no filter.
  // Default: null.
  std::shared_ptr<const FilterPolicy> filter_policy;

  // ---- Compaction ----

  // Number of level-0 tables that starts a compaction. At least 1. Can be
  // changed while the DB is open. Default: 4.
  int level0_file_num_compaction_trigger = 4;

  // Number of level-0 tables at which writers are slowed down, and at which
  // they are stopped. Pacing begins well before that. Ignored with
  // disable_auto_compactions. The three limits of level 0 must not decrease in
  // this order. A default is raised to the limit before it. Can be changed
  // while the DB is open. Defaults: 20, 36.
  int level0_slowdown_writes_trigger = 20;
  int level0_stop_writes_trigger = 36;

  // Estimated bytes of pending compaction at which writers are slowed down, and
  // at which they are stopped. 0 means no limit. Ignored with
  // disable_auto_compactions. The hard limit must not be below the soft limit.
  // If it is, and one of them has its default value, that one is set to the
  // other. Can be changed while the DB is open. Defaults: 64 GiB, 256 GiB.
  uint64_t soft_pending_compaction_bytes_limit = uint64_t{64} << 30;
  uint64_t hard_pending_compaction_bytes_limit = uint64_t{256} << 30;

  // Approximate size in bytes of a table on level 1 and deeper.
  // [1 KiB, 64 GiB]. Can be changed while the DB is open. Default: 64 MiB.
  uint64_t target_file_size_base = 64 << 20;

  // Number of levels, including level 0. Open returns InvalidArgument if the
  // database has tables on deeper levels. If RocksDB uses the same database
  // with fewer than 7 levels, set the same number here. Otherwise RocksDB must
  // be opened with 7 levels from then on. Values below 2 are raised to 2. At
  // most 7. Default: 7.
  int num_levels = 7;

  // Limits the size of later compactions, in bytes. A compaction finishes an
  // output table before it overlaps more than this on the next level, moves a
  // table without rewriting it only if it overlaps no more than this, and adds
  // optional inputs up to this total. 0 selects 25 times target_file_size_base.
  // Other values must be at least target_file_size_base. Can be changed while
  // the DB is open. Default: 0.
  uint64_t max_compaction_bytes = 0;

  // Size in bytes at which the base level (the level that level 0 is compacted
  // into) is compacted into the next level. With dynamic level sizes, this is
  // an upper bound. At least 1 KiB. Can be changed while the DB is open.
  // Default: 256 MiB.
  uint64_t max_bytes_for_level_base = 256 << 20;

  // Ratio of the size limits of one level and the level above it. [1, 1000].
  // Can be changed while the DB is open. Default: 10.
  double max_bytes_for_level_multiplier = 10;

  // Derive the size limits of the levels from the actual size of the last
  // level. Small databases then have few levels, and obsolete versions take
  // little space. If false, the base level is always level 1. Can be changed
  // from one Open to the next. Default: true, as in RocksDB since 8.4.
  bool level_compaction_dynamic_level_bytes = true;

  // Compact a table above the last level when its oldest data was written more
  // than this many seconds ago, so that deletions, and entries that a filter
  // removes, do not stay for ever in a part of the key range that nothing is
  // written to. 0 means never. Can be changed while the DB is open. Default: 0.
  uint64_t ttl = 0;

  // As ttl, for tables of all levels that were written more than this many
  // seconds ago; a compaction filter then sees each entry that often. 0 means
  // never. Can be changed while the DB is open. Default: 0.
  uint64_t periodic_compaction_seconds = 0;

  // Run compactions only in CompactRange. Writers are never slowed down or
  // stopped because of pending compactions. Can be changed while the DB is
  // open. Default: false.
  bool disable_auto_compactions = false;
};

// Options of a database and its default column family.
struct VARVE_USES_CONTAINERS Options : DBOptions, ColumnFamilyOptions {
  Options() = default;
  Options(const DBOptions& db_options,
          const ColumnFamilyOptions& family_options)
      : DBOptions(db_options), ColumnFamilyOptions(family_options) {}
};

// Sets the field `name` of *options from text. The syntax of the value is:
// - for a number: decimal; an integer can have a suffix K, M, G or T;
// - for a boolean: true, false, 1 or 0;
// - for a compression type: none, snappy, zlib, bzip2, lz4, lz4hc or zstd. A
//   list of them is separated by colons. bottommost_compression can be empty;
// - for key_case: sensitive or insensitive;
// - for wal_recovery_mode: absolute_consistency or point_in_time;
// - for wal_write: call, map or auto;
// - for index_type: the name of a value;
// - for stats_level: disable_all, except_histogram_or_timers, except_timers,
//   except_detailed_timers, except_time_for_mutex or all;
// - for filter_policy: bloomfilter:<bits per key>, or empty for none;
// - for block_cache: the size of a new cache in bytes;
// - for rate_limiter: the bytes per second of a new one, or 0 for none.
// Returns InvalidArgument, and changes nothing, if there is no such option, if
// it is an object that has no text form, or if the value has the wrong syntax.
// Bounds are checked later, by DB::Open.
VARVE_EXPORT Status SetOption(const Slice& name, const Slice& value,
                              Options* options);

// Options of a single read.
struct ReadOptions {
  // Read the state of the database at this snapshot. It must belong to the same
  // DB and must not have been released. It can also be the snapshot of a read
  // transaction that has not ended. If null, read the current state.
  // Default: null.
  const Snapshot* snapshot = nullptr;

  // Verify the checksums of blocks that are read from files. Default: true.
  bool verify_checksums = true;

  // Insert the blocks that this read loads into the block cache. Set to false
  // for long scans. Default: true.
  bool fill_cache = true;

  // Limit an iterator to keys at or after `iterate_lower_bound` and before
  // `iterate_upper_bound`. The slices and their bytes must outlive the
  // iterator. They can be changed if the next call on the iterator is a seek.
  // Under KeyCase::kInsensitive, changes have no effect. If null, there is no
  // bound. Default: null.
  const Slice* iterate_lower_bound = nullptr;
  const Slice* iterate_upper_bound = nullptr;

  // Bytes that an iterator reads ahead in table files. 0 selects automatic
  // readahead, which grows with sequential reads. Default: 0.
  size_t readahead_size = 0;

  // Where the read may look. kPersistedTier is for Get and MultiGet.
  // Default: kReadAllTier.
  ReadTier read_tier = ReadTier::kReadAllTier;

  // End an iterator where the prefix of its last seek's target ends. Only
  // matters with a prefix_extractor. Default: false.
  bool prefix_same_as_start = false;

  // Iterate over all keys, and ask no filter for prefixes. If false, an
  // iterator may end with the prefix of its last seek's target. Only matters
  // with a prefix_extractor. Default: false.
  bool total_order_seek = false;

  // As total_order_seek, but use filters by prefix where the bounds show that
  // the result is the same. Default: false.
  bool auto_prefix_mode = false;

  // An iterator that sees updates made after its creation: a seek after the end
  // was reached shows what is new. Default: false.
  bool tailing = false;

  // End an iterator with Incomplete when it has passed more than this many
  // hidden entries in a row. 0 means no limit. Default: 0.
  uint64_t max_skippable_internal_keys = 0;

  // Return TimedOut when the DB's clock (Env::NowMicros) is at or after this
  // many microseconds. Checked before each read of a file. 0 means never.
  // Default: 0.
  uint64_t deadline = 0;

  // A hint that reads of an iterator may run ahead of it. Default: false.
  bool async_io = false;
};

// Options of a single write.
struct WriteOptions {
  // Sync the log to the device (fdatasync) before the write returns. A write
  // without sync survives a crash of the process, but not always a crash of the
  // machine. It has the durability of write(2) without fsync(2).
  // Default: false.
  bool sync = false;

  // Do not write to the log. The write is lost if the process dies before the
  // next flush. Together with sync, the write returns InvalidArgument.
  // Default: false.
  bool disable_wal = false;

  // Return Incomplete if the write would have to wait for a flush or a
  // compaction. Default: false.
  bool no_slowdown = false;
};

// Options of DB::Flush.
struct FlushOptions {
  // Wait until the flush has finished. Default: true.
  bool wait = true;
};

// Options of DB::CompactRange.
struct CompactRangeOptions {
  // Also rewrite all tables on the last level that nothing is compacted into.
  // Without it, those are rewritten that hold versions, deletions or merge
  // operands which no snapshot needs any more. Always done if the family has a
  // compaction filter. Default: false.
  bool rewrite_bottommost_level = false;

  // Run no other compaction of the family at the same time. If false, this
  // compaction only waits for compactions whose inputs overlap its own.
  // Default: true.
  bool exclusive_manual_compaction = true;

  // The level that receives the result, in [1, 6]. It must not be above the
  // base level, nor above a level that has keys of the range. Otherwise
  // CompactRange returns InvalidArgument. -1 selects the deepest level that has
  // keys of the range. Default: -1.
  int target_level = -1;
};

}  // namespace varve
