// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Every option of the engine, with its default, unit and bounds. Names are
// RocksDB's where the thing is the same.

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

class EventListener;
struct Experiment;
class RateLimiter;
class Snapshot;

// What recovery does with a write-ahead log that is damaged.
enum class WalRecoveryMode : uint8_t {
  // Every log must be whole; else Open is Corruption.
  kAbsoluteConsistency,
  // Replay up to the first damage and stop there for good: the database is as
  // it was at some moment. The default.
  kPointInTime,
};

// Which keys are the same key.
enum class KeyCase : uint8_t {
  // Those of the same bytes. The default.
  kSensitive,
  // Those that differ in case only. Keys are UTF-8, and InvalidArgument if they
  // are not. They are folded on every way in, to Unicode's full case folding in
  // normal form C: what is stored, and what iterators give, is the folded key,
  // in whose bytes keys are ordered. It may be longer than the key.
  kInsensitive,
};

struct Options {
  // ---- Behaviour ----

  // Make the database if it is missing (its parent directory must exist).
  // Default: false, Open of a missing database is InvalidArgument.
  bool create_if_missing = false;

  // Open of an existing database is InvalidArgument. Default: false.
  bool error_if_exists = false;

  // Verify the checksums of all tables' metadata at Open, and check every
  // table file's size, instead of at first use. Default: true.
  bool paranoid_checks = true;

  // The order of keys. Default: bytewise.
  const Comparator* comparator = BytewiseComparator();

  // Whether case counts in keys. A new database remembers it; to open it with
  // another value is InvalidArgument. RocksDB and its tools read such a
  // database, whose keys are the folded ones; where they write to it, they
  // forget the setting, and it opens as kSensitive only. Default: kSensitive.
  KeyCase key_case = KeyCase::kSensitive;

  // Files, clock and threads. Default: the operating system's.
  Env* env = Env::Default();

  // Where to log. Default: null, a file LOG in the database's directory; the
  // ten newest earlier ones are kept as LOG.old.<time>.
  std::shared_ptr<Logger> info_log;

  // What to do with damaged logs.
  WalRecoveryMode wal_recovery_mode = WalRecoveryMode::kPointInTime;

  // Do not flush at Close what was written with disable_wal: it is lost then.
  // Default: false.
  bool avoid_flush_during_shutdown = false;

  // ---- Memory ----

  // Bytes of updates collected in memory before they are written to a table.
  // Larger means fewer, larger tables and a longer recovery. Less than 64 KiB
  // is taken as 64 KiB. [0, 64 GiB]. Default: 64 MiB.
  size_t write_buffer_size = 64 << 20;

  // Write buffers kept in memory, the one being filled included, before
  // writers wait for a flush. Less than 2 is taken as 2; at most 64.
  // Default: 2.
  int max_write_buffer_number = 2;

  // Blocks kept in memory, uncompressed. Default: null, a cache of 32 MiB of
  // the DB's own.
  std::shared_ptr<Cache> block_cache;

  // ---- Files ----

  // Table files held open; -1 for all that the limit of descriptors, less a
  // reserve, admits. Below 16 is taken as 16. [-1, 4 Mi]. Default: -1.
  int max_open_files = -1;

  // Charge what tables know of themselves, mostly index and filter, to the
  // block cache, and forget it, that of the tables used least lately first,
  // where it would take more than half of the cache; it is read again when it
  // is needed. A lookup then takes a mutex for each table that it looks into.
  // Default: false, all of it stays in memory beside the cache.
  bool cache_index_and_filter_blocks = false;

  // Read tables past the page cache (O_DIRECT). Default: false.
  bool use_direct_reads = false;

  // Bytes after which written tables are pushed to the device in the
  // background, so that a sync at the end does not stall; 0 leaves it to the
  // kernel. Default: 1 MiB.
  uint64_t bytes_per_sync = 1 << 20;

  // Hand the log to the operating system only when its buffer of 64 KiB is
  // full, by FlushWAL, or by a write with sync or of 64 KiB and more: fewer
  // system calls, and what is in the buffer, and a write of which some is, die
  // with the process: the last ones, of 128 KiB at most. Default: false.
  bool manual_wal_flush = false;

  // Write the log through a mapping of its allocated space: a write is then a
  // copy in memory, no system call, and survives the process as before. The
  // price: a device that fails while the mapping is written kills the process
  // by SIGBUS, where write() would return an error. Until the log is closed,
  // its file ends in up to 1 MiB of zeros. Without effect where the file
  // system cannot do it. Default: false.
  bool use_mmap_writes = false;

  // As bytes_per_sync, for logs. Default: 0.
  uint64_t wal_bytes_per_sync = 0;

  // ---- Tables ----

  // Uncompressed bytes of a data block, about. [1, 16 MiB]. Default: 4 KiB.
  size_t block_size = 4 << 10;

  // Entries between keys stored in full. Smaller is faster and larger.
  // [1, 1024]. Default: 16.
  int block_restart_interval = 16;

  // Compression of blocks that become at least an eighth smaller by it.
  // Default: Snappy.
  CompressionType compression = CompressionType::kSnappy;

  // Compression by level: the first entry is for level 0, the second for the
  // base level (that which level 0 is compacted into), and so on; the last one
  // for all that follow. Default: empty, `compression` everywhere.
  std::vector<CompressionType> compression_per_level;

  // Compression of tables that have nothing below them, which are most of a
  // large database. Default: none, as for the others.
  std::optional<CompressionType> bottommost_compression;

  // Of tables compressed with `compression`.
  // For LZ4HC [1, 12] and ZSTD [-7, 22]; 0 is the library's own default.
  // Default: 0.
  int compression_level = 0;

  // Filters in tables. Default: null, none. A Bloom filter of 10 bits a key
  // makes most reads of absent keys free.
  std::shared_ptr<const FilterPolicy> filter_policy;

  // ---- Flush and compaction ----

  // Flushes and compactions at a time, in threads shared by the DBs of an
  // Env. [1, 64]. Default: 2.
  int max_background_jobs = 2;

  // Parts, ranges of keys, in which a large compaction out of level 0, or one
  // that was asked for, is done at the same time, in threads beyond
  // max_background_jobs. [1, 64]. Default: 1.
  int max_subcompactions = 1;

  // Level-0 tables that start a compaction. At least 1. Default: 4.
  int level0_file_num_compaction_trigger = 4;

  // Level-0 tables at which writers are slowed down, and stopped; not with
  // disable_auto_compactions. Must not fall in this order from the trigger on;
  // where one of them is left at its default, it is taken as the one before if
  // that is larger. Defaults: 20, 36.
  int level0_slowdown_writes_trigger = 20;
  int level0_stop_writes_trigger = 36;

  // Bytes that wait for compaction at which writers are slowed down, and
  // stopped; 0 for never; not with disable_auto_compactions. Must rise in this
  // order; one that is left at its default is taken as the other if it does
  // not. Defaults: 64 GiB, 256 GiB.
  uint64_t soft_pending_compaction_bytes_limit = uint64_t{64} << 30;
  uint64_t hard_pending_compaction_bytes_limit = uint64_t{256} << 30;

  // Bytes of a table of a level above 0, about. [1 KiB, 64 GiB].
  // Default: 64 MiB.
  uint64_t target_file_size_base = 64 << 20;

  // Levels of tables, level 0 included. A database that has tables in levels
  // beyond them is not opened (InvalidArgument). One that RocksDB keeps with
  // fewer than 7 is to be opened with as many, else RocksDB must be told 7 from
  // then on. [2, 7]; what is below is taken as 2. Default: 7.
  int num_levels = 7;

  // Bytes of the next level that a table may overlap before it is cut, or that
  // a table that is moved may overlap; and bytes up to which a compaction
  // takes more tables than it must. 0: 25 times target_file_size_base. Else
  // at least target_file_size_base. Default: 0.
  uint64_t max_compaction_bytes = 0;

  // Bytes of the base level, that which level 0 is compacted into, at which it
  // is compacted into the next one; with dynamic level sizes, at most.
  // [1 KiB, no bound]. Default: 256 MiB.
  uint64_t max_bytes_for_level_base = 256 << 20;

  // How much larger each further level may be. [1, 1000]. Default: 10.
  double max_bytes_for_level_multiplier = 10;

  // Take the last level's size as it is, and give the levels above it sizes
  // that fit; small databases have few levels then, and what is overwritten
  // or deleted takes little space. Else the base level is 1, and the last
  // level may hold little more than those above it. May be changed from one
  // Open to the next. Default: true, as RocksDB since 8.4.
  bool level_compaction_dynamic_level_bytes = true;

  // Do not compact by itself, and let no writer wait for what is then left to
  // CompactRange. Default: false.
  bool disable_auto_compactions = false;

  // Bounds the bytes a second that flushes and compactions write; may be
  // shared by DBs. Default: null, no bound.
  std::shared_ptr<RateLimiter> rate_limiter;

  // ---- Observation ----

  // Counts and measures. May be shared by DBs. Default: null, the DB has
  // its own, whose text is the property varve.stats.
  std::shared_ptr<Statistics> statistics;

  // What the DB's own Statistics measure. kDisableAll: it has none.
  StatsLevel stats_level = StatsLevel::kExceptDetailedTimers;

  // Told about flushes, compactions, stalls, errors and table files. Default:
  // none.
  std::vector<std::shared_ptr<EventListener>> listeners;

  // ---- Measurement ----

  // For measurements of Varve's own, in its build tree. Default: null.
  std::shared_ptr<const Experiment> experiment;
};

// Sets the option of that name, which is that of its field, from text:
// - numbers in decimal; integers may end in K, M, G or T;
// - true or false, or 1 or 0;
// - compressions as none, snappy, lz4, lz4hc or zstd; a list of them with
//   colons between; bottommost_compression may be empty;
// - key_case as sensitive or insensitive; wal_recovery_mode as
//   absolute_consistency or point_in_time;
// - stats_level as disable_all, except_histogram_or_timers, except_timers,
//   except_detailed_timers, except_time_for_mutex or all;
// - filter_policy as bloomfilter:<bits per key>, or empty;
// - block_cache as the bytes of a new one, rate_limiter as the bytes per second
//   of a new one, 0 for none.
// InvalidArgument, and nothing is changed: there is no such option, it is an
// object that cannot be made of text, or the value is none of its kind. Bounds
// are looked at by DB::Open.
VARVE_EXPORT Status SetOption(const Slice& name, const Slice& value,
                              Options* options);

// How a read is done.
struct ReadOptions {
  // Read the database as it was then. Must be of the same DB and not be
  // released yet; or that of a read transaction which has not ended, through
  // whose pin the read then goes. Default: null, as it is now.
  const Snapshot* snapshot = nullptr;

  // Verify the checksums of blocks read from files. Default: true.
  bool verify_checksums = true;

  // Keep the blocks read in the block cache. Turn off for long scans.
  // Default: true.
  bool fill_cache = true;

  // For iterators: keys before `iterate_lower_bound`, and at or behind
  // `iterate_upper_bound`, are not there. The slices and their bytes must
  // outlive the iterator. They may be changed; the iterator must seek then
  // before anything else, but under KeyCase::kInsensitive a change is not
  // seen. Default: null, no bound.
  const Slice* iterate_lower_bound = nullptr;
  const Slice* iterate_upper_bound = nullptr;

  // For iterators: bytes to read ahead in tables; 0 grows it by itself for
  // scans. Default: 0.
  size_t readahead_size = 0;
};

// How a write is done.
struct WriteOptions {
  // Wait until the write is on the device (fdatasync of the log). Without it,
  // a write survives the death of the process, and that of the machine only
  // some time later. Default: false.
  bool sync = false;

  // Do not write to the log: lost if the process dies before the next flush.
  // InvalidArgument together with sync. Default: false.
  bool disable_wal = false;

  // Return Incomplete instead of waiting when writers have to wait for flush
  // or compaction. Default: false.
  bool no_slowdown = false;
};

// How a flush is done.
struct FlushOptions {
  // Wait until the tables are written. Default: true.
  bool wait = true;
};

// How a compaction that was asked for is done.
struct CompactRangeOptions {
  // Rewrite the last level too, so that all that is deleted is gone.
  // Default: false, it is rewritten only where something moves into it.
  bool rewrite_bottommost_level = false;

  // Let no other compaction run meanwhile. Without it, this one waits for
  // those that it meets. Default: true.
  bool exclusive_manual_compaction = true;

  // The level that everything goes to: [1, 6], and not above one that has keys
  // of the range, nor above that which level 0 is compacted into; else
  // InvalidArgument. Default: -1, the last one that has keys of the range.
  int target_level = -1;
};

}  // namespace varve
